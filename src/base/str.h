/* str.h - a view of bytes that somebody else owns. */
#ifndef SG_BASE_STR_H
#define SG_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

/* Not NUL-terminated; lives as long as the bytes it points to. An empty view may have p == NULL. */
typedef struct {
    const char *p;
    size_t n;
} sg_str_t;

#define SG_STR(literal) ((sg_str_t){(literal), sizeof(literal) - 1})
/* For printf("%.*s", SG_STR_ARG(s)). */
#define SG_STR_ARG(s) (int)(s).n, (s).p ? (s).p : ""

static inline sg_str_t sg_str(const char *z)
{
    return (sg_str_t){z, z ? strlen(z) : 0};
}

static inline sg_str_t sg_str_n(const char *p, size_t n)
{
    return (sg_str_t){p, n};
}

static inline bool sg_str_eq(sg_str_t a, sg_str_t b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* ASCII letters compare without case; no locale. */
static inline bool sg_str_ieq(sg_str_t a, sg_str_t b);
bool sg_str_starts(sg_str_t s, sg_str_t prefix);
bool sg_str_ends(sg_str_t s, sg_str_t suffix);

/* Without SP and HTAB at both ends (HTTP's OWS, RFC 9110 section 5.6.3). */
sg_str_t sg_str_trim(sg_str_t s);

/* Cut at the first `sep`: `head` gets what is before it, the rest stays in *s. False at the end
 * (an empty view that has been handed out once ends the walk). "a,,b" gives "a", "", "b". */
bool sg_str_next(sg_str_t *s, char sep, sg_str_t *head);

/* 1*DIGIT only (no sign, no space), at most `max`. */
SG_MUST sg_err_t sg_str_u64(sg_str_t s, uint64_t max, uint64_t *out);

static inline char sg_ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static inline bool sg_ascii_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* 0..15, or -1. */
int sg_hex_digit(char c);

bool sg_bytes_ieq(const char *a, const char *b, size_t n);

/* Most names that are compared differ in length. */
static inline bool sg_str_ieq(sg_str_t a, sg_str_t b)
{
    return a.n == b.n && sg_bytes_ieq(a.p, b.p, a.n);
}

#endif
