/* target.c - the request target. */
#include "http/target.h"

#include "base/addr.h"
#include "http/chars.h"

const char *sg_target_err_name(sg_target_err_t e)
{
    switch (e) {
    case SG_TARGET_OK:
        return "ok";
    case SG_TARGET_EMPTY:
        return "empty";
    case SG_TARGET_BAD_BYTE:
        return "bad_byte";
    case SG_TARGET_BAD_PERCENT:
        return "bad_percent";
    case SG_TARGET_NUL:
        return "nul";
    case SG_TARGET_DOT_SEGMENT:
        return "dot_segment";
    case SG_TARGET_BAD_FORM:
        return "bad_form";
    case SG_TARGET_BAD_AUTHORITY:
        return "bad_authority";
    case SG_TARGET_TOO_MANY_SEGMENTS:
        return "too_many_segments";
    }
    return "unknown";
}

/* --- percent-encoding ------------------------------------------------------------------------- */

/* The byte at s.p[i], decoded when a percent sequence stands there; *i moves behind it. *encoded tells
 * which. False for '%' without two hex digits. */
static bool next_byte(sg_str_t s, size_t *i, char *byte, bool *encoded)
{
    char c = s.p[*i];
    *encoded = c == '%';
    if (!*encoded) {
        *byte = c;
        ++*i;
        return true;
    }
    if (s.n - *i < 3)
        return false;
    int high = sg_hex_digit(s.p[*i + 1]), low = sg_hex_digit(s.p[*i + 2]);
    if (high < 0 || low < 0)
        return false;
    *byte = (char)(high << 4 | low);
    *i += 3;
    return true;
}

/* --- path ------------------------------------------------------------------------------------- */

/* One piece of a segment, as an upstream that decodes before it splits would see it. */
typedef struct {
    size_t dots, others;        /* bytes before the first ';' */
    bool params;                /* a ';' has come */
} piece_t;

static bool piece_is_dots(const piece_t *p)
{
    return p->others == 0 && (p->dots == 1 || p->dots == 2);
}

/* Look at the decoded bytes of a segment: refuse what no upstream can read in one way only. */
static sg_target_err_t check_segment(sg_str_t s, bool *odd)
{
    piece_t piece = {0};
    for (size_t i = 0; i < s.n;) {
        char c;
        bool encoded;
        if (!next_byte(s, &i, &c, &encoded))
            return SG_TARGET_BAD_PERCENT;
        if (c == '\0')
            return SG_TARGET_NUL;
        if (c == '\\')
            return SG_TARGET_BAD_BYTE;
        if (c == '/') {
            if (piece_is_dots(&piece))
                return SG_TARGET_DOT_SEGMENT;
            piece = (piece_t){0};
        } else if (c == ';') {
            piece.params = *odd = true;
        } else if (!piece.params && c == '.') {
            piece.dots++;
        } else if (!piece.params) {
            piece.others++;
        }
    }
    return piece_is_dots(&piece) ? SG_TARGET_DOT_SEGMENT : SG_TARGET_OK;
}

/* May the byte stand in a segment without percent-encoding and mean the same? Not what would cut the
 * segment, the path or parameters off, and not '%'. */
static bool may_stand_plain(char c)
{
    return sg_char_is(c, SG_CHAR_TARGET) && c != '%' && c != '/' && c != '?' && c != ';';
}

/* Write the normal form to `to`, which has room for s.n bytes. */
static sg_str_t normalise(sg_str_t s, char *to)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        char c;
        bool encoded;
        if (!next_byte(s, &i, &c, &encoded))
            break;      /* cannot be: the segment has been checked */
        if (encoded && !may_stand_plain(c)) {
            to[n++] = '%';
            to[n++] = hex[(uint8_t)c >> 4];
            to[n++] = hex[(uint8_t)c & 15];
        } else {
            to[n++] = c;
        }
    }
    return sg_str_n(to, n);
}

/* The segment behind the '/' at *at; *at moves to the next '/' or the end. */
static sg_str_t next_segment(sg_str_t path, size_t *at)
{
    const char *from = path.p + *at + 1;
    size_t left = path.n - *at - 1;
    const char *slash = memchr(from, '/', left);
    size_t n = slash ? (size_t)(slash - from) : left;
    *at += 1 + n;
    return sg_str_n(from, n);
}

/* Check the path and count its segments; a last '/' begins none. */
static sg_target_err_t check_path(sg_target_t *t)
{
    for (size_t at = 0; at < t->path.n;) {
        sg_str_t s = next_segment(t->path, &at);
        bool last = at == t->path.n;
        if (s.n == 0 && last) {
            t->trailing_slash = t->path.n > 1;
            break;
        }
        t->odd = t->odd || s.n == 0;
        sg_target_err_t err = check_segment(s, &t->odd);
        if (err)
            return err;
        if (++t->segment_count > SG_TARGET_SEGMENTS_MAX)
            return SG_TARGET_TOO_MANY_SEGMENTS;
    }
    return SG_TARGET_OK;
}

static sg_target_err_t parse_path(sg_arena_t *arena, sg_target_t *t)
{
    sg_target_err_t err = check_path(t);
    if (err || t->segment_count == 0)
        return err;
    t->segments = sg_arena_alloc(arena, t->segment_count * sizeof *t->segments);
    t->raw_segments = sg_arena_alloc(arena, t->segment_count * sizeof *t->raw_segments);
    char *room = memchr(t->path.p, '%', t->path.n) ? sg_arena_alloc(arena, t->path.n) : NULL;
    size_t at = 0;
    for (size_t i = 0; i < t->segment_count; i++) {
        sg_str_t s = next_segment(t->path, &at);
        t->raw_segments[i] = t->segments[i] = s;
        if (room && s.n && memchr(s.p, '%', s.n)) {
            t->segments[i] = normalise(s, room);
            room += t->segments[i].n;
        }
    }
    return SG_TARGET_OK;
}

/* --- forms ------------------------------------------------------------------------------------ */

static bool starts_with_scheme(sg_str_t s, sg_str_t scheme)
{
    return s.n >= scheme.n && sg_str_ieq(sg_str_n(s.p, scheme.n), scheme);
}

/* Take scheme and authority off the front; what is left is path and query, or nothing. */
static sg_target_err_t take_authority(sg_arena_t *arena, sg_target_t *t, sg_str_t *rest)
{
    const sg_str_t http = SG_STR("http://"), https = SG_STR("https://");
    t->form = SG_TARGET_ABSOLUTE;
    t->https = starts_with_scheme(*rest, https);
    if (!t->https && !starts_with_scheme(*rest, http))
        return SG_TARGET_BAD_FORM;
    size_t from = t->https ? https.n : http.n, end = from;
    while (end < rest->n && rest->p[end] != '/' && rest->p[end] != '?')
        end++;
    t->authority = sg_str_n(rest->p + from, end - from);
    *rest = sg_str_n(rest->p + end, rest->n - end);
    sg_str_t host;
    unsigned port;
    return sg_host_parse(arena, t->authority, &host, &port) ? SG_TARGET_BAD_AUTHORITY : SG_TARGET_OK;
}

static void split_query(sg_str_t rest, sg_target_t *t)
{
    const char *mark = rest.n ? memchr(rest.p, '?', rest.n) : NULL;
    t->path = rest;
    if (mark) {
        t->path.n = (size_t)(mark - rest.p);
        t->has_query = true;
        t->query = sg_str_n(mark + 1, rest.n - t->path.n - 1);
    }
    if (t->path.n == 0)
        t->path = SG_STR("/");
}

sg_target_err_t sg_target_parse(sg_arena_t *arena, sg_str_t raw, sg_target_t *out)
{
    *out = (sg_target_t){.raw = raw};
    if (raw.n == 0)
        return SG_TARGET_EMPTY;
    for (size_t i = 0; i < raw.n; i++) {
        if (!sg_char_is(raw.p[i], SG_CHAR_TARGET))
            return SG_TARGET_BAD_BYTE;
    }
    if (sg_str_eq(raw, SG_STR("*"))) {
        out->form = SG_TARGET_ASTERISK;
        out->path = raw;
        return SG_TARGET_OK;
    }
    sg_str_t rest = raw;
    if (raw.p[0] != '/') {
        sg_target_err_t err = take_authority(arena, out, &rest);
        if (err)
            return err;
    }
    split_query(rest, out);
    return parse_path(arena, out);
}

/* --- host ------------------------------------------------------------------------------------- */

#define HOST_MAX 253            /* RFC 1035 section 2.3.4, without the root's dot */

static bool is_ipv6(sg_str_t s)
{
    sg_addr_t addr;
    return memchr(s.p, ':', s.n) && sg_addr_parse(s, &addr) == SG_OK;
}

/* Letters, digits, '-', '_', '~' in labels that are not empty. */
static bool is_name(sg_str_t s)
{
    bool label = false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '.' && !label)
            return false;
        if (!sg_char_is(s.p[i], SG_CHAR_UNRESERVED))
            return false;
        label = s.p[i] != '.';
    }
    return s.n > 0 && s.n <= HOST_MAX && label;
}

static sg_err_t parse_port(sg_str_t s, unsigned *port)
{
    uint64_t v;
    if (s.n > 5 || sg_str_u64(s, 65535, &v) || v == 0)
        return SG_ERR_SYNTAX;
    *port = (unsigned)v;
    return SG_OK;
}

/* Length of the host in front of ":port"; 0 when it is not one. */
static size_t host_length(sg_str_t s)
{
    if (s.n && s.p[0] == '[') {
        const char *end = memchr(s.p, ']', s.n);
        size_t n = end ? (size_t)(end - s.p) + 1 : 0;
        return n > 2 && is_ipv6(sg_str_n(s.p + 1, n - 2)) ? n : 0;
    }
    const char *colon = s.n ? memchr(s.p, ':', s.n) : NULL;
    size_t n = colon ? (size_t)(colon - s.p) : s.n;
    size_t name = n && s.p[n - 1] == '.' ? n - 1 : n;
    return is_name(sg_str_n(s.p, name)) ? n : 0;
}

sg_err_t sg_host_parse(sg_arena_t *arena, sg_str_t value, sg_str_t *host, unsigned *port)
{
    size_t n = host_length(value);
    if (n == 0 || (n < value.n && value.p[n] != ':'))
        return SG_ERR_SYNTAX;
    unsigned number = 0;
    if (n < value.n && parse_port(sg_str_n(value.p + n + 1, value.n - n - 1), &number))
        return SG_ERR_SYNTAX;
    if (value.p[n - 1] == '.')
        n--;
    char *lower = sg_arena_alloc(arena, n);
    for (size_t i = 0; i < n; i++)
        lower[i] = sg_ascii_lower(value.p[i]);
    *host = sg_str_n(lower, n);
    *port = number;
    return SG_OK;
}

/* --- query ------------------------------------------------------------------------------------ */

/* Percent-decoding that keeps a bad sequence as it came. */
static sg_str_t decode(sg_arena_t *arena, sg_str_t s)
{
    if (!s.n || !memchr(s.p, '%', s.n))
        return s;
    char *to = sg_arena_alloc(arena, s.n);
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        char c;
        bool encoded;
        if (!next_byte(s, &i, &c, &encoded))
            c = s.p[i++];
        to[n++] = c;
    }
    return sg_str_n(to, n);
}

/* The same as decode() and compare, without memory: a query may have thousands of parameters. */
static bool decodes_to(sg_str_t s, sg_str_t name)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; n++) {
        char c;
        bool encoded;
        if (!next_byte(s, &i, &c, &encoded))
            c = s.p[i++];
        if (n == name.n || name.p[n] != c)
            return false;
    }
    return n == name.n;
}

/* Cut at the first `sep`; the value is empty when there is none. */
static void cut(sg_str_t s, char sep, sg_str_t *head, sg_str_t *tail)
{
    const char *at = s.n ? memchr(s.p, sep, s.n) : NULL;
    *head = at ? sg_str_n(s.p, (size_t)(at - s.p)) : s;
    *tail = at ? sg_str_n(at + 1, s.n - head->n - 1) : sg_str_n(s.p + s.n, 0);
}

void sg_query_take(sg_arena_t *arena, sg_str_t query, sg_str_t name, sg_str_t *rest,
                   sg_str_t *value, size_t *count)
{
    *value = (sg_str_t){0};
    *count = 0;
    *rest = query;
    if (query.n == 0)
        return;
    char *to = NULL;            /* made at the first hit */
    size_t kept = 0;
    for (size_t at = 0; at <= query.n;) {
        sg_str_t left = sg_str_n(query.p + at, query.n - at), param, after, key, text;
        cut(left, '&', &param, &after);
        cut(param, '=', &key, &text);
        if (decodes_to(key, name)) {
            if (++*count == 1) {
                *value = decode(arena, text);
                to = sg_arena_alloc(arena, query.n);
                memcpy(to, query.p, kept = at);
            }
        } else if (to) {
            memcpy(to + kept, param.p, param.n);
            kept += param.n;
            to[kept++] = '&';
        }
        at += param.n + 1;
    }
    /* Every kept parameter left an '&' behind it; the last one has to go. */
    if (to)
        *rest = sg_str_n(to, kept ? kept - 1 : 0);
}
