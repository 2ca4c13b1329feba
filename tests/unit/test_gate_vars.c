/* test_gate_vars.c - ${...} in field values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/route.h"

static const sg_vars_t vars = {
    .tenant = {"acme", 4},
    .key_id = {"prod", 4},
    .plan = {"gold", 4},
    .route = {"user-search", 11},
    .request_id = {"0123456789abcdef", 16},
    .client_ip = {"2001:db8::1", 11},
    .host = {"api.example.com", 15},
};

static void test_expand(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"${tenant}", "acme"},
        {"a${tenant}b", "aacmeb"},
        {"${tenant}${plan}", "acmegold"},
        {"${key_id} ${route} ${request_id} ${client_ip} ${host}",
         "prod user-search 0123456789abcdef 2001:db8::1 api.example.com"},
        {"$$", "$"},
        {"$", "$"},
        {"a$", "a$"},
        {"$5", "$5"},
        {"$$$$", "$$"},
        {"$$$", "$$"},
        {"$${tenant}", "${tenant}"},
        {"$$${tenant}", "$acme"},
        {"{tenant}", "{tenant}"},
        {"${tenant}}", "acme}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sg_arena_t *arena = sg_arena_new(256);
        sg_str_t got = sg_vars_expand(&vars, sg_str(rows[i].text), arena);
        if (!sg_str_eq(got, sg_str(rows[i].want)))
            fail_msg("%s: %.*s, expected %s", rows[i].text, SG_STR_ARG(got), rows[i].want);
        sg_arena_free(arena);
    }
}

static void test_expansions_are_clean(void **state)
{
    (void)state;
    sg_arena_t *arena = sg_arena_new(256);
    const sg_vars_t hostile = {.host = SG_STR("h\r\nX: 1\0y\x7f\t\x80")};
    sg_str_t got = sg_vars_expand(&hostile, SG_STR("<${host}>"), arena);
    assert_true(sg_str_eq(got, SG_STR("<h??X: 1?y?\t\x80>")));
    got = sg_vars_expand(&hostile, SG_STR("[${tenant}${plan}]"), arena);
    assert_true(sg_str_eq(got, SG_STR("[]")));
    /* Values are not read again: a dollar in one is a dollar. */
    const sg_vars_t nested = {.tenant = SG_STR("${host}$$"), .host = SG_STR("no")};
    got = sg_vars_expand(&nested, SG_STR("${tenant}"), arena);
    assert_true(sg_str_eq(got, SG_STR("${host}$$")));
    sg_arena_free(arena);
}

static void test_text_without_dollar_is_not_copied(void **state)
{
    (void)state;
    sg_arena_t *arena = sg_arena_new(256);
    const char *text = "max-age=31536000";
    assert_ptr_equal(sg_vars_expand(&vars, sg_str(text), arena).p, text);
    sg_arena_free(arena);
}

static void test_check(void **state)
{
    (void)state;
    static const struct {
        const char *text, *bad;     /* bad: NULL = well */
    } rows[] = {
        {"", NULL},
        {"plain $ $$ $x", NULL},
        {"${tenant}${key_id}${plan}${route}${request_id}${client_ip}${host}", NULL},
        {"$${nothing}", NULL},
        {"${nothing}", "nothing"},
        {"${tenant}${TENANT}", "TENANT"},
        {"${}", ""},
        {"${ tenant}", " tenant"},
        {"x${tenant", "tenant"},
        {"x${", ""},
        {"$$${x}", "x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sg_str_t bad = SG_STR("untouched");
        sg_err_t err = sg_vars_check(sg_str(rows[i].text), &bad);
        assert_int_equal(err, rows[i].bad ? SG_ERR_SYNTAX : SG_OK);
        assert_true(sg_str_eq(bad, rows[i].bad ? sg_str(rows[i].bad) : SG_STR("untouched")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expand),
        cmocka_unit_test(test_expansions_are_clean),
        cmocka_unit_test(test_text_without_dollar_is_not_copied),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
