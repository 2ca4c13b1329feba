/* target.h - the request target: one parser for routing, limiting and forwarding. RFC 9112 section 3.2.
 *
 * The raw bytes are kept for forwarding; the segments are what routes are matched on, in a form in which
 * every decoded byte has one spelling: percent-encoding is undone where the byte may stand plain in a
 * segment (visible ASCII but '%', '/', '?', '#', ';', '\'; that includes the unreserved characters of RFC
 * 3986 section 6.2.2.2), and what stays encoded has upper-case digits. So "/users%3Asearch" does not slip
 * past a route for "/users:search".
 *
 * The query is only passed on: a lone '%', %00 or a backslash in it is the upstream's to judge (many
 * clients send them), so there only the bytes are checked. */
#ifndef SG_HTTP_TARGET_H
#define SG_HTTP_TARGET_H

#include "base/mem.h"
#include "base/str.h"

typedef enum { SG_TARGET_ORIGIN, SG_TARGET_ABSOLUTE, SG_TARGET_ASTERISK } sg_target_form_t;

/* Why a target is refused. The names are the log words and metric labels. */
typedef enum {
    SG_TARGET_OK = 0,
    SG_TARGET_EMPTY,
    SG_TARGET_BAD_BYTE,     /* outside 0x21..0x7e, '#'; in the path also a backslash, plain or %5C */
    SG_TARGET_BAD_PERCENT,  /* '%' without two hex digits in the path */
    SG_TARGET_NUL,          /* %00 in the path */
    /* . or .., plain or encoded; also as a part of a segment that %2F cuts, and in front of ';' ("..;x") */
    SG_TARGET_DOT_SEGMENT,
    SG_TARGET_BAD_FORM,     /* neither origin, absolute http(s), nor * */
    SG_TARGET_BAD_AUTHORITY,
    SG_TARGET_TOO_MANY_SEGMENTS,
} sg_target_err_t;
const char *sg_target_err_name(sg_target_err_t e);

#define SG_TARGET_SEGMENTS_MAX 256

/* Views point into the raw target or the arena. */
typedef struct {
    sg_target_form_t form;
    sg_str_t raw;           /* the whole target as it came */
    sg_str_t authority;     /* absolute-form only: host[:port] */
    bool https;             /* absolute-form with https */
    sg_str_t path;          /* raw, begins with '/'; "*" for asterisk-form; "/" when absolute-form has none */
    sg_str_t query;         /* raw, without '?' */
    bool has_query;
    sg_str_t *segments;     /* normalised, see above; "/a/b" = {"a","b"}; "/" = {} ; "/a/" = {"a"} */
    sg_str_t *raw_segments; /* the same places, bytes as they came */
    size_t segment_count;   /* empty segments inside ("//") count: "//a" = {"","a"} */
    bool trailing_slash;    /* path ends in '/' and is not "/" alone */
    bool odd;               /* an empty segment inside ("//") or a ';' (plain or %3B) in the path */
} sg_target_t;

/* On an error *out holds nothing but `raw`'s view that may be used. Memory: 32 bytes per segment, and the
 * path once more when it has a percent sequence. */
SG_MUST sg_target_err_t sg_target_parse(sg_arena_t *arena, sg_str_t raw, sg_target_t *out);

/* uri-host[":"port] of RFC 3986 section 3.2 without userinfo; for Host (RFC 9112 section 3.2) and
 * authority. Stricter than the RFC: a name is made of non-empty labels of letters, digits, '-', '_', '~'
 * (no percent sequence, no sub-delims), at most 253 bytes; in brackets only an IPv6 address without zone; a
 * port is 1..65535 in at most five digits. `host` is lower-case without port and trailing dot, IPv6 keeps
 * its brackets; in the arena. An empty value is SG_ERR_SYNTAX. port = 0 when absent. */
SG_MUST sg_err_t sg_host_parse(sg_arena_t *arena, sg_str_t value, sg_str_t *host, unsigned *port);

/* Query without the parameters named `name` (compared after percent-decoding, '+' is a plus; the first
 * value decoded goes to *value, number of them to *count); the rest stays byte for byte, in order. *rest
 * and *value are views of `query` or in the arena. A bad percent sequence stands for itself. */
void sg_query_take(sg_arena_t *arena, sg_str_t query, sg_str_t name, sg_str_t *rest,
                   sg_str_t *value, size_t *count);

#endif
