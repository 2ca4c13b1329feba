/* script.h - the wire form of a decision: the arguments of the one Redis script, and its reply.
 *
 * Pure: no I/O, any thread. The protocol stands at the top of lua/head.lua, the script's text in
 * store/redis_script.h.
 *
 * The arguments of a check are the same for EVALSHA and for EVAL: argv[0] and argv[1] are the caller's
 * ("EVALSHA" and the digest, or "EVAL" and the text); all from argv[2], the number of keys, on is filled
 * in. */
#ifndef SG_STORE_SCRIPT_H
#define SG_STORE_SCRIPT_H

#include "store/store.h"

/* Most arguments of one command: verb, what, number of keys; five for the request; for each limit its key and
 * at most 8 values. */
#define SG_SCRIPT_ARGS_MAX (3 + 5 + SG_LIMITS_MAX * 9)
#define SG_SCRIPT_TEXT_BYTES (160 + SG_LIMITS_MAX * (SG_KEY_BYTES + 9 * 24))

/* One command, ready for redisAsyncCommandArgv (which copies). Needs no clean-up. Pointers reach into
 * `text` and into the check's strings: do not copy it, and do not keep it longer than the check. About 16
 * KiB: a place for it on the stack or one per store is enough. */
typedef struct {
    int argc;
    const char *argv[SG_SCRIPT_ARGS_MAX];
    size_t len[SG_SCRIPT_ARGS_MAX];
    size_t text_used;
    char text[SG_SCRIPT_TEXT_BYTES];
} sg_script_call_t;

/* Sets argv[0] and argv[1]. */
static inline void sg_script_command(sg_script_call_t *call, sg_str_t verb, sg_str_t what)
{
    call->argv[0] = verb.p;
    call->len[0] = verb.n;
    call->argv[1] = what.p;
    call->len[1] = what.n;
}

/* KEYS and ARGV of `check`, whose limits have passed sg_limit_finish. predicted_now_us is what the store's
 * clock is thought to say (epoch); it picks the bucket of fixed windows and nothing else. */
void sg_script_args(const sg_check_t *check, int64_t predicted_now_us, sg_script_call_t *out);

/* The same for a settlement: what[i] belongs to limit i, which has taken units. */
void sg_script_settle_args(const sg_check_t *check, const sg_settlement_t *what, int64_t predicted_now_us,
                           sg_script_call_t *out);

typedef enum {
    SG_SCRIPT_OK,               /* *out is the verdict */
    SG_SCRIPT_WRONG_BUCKET,     /* a fixed window's bucket was mispredicted; nothing was written: ask again
                                 * with out->now_us, the store's clock */
    SG_SCRIPT_BAD               /* not a reply of this script to this check */
} sg_script_reply_t;

/* Most integers in a reply. */
#define SG_SCRIPT_REPLY_MAX (2 + SG_LIMITS_MAX * 5)

/* The reply's integers -> the verdict. */
sg_script_reply_t sg_script_decode(const sg_check_t *check, const int64_t *reply, size_t count,
                                   sg_verdict_t *out);

/* Likewise, to a settlement; *now_us is the store's clock. */
sg_script_reply_t sg_script_decode_settled(const int64_t *reply, size_t count, int64_t *now_us);

/* The whole command (argv[0] included) that gives the concurrency slot of limit i of `check` back: ZREM key
 * lease. False when limit i is of another algorithm, or the check names no lease. */
bool sg_script_release(const sg_check_t *check, size_t i, sg_script_call_t *out);

#endif
