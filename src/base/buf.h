/* buf.h - a growing byte buffer that always has a cap. */
#ifndef SG_BASE_BUF_H
#define SG_BASE_BUF_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* Bytes [start, end) of data are the content. Zeroed memory plus sg_buf_init is a valid, empty buffer. */
typedef struct {
    char *data;
    size_t start, end, size;
    size_t cap;                 /* most bytes of content it may ever hold */
    bool failed;                /* an append was refused; stays set until sg_buf_clear */
} sg_buf_t;

void sg_buf_init(sg_buf_t *b, size_t cap_bytes); /* allocates nothing yet */
void sg_buf_deinit(sg_buf_t *b);
void sg_buf_clear(sg_buf_t *b);                  /* empty, memory kept, `failed` reset */

static inline size_t sg_buf_len(const sg_buf_t *b)
{
    return b->end - b->start;
}

static inline sg_str_t sg_buf_str(const sg_buf_t *b)
{
    return (sg_str_t){b->data ? b->data + b->start : NULL, b->end - b->start};
}

/* Appends write all or nothing. Past the cap nothing is written and `failed` is set, so a
 * series of appends can be checked once at its end. */
static inline void sg_buf_add(sg_buf_t *b, const void *p, size_t n);
static inline void sg_buf_str_add(sg_buf_t *b, sg_str_t s);
static inline void sg_buf_z(sg_buf_t *b, const char *z);
static inline void sg_buf_char(sg_buf_t *b, char c);
void sg_buf_u64(sg_buf_t *b, uint64_t v);
void sg_buf_i64(sg_buf_t *b, int64_t v);
void sg_buf_printf(sg_buf_t *b, const char *fmt, ...) SG_PRINTF(2, 3);
/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void sg_buf_json(sg_buf_t *b, sg_str_t s);

/* Room for reading straight into it: at least `want` bytes, NULL past the cap. Follow with sg_buf_added. */
char *sg_buf_room(sg_buf_t *b, size_t want, size_t *got);
void sg_buf_added(sg_buf_t *b, size_t n);
/* Drop n bytes from the front. */
void sg_buf_consume(sg_buf_t *b, size_t n);

/* --- appends that fit, in line ------------------------------------------------------------------------- */

void sg_buf_grow_add(sg_buf_t *b, const void *p, size_t n);

static inline bool sg_buf_fits(const sg_buf_t *b, size_t n)
{
    return b->size - b->end >= n && b->cap - sg_buf_len(b) >= n;
}

static inline void sg_buf_add(sg_buf_t *b, const void *p, size_t n)
{
    if (n == 0)
        return;
    if (!sg_buf_fits(b, n)) {
        sg_buf_grow_add(b, p, n);
        return;
    }
    memcpy(b->data + b->end, p, n);
    b->end += n;
}

static inline void sg_buf_str_add(sg_buf_t *b, sg_str_t s)
{
    sg_buf_add(b, s.p, s.n);
}

static inline void sg_buf_z(sg_buf_t *b, const char *z)
{
    sg_buf_add(b, z, strlen(z));
}

static inline void sg_buf_char(sg_buf_t *b, char c)
{
    if (sg_buf_fits(b, 1))
        b->data[b->end++] = c;
    else
        sg_buf_grow_add(b, &c, 1);
}

#endif
