/* Numbers with units, rates, times, environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/names.h"
#include "config/values.h"

typedef struct {
    const char *text;
    sg_err_t err;
    int64_t value, other;
} value_case_t;

#define MAX INT64_C(9223372036854775807)

static void test_int(void **state)
{
    static const value_case_t cases[] = {
        {"0", SG_OK, 0, 0},
        {"5", SG_OK, 5, 0},
        {"9007199254740991", SG_OK, INT64_C(9007199254740991), 0},
        {"9223372036854775807", SG_OK, MAX, 0},
        {"9223372036854775808", SG_ERR_RANGE, 0, 0},
        {"99999999999999999999999", SG_ERR_RANGE, 0, 0},
        {"", SG_ERR_SYNTAX, 0, 0},
        {"5 ", SG_ERR_SYNTAX, 0, 0},
        {" 5", SG_ERR_SYNTAX, 0, 0},
        {"1e3", SG_ERR_SYNTAX, 0, 0},
        {"-1", SG_ERR_SYNTAX, 0, 0},
        {"+1", SG_ERR_SYNTAX, 0, 0},
        {"010", SG_ERR_SYNTAX, 0, 0},
        {"0x10", SG_ERR_SYNTAX, 0, 0},
        {"1_000", SG_ERR_SYNTAX, 0, 0},
        {"1.0", SG_ERR_SYNTAX, 0, 0},
        {"yes", SG_ERR_SYNTAX, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t v = -7;
        assert_int_equal(sg_value_int(sg_str(cases[i].text), &v), cases[i].err);
        assert_int_equal(v, cases[i].err ? -7 : cases[i].value);
    }
}

static void test_duration(void **state)
{
    static const value_case_t cases[] = {
        {"250ms", SG_OK, 250000, 0},         {"10s", SG_OK, 10 * SG_SECOND_US, 0},
        {"1m", SG_OK, SG_MINUTE_US, 0},      {"24h", SG_OK, SG_DAY_US, 0},
        {"1d", SG_OK, SG_DAY_US, 0},         {"0s", SG_OK, 0, 0},
        {"10", SG_ERR_SYNTAX, 0, 0},         {"10 s", SG_ERR_SYNTAX, 0, 0},
        {"s", SG_ERR_SYNTAX, 0, 0},          {"1.5s", SG_ERR_SYNTAX, 0, 0},
        {"1h30m", SG_ERR_SYNTAX, 0, 0},      {"1w", SG_ERR_SYNTAX, 0, 0},
        {"1fortnight", SG_ERR_SYNTAX, 0, 0}, {"10S", SG_ERR_SYNTAX, 0, 0},
        {"-1s", SG_ERR_SYNTAX, 0, 0},        {"200000000d", SG_ERR_RANGE, 0, 0},
    };
    char text[SG_VALUE_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t v = -7, again;
        assert_int_equal(sg_value_duration(sg_str(cases[i].text), &v), cases[i].err);
        assert_int_equal(v, cases[i].err ? -7 : cases[i].value);
        if (cases[i].err)
            continue;
        sg_value_duration_text(v, text);
        assert_int_equal(sg_value_duration(sg_str(text), &again), SG_OK);
        assert_int_equal(again, v);
    }
}

static void test_size(void **state)
{
    static const value_case_t cases[] = {
        {"64KiB", SG_OK, 65536, 0},     {"10MiB", SG_OK, 10485760, 0},         {"1GiB", SG_OK, 1073741824, 0},
        {"512B", SG_OK, 512, 0},        {"10MB", SG_ERR_SYNTAX, 0, 0},         {"10", SG_OK, 10, 0},
        {"10kib", SG_ERR_SYNTAX, 0, 0}, {"1.5MiB", SG_ERR_SYNTAX, 0, 0},       {"KiB", SG_ERR_SYNTAX, 0, 0},
        {"", SG_ERR_SYNTAX, 0, 0},      {"9000000000GiB", SG_ERR_RANGE, 0, 0},
    };
    char text[SG_VALUE_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t v = -7, again;
        assert_int_equal(sg_value_size(sg_str(cases[i].text), &v), cases[i].err);
        assert_int_equal(v, cases[i].err ? -7 : cases[i].value);
        if (cases[i].err)
            continue;
        sg_value_size_text(v, text);
        assert_int_equal(sg_value_size(sg_str(text), &again), SG_OK);
        assert_int_equal(again, v);
    }
}

/* Exact fractions, in lowest terms; the text of each reads back as the same fraction. */
static void test_rate(void **state)
{
    static const value_case_t cases[] = {
        {"100/s", SG_OK, 1, 10000},
        {"600/m", SG_OK, 1, 100000},
        {"10000/h", SG_OK, 1, 360000},
        {"5/d", SG_OK, 1, 17280000000},
        {"0.5/s", SG_OK, 1, 2000000},
        {"1/10m", SG_OK, 1, 600000000},
        {"5/3s", SG_OK, 1, 600000},
        {"7/3s", SG_OK, 7, 3000000},
        {"0.000001/d", SG_OK, 1, 86400000000000000},
        {"3/ms", SG_OK, 3, 1000},
        {"0.3/s", SG_OK, 3, 10000000},
        {"0/s", SG_OK, 0, 1000000},
        {"9007199254740991/s", SG_OK, 9007199254740991, 1000000},
        {"10", SG_ERR_SYNTAX, 0, 0},
        {"10/", SG_ERR_SYNTAX, 0, 0},
        {"/s", SG_ERR_SYNTAX, 0, 0},
        {"10/x", SG_ERR_SYNTAX, 0, 0},
        {"10/0s", SG_ERR_SYNTAX, 0, 0},
        {"10/s/s", SG_ERR_SYNTAX, 0, 0},
        {"1e3/s", SG_ERR_SYNTAX, 0, 0},
        {".5/s", SG_ERR_SYNTAX, 0, 0},
        {"5./s", SG_ERR_SYNTAX, 0, 0},
        {"0.0000001/s", SG_ERR_SYNTAX, 0, 0},
        {"-1/s", SG_ERR_SYNTAX, 0, 0},
        {"0.000001/366000d", SG_ERR_RANGE, 0, 0},
    };
    char text[SG_VALUE_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t n = -7, us = -7, n2, us2;
        assert_int_equal(sg_value_rate(sg_str(cases[i].text), &n, &us), cases[i].err);
        assert_int_equal(n, cases[i].err ? -7 : cases[i].value);
        assert_int_equal(us, cases[i].err ? -7 : cases[i].other);
        if (cases[i].err)
            continue;
        sg_value_rate_text(n, us, text);
        assert_int_equal(sg_value_rate(sg_str(text), &n2, &us2), SG_OK);
        assert_int_equal(n2, n);
        assert_int_equal(us2, us);
    }
    sg_value_rate_text(1, 100000, text);
    assert_string_equal(text, "10/s");
}

static void test_share_and_bool(void **state)
{
    char text[SG_VALUE_TEXT];
    int64_t v = 0;
    bool b = false;
    (void)state;
    assert_int_equal(sg_value_share(SG_STR("1.0"), &v), SG_OK);
    assert_int_equal(v, 1000000);
    assert_int_equal(sg_value_share(SG_STR("0.25"), &v), SG_OK);
    assert_int_equal(v, 250000);
    sg_value_share_text(v, text);
    assert_string_equal(text, "0.25");
    assert_int_equal(sg_value_share(SG_STR("1.000001"), &v), SG_ERR_RANGE);
    assert_int_equal(sg_value_share(SG_STR("half"), &v), SG_ERR_SYNTAX);
    assert_int_equal(sg_value_bool(SG_STR("true"), &b), SG_OK);
    assert_true(b);
    assert_int_equal(sg_value_bool(SG_STR("false"), &b), SG_OK);
    assert_false(b);
    assert_int_equal(sg_value_bool(SG_STR("yes"), &b), SG_ERR_SYNTAX);
    assert_int_equal(sg_value_bool(SG_STR("True"), &b), SG_ERR_SYNTAX);
}

static void test_time(void **state)
{
    static const value_case_t cases[] = {
        {"1970-01-01T00:00:00Z", SG_OK, 0, 0},
        {"2027-01-01T00:00:00Z", SG_OK, 1798761600000000, 0},
        {"2024-02-29T12:00:00.25Z", SG_OK, 1709208000250000, 0},
        {"2027-01-01T02:00:00+02:00", SG_OK, 1798761600000000, 0},
        {"2026-12-31T19:30:00-04:30", SG_OK, 1798761600000000, 0},
        {"2000-03-01T00:00:00Z", SG_OK, 951868800000000, 0},
        {"2027-02-29T00:00:00Z", SG_ERR_RANGE, 0, 0},
        {"2027-13-01T00:00:00Z", SG_ERR_RANGE, 0, 0},
        {"2027-01-01T24:00:00Z", SG_ERR_RANGE, 0, 0},
        {"1969-12-31T23:59:59Z", SG_ERR_RANGE, 0, 0},
        {"2027-01-01", SG_ERR_SYNTAX, 0, 0},
        {"2027-01-01T00:00:00", SG_ERR_SYNTAX, 0, 0},
        {"2027-01-01 00:00:00Z", SG_ERR_SYNTAX, 0, 0},
        {"2027-01-01T00:00:00.Z", SG_ERR_SYNTAX, 0, 0},
        {"2027-01-01T00:00:00+0200", SG_ERR_SYNTAX, 0, 0},
        {"tomorrow", SG_ERR_SYNTAX, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t v = -7;
        assert_int_equal(sg_value_time(sg_str(cases[i].text), &v), cases[i].err);
        assert_int_equal(v, cases[i].err ? -7 : cases[i].value);
    }
}

typedef struct {
    const char *text;
    sg_expand_t how;
    const char *out; /* NULL: an error whose sentence has `part` */
    const char *part;
} expand_case_t;

static void test_expand(void **state)
{
    static const expand_case_t cases[] = {
        {"plain", SG_EXPAND_ALL, "plain", NULL},
        {"a${SG_TEST_ONE}b", SG_EXPAND_ALL, "a1b", NULL},
        {"${SG_TEST_ONE}${SG_TEST_ONE}", SG_EXPAND_ALL, "11", NULL},
        {"$$5", SG_EXPAND_ALL, "$5", NULL},
        {"$${SG_TEST_ONE}", SG_EXPAND_ALL, "${SG_TEST_ONE}", NULL},
        {"${SG_TEST_DOLLAR}", SG_EXPAND_ALL, "${tenant}", NULL},
        {"${SG_TEST_DOLLAR}", SG_EXPAND_KEEP_VARS, "$${tenant}", NULL},
        {"${tenant}-${SG_TEST_ONE}-$$", SG_EXPAND_KEEP_VARS, "${tenant}-1-$$", NULL},
        {"${tenant}", SG_EXPAND_ALL, NULL, "request variable"},
        {"${SG_TEST_UNSET}", SG_EXPAND_ALL, NULL, "SG_TEST_UNSET is not set"},
        {"$HOME", SG_EXPAND_ALL, NULL, "lone $"},
        {"5$", SG_EXPAND_ALL, NULL, "lone $"},
        {"${SG_TEST_ONE", SG_EXPAND_ALL, NULL, "without }"},
        {"${}", SG_EXPAND_ALL, NULL, "bad name"},
        {"${Mixed}", SG_EXPAND_ALL, NULL, "bad name"},
    };
    sg_arena_t *arena = sg_arena_new(1024);
    (void)state;
    setenv("SG_TEST_ONE", "1", 1);
    setenv("SG_TEST_DOLLAR", "${tenant}", 1);
    unsetenv("SG_TEST_UNSET");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_str_t out = {0};
        sg_why_t why = {{0}};
        sg_err_t err = sg_value_expand(sg_str(cases[i].text), cases[i].how, arena, &out, &why);
        assert_int_equal(err != SG_OK, cases[i].out == NULL);
        if (cases[i].out)
            assert_true(sg_str_eq(out, sg_str(cases[i].out)));
        else
            assert_non_null(strstr(why.text, cases[i].part));
    }
    sg_arena_free(arena);
}

static void test_near_names(void **state)
{
    unsigned d;
    (void)state;
    assert_int_equal(sg_edit_distance(SG_STR("limt"), SG_STR("limit"), 3), 1);
    assert_int_equal(sg_edit_distance(SG_STR("lmiit"), SG_STR("limit"), 3), 1);
    assert_int_equal(sg_edit_distance(SG_STR("kitten"), SG_STR("sitting"), 5), 3);
    assert_int_equal(sg_edit_distance(SG_STR("a"), SG_STR("abcdef"), 3), 4);
    assert_true(sg_is_near(SG_STR("ratelimit"), SG_STR("rate_limit"), &d));
    assert_false(sg_is_near(SG_STR("colour"), SG_STR("limit"), &d));
}

/* Past the size where the list becomes a table, all are still found and none is added twice. */
static void test_name_sets(void **state)
{
    sg_arena_t *arena = sg_arena_new(1024);
    sg_place_t at = {"f", 1, 1};
    sg_nameset_t s = {0};
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        assert_null(sg_nameset_add(&s, arena, sg_arena_printf(arena, "name%u", i), i, &at));
    for (unsigned i = 0; i < 100; i++) {
        sg_str_t name = sg_arena_printf(arena, "name%u", i);
        assert_int_equal(sg_nameset_find(&s, name)->index, i);
        assert_non_null(sg_nameset_add(&s, arena, name, 1000, &at));
    }
    assert_null(sg_nameset_find(&s, SG_STR("name100")));
    assert_int_equal(s.count, 100);
    sg_nameset_deinit(&s);
    sg_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_duration),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_share_and_bool),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_expand),
        cmocka_unit_test(test_near_names),
        cmocka_unit_test(test_name_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
