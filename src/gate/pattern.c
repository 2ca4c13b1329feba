/* pattern.c - parse a route's path. */
#include "gate/pattern.h"

#include "http/target.h"

static bool is_name_char(char c)
{
    char l = sg_ascii_lower(c);
    return (l >= 'a' && l <= 'z') || sg_ascii_digit(c) || c == '_' || c == '-';
}

static bool has_byte(sg_str_t s, char c)
{
    return s.n > 0 && memchr(s.p, c, s.n) != NULL;
}

static bool is_name(sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!is_name_char(s.p[i]))
            return false;
    }
    return s.n > 0;
}

static sg_err_t read_param(sg_pattern_t *p, size_t i, sg_str_t name, const char *what, sg_why_t *why)
{
    if (!is_name(name)) {
        sg_why_set(why, "%s: \":%.*s\" is no parameter; expected ':' and a name of letters, digits, '_', '-'",
                   what, SG_STR_ARG(name));
        return SG_ERR_SYNTAX;
    }
    p->param_count++;
    p->segments[i] = (sg_pattern_segment_t){true, name};
    return SG_OK;
}

static sg_err_t read_segment(sg_pattern_t *p, size_t i, sg_str_t raw, sg_str_t normal, const char *what,
                             sg_why_t *why)
{
    if (raw.n > 0 && raw.p[0] == ':')
        return read_param(p, i, sg_str_n(raw.p + 1, raw.n - 1), what, why);
    if (has_byte(raw, '*')) {
        sg_why_set(why, "%s: '*' stands only for all that follows, as the last segment: /*", what);
        return SG_ERR_SYNTAX;
    }
    if (raw.n > 2 && raw.p[0] == '{' && raw.p[raw.n - 1] == '}') {
        sg_why_set(why, "%s: \"%.*s\" is not a parameter here; expected :%.*s", what, SG_STR_ARG(raw),
                   (int)(raw.n - 2), raw.p + 1);
        return SG_ERR_SYNTAX;
    }
    p->segments[i] = (sg_pattern_segment_t){false, normal};
    return SG_OK;
}

/* The one parser of request targets reads the pattern as well, so that both have the same normal form. */
static sg_err_t read_target(sg_arena_t *arena, const char *what, sg_str_t text, sg_target_t *t, sg_why_t *why)
{
    sg_target_err_t bad = sg_target_parse(arena, text, t);
    if (bad != SG_TARGET_OK) {
        sg_why_set(why, "%s: no request can have it (%s)", what, sg_target_err_name(bad));
        return SG_ERR_SYNTAX;
    }
    if (t->has_query) {
        sg_why_set(why, "%s: a query cannot be part of it", what);
        return SG_ERR_SYNTAX;
    }
    return SG_OK;
}

sg_err_t sg_pattern_parse(sg_arena_t *arena, const char *what, sg_str_t text, sg_pattern_t *out,
                          sg_why_t *why)
{
    if (text.n == 0 || text.p[0] != '/') {
        sg_why_set(why, "%s: \"%.*s\" does not begin with '/'", what, SG_STR_ARG(text));
        return SG_ERR_SYNTAX;
    }
    sg_pattern_t p = {.star = sg_str_ends(text, SG_STR("/*"))};
    text = sg_arena_str(arena, text);
    if (p.star)
        text.n -= 2;
    sg_target_t t;
    sg_err_t err = read_target(arena, what, text.n ? text : SG_STR("/"), &t, why);
    if (err)
        return err;
    if (p.star && t.trailing_slash) {
        sg_why_set(why, "%s: an empty segment before /*", what);
        return SG_ERR_SYNTAX;
    }
    p.slash = t.trailing_slash;
    p.odd = t.odd;
    p.segments = sg_arena_calloc(arena, (t.segment_count + 1) * sizeof *p.segments);
    for (size_t i = 0; i < t.segment_count && !err; i++)
        err = read_segment(&p, i, t.raw_segments[i], t.segments[i], what, why);
    p.count = t.segment_count;
    if (!err)
        *out = p;
    return err;
}

sg_str_t sg_path_after(sg_str_t path, size_t n)
{
    size_t i = 0;
    while (n > 0 && i < path.n) {
        i++;                    /* the slash before the segment */
        while (i < path.n && path.p[i] != '/')
            i++;
        n--;
    }
    return sg_str_n(path.p + i, path.n - i);
}
