/* fuzz_route.c - routes and a request. Input: lines; request target, rewrite, strip_prefix, then one
 * pattern a line. What must hold: the order of the routes does not matter; neither does how the path
 * spells its letters; no more nodes of the tree are looked at than it has; what goes upstream is a path. */
#include "fuzz.h"

#include "gate/router.h"

enum { ROUTES_MAX = 12 };

typedef struct {
    sg_arena_t *arena;
    sg_str_t target, rewrite, strip;
    sg_str_t patterns[ROUTES_MAX];
    size_t count;
    sg_route_t routes[ROUTES_MAX];
} input_t;

static void read_input(input_t *in, sg_str_t text)
{
    (void)sg_str_next(&text, '\n', &in->target);
    (void)sg_str_next(&text, '\n', &in->rewrite);
    (void)sg_str_next(&text, '\n', &in->strip);
    while (text.n > 0 && in->count < ROUTES_MAX)
        (void)sg_str_next(&text, '\n', &in->patterns[in->count++]);
    for (size_t i = 0; i < in->count; i++) {
        sg_route_t *r = &in->routes[i];
        r->name = r->pattern = sg_arena_strndup(in->arena, in->patterns[i]);
        r->methods = i % 3 == 2 ? 1u << SG_METHOD_GET : SG_METHODS_ALL;
        r->odd_paths_pass = true;
        r->rewrite = i % 2 ? in->rewrite : (sg_str_t){NULL, 0};
        r->strip_prefix = i % 2 ? (sg_str_t){NULL, 0} : in->strip;
    }
}

/* *nodes: an upper bound of what the tree has; *ties: a route was left out for another. */
static sg_router_t *build(input_t *in, bool backwards, size_t *nodes, bool *ties)
{
    sg_router_t *router = sg_router_new();
    *nodes = 1;
    for (size_t i = 0; i < in->count; i++) {
        const sg_route_t *r = &in->routes[backwards ? in->count - 1 - i : i], *other = NULL;
        sg_why_t why = {""};
        sg_err_t err = sg_router_add(router, r, &other, &why);
        CHECK(err == SG_OK || err == SG_ERR_SYNTAX || err == SG_ERR_EXISTS);
        CHECK(err == SG_OK || why.text[0]);
        CHECK((err == SG_ERR_EXISTS) == (other != NULL));
        *ties = *ties || err == SG_ERR_EXISTS;
        for (const char *c = r->pattern; *c; c++)
            *nodes += *c == '/';
    }
    return router;
}

static const sg_route_t *look_up(const sg_router_t *router, const sg_target_t *t, size_t nodes, sg_match_t *m)
{
    size_t steps;
    sg_router_match_counted(router, SG_STR("h"), SG_METHOD_GET, t, m, &steps);
    CHECK(steps <= nodes);
    CHECK(!m->route || m->allow == 0);
    CHECK(m->rest <= t->segment_count && m->param_count <= SG_PARAMS_MAX);
    for (size_t i = 0; m->route && i < m->param_count; i++)
        CHECK(m->params[i].raw.n > 0 && fuzz_within(m->params[i].raw, t->raw));
    return m->route;
}

/* Every letter of the path percent-encoded. */
static sg_str_t spell(sg_arena_t *arena, sg_str_t path)
{
    static const char hex[] = "0123456789abcdef";
    char *out = sg_arena_alloc(arena, 3 * path.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < path.n; i++) {
        char c = path.p[i], l = sg_ascii_lower(c);
        bool letter = l >= 'a' && l <= 'z', in_escape = (i > 0 && path.p[i - 1] == '%') ||
                                                        (i > 1 && path.p[i - 2] == '%');
        if (letter && !in_escape) {
            out[n++] = '%';
            out[n++] = hex[(unsigned char)c >> 4];
            c = hex[c & 15];
        }
        out[n++] = c;
    }
    return sg_str_n(out, n);
}

static void check_path(input_t *in, const sg_target_t *t, const sg_match_t *m)
{
    sg_str_t path = sg_route_path(m->route, m, t, in->arena);
    CHECK(path.n > 0 && path.p[0] == '/');
    for (size_t i = 0; i < path.n; i++)
        CHECK(path.p[i] > ' ' && path.p[i] < 0x7f && path.p[i] != '?');
    if (!m->route->rewrite.n && !m->route->strip_prefix.n)
        CHECK(path.p == t->path.p && path.n == t->path.n);
}

static void check_routes(input_t *in, const sg_target_t *t)
{
    size_t nodes;
    bool ties = false;
    sg_match_t m;
    sg_target_t other;
    sg_router_t *forwards = build(in, false, &nodes, &ties), *backwards = build(in, true, &nodes, &ties);
    const sg_route_t *found = look_up(forwards, t, nodes, &m);
    if (found)
        check_path(in, t, &m);
    CHECK(ties || look_up(backwards, t, nodes, &m) == found);
    if (t->form != SG_TARGET_ASTERISK) {
        CHECK(sg_target_parse(in->arena, spell(in->arena, t->path), &other) == SG_TARGET_OK);
        CHECK(look_up(forwards, &other, nodes, &m) == found);
    }
    sg_router_free(forwards);
    sg_router_free(backwards);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = fuzz_copy(data, size);
    input_t in = {.arena = sg_arena_new(4096)};
    sg_target_t target;
    read_input(&in, sg_str_n(copy, size));
    if (sg_target_parse(in.arena, in.target, &target) == SG_TARGET_OK)
        check_routes(&in, &target);
    sg_arena_free(in.arena);
    sg_free(copy);
    return 0;
}
