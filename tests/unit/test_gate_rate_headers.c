/* RateLimit fields in every dialect, and Retry-After. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "gate/rate_headers.h"

#define SECOND INT64_C(1000000)
#define MOST SG_LIMIT_NUMBER_MAX

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

static const sg_limit_t burst = {
    .name = "search.burst", .algo = SG_ALGO_TOKEN_BUCKET, .limit = 20, .window_us = 2 * SECOND,
};
static const sg_limit_t daily = {
    .name = "all.daily", .algo = SG_ALGO_FIXED_WINDOW, .limit = 1000, .window_us = 86400 * SECOND,
};
static const sg_limit_t slots = {
    .name = "exports.slots", .algo = SG_ALGO_CONCURRENCY, .limit = 2, .lease_us = 300 * SECOND,
    .window_us = 9 * SECOND,
};

/* All fields in one line: "Name: value|Name: value". */
static const char *written(sg_dialect_t dialect, const sg_limit_t *const *limits, const sg_verdict_t *v)
{
    static char text[8192];
    size_t n = 0;
    sg_fields_t fs = {0};
    sg_rate_headers(dialect, limits, v, arena, &fs);
    text[0] = '\0';
    SG_FIELDS_EACH(f, &fs) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s: %.*s", n ? "|" : "", SG_STR_ARG(f->name),
                              SG_STR_ARG(f->value));
        assert_true(sg_is_rate_header(f->name));
    }
    return text;
}

static void writes_each_dialect(void **state)
{
    (void)state;
    const sg_limit_t *limits[] = {&burst, &daily};
    sg_verdict_t v = {.allowed = true, .count = 2, .at = {
        {.allowed = true, .remaining = 5, .reset_us = 1500000, .more_us = 2500001},
        {.allowed = true, .remaining = 999, .reset_us = 3600 * SECOND, .more_us = 3600 * SECOND},
    }};
    assert_string_equal(written(SG_DIALECT_DRAFT, limits, &v),
                        "RateLimit-Policy: \"search.burst\";q=20;w=2, \"all.daily\";q=1000;w=86400|"
                        "RateLimit: \"search.burst\";r=5;t=3, \"all.daily\";r=999;t=3600");
    assert_string_equal(written(SG_DIALECT_LEGACY, limits, &v),
                        "X-RateLimit-Limit: 20|X-RateLimit-Remaining: 5|X-RateLimit-Reset: 2");
    assert_string_equal(written(SG_DIALECT_BOTH, limits, &v),
                        "RateLimit-Policy: \"search.burst\";q=20;w=2, \"all.daily\";q=1000;w=86400|"
                        "RateLimit: \"search.burst\";r=5;t=3, \"all.daily\";r=999;t=3600|"
                        "X-RateLimit-Limit: 20|X-RateLimit-Remaining: 5|X-RateLimit-Reset: 2");
    assert_string_equal(written(SG_DIALECT_NONE, limits, &v), "");
}

/* One limit with this window and this result, in the draft's words. */
static const char *draft_of(const sg_limit_t *l, sg_limit_result_t r)
{
    sg_verdict_t v = {.count = 1, .at = {r}};
    return written(SG_DIALECT_DRAFT, &l, &v);
}

static void shows_only_what_is_known(void **state)
{
    (void)state;
    sg_limit_t l = burst;
    l.window_us = 999999;
    assert_string_equal(draft_of(&l, (sg_limit_result_t){.remaining = 20}),
                        "RateLimit-Policy: \"search.burst\";q=20|RateLimit: \"search.burst\";r=20");
    l.window_us = 1000001;
    assert_string_equal(draft_of(&l, (sg_limit_result_t){.remaining = 1, .more_us = 1}),
                        "RateLimit-Policy: \"search.burst\";q=20;w=2|RateLimit: \"search.burst\";r=1;t=1");
    l.window_us = 0;
    l.limit = 0;
    assert_string_equal(draft_of(&l, (sg_limit_result_t){.never = true}),
                        "RateLimit-Policy: \"search.burst\";q=0|RateLimit: \"search.burst\";r=0");
    assert_string_equal(draft_of(&slots, (sg_limit_result_t){.remaining = 1, .more_us = 10 * SECOND}),
                        "RateLimit-Policy: \"exports.slots\";q=2|RateLimit: \"exports.slots\";r=1;t=10");
    assert_string_equal(draft_of(&daily, (sg_limit_result_t){.remaining = -3, .more_us = -1}),
                        "RateLimit-Policy: \"all.daily\";q=1000;w=86400|RateLimit: \"all.daily\";r=0");
}

static void caps_numbers(void **state)
{
    (void)state;
    sg_limit_t l = daily;
    l.name = "a\"b\\";
    l.limit = SG_LIMIT_NUMBER_MAX;
    const sg_limit_t *limits[] = {&l};
    sg_verdict_t v = {.count = 1, .at = {
        {.remaining = SG_LIMIT_NUMBER_MAX, .reset_us = INT64_MAX, .more_us = INT64_MAX},
    }};
    assert_string_equal(written(SG_DIALECT_BOTH, limits, &v),
                        "RateLimit-Policy: \"a\\\"b\\\\\";q=999999999999999;w=86400|"
                        "RateLimit: \"a\\\"b\\\\\";r=999999999999999;t=9223372036855|"
                        "X-RateLimit-Limit: 999999999999999|X-RateLimit-Remaining: 999999999999999|"
                        "X-RateLimit-Reset: 9223372036855");
}

static void leaves_out_what_is_not_enforced(void **state)
{
    (void)state;
    sg_limit_t dry = burst, off = burst;
    dry.dry_run = true;
    off.unlimited = true;
    const sg_limit_t *limits[] = {&dry, &daily, &off};
    sg_verdict_t v = {.count = 3, .at = {{.remaining = 0}, {.remaining = 7, .reset_us = SECOND},
    {.remaining = 0}}};
    assert_string_equal(written(SG_DIALECT_BOTH, limits, &v),
                        "RateLimit-Policy: \"all.daily\";q=1000;w=86400|RateLimit: \"all.daily\";r=7|"
                        "X-RateLimit-Limit: 1000|X-RateLimit-Remaining: 7|X-RateLimit-Reset: 1");
    limits[1] = &dry;
    assert_string_equal(written(SG_DIALECT_BOTH, limits, &v), "");
    v.count = 0;
    assert_string_equal(written(SG_DIALECT_BOTH, limits, &v), "");
}

static int64_t capped(int64_t v)
{
    return v > INT64_C(999999999999999) ? INT64_C(999999999999999) : v;
}

static int64_t shown(const sg_fields_t *fs, const char *name)
{
    uint64_t v = 0;
    const sg_field_t *f = sg_fields_get(fs, sg_str(name));
    assert_non_null(f);
    assert_int_equal(sg_str_u64(f->value, INT64_MAX, &v), SG_OK);
    return (int64_t)v;
}

/* The tightest limit is the one with the smallest part remaining, exactly; of equals the one that resets
 * last. */
static void picks_the_tightest(void **state)
{
    static const struct {
        int64_t remaining[2], limit[2], reset[2];
        int tightest;
    } cases[] = {
        {{5, 999}, {20, 1000}, {1, 2}, 0}, {{19, 1}, {20, 1000}, {1, 2}, 1}, {{0, 0}, {20, 1000}, {1, 2}, 1},
        {{0, 0}, {20, 1000}, {2, 1}, 0}, {{10, 500}, {20, 1000}, {1, 2}, 1}, {{10, 500}, {20, 1000},
        {2, 2}, 0},
        {{0, 1}, {0, 1000}, {1, 2}, 0}, {{1, 0}, {1000, 0}, {1, 2}, 1}, {{3, 2}, {7, 5}, {1, 1}, 1},
        {{2, 3}, {5, 7}, {1, 1}, 0}, {{7, 7}, {7, 9}, {1, 1}, 1}, {{9, 8}, {7, 7}, {1, 1}, 1},
        {{MOST - 1, MOST - 2}, {MOST, MOST - 1}, {1, 1}, 1},
        {{MOST - 2, MOST - 1}, {MOST - 1, MOST}, {1, 1}, 0},
        {{1, 1}, {MOST, MOST - 1}, {1, 1}, 0}, {{50, MOST - 1}, {100, MOST}, {1, 3}, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_limit_t a = burst, b = daily;
        a.limit = cases[i].limit[0];
        b.limit = cases[i].limit[1];
        const sg_limit_t *limits[] = {&a, &b};
        sg_verdict_t v = {.count = 2};
        for (int k = 0; k < 2; k++) {
            v.at[k].remaining = cases[i].remaining[k];
            v.at[k].reset_us = cases[i].reset[k] * SECOND;
        }
        sg_fields_t fs = {0};
        sg_rate_headers(SG_DIALECT_LEGACY, limits, &v, arena, &fs);
        int which = cases[i].tightest;
        if (shown(&fs, "X-RateLimit-Limit") != capped(cases[i].limit[which]) ||
            shown(&fs, "X-RateLimit-Remaining") != capped(cases[i].remaining[which]))
            fail_msg("case %zu: the wrong one", i);
        assert_int_equal(shown(&fs, "X-RateLimit-Reset"), cases[i].reset[which]);
    }
}

static void tells_when_to_retry(void **state)
{
    (void)state;
    sg_limit_t dry = burst;
    dry.dry_run = true;
    const sg_limit_t *limits[] = {&burst, &daily, &dry, &slots};
    sg_verdict_t v = {.count = 4};
    for (size_t i = 0; i < v.count; i++)
        v.at[i].allowed = true;
    assert_int_equal(sg_retry_after_s(limits, &v), 0);
    v.at[0].allowed = false;
    assert_int_equal(sg_retry_after_s(limits, &v), 1);
    v.at[0].retry_us = 2 * SECOND;
    assert_int_equal(sg_retry_after_s(limits, &v), 2);
    v.at[0].retry_us = 2 * SECOND + 1;
    v.at[1].retry_us = 3600 * SECOND;   /* allowed: does not count */
    assert_int_equal(sg_retry_after_s(limits, &v), 3);
    v.at[1].allowed = false;
    assert_int_equal(sg_retry_after_s(limits, &v), 3600);
    v.at[2] = (sg_limit_result_t){.retry_us = 9000 * SECOND};
    assert_int_equal(sg_retry_after_s(limits, &v), 3600);
    v.at[2].never = true;
    assert_int_equal(sg_retry_after_s(limits, &v), 3600);
    v.at[3] = (sg_limit_result_t){.never = true};
    assert_int_equal(sg_retry_after_s(limits, &v), 0);
    v.at[3] = (sg_limit_result_t){.retry_us = INT64_MAX};
    assert_int_equal(sg_retry_after_s(limits, &v), 9223372036855);
}

static void knows_its_fields(void **state)
{
    static const char *const own[] = {
        "RateLimit", "ratelimit-policy", "X-RATELIMIT-LIMIT", "X-RateLimit-Remaining", "x-ratelimit-reset",
    };
    static const char *const others[] = {"", "RateLimit-Limit", "X-RateLimit", "Retry-After",
                                         "RateLimit-Policy2"};
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        assert_true(sg_is_rate_header(sg_str(own[i])));
        assert_false(sg_is_rate_header(sg_str(others[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_each_dialect), cmocka_unit_test(shows_only_what_is_known),
        cmocka_unit_test(caps_numbers),
        cmocka_unit_test(leaves_out_what_is_not_enforced), cmocka_unit_test(picks_the_tightest),
        cmocka_unit_test(tells_when_to_retry), cmocka_unit_test(knows_its_fields),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
