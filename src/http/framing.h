/* framing.h - HTTP/1.1 message framing on the upstream side, both ways: request heads and chunks out,
 * response heads and bodies in. RFC 9112 sections 4 to 7. Pure: bytes in, events out, no I/O. */
#ifndef SG_HTTP_FRAMING_H
#define SG_HTTP_FRAMING_H

#include "base/buf.h"
#include "http/field.h"

/* --- out ------------------------------------------------------------------------------------------- */

/* Append "METHOD target HTTP/1.1\r\n", the fields in order, and the blank line. Caller has checked the bytes. */
void sg_head_write(sg_buf_t *out, sg_str_t method, sg_str_t target, const sg_fields_t *fields);
/* One chunk with its size line and CRLF; n > 0. */
void sg_chunk_write(sg_buf_t *out, const char *data, size_t n);
void sg_chunk_write_last(sg_buf_t *out);    /* "0\r\n\r\n" */

/* --- in: response head ------------------------------------------------------------------------------ */

#define SG_RESPONSE_HEAD_MAX (64 * 1024)
#define SG_RESPONSE_FIELDS_MAX 200

typedef enum {
    SG_BODY_NONE,       /* HEAD, 1xx, 204, 304 */
    SG_BODY_LENGTH,
    SG_BODY_CHUNKED,
    SG_BODY_CLOSE,      /* until the upstream closes */
} sg_body_kind_t;

typedef struct {
    unsigned version_minor;     /* 0 or 1 */
    unsigned status;            /* 100..999 */
    sg_str_t reason;
    sg_fields_t fields;         /* all, as received */
    sg_body_kind_t body;
    bool has_length;            /* a Content-Length was there (also with body NONE: HEAD, 304) */
    uint64_t length;
    bool keep_alive;            /* the connection may be used again after this message */
} sg_response_head_t;

/* Parse one head from the front of `in`. SG_ERR_AGAIN: the blank line has not come (or SG_ERR_FULL: and never will within
 * the cap). SG_ERR_SYNTAX: not HTTP/1.x as http-rules demand; `why` gets a constant word ("cl-differ"). On SG_OK *used is
 * the head's length and the views point into `in`; copy before `in` moves. `head_request`: the request was HEAD. */
SG_MUST sg_err_t sg_response_head_parse(sg_arena_t *arena, sg_str_t in, bool head_request,
                                        sg_response_head_t *out, size_t *used, const char **why);

/* --- in: response body ------------------------------------------------------------------------------- */

/* Zeroed memory plus sg_body_init. Small, copied freely. */
typedef struct {
    sg_body_kind_t kind;
    uint64_t left;              /* of the length or of this chunk */
    unsigned state;             /* framing.c's own */
    unsigned line_len;
    unsigned trailer_bytes;
    unsigned size_digits;
    bool done;
} sg_body_t;

void sg_body_init(sg_body_t *b, sg_body_kind_t kind, uint64_t length);
/* Look at `in`: *used bytes may be dropped, *data is the payload among them (possibly empty; at most one stretch per
 * call: call again while *used > 0). Trailers are checked and dropped. b->done when the message ended: bytes after *used are
 * not part of it. SG_ERR_SYNTAX: broken framing. */
SG_MUST sg_err_t sg_body_feed(sg_body_t *b, sg_str_t in, size_t *used, sg_str_t *data);
/* The connection ended here: SG_OK when that ends the message in order (kind CLOSE, or done), else SG_ERR_EOF. */
SG_MUST sg_err_t sg_body_eof(sg_body_t *b);

#endif
