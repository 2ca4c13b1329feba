/* route.c - methods, and the path that goes upstream. */
#include "gate/route.h"

#include "gate/pattern.h"

static const char *const method_names[SG_METHOD_COUNT] = {
    [SG_METHOD_GET] = "GET",         [SG_METHOD_HEAD] = "HEAD",   [SG_METHOD_POST] = "POST",
    [SG_METHOD_PUT] = "PUT",         [SG_METHOD_DELETE] = "DELETE", [SG_METHOD_PATCH] = "PATCH",
    [SG_METHOD_OPTIONS] = "OPTIONS", [SG_METHOD_TRACE] = "TRACE", [SG_METHOD_CONNECT] = "CONNECT",
    [SG_METHOD_OTHER] = "_OTHER",
};

sg_method_t sg_method_parse(sg_str_t s)
{
    for (unsigned m = 0; m < SG_METHOD_OTHER; m++) {
        if (sg_str_eq(s, sg_str(method_names[m])))
            return (sg_method_t)m;
    }
    return SG_METHOD_OTHER;
}

const char *sg_method_name(sg_method_t m)
{
    return (unsigned)m < SG_METHOD_COUNT ? method_names[m] : method_names[SG_METHOD_OTHER];
}

bool sg_method_is_idempotent(sg_method_t m)
{
    const unsigned set = 1u << SG_METHOD_GET | 1u << SG_METHOD_HEAD | 1u << SG_METHOD_PUT |
                         1u << SG_METHOD_DELETE | 1u << SG_METHOD_OPTIONS | 1u << SG_METHOD_TRACE;
    return (set & (1u << m)) != 0;
}

void sg_allow_text(unsigned methods, sg_buf_t *out)
{
    if (methods & (1u << SG_METHOD_GET))
        methods |= 1u << SG_METHOD_HEAD;
    const char *between = "";
    for (unsigned m = 0; m < SG_METHOD_OTHER; m++) {
        if (!(methods & (1u << m)))
            continue;
        sg_buf_z(out, between);
        sg_buf_z(out, method_names[m]);
        between = ", ";
    }
}

/* --- path upstream ------------------------------------------------------------------------------- */

static sg_str_t param_raw(const sg_match_t *m, sg_str_t name)
{
    for (size_t i = 0; i < m->param_count; i++) {
        if (sg_str_eq(m->params[i].name, name))
            return m->params[i].raw;
    }
    return (sg_str_t){NULL, 0};
}

/* What a template's segment stands for. */
static sg_str_t fill_in(sg_str_t segment, const sg_match_t *m)
{
    if (segment.n > 0 && segment.p[0] == ':')
        return param_raw(m, sg_str_n(segment.p + 1, segment.n - 1));
    return segment;
}

static void append(char *out, size_t *n, sg_str_t s)
{
    if (s.n == 0)
        return;
    if (out)
        memcpy(out + *n, s.p, s.n);
    *n += s.n;
}

/* Writes the path when `out` is not NULL; returns its length either way. */
static size_t write_template(sg_str_t template, const sg_match_t *m, sg_str_t rest, char *out)
{
    size_t n = 0;
    bool star = sg_str_ends(template, SG_STR("/*"));
    sg_str_t left = sg_str_n(template.p + 1, template.n - 1);
    if (star)
        left.n = template.n > 2 ? template.n - 3 : 0;
    if (!star || template.n > 2) {
        sg_str_t segment;
        while (sg_str_next(&left, '/', &segment)) {
            append(out, &n, SG_STR("/"));
            append(out, &n, fill_in(segment, m));
        }
    }
    if (star)
        append(out, &n, rest);
    if (n == 0)
        append(out, &n, SG_STR("/"));
    return n;
}

static size_t segments_of(sg_str_t prefix)
{
    size_t n = 0;
    for (size_t i = 0; i < prefix.n; i++)
        n += prefix.p[i] == '/' && i + 1 < prefix.n;
    return n;
}

sg_str_t sg_route_path(const sg_route_t *route, const sg_match_t *m, const sg_target_t *target,
                       sg_arena_t *arena)
{
    if (route->rewrite.n > 0) {
        sg_str_t rest = sg_path_after(target->path, m->rest);
        size_t n = write_template(route->rewrite, m, rest, NULL);
        char *out = sg_arena_alloc(arena, n);
        return sg_str_n(out, write_template(route->rewrite, m, rest, out));
    }
    if (route->strip_prefix.n > 0) {
        sg_str_t left = sg_path_after(target->path, segments_of(route->strip_prefix));
        return left.n > 0 ? left : SG_STR("/");
    }
    return target->path;
}
