/* Header fields: names, values, lists, hop-by-hop fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "http/field.h"

static sg_arena_t *arena;

static int setup(void **state)
{
    (void)state;
    arena = sg_arena_new(4096);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sg_arena_free(arena);
    return 0;
}

/* "A: 1|B: 2" to fields. */
static sg_fields_t fields_of(const char *text)
{
    sg_fields_t fs = {0};
    sg_str_t rest = sg_str(text), line, name;
    while (rest.n && sg_str_next(&rest, '|', &line)) {
        assert_true(sg_str_next(&line, ':', &name));
        sg_fields_add(&fs, arena, name, sg_str_trim(line));
    }
    return fs;
}

static const char *text_of(const sg_fields_t *fs)
{
    static char text[1024];
    size_t n = 0;
    text[0] = '\0';
    SG_FIELDS_EACH(f, fs)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s: %.*s", n ? "|" : "", SG_STR_ARG(f->name),
        SG_STR_ARG(f->value));
    return text;
}

static void keeps_order_and_duplicates(void **state)
{
    (void)state;
    sg_fields_t fs = {0};
    assert_null(sg_fields_get(&fs, SG_STR("a")));
    sg_fields_remove(&fs, SG_STR("a"));
    for (int i = 0; i < 100; i++)
        sg_fields_add(&fs, arena, i % 3 ? SG_STR("X-D") : SG_STR("x-e"), sg_arena_printf(arena, "%d", i));
    assert_int_equal(fs.count, 100);
    for (size_t i = 0; i < fs.count; i++)
        assert_true(sg_str_eq(fs.at[i].value, sg_arena_printf(arena, "%zu", i)));
    assert_int_equal(sg_fields_count(&fs, SG_STR("X-d")), 66);
    assert_true(sg_str_eq(sg_fields_get(&fs, SG_STR("x-D"))->value, SG_STR("1")));
    sg_fields_remove(&fs, SG_STR("X-E"));
    assert_int_equal(fs.count, 66);
    assert_true(sg_str_eq(fs.at[1].value, SG_STR("2")));
    assert_true(sg_str_eq(fs.at[65].value, SG_STR("98")));
    assert_null(sg_fields_get(&fs, SG_STR("X-E")));
}

static void knows_tokens_and_values(void **state)
{
    static const char token_marks[] = "!#$%&'*+-.^_`|~";
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool token = alnum || (c && strchr(token_marks, (int)c));
        bool value = c == '\t' || (c >= 0x20 && c != 0x7f);
        char text[3] = {'a', (char)c, 'b'};
        assert_int_equal(sg_is_token_char((char)c), token);
        assert_int_equal(sg_is_token(sg_str_n(text, 3)), token);
        assert_int_equal(sg_is_field_value(sg_str_n(text, 3)), value);
    }
    assert_false(sg_is_token(SG_STR("")));
    assert_false(sg_is_token((sg_str_t){0}));
    assert_true(sg_is_field_value(SG_STR("")));
    assert_false(sg_is_token(SG_STR("Transfer-Encoding ")));
}

static void walks_lists(void **state)
{
    static const struct {
        const char *value, *members;
    } cases[] = {
        {"", ""}, {",", ""}, {" , ,\t,", ""}, {"a", "a"}, {"a,b", "a|b"}, {" a ,\tb\t", "a|b"},
        {",a,,b,", "a|b"},
        {"foo , ,bar,charlie", "foo|bar|charlie"},      /* RFC 9110 section 5.6.1.2 */
        {"\"a,b\", c", "\"a,b\"|c"}, {"x=\"a\\\",b\",c", "x=\"a\\\",b\"|c"}, {"\"a,b", "\"a,b"},
        {"a\\,b", "a\\|b"},
        {"\"a\\", "\"a\\"}, {"\"\",a", "\"\"|a"}, {"a b, c", "a b|c"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64] = "";
        size_t n = 0;
        sg_str_t rest = sg_str(cases[i].value), member;
        while (sg_list_next(&rest, &member))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", n ? "|" : "", SG_STR_ARG(member));
        assert_string_equal(text, cases[i].members);
        assert_false(sg_list_next(&rest, &member));
    }
}

static void finds_tokens_in_lists(void **state)
{
    (void)state;
    sg_fields_t fs = fields_of("Connection: keep-alive, X|A: close|connection: , Upgrade ,,");
    const sg_str_t name = SG_STR("Connection");
    assert_true(sg_fields_has_token(&fs, name, SG_STR("Keep-Alive")));
    assert_true(sg_fields_has_token(&fs, name, SG_STR("upgrade")));
    assert_false(sg_fields_has_token(&fs, name, SG_STR("close")));
    assert_false(sg_fields_has_token(&fs, name, SG_STR("keep")));
    assert_false(sg_fields_has_token(&fs, SG_STR("B"), SG_STR("close")));
}

static void knows_hop_by_hop(void **state)
{
    static const char *const hops[] = {
        "Connection", "keep-alive", "PROXY-CONNECTION", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
        "HTTP2-Settings", "Proxy-Authenticate", "Proxy-Authorization",
    };
    static const char *const others[] = {
        "Host", "Content-Length", "Trailers", "T", "", "Via", "Authorization", "Connection2",
    };
    (void)state;
    for (size_t i = 0; i < sizeof hops / sizeof hops[0]; i++)
        assert_true(sg_field_is_hop_by_hop(sg_str(hops[i])));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(sg_field_is_hop_by_hop(sg_str(others[i])));
}

static void strips_hops(void **state)
{
    static const char *const keep[] = {"X-Request-Id", "Upgrade", NULL};
    static const struct {
        const char *in, *out;
        bool kept;
    } cases[] = {
        {"", "", false},
        {"A: 1|B: 2|A: 3", "A: 1|B: 2|A: 3", false},
        {"A: 1|Connection: close|TE: trailers|B: 2|Keep-Alive: x", "A: 1|B: 2", false},
        {"X-Hop: 1|Connection: X-Hop, x-other|X-Other: 2|x-HOP: 3|Keep: 4", "Keep: 4", false},
        {"Connection: |Connection: , X-Hop ,,|A: 1|X-Hop: 1|Connection: b|B: 1", "A: 1", false},
        {"X-A: 1|X-B: 1|X-C: 1|Connection: X-A|Connection: X-B|Connection: X-C|Z: 1", "Z: 1", false},
        {"Connection: Connection, close|Connection: X-A|X-A: 1|B: 2", "B: 2", false},
        {"Connection: Host, Content-Length, A|HOST: h|content-length: 3|A: 1",
         "HOST: h|content-length: 3", false},
        {"Connection: Transfer-Encoding|Transfer-Encoding: chunked", "", false},
        {"Connection: x-request-id, A, upgrade|X-Request-Id: 7|A: 1|Upgrade: ws|TE: x",
         "X-Request-Id: 7|Upgrade: ws", true},
        {"Connection: x-request-id|X-Request-Id: 7|Upgrade: ws", "", false},
        {"Connection: A, A, a, A|A: 1|B: 2|A: 3", "B: 2", false},
        {"Connection: \"A\", B C|A: 1|B C: 2", "A: 1", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_fields_t fs = fields_of(cases[i].in);
        sg_fields_strip_hops(&fs, cases[i].kept ? keep : NULL);
        assert_string_equal(text_of(&fs), cases[i].out);
    }
}

/* Many fields, all of them named: the set of names must not lose one. */
static void strips_many(void **state)
{
    (void)state;
    sg_fields_t fs = {0};
    char options[8192];
    size_t n = 0;
    for (int i = 0; i < 400; i++) {
        sg_fields_add(&fs, arena, sg_arena_printf(arena, "X-%d", i), SG_STR("v"));
        sg_fields_add(&fs, arena, sg_arena_printf(arena, "Y-%d", i), SG_STR("v"));
        n += (size_t)snprintf(options + n, sizeof options - n, "x-%d, z-%d,", i, i);
    }
    sg_fields_add(&fs, arena, SG_STR("Connection"), sg_str_n(options, n));
    sg_fields_strip_hops(&fs, NULL);
    assert_int_equal(fs.count, 400);
    for (size_t i = 0; i < fs.count; i++)
        assert_true(sg_str_eq(fs.at[i].name, sg_arena_printf(arena, "Y-%zu", i)));
}

/* Names that differ only behind the part that is hashed. */
static void strips_long_names(void **state)
{
    (void)state;
    char one[100], two[100];
    memset(one, 'a', sizeof one);
    memset(two, 'A', sizeof two);
    two[99] = 'b';
    sg_fields_t fs = {0};
    sg_fields_add(&fs, arena, sg_str_n(one, sizeof one), SG_STR("1"));
    sg_fields_add(&fs, arena, sg_str_n(two, sizeof two), SG_STR("2"));
    sg_fields_add(&fs, arena, SG_STR("Connection"), sg_str_n(two, sizeof two));
    sg_fields_strip_hops(&fs, NULL);
    assert_int_equal(fs.count, 1);
    assert_true(sg_str_eq(fs.at[0].value, SG_STR("1")));
}

static void sees_underscore_twins(void **state)
{
    static const struct {
        const char *name, *own;
        bool twin;
    } cases[] = {
        {"X_Tenant", "X-Tenant", true}, {"x_tenant", "X-Tenant", true}, {"X-Tenant", "X-Tenant", false},
        {"x-tenant", "X-Tenant", false}, {"X_Forwarded-For", "X-Forwarded-For", true},
        {"X_Forwarded_For", "x-forwarded-for", true},
        {"X_Tenan", "X-Tenant", false}, {"X_Tenanu", "X-Tenant", false}, {"Y_Tenant", "X-Tenant", false},
        {"X-Tenant", "X_Tenant", true},
        {"", "", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(sg_field_is_underscore_twin(sg_str(cases[i].name), sg_str(cases[i].own)),
                         cases[i].twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order_and_duplicates), cmocka_unit_test(knows_tokens_and_values),
        cmocka_unit_test(walks_lists),
        cmocka_unit_test(finds_tokens_in_lists), cmocka_unit_test(knows_hop_by_hop),
        cmocka_unit_test(strips_hops),
        cmocka_unit_test(strips_many), cmocka_unit_test(strips_long_names),
        cmocka_unit_test(sees_underscore_twins),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
