/* test_gate_route.c - methods, Allow, and the path that goes upstream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/route.h"

static void test_methods(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sg_method_t method;
        bool idempotent;
    } rows[] = {
        {"GET", SG_METHOD_GET, true},         {"HEAD", SG_METHOD_HEAD, true},
        {"POST", SG_METHOD_POST, false},      {"PUT", SG_METHOD_PUT, true},
        {"DELETE", SG_METHOD_DELETE, true},   {"PATCH", SG_METHOD_PATCH, false},
        {"OPTIONS", SG_METHOD_OPTIONS, true}, {"TRACE", SG_METHOD_TRACE, true},
        {"CONNECT", SG_METHOD_CONNECT, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(sg_method_parse(sg_str(rows[i].text)), rows[i].method);
        assert_string_equal(sg_method_name(rows[i].method), rows[i].text);
        assert_int_equal(sg_method_is_idempotent(rows[i].method), rows[i].idempotent);
    }
    static const char *const others[] = {"", "get", "Get", "GE", "GETS", "PROPFIND", "_OTHER", "POST "};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(sg_method_parse(sg_str(others[i])), SG_METHOD_OTHER);
    assert_string_equal(sg_method_name(SG_METHOD_OTHER), "_OTHER");
    assert_false(sg_method_is_idempotent(SG_METHOD_OTHER));
}

static void check_allow(unsigned methods, const char *want)
{
    sg_buf_t out;
    sg_buf_init(&out, 256);
    sg_allow_text(methods, &out);
    assert_true(sg_str_eq(sg_buf_str(&out), sg_str(want)));
    sg_buf_deinit(&out);
}

static void test_allow_text(void **state)
{
    (void)state;
    check_allow(0, "");
    check_allow(1u << SG_METHOD_GET, "GET, HEAD");
    check_allow(1u << SG_METHOD_HEAD, "HEAD");
    check_allow(1u << SG_METHOD_POST | 1u << SG_METHOD_GET, "GET, HEAD, POST");
    check_allow(1u << SG_METHOD_OTHER | 1u << SG_METHOD_PATCH, "PATCH");
    check_allow(SG_METHODS_ALL, "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE, CONNECT");
}

/* --- path upstream ------------------------------------------------------------------------------- */

typedef struct {
    const char *pattern, *rewrite, *strip, *target, *path;
    bool odd;
} path_row_t;

static const path_row_t paths[] = {
    /* As it came, byte for byte. */
    {"/*", "", "", "/", "/", false},
    {"/*", "", "", "/a%2fb/%3Cx%3e?q=%26y+z", "/a%2fb/%3Cx%3e", false},
    {"/*", "", "", "/a//b;c/", "/a//b;c/", true},
    {"/*", "", "", "/%7Etom/", "/%7Etom/", false},
    {"/*", "", "", "http://h/a%62?x", "/a%62", false},
    {"/*", "", "", "http://h", "/", false},
    /* The prefix goes at a segment's end, whatever its spelling. */
    {"/v1/*", "", "/v1", "/v1", "/", false},
    {"/v1/*", "", "/v1", "/v1/", "/", false},
    {"/v1/*", "", "/v1", "/v1?a=b", "/", false},
    {"/v1/*", "", "/v1", "/v1/a%2Fb/", "/a%2Fb/", false},
    {"/v1/*", "", "/v1", "/%761/x", "/x", false},
    {"/v1/*", "", "/v1", "/v1//x", "//x", true},
    {"/v1/*", "", "/v1/", "/v1/x", "/x", false},
    {"/v1/*", "", "/", "/v1/x", "/v1/x", false},
    {"/v1/x/*", "", "/v1", "/v1/x/y", "/x/y", false},
    {"/v1/x/*", "", "/v1/x", "/v1/x/y", "/y", false},
    {"/v1/x", "", "/v1/x", "/v1/x/", "/", false},
    {"/:tenant/*", "", "/:tenant", "/ac%20me/y/z", "/y/z", false},
    {"/*", "", "/", "/", "/", false},
    /* Templates. */
    {"/v1/users/:id/search", "/users/:id/find", "", "/v1/users/a%2fb/search", "/users/a%2fb/find", false},
    {"/v1/users/:id/search", "/users/:id/find", "", "/v1/users/7/search/?q", "/users/7/find", false},
    {"/:a/:b", "/:b/:a/", "", "/1/2", "/2/1/", false},
    {"/:a/:b", "/x/:b/:b", "", "/1/2", "/x/2/2", false},
    {"/:a", "/", "", "/1", "/", false},
    {"/:id", "/fixed/%2F%3a", "", "/1", "/fixed/%2F%3a", false},
    {"/old/*", "/new/*", "", "/old", "/new", false},
    {"/old/*", "/new/*", "", "/old/", "/new/", false},
    {"/old/*", "/new/*", "", "/old/a/%62/", "/new/a/%62/", false},
    {"/old/*", "/*", "", "/old", "/", false},
    {"/old/*", "/*", "", "/old/", "/", false},
    {"/old/*", "/*", "", "/old/a", "/a", false},
    {"/old/*", "/new", "", "/old/a", "/new", false},
    {"/:t/old/*", "/new/:t/*", "", "/x/old/a//b", "/new/x/a//b", true},
    {"/*", "/in/*", "", "/", "/in/", false},
    {"/*", "/in/*", "", "/a", "/in/a", false},
    /* A parameter's name stands for the whole segment only. */
    {"/:a", "/x:a/:a", "", "/1", "/x:a/1", false},
};

static sg_str_t upstream_path(const path_row_t *row, sg_arena_t *arena)
{
    sg_router_t *router = sg_router_new();
    sg_route_t route = {.name = row->pattern, .methods = SG_METHODS_ALL, .pattern = row->pattern};
    const sg_route_t *other;
    sg_why_t why = {""};
    sg_target_t target;
    sg_match_t match;
    route.rewrite = sg_str(row->rewrite);
    route.strip_prefix = sg_str(row->strip);
    route.odd_paths_pass = row->odd;
    if (sg_router_add(router, &route, &other, &why) != SG_OK)
        fail_msg("%s: %s", row->pattern, why.text);
    assert_int_equal(sg_target_parse(arena, sg_str(row->target), &target), SG_TARGET_OK);
    sg_router_match(router, SG_STR("h"), SG_METHOD_GET, &target, &match);
    assert_ptr_equal(match.route, &route);
    sg_str_t path = sg_arena_str(arena, sg_route_path(&route, &match, &target, arena));
    sg_router_free(router);
    return path;
}

static void test_path_upstream(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        sg_arena_t *arena = sg_arena_new(1024);
        sg_str_t path = upstream_path(&paths[i], arena);
        if (!sg_str_eq(path, sg_str(paths[i].path)))
            fail_msg("%s rewrite \"%s\" strip \"%s\": %s -> %.*s, expected %s", paths[i].pattern,
                     paths[i].rewrite, paths[i].strip, paths[i].target, SG_STR_ARG(path), paths[i].path);
        sg_arena_free(arena);
    }
}

/* Without rewrite nothing is copied: what came is what goes. */
static void test_plain_path_is_the_targets(void **state)
{
    (void)state;
    sg_arena_t *arena = sg_arena_new(1024);
    sg_route_t route = {.pattern = "/*", .methods = SG_METHODS_ALL};
    sg_target_t target;
    sg_match_t match = {.route = &route};
    assert_int_equal(sg_target_parse(arena, SG_STR("/a/b?c"), &target), SG_TARGET_OK);
    assert_ptr_equal(sg_route_path(&route, &match, &target, arena).p, target.raw.p);
    sg_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_allow_text),
        cmocka_unit_test(test_path_upstream),
        cmocka_unit_test(test_plain_path_is_the_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
