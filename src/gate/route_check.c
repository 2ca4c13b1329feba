/* route_check.c - what is demanded of a route before it goes into the tree. */
#include "gate/route_check.h"

/* Is there a parameter of that name among the first `upto` segments? */
static bool has_param(const sg_pattern_t *p, size_t upto, sg_str_t name)
{
    for (size_t i = 0; i < upto; i++) {
        if (p->segments[i].param && sg_str_eq(p->segments[i].text, name))
            return true;
    }
    return false;
}

static sg_err_t check_params(const sg_pattern_t *p, sg_why_t *why)
{
    if (p->param_count > SG_PARAMS_MAX) {
        sg_why_set(why, "path: %zu parameters; at most %d", p->param_count, SG_PARAMS_MAX);
        return SG_ERR_SYNTAX;
    }
    for (size_t i = 0; i < p->count; i++) {
        sg_str_t name = p->segments[i].text;
        if (p->segments[i].param && has_param(p, i, name)) {
            sg_why_set(why, "path: the parameter \":%.*s\" stands there twice", SG_STR_ARG(name));
            return SG_ERR_SYNTAX;
        }
    }
    return SG_OK;
}

static sg_err_t check_rewrite(sg_arena_t *arena, const sg_route_t *route, const sg_pattern_t *p,
                              sg_why_t *why)
{
    sg_pattern_t to;
    sg_err_t err = sg_pattern_parse(arena, "rewrite", route->rewrite, &to, why);
    if (err)
        return err;
    for (size_t i = 0; i < to.count; i++) {
        if (to.segments[i].param && !has_param(p, p->count, to.segments[i].text)) {
            sg_why_set(why, "rewrite: the path \"%s\" has no parameter \":%.*s\"", route->pattern,
                       SG_STR_ARG(to.segments[i].text));
            return SG_ERR_SYNTAX;
        }
    }
    if (to.star && !p->star) {
        sg_why_set(why, "rewrite: ends in /*, but the path \"%s\" does not", route->pattern);
        return SG_ERR_SYNTAX;
    }
    return SG_OK;
}

static bool same_segment(const sg_pattern_segment_t *a, const sg_pattern_segment_t *b)
{
    return a->param == b->param && sg_str_eq(a->text, b->text);
}

/* The prefix is cut off by the number of its segments, so the path must begin with it. */
static sg_err_t check_prefix(sg_arena_t *arena, const sg_route_t *route, const sg_pattern_t *p, sg_why_t *why)
{
    sg_pattern_t prefix;
    sg_err_t err = sg_pattern_parse(arena, "strip_prefix", route->strip_prefix, &prefix, why);
    if (err)
        return err;
    if (prefix.star) {
        sg_why_set(why, "strip_prefix: \"%.*s\" must not end in /*", SG_STR_ARG(route->strip_prefix));
        return SG_ERR_SYNTAX;
    }
    bool begins = prefix.count <= p->count;
    for (size_t i = 0; begins && i < prefix.count; i++)
        begins = same_segment(&prefix.segments[i], &p->segments[i]);
    if (!begins) {
        sg_why_set(why, "strip_prefix: the path \"%s\" does not begin with \"%.*s\"", route->pattern,
                   SG_STR_ARG(route->strip_prefix));
        return SG_ERR_SYNTAX;
    }
    return SG_OK;
}

static sg_err_t check_host(const char *host, sg_why_t *why)
{
    if (!host)
        return SG_OK;
    bool good = host[0] != '\0';
    for (const char *c = host; *c; c++)
        good = good && *c == sg_ascii_lower(*c) && *c > ' ' && *c != '*' && *c != '/';
    if (good)
        return SG_OK;
    sg_why_set(why, "host: \"%s\" is not a host name in lower case", host);
    return SG_ERR_SYNTAX;
}

sg_err_t sg_route_check(sg_arena_t *arena, const sg_route_t *route, sg_pattern_t *out, sg_why_t *why)
{
    sg_err_t err = check_host(route->host, why);
    if (!err)
        err = sg_pattern_parse(arena, "path", sg_str(route->pattern), out, why);
    if (!err)
        err = check_params(out, why);
    if (err)
        return err;
    if ((route->methods & SG_METHODS_ALL) == 0) {
        sg_why_set(why, "methods: none is left");
        return SG_ERR_SYNTAX;
    }
    if (out->odd && !route->odd_paths_pass) {
        sg_why_set(why, "path: \"%s\" has an empty segment or a ';', which needs odd_paths: pass",
                   route->pattern);
        return SG_ERR_SYNTAX;
    }
    if (route->rewrite.n > 0)
        err = check_rewrite(arena, route, out, why);
    if (!err && route->strip_prefix.n > 0)
        err = check_prefix(arena, route, out, why);
    return err;
}
