#include "base/str.h"

bool sg_bytes_ieq(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (sg_ascii_lower(a[i]) != sg_ascii_lower(b[i]))
            return false;
    return true;
}

bool sg_str_starts(sg_str_t s, sg_str_t prefix)
{
    return s.n >= prefix.n && sg_str_eq(sg_str_n(s.p, prefix.n), prefix);
}

bool sg_str_ends(sg_str_t s, sg_str_t suffix)
{
    return s.n >= suffix.n && (suffix.n == 0 || memcmp(s.p + (s.n - suffix.n), suffix.p, suffix.n) == 0);
}

sg_str_t sg_str_trim(sg_str_t s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

bool sg_str_next(sg_str_t *s, char sep, sg_str_t *head)
{
    if (!s->p)
        return false;
    const char *at = s->n ? memchr(s->p, sep, s->n) : NULL;
    if (!at) {
        *head = *s;
        *s = (sg_str_t){NULL, 0};
        return true;
    }
    size_t n = (size_t)(at - s->p);
    *head = sg_str_n(s->p, n);
    *s = sg_str_n(at + 1, s->n - n - 1);
    return true;
}

sg_err_t sg_str_u64(sg_str_t s, uint64_t max, uint64_t *out)
{
    if (s.n == 0)
        return SG_ERR_SYNTAX;
    uint64_t v = 0;
    bool over = false;
    for (size_t i = 0; i < s.n; i++) {
        if (!sg_ascii_digit(s.p[i]))
            return SG_ERR_SYNTAX;
        unsigned d = (unsigned)(s.p[i] - '0');
        if (v > (UINT64_MAX - d) / 10)
            over = true;
        else
            v = v * 10 + d;
    }
    if (over || v > max)
        return SG_ERR_RANGE;
    *out = v;
    return SG_OK;
}

int sg_hex_digit(char c)
{
    if (sg_ascii_digit(c))
        return c - '0';
    c = sg_ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
