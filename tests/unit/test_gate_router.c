/* test_gate_router.c - the match tree: tables, ties, 405, steps, and a brute-force matcher on random
 * route sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "gate/router.h"

#define GET (1u << SG_METHOD_GET)
#define HEAD (1u << SG_METHOD_HEAD)
#define POST (1u << SG_METHOD_POST)
#define ALL SG_METHODS_ALL

typedef struct {
    sg_arena_t *arena;
    sg_router_t *router;
    sg_match_t match;
    size_t steps;
} fixture_t;

static fixture_t fixture_new(void)
{
    fixture_t f = {.arena = sg_arena_new(4096), .router = sg_router_new()};
    return f;
}

static void fixture_free(fixture_t *f)
{
    sg_router_free(f->router);
    sg_arena_free(f->arena);
}

static sg_route_t *route_new(fixture_t *f, const char *host, unsigned methods, const char *pattern)
{
    sg_route_t *r = SG_ARENA_NEW(f->arena, sg_route_t);
    r->pattern = sg_arena_strndup(f->arena, sg_str(pattern));
    r->host = host;
    r->methods = methods;
    r->name = sg_arena_printf(f->arena, "%s%s#%x", host ? host : "", pattern, methods).p;
    return r;
}

static void add(fixture_t *f, sg_route_t *r)
{
    const sg_route_t *other = NULL;
    sg_why_t why = {""};
    if (sg_router_add(f->router, r, &other, &why) != SG_OK)
        fail_msg("%s: %s", r->name, why.text);
}

static const sg_route_t *match(fixture_t *f, const char *host, sg_method_t method, const char *target)
{
    sg_target_t *t = SG_ARENA_NEW(f->arena, sg_target_t);
    if (sg_target_parse(f->arena, sg_arena_str(f->arena, sg_str(target)), t) != SG_TARGET_OK)
        fail_msg("target %s does not parse", target);
    memset(&f->match, 0x5a, sizeof f->match);
    sg_router_match_counted(f->router, sg_str(host), method, t, &f->match, &f->steps);
    return f->match.route;
}

/* --- table --------------------------------------------------------------------------------------- */

static const struct {
    const char *host;
    unsigned methods;
    const char *pattern;
} shop[] = {
    {NULL, ALL, "/*"},
    {NULL, GET, "/"},
    {NULL, ALL, "/hello"},
    {NULL, GET, "/login"},
    {NULL, GET, "/docs/"},
    {NULL, POST, "/docs"},
    {NULL, ALL, "/v1/*"},
    {NULL, GET, "/v1/users/:id"},
    {NULL, POST, "/v1/users/:user"},
    {NULL, GET, "/v1/users/me"},
    {NULL, GET, "/v1/users/:id/search"},
    {NULL, GET, "/v1/:kind/all/last"},
    {NULL, GET, "/%7Etom/a%2fb"},
    {"api.test", GET, "/v1/users/:id"},
    {"api.test", POST, "/only/*"},
};

static const struct {
    const char *host;
    sg_method_t method;
    const char *target, *route;     /* route: its name */
} requests[] = {
    {"", SG_METHOD_GET, "/", "/#1"},
    {"", SG_METHOD_HEAD, "/", "/#1"},
    {"", SG_METHOD_POST, "/", "/*#3ff"},
    {"", SG_METHOD_GET, "/hello", "/hello#3ff"},
    {"", SG_METHOD_OTHER, "/hello", "/hello#3ff"},
    {"", SG_METHOD_GET, "/hello/", "/hello#3ff"},
    {"", SG_METHOD_GET, "/HELLO", "/*#3ff"},
    {"", SG_METHOD_GET, "/hello/x", "/*#3ff"},
    {"", SG_METHOD_GET, "/hell", "/*#3ff"},
    {"", SG_METHOD_GET, "/%68ello", "/hello#3ff"},
    {"", SG_METHOD_GET, "/hello?x=/y", "/hello#3ff"},
    {"", SG_METHOD_GET, "/login/", "/login#1"},
    {"", SG_METHOD_GET, "/%6cogin", "/login#1"},
    {"", SG_METHOD_GET, "//login", "/*#3ff"},
    {"", SG_METHOD_GET, "/login;a=1", "/*#3ff"},
    {"", SG_METHOD_GET, "/docs/", "/docs/#1"},
    {"", SG_METHOD_GET, "/docs", "/*#3ff"},
    {"", SG_METHOD_POST, "/docs", "/docs#4"},
    {"", SG_METHOD_POST, "/docs/", "/docs#4"},
    {"", SG_METHOD_GET, "/v1", "/v1/*#3ff"},
    {"", SG_METHOD_GET, "/v1/", "/v1/*#3ff"},
    {"", SG_METHOD_GET, "/v1x", "/*#3ff"},
    {"", SG_METHOD_GET, "/v1/users", "/v1/*#3ff"},
    {"", SG_METHOD_GET, "/v1/users/", "/v1/*#3ff"},
    {"", SG_METHOD_GET, "/v1/users//", "/v1/*#3ff"},
    {"", SG_METHOD_GET, "/v1/users/7", "/v1/users/:id#1"},
    {"", SG_METHOD_GET, "/v1/users/7/", "/v1/users/:id#1"},
    {"", SG_METHOD_HEAD, "/v1/users/7", "/v1/users/:id#1"},
    {"", SG_METHOD_POST, "/v1/users/7", "/v1/users/:user#4"},
    {"", SG_METHOD_PUT, "/v1/users/7", "/v1/*#3ff"},
    {"", SG_METHOD_GET, "/v1/users/me", "/v1/users/me#1"},
    {"", SG_METHOD_POST, "/v1/users/me", "/v1/users/:user#4"},
    {"", SG_METHOD_GET, "/v1/users/me/search", "/v1/users/:id/search#1"},
    {"", SG_METHOD_GET, "/v1/users/all/last", "/v1/:kind/all/last#1"},
    {"", SG_METHOD_GET, "/v1/users/a%2Fb", "/v1/users/:id#1"},
    {"", SG_METHOD_GET, "/~tom/a%2Fb", "/%7Etom/a%2fb#1"},
    {"", SG_METHOD_GET, "/~tom/a/b", "/*#3ff"},
    {"api.test", SG_METHOD_GET, "/v1/users/7", "api.test/v1/users/:id#1"},
    {"api.test", SG_METHOD_GET, "/v1/users/me", "api.test/v1/users/:id#1"},
    {"api.test", SG_METHOD_POST, "/v1/users/me", "/v1/users/:user#4"},
    {"api.test", SG_METHOD_GET, "/hello", "/hello#3ff"},
    {"api.test", SG_METHOD_POST, "/only", "api.test/only/*#4"},
    {"api.test", SG_METHOD_GET, "/only/x", "/*#3ff"},
    {"other.test", SG_METHOD_POST, "/only/x", "/*#3ff"},
    {"other.test", SG_METHOD_GET, "http://api.test/hello", "/hello#3ff"},
    {"other.test", SG_METHOD_GET, "http://api.test", "/#1"},
};

static void check_requests(fixture_t *f)
{
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const sg_route_t *r = match(f, requests[i].host, requests[i].method, requests[i].target);
        if (!r || strcmp(r->name, requests[i].route) != 0)
            fail_msg("%s %s %s: %s, expected %s", requests[i].host, sg_method_name(requests[i].method),
                     requests[i].target, r ? r->name : "none", requests[i].route);
    }
}

static void test_most_specific_wins_in_any_order(void **state)
{
    (void)state;
    const size_t n = sizeof shop / sizeof shop[0];
    for (size_t turn = 0; turn < 2 * n; turn++) {
        fixture_t f = fixture_new();
        for (size_t i = 0; i < n; i++) {
            size_t at = turn < n ? (i + turn) % n : (2 * n - 1 - i + turn) % n;
            add(&f, route_new(&f, shop[at].host, shop[at].methods, shop[at].pattern));
        }
        check_requests(&f);
        fixture_free(&f);
    }
}

static void test_backtracks_over_dead_ends(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    add(&f, route_new(&f, NULL, ALL, "/a/b/c/d"));
    add(&f, route_new(&f, NULL, ALL, "/a/:x/c/e"));
    add(&f, route_new(&f, NULL, ALL, "/:w/b/:y/f"));
    add(&f, route_new(&f, NULL, ALL, "/a/b/*"));
    add(&f, route_new(&f, NULL, GET, "/a/b/c/:z"));
    assert_string_equal(match(&f, "", SG_METHOD_GET, "/a/b/c/d")->pattern, "/a/b/c/d");
    assert_string_equal(match(&f, "", SG_METHOD_GET, "/a/b/c/e")->pattern, "/a/b/c/:z");
    assert_string_equal(match(&f, "", SG_METHOD_POST, "/a/b/c/e")->pattern, "/a/b/*");
    assert_string_equal(match(&f, "", SG_METHOD_POST, "/a/q/c/e")->pattern, "/a/:x/c/e");
    assert_string_equal(match(&f, "", SG_METHOD_POST, "/q/b/c/f")->pattern, "/:w/b/:y/f");
    assert_string_equal(match(&f, "", SG_METHOD_POST, "/a/b/c/d/e/f")->pattern, "/a/b/*");
    assert_null(match(&f, "", SG_METHOD_GET, "/a/q/c/f"));
    fixture_free(&f);
}

static void test_params_and_rest(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    add(&f, route_new(&f, NULL, GET, "/t/:tenant/u/:user/*"));
    add(&f, route_new(&f, NULL, POST, "/t/:a/u/:b/*"));
    assert_non_null(match(&f, "", SG_METHOD_GET, "/t/%61c%2fme/u/x%20y/1/2"));
    assert_int_equal(f.match.param_count, 2);
    assert_true(sg_str_eq(f.match.params[0].name, SG_STR("tenant")));
    assert_true(sg_str_eq(f.match.params[0].raw, SG_STR("%61c%2fme")));
    assert_true(sg_str_eq(f.match.params[1].name, SG_STR("user")));
    assert_true(sg_str_eq(f.match.params[1].raw, SG_STR("x%20y")));
    assert_int_equal(f.match.rest, 4);
    assert_non_null(match(&f, "", SG_METHOD_POST, "/t/1/u/2"));
    assert_true(sg_str_eq(f.match.params[0].name, SG_STR("a")));
    assert_true(sg_str_eq(f.match.params[1].name, SG_STR("b")));
    assert_int_equal(f.match.rest, 4);
    assert_null(match(&f, "", SG_METHOD_GET, "/t//u/2"));
    assert_int_equal(f.match.param_count, 0);
    assert_int_equal(f.match.rest, 4);
    fixture_free(&f);
}

static void test_allow_is_the_union(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    add(&f, route_new(&f, NULL, GET, "/x"));
    add(&f, route_new(&f, NULL, POST, "/:any"));
    add(&f, route_new(&f, "h.test", 1u << SG_METHOD_PUT, "/*"));
    add(&f, route_new(&f, NULL, 1u << SG_METHOD_PATCH, "/x/"));
    add(&f, route_new(&f, NULL, 1u << SG_METHOD_TRACE, "/y"));
    assert_null(match(&f, "", SG_METHOD_DELETE, "/x"));
    assert_int_equal(f.match.allow, GET | HEAD | POST);
    assert_null(match(&f, "h.test", SG_METHOD_DELETE, "/x"));
    assert_int_equal(f.match.allow, GET | HEAD | POST | 1u << SG_METHOD_PUT);
    assert_null(match(&f, "", SG_METHOD_OTHER, "/x/"));
    assert_int_equal(f.match.allow, GET | HEAD | POST | 1u << SG_METHOD_PATCH);
    assert_null(match(&f, "", SG_METHOD_GET, "/x/y/z"));
    assert_int_equal(f.match.allow, 0);
    assert_null(match(&f, "", SG_METHOD_GET, "/"));
    assert_int_equal(f.match.allow, 0);
    assert_non_null(match(&f, "", SG_METHOD_POST, "/x"));
    assert_int_equal(f.match.allow, 0);
    fixture_free(&f);
}

/* "OPTIONS *" is about the server, not about a path. */
static void test_asterisk_matches_nothing(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    add(&f, route_new(&f, NULL, ALL, "/*"));
    add(&f, route_new(&f, NULL, GET, "/"));
    assert_null(match(&f, "", SG_METHOD_OPTIONS, "*"));
    assert_int_equal(f.match.allow, 0);
    assert_non_null(match(&f, "", SG_METHOD_OPTIONS, "/"));
    fixture_free(&f);
}

/* A look-up of what is not there ends, however many literals a node and hosts a router have. */
static void test_misses_end(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    for (size_t i = 0; i < 70; i++) {
        sg_str_t host = sg_arena_printf(f.arena, "h%zu.test", i), path = sg_arena_printf(f.arena, "/p%zu", i);
        assert_null(match(&f, host.p, SG_METHOD_GET, path.p));
        add(&f, route_new(&f, host.p, ALL, path.p));
        add(&f, route_new(&f, NULL, ALL, path.p));
        assert_string_equal(match(&f, host.p, SG_METHOD_GET, path.p)->host, host.p);
        assert_null(match(&f, "other.test", SG_METHOD_GET, path.p)->host);
        assert_null(match(&f, host.p, SG_METHOD_GET, "/p"));
    }
    fixture_free(&f);
}

static void test_empty_router(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    assert_null(match(&f, "h", SG_METHOD_GET, "/a/b"));
    assert_int_equal(f.match.allow, 0);
    assert_int_equal(f.match.param_count, 0);
    sg_router_free(NULL);
    fixture_free(&f);
}

/* --- what is refused ----------------------------------------------------------------------------- */

static void test_ties(void **state)
{
    (void)state;
    static const struct {
        const char *host_a, *pattern_a, *host_b, *pattern_b;
        unsigned methods_a, methods_b;
        bool tie;
    } rows[] = {
        {NULL, "/a", NULL, "/a", GET, GET, true},
        {NULL, "/a", NULL, "/a", ALL, ALL, true},
        {NULL, "/a", NULL, "/a", GET | POST, POST, true},
        {NULL, "/a", NULL, "/a", GET, POST, false},
        {NULL, "/a", NULL, "/a", GET, ALL, false},
        {NULL, "/a", NULL, "/a", GET, HEAD, false},
        {NULL, "/a", NULL, "/a/", GET, GET, false},
        {NULL, "/a", NULL, "/a/*", GET, GET, false},
        {NULL, "/a/*", NULL, "/a/*", GET, GET, true},
        {NULL, "/*", NULL, "/", GET, GET, false},
        {NULL, "/:x", NULL, "/:y", GET, GET, true},
        {NULL, "/:x/a", NULL, "/:y/b", GET, GET, false},
        {NULL, "/%61", NULL, "/a", GET, GET, true},
        {NULL, "/a%2fb", NULL, "/a%2Fb", GET, GET, true},
        {"h", "/a", NULL, "/a", GET, GET, false},
        {"h", "/a", "h", "/a", GET, GET, true},
        {"h", "/a", "g", "/a", GET, GET, false},
        {NULL, "/a", NULL, "/A", GET, GET, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture_t f = fixture_new();
        sg_route_t *a = route_new(&f, rows[i].host_a, rows[i].methods_a, rows[i].pattern_a);
        sg_route_t *b = route_new(&f, rows[i].host_b, rows[i].methods_b, rows[i].pattern_b);
        const sg_route_t *other = NULL;
        sg_why_t why = {""};
        add(&f, a);
        assert_int_equal(sg_router_add(f.router, b, &other, &why), rows[i].tie ? SG_ERR_EXISTS : SG_OK);
        assert_ptr_equal(other, rows[i].tie ? a : NULL);
        assert_true(!rows[i].tie || strstr(why.text, a->name));
        fixture_free(&f);
    }
}

static void test_method_tiers(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    add(&f, route_new(&f, NULL, ALL, "/a"));
    add(&f, route_new(&f, NULL, GET, "/a"));
    assert_int_equal(match(&f, "", SG_METHOD_GET, "/a")->methods, GET);
    assert_int_equal(match(&f, "", SG_METHOD_HEAD, "/a")->methods, GET);
    assert_int_equal(match(&f, "", SG_METHOD_POST, "/a")->methods, ALL);
    add(&f, route_new(&f, NULL, HEAD, "/a"));
    assert_int_equal(match(&f, "", SG_METHOD_HEAD, "/a")->methods, HEAD);
    assert_int_equal(match(&f, "", SG_METHOD_GET, "/a")->methods, GET);
    fixture_free(&f);
}

static const struct {
    const char *host, *pattern, *rewrite, *prefix, *says;
    bool odd;
} refused[] = {
    {NULL, "", "", "", "begin with '/'", false},
    {NULL, "a/b", "", "", "begin with '/'", false},
    {NULL, "*", "", "", "begin with '/'", false},
    {NULL, "http://h/a", "", "", "begin with '/'", false},
    {NULL, "/a/*/b", "", "", "'*'", false},
    {NULL, "/a*", "", "", "'*'", false},
    {NULL, "/a/**", "", "", "'*'", false},
    {NULL, "/:", "", "", "parameter", false},
    {NULL, "/:a.b", "", "", "parameter", false},
    {NULL, "/:a:b", "", "", "parameter", false},
    {NULL, "/:a/:b/:a", "", "", "twice", false},
    {NULL, "/{id}", "", "", ":id", false},
    {NULL, "/a?b=c", "", "", "query", false},
    {NULL, "/a#b", "", "", "bad_byte", false},
    {NULL, "/a b", "", "", "bad_byte", false},
    {NULL, "/a%zz", "", "", "bad_percent", false},
    {NULL, "/a%00", "", "", "nul", false},
    {NULL, "/a/../b", "", "", "dot_segment", false},
    {NULL, "/a//b", "", "", "odd_paths", false},
    {NULL, "/a;b", "", "", "odd_paths", false},
    {NULL, "/a//*", "", "", "empty segment", true},
    {NULL, "/:a/:b/:c/:d/:e/:f/:g/:h/:i/:j/:k/:l/:m/:n/:o/:p/:q", "", "", "16", false},
    {"", "/a", "", "", "host", false},
    {"API.test", "/a", "", "", "host", false},
    {"*.test", "/a", "", "", "host", false},
    {NULL, "/a/:b", "/x/:c", "", ":c", false},
    {NULL, "/a/:b", "/x/*", "", "/*", false},
    {NULL, "/a/:b", "x", "", "rewrite", false},
    {NULL, "/a/:b", "/x?y=1", "", "query", false},
    {NULL, "/a/b", "", "/b", "strip_prefix", false},
    {NULL, "/a/b", "", "/a/b/c", "strip_prefix", false},
    {NULL, "/a/*", "", "/a/*", "strip_prefix", false},
    {NULL, "/ab/*", "", "/a", "strip_prefix", false},
    {NULL, "/a/*", "", "a", "strip_prefix", false},
};

static void test_refused_routes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        fixture_t f = fixture_new();
        sg_route_t *r = route_new(&f, refused[i].host, ALL, refused[i].pattern);
        const sg_route_t *other = NULL;
        sg_why_t why = {""};
        r->rewrite = sg_str(refused[i].rewrite);
        r->strip_prefix = sg_str(refused[i].prefix);
        r->odd_paths_pass = refused[i].odd;
        assert_int_equal(sg_router_add(f.router, r, &other, &why), SG_ERR_SYNTAX);
        if (!strstr(why.text, refused[i].says))
            fail_msg("%s: \"%s\" does not say %s", refused[i].pattern, why.text, refused[i].says);
        assert_null(match(&f, "h", SG_METHOD_GET, "/a/b"));
        fixture_free(&f);
    }
}

static void test_no_methods_are_refused(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    const sg_route_t *other = NULL;
    sg_why_t why = {""};
    assert_int_equal(sg_router_add(f.router, route_new(&f, NULL, 0, "/a"), &other, &why), SG_ERR_SYNTAX);
    assert_non_null(strstr(why.text, "methods"));
    fixture_free(&f);
}

static void test_odd_patterns_where_they_pass(void **state)
{
    (void)state;
    fixture_t f = fixture_new();
    sg_route_t *r = route_new(&f, NULL, ALL, "/a//b;v=1");
    r->odd_paths_pass = true;
    add(&f, r);
    add(&f, route_new(&f, NULL, ALL, "/:a/:b/:c/:d/:e/:f/:g/:h/:i/:j/:k/:l/:m/:n/:o/:p"));
    assert_ptr_equal(match(&f, "", SG_METHOD_GET, "/a//b;v=1"), r);
    assert_null(match(&f, "", SG_METHOD_GET, "/a/b;v=1"));
    assert_non_null(match(&f, "", SG_METHOD_GET, "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16"));
    assert_int_equal(f.match.param_count, SG_PARAMS_MAX);
    assert_true(sg_str_eq(f.match.params[15].raw, SG_STR("16")));
    fixture_free(&f);
}

/* --- steps --------------------------------------------------------------------------------------- */

static size_t steps_with(size_t routes)
{
    fixture_t f = fixture_new();
    char text[64];
    size_t most = 0;
    for (size_t i = 0; i < routes; i++) {
        snprintf(text, sizeof text, "/v1/kind%zu/:id/part%zu", i, i % 7);
        add(&f, route_new(&f, NULL, GET, text));
    }
    add(&f, route_new(&f, NULL, ALL, "/*"));
    for (size_t i = 0; i < routes; i++) {
        snprintf(text, sizeof text, "/v1/kind%zu/x/part%zu", i, i % 7 + i % 2);
        assert_non_null(match(&f, "", SG_METHOD_GET, text));
        most = f.steps > most ? f.steps : most;
    }
    fixture_free(&f);
    return most;
}

static void test_steps_do_not_grow_with_routes(void **state)
{
    (void)state;
    assert_int_equal(steps_with(1000), steps_with(10));
    assert_true(steps_with(1000) <= 6);
}

static void add_levels(fixture_t *f, sg_buf_t *path, size_t levels, size_t param_at)
{
    sg_buf_clear(path);
    for (size_t i = 0; i < levels; i++)
        sg_buf_z(path, i == param_at ? "/:x" : "/a");
    sg_buf_z(path, "/end");
    add(f, route_new(f, NULL, ALL, sg_arena_strndup(f->arena, sg_buf_str(path))));
}

/* At each of 60 levels a literal and a parameter both lead on, and a path of 256 equal segments fits
 * both for long. The tree has one way to each node, so that no more than its nodes are looked at. */
static void test_hostile_paths_are_bounded(void **state)
{
    (void)state;
    enum { LEVELS = 60 };
    fixture_t f = fixture_new();
    sg_buf_t path;
    size_t nodes = 2 + LEVELS + 1;              /* both roots, the literals, "end" */
    sg_buf_init(&path, 4096);
    add_levels(&f, &path, LEVELS, LEVELS);
    for (size_t at = 0; at < LEVELS; at++) {
        add_levels(&f, &path, LEVELS, at);
        nodes += LEVELS - at + 1;
    }
    sg_buf_clear(&path);
    for (size_t i = 0; i < SG_TARGET_SEGMENTS_MAX; i++)
        sg_buf_z(&path, "/a");
    assert_null(match(&f, "", SG_METHOD_GET, sg_arena_strndup(f.arena, sg_buf_str(&path))));
    assert_in_range(f.steps, LEVELS * LEVELS / 2, nodes);
    sg_buf_deinit(&path);
    fixture_free(&f);
}

/* --- the brute-force matcher ----------------------------------------------------------------------- */

static uint64_t seed;

static unsigned below(unsigned bound)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 20) % bound);
}

#define PARTS_MAX 8

/* A path or pattern split at its slashes, by hand. */
typedef struct {
    char part[PARTS_MAX][8];
    size_t count;
    bool slash, star;
} split_t;

static split_t split(const char *text)
{
    split_t s = {.count = 0};
    size_t n = strlen(text);
    if (n >= 2 && strcmp(text + n - 2, "/*") == 0) {
        s.star = true;
        n -= 2;
    } else if (n > 1 && text[n - 1] == '/') {
        s.slash = true;
        n--;
    }
    for (size_t i = 0; i < n && strcmp(text, "/") != 0; i++) {
        if (text[i] == '/')
            s.count++;
        else
            strncat(s.part[s.count - 1], &text[i], 1);
    }
    return s;
}

/* How well a pattern fits a path, as text that compares lexically (less is more specific); false: not at
 * all. */
static bool rank_of(const split_t *pattern, const split_t *path, char *rank)
{
    size_t n = 0;
    for (size_t i = 0; i < pattern->count; i++) {
        bool param = pattern->part[i][0] == ':';
        if (i >= path->count || (param && !path->part[i][0]))
            return false;
        if (!param && strcmp(pattern->part[i], path->part[i]) != 0)
            return false;
        rank[n++] = param ? '2' : '1';
    }
    if (pattern->star) {
        rank[n++] = '3';
    } else {
        if (pattern->count != path->count || (pattern->slash && !path->slash))
            return false;
        rank[n++] = pattern->slash ? '1' : '2';
    }
    rank[n] = '\0';
    return true;
}

static char method_rank(unsigned methods, sg_method_t m)
{
    if (methods == ALL)
        return '3';
    if (methods & (1u << m))
        return '1';
    return m == SG_METHOD_HEAD && (methods & GET) ? '2' : '\0';
}

static const sg_route_t *reference(sg_route_t **routes, size_t n, const char *host, sg_method_t m,
                                   const char *target, unsigned *allow)
{
    const sg_route_t *best = NULL;
    char best_rank[PARTS_MAX + 8] = "9";
    split_t path = split(target);
    *allow = 0;
    for (size_t i = 0; i < n; i++) {
        char rank[PARTS_MAX + 8];
        split_t pattern = split(routes[i]->pattern);
        rank[0] = routes[i]->host ? '1' : '2';
        if ((routes[i]->host && strcmp(routes[i]->host, host) != 0) || !rank_of(&pattern, &path, rank + 1))
            continue;
        if (routes[i]->methods != ALL)
            *allow |= routes[i]->methods | (routes[i]->methods & GET ? HEAD : 0);
        char *end = rank + strlen(rank);
        end[0] = method_rank(routes[i]->methods, m);
        end[1] = '\0';
        if (end[0] && strcmp(rank, best_rank) < 0) {
            memcpy(best_rank, rank, sizeof rank);
            best = routes[i];
        }
    }
    if (best)
        *allow = 0;
    return best;
}

static bool reference_tie(const sg_route_t *a, const sg_route_t *b)
{
    split_t x = split(a->pattern), y = split(b->pattern);
    bool same = x.count == y.count && x.star == y.star && x.slash == y.slash;
    for (size_t i = 0; same && i < x.count; i++)
        same = (x.part[i][0] == ':' && y.part[i][0] == ':') || strcmp(x.part[i], y.part[i]) == 0;
    if (!same || (a->host != b->host && (!a->host || !b->host || strcmp(a->host, b->host) != 0)))
        return false;
    return (a->methods == ALL) == (b->methods == ALL) && (a->methods & b->methods);
}

static const char *const hosts[] = {NULL, NULL, "a.test", "b.test"};
static const unsigned method_sets[] = {ALL, GET, POST, HEAD, GET | POST, HEAD | POST, ALL};
static const sg_method_t methods[] = {SG_METHOD_GET, SG_METHOD_POST, SG_METHOD_HEAD, SG_METHOD_OTHER};

static void random_path(char *out, bool pattern)
{
    static const char *const in_pattern[] = {"a", "b", "a", ":", "b"};
    static const char *const in_path[] = {"a", "b", "a", "c", ""};
    unsigned n = below(6), end = below(4);
    out[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        const char *part = pattern ? in_pattern[below(5)] : in_path[below(i + 1 < n ? 5 : 4)];
        const char name[] = {'/', ':', 'p', (char)('0' + i), '\0'};
        if (part[0] == ':') {
            strncat(out, name, 5);
            continue;
        }
        strncat(out, "/", 2);
        strncat(out, part, 2);
    }
    if (pattern && end == 0)
        strncat(out, "/*", 3);
    else if (end == 1 || n == 0)
        strncat(out, "/", 2);
}

static size_t random_routes(fixture_t *f, sg_route_t **routes, size_t want)
{
    size_t n = 0;
    for (size_t i = 0; i < want; i++) {
        char text[64];
        random_path(text, true);
        sg_route_t *r = route_new(f, hosts[below(4)], method_sets[below(7)], text);
        bool tie = false;
        for (size_t j = 0; j < n; j++)
            tie = tie || reference_tie(routes[j], r);
        const sg_route_t *other = NULL;
        sg_why_t why;
        assert_int_equal(sg_router_add(f->router, r, &other, &why), tie ? SG_ERR_EXISTS : SG_OK);
        assert_true(!tie || reference_tie(other, r));
        if (!tie)
            routes[n++] = r;
    }
    return n;
}

static void test_agrees_with_brute_force(void **state)
{
    (void)state;
    seed = UINT64_C(0x9e3779b97f4a7c15);
    size_t hits = 0, refusals = 0;
    for (int round = 0; round < 400; round++) {
        fixture_t f = fixture_new();
        sg_route_t *routes[60];
        size_t n = random_routes(&f, routes, 1 + below(60));
        for (int i = 0; i < 200; i++) {
            char text[64];
            random_path(text, false);
            const char *host = hosts[2 + below(2)];
            sg_method_t m = methods[below(4)];
            unsigned allow;
            const sg_route_t *want = reference(routes, n, host, m, text, &allow);
            const sg_route_t *got = match(&f, host, m, text);
            if (got != want || f.match.allow != allow)
                fail_msg("round %d: %s %s %s: %s, expected %s", round, host, sg_method_name(m), text,
                         got ? got->name : "none", want ? want->name : "none");
            hits += want != NULL;
            refusals += allow != 0;
        }
        fixture_free(&f);
    }
    assert_in_range(hits, 20000, 79000);
    assert_in_range(refusals, 1000, 79000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_most_specific_wins_in_any_order),
        cmocka_unit_test(test_backtracks_over_dead_ends),
        cmocka_unit_test(test_params_and_rest),
        cmocka_unit_test(test_allow_is_the_union),
        cmocka_unit_test(test_asterisk_matches_nothing),
        cmocka_unit_test(test_misses_end),
        cmocka_unit_test(test_empty_router),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_method_tiers),
        cmocka_unit_test(test_refused_routes),
        cmocka_unit_test(test_no_methods_are_refused),
        cmocka_unit_test(test_odd_patterns_where_they_pass),
        cmocka_unit_test(test_steps_do_not_grow_with_routes),
        cmocka_unit_test(test_hostile_paths_are_bounded),
        cmocka_unit_test(test_agrees_with_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
