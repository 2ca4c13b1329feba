/* reply.h - replies of Redis: read without allocating, errors put into classes. */
#ifndef SG_STORE_REPLY_H
#define SG_STORE_REPLY_H

#include <hiredis/hiredis.h>

#include "base/str.h"
#include "metrics/metrics.h"
#include "store/script.h"

/* A reply with more values than this, or nested deeper than hiredis reads, is a protocol error. The script's
 * longest answer has 5 integers per limit and a few in front. */
#define SG_REPLY_VALUES 256
#define SG_REPLY_TEXT_BYTES 2048
/* Most bytes of a reply that is not complete yet. */
#define SG_REPLY_BUFFER_BYTES ((size_t)1 << 20)

/* Where a reader puts the one reply that it is reading; it holds until the next one begins. */
typedef struct {
    redisReply values[SG_REPLY_VALUES];
    redisReply *elements[SG_REPLY_VALUES];
    char text[SG_REPLY_TEXT_BYTES];     /* strings, each NUL-terminated; what does not fit is cut */
    size_t value_count, element_count, text_used;
} sg_reply_arena_t;

/* Let the reader build its replies in the arena. Replies need no freeing. */
void sg_reply_use_arena(redisReader *reader, sg_reply_arena_t *arena);

/* What kind of failure an error text ("READONLY You can't write ...") is. Looks through the frame
 * that Redis before 7 puts around errors inside scripts. */
sg_store_err_t sg_reply_error_kind(sg_str_t text);
/* The server behind this connection cannot serve, but another one at the same name may (failover),
 * or the same one soon: close it, resolve again. */
bool sg_reply_error_closes(sg_str_t text);
/* An array of at most `max` integers; else false. */
bool sg_reply_integers(const redisReply *reply, int64_t *out, size_t max, size_t *count);
bool sg_reply_is_error(const redisReply *reply);        /* NULL is none */
bool sg_reply_verdict(const sg_check_t *check, const redisReply *reply, sg_verdict_t *out);
bool sg_reply_is_noscript(const redisReply *reply);
/* A view of an error's text; empty for other replies. */
sg_str_t sg_reply_error_text(const redisReply *reply);
/* Its first word, "WRONGPASS": for replies whose rest may repeat what was sent. */
sg_str_t sg_reply_error_word(const redisReply *reply);

#endif
