/* framing.h - HTTP/1.1 message framing on the upstream side, both ways: request heads and chunks out,
 * response heads and bodies in. RFC 9112 sections 4 to 7. Pure: bytes in, events out, no I/O. */
#ifndef SG_HTTP_FRAMING_H
#define SG_HTTP_FRAMING_H

#include "base/buf.h"
#include "http/field.h"

/* --- out -------------------------------------------------------------------------------------- */

/* Append "METHOD target HTTP/1.1\r\n", the fields in order, and the blank line: all or nothing, out->failed
 * past the cap. The caller has checked the bytes. */
void sg_head_write(sg_buf_t *out, sg_str_t method, sg_str_t target, const sg_fields_t *fields);
/* One chunk with its size line and CRLF, all or nothing. n == 0 writes nothing: an empty chunk would end
 * the body. */
void sg_chunk_write(sg_buf_t *out, const char *data, size_t n);
void sg_chunk_write_last(sg_buf_t *out);    /* "0\r\n\r\n" */

/* --- in: response head ------------------------------------------------------------------------ */

#define SG_RESPONSE_HEAD_MAX (64 * 1024)
#define SG_RESPONSE_FIELDS_MAX 200

typedef enum {
    SG_BODY_NONE,       /* HEAD, 1xx, 204, 205, 304 */
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
    /* The connection may be used again after this message (RFC 9112 section 9.3): false too after 101, when
     * the body runs until close, and when a 204 or 205 announces content all the same (a 205 is only
     * trusted with Content-Length: 0). Says nothing in a 1xx: the final head decides. */
    bool keep_alive;
} sg_response_head_t;

/* Parse one head from the front of `in`. SG_ERR_AGAIN: the blank line has not come. SG_ERR_FULL: and never
 * will within the cap. SG_ERR_SYNTAX: not HTTP/1.x as it must be; *why gets a constant word: version,
 * status, reason, bare-lf, fold, name, value, too-many-fields, te, te-twice, te-cl, te-http10, cl,
 * cl-differ. Stray bytes in front and bare LF are found before the head is complete. On SG_OK *used is the
 * head's length and the views point into `in`; copy before `in` moves. `head_request`: the request was
 * HEAD. */
SG_MUST sg_err_t sg_response_head_parse(sg_arena_t *arena, sg_str_t in, bool head_request,
                                        sg_response_head_t *out, size_t *used, const char **why);

/* Only look for the end of the head, so that one that drips in is not read again from its start: *seen is 0
 * at the first call and then what the last call left in it, for the same bytes with more behind. On SG_OK
 * *length is the head's length (parse it then). Errors as above. */
SG_MUST sg_err_t sg_response_head_find(sg_str_t in, size_t *seen, size_t *length, const char **why);

/* --- in: response body ------------------------------------------------------------------------ */

#define SG_CHUNK_EXTENSION_MAX 1024     /* bytes in one chunk's size line; dropped */
#define SG_TRAILERS_MAX (16 * 1024)     /* bytes of all trailer lines; checked and dropped */

/* Zeroed memory plus sg_body_init. Small, copied freely. */
typedef struct {
    sg_body_kind_t kind;
    uint64_t left;              /* of the length or of this chunk */
    unsigned state;             /* framing.c's own */
    unsigned line_len;          /* of the chunk's extensions */
    unsigned trailer_bytes;
    unsigned size_digits;
    bool done;
} sg_body_t;

void sg_body_init(sg_body_t *b, sg_body_kind_t kind, uint64_t length);
/* Look at `in`: *used bytes may be dropped, *data is the payload among them (possibly empty; at most one
 * stretch per call: call again while *used > 0). Trailers are checked and dropped. b->done when the message
 * ended: bytes after *used are not part of it. SG_ERR_SYNTAX: broken framing, now and at every further
 * call. Chunk sizes have at most 16 digits and fit 63 bits; no space stands around them. How `in` is cut
 * into calls changes nothing. */
SG_MUST sg_err_t sg_body_feed(sg_body_t *b, sg_str_t in, size_t *used, sg_str_t *data);
/* The connection ended here: SG_OK when that ends the message in order (kind CLOSE, or done), else
 * SG_ERR_EOF. */
SG_MUST sg_err_t sg_body_eof(sg_body_t *b);

#endif
