/* The limit algorithms: the traces of tests/vectors, the promise of retry-after, bounds, key names and
 * expiry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../vectors/world.h"

#define NOW_US INT64_C(1800000000000000)
#define S_US   INT64_C(1000000)
#define DAY_US (86400 * S_US)

static world_t world;

/* --- traces
 * ---------------------------------------------------------------------------------------------------- */

static void expect_number(const char *trace, size_t step, const char *what, int64_t got, int64_t expected)
{
    if (got != expected)
        fail_msg("%s, step %zu: %s is %lld, expected %lld", trace, step, what, (long long)got,
                 (long long)expected);
}

static void expect_limit(const char *trace, size_t step, const sg_limit_result_t *r, const json_t *e)
{
    expect_number(trace, step, "allowed", r->never ? 2 : r->allowed, number_of(e, "allowed"));
    expect_number(trace, step, "remaining", r->remaining, number_of(e, "remaining"));
    expect_number(trace, step, "reset_us", r->reset_us, number_of(e, "reset_ms") * 1000);
    expect_number(trace, step, "retry_us", r->retry_us, number_of(e, "retry_ms") * 1000);
    expect_number(trace, step, "more_us", r->more_us, number_of(e, "more_ms") * 1000);
    expect_number(trace, step, "given", r->allowed ? r->given : 0, r->allowed ? number_of(e, "given") : 0);
}

#define STEPS_MAX 64
static decided_t decided[STEPS_MAX];

static void settle_step(const json_t *step)
{
    const decided_t *d = &decided[(size_t)number_of(step, "settle") % STEPS_MAX];
    const sg_limit_t *at[TRACE_LIMITS];
    sg_settlement_t what[TRACE_LIMITS];
    sg_check_t c = d->check;

    world_settle(&world, &c, at, &d->verdict, number_of(step, "cost"), number_of(step, "at_us"), what);
}

static void play(const char *trace, const json_t *root)
{
    sg_limit_t limits[TRACE_LIMITS];
    const sg_limit_t *at[TRACE_LIMITS] = {&limits[0], &limits[1], &limits[2], &limits[3]};
    size_t count = limits_of(json_object_get(root, "limits"), limits), i;
    json_t *step;

    world_clear(&world);
    json_array_foreach(json_object_get(root, "steps"), i, step)
    {
        const json_t *answers = json_object_get(step, "limits");
        sg_verdict_t v;
        sg_check_t c;
        char lease[33];
        if (json_object_get(step, "change"))
            count = limits_of(json_object_get(step, "change"), limits);
        c = check_of(at, count, number_of(step, "cost"), lease_of(step, i, lease));
        if (json_object_get(step, "release")) {
            world_release(&world, &c);
            continue;
        }
        if (json_object_get(step, "settle")) {
            settle_step(step);
            continue;
        }
        world_check(&world, &c, number_of(step, "at_us"), &v);
        decided_keep(&decided[i % STEPS_MAX], &c, &v);
        expect_number(trace, i, "the verdict", v.allowed, json_is_true(json_object_get(step, "allowed")));
        for (size_t k = 0; k < count; k++)
            expect_limit(trace, i, &v.at[k], json_array_get(answers, k));
    }
}

static void play_file(sg_algo_t algo)
{
    char *path = sg_asprintf("%s/tests/vectors/%s.json", getenv("SG_SRCDIR") ? getenv("SG_SRCDIR") : ".",
                             sg_algo_name(algo));
    json_t *root = json_load_file(path, 0, NULL), *traces = json_object_get(root, "traces"), *trace;
    size_t i;

    if (json_array_size(traces) < 40)
        fail_msg("%s: 40 traces or more were expected", path);
    json_array_foreach(traces, i, trace) play(json_string_value(json_object_get(trace, "name")), trace);
    world_clear(&world);
    json_decref(root);
    sg_free(path);
}

static void token_bucket_traces(void **state)
{
    (void)state;
    play_file(SG_ALGO_TOKEN_BUCKET);
}

static void gcra_traces(void **state)
{
    (void)state;
    play_file(SG_ALGO_GCRA);
}

static void fixed_window_traces(void **state)
{
    (void)state;
    play_file(SG_ALGO_FIXED_WINDOW);
}

static void sliding_window_traces(void **state)
{
    (void)state;
    play_file(SG_ALGO_SLIDING_WINDOW);
}

static void sliding_log_traces(void **state)
{
    (void)state;
    play_file(SG_ALGO_SLIDING_LOG);
}

static void concurrency_traces(void **state)
{
    (void)state;
    play_file(SG_ALGO_CONCURRENCY);
}

static void decide(const sg_limit_t *l, int64_t cost, int64_t now_us, sg_verdict_t *v)
{
    static unsigned turn;
    char lease[33];
    sg_check_t c = check_of(&l, 1, cost, lease);

    snprintf(lease, sizeof(lease), "lease%u", turn++);
    world_check(&world, &c, now_us, v);
}

static void sliding_log_of_3_per_1000_ms(void **state)
{
    sg_limit_t l = {.name = "c.l", .algo = SG_ALGO_SLIDING_LOG, .limit = 3, .window_us = S_US};
    static const struct {
        int64_t at_us, remaining;
        bool allowed;
    } steps[] = {{0, 2, true},     {1000, 1, true},  {2000, 0, true},
                 {3000, 0, false}, {4000, 0, false}, {2000 + S_US, 2, true}};

    (void)state;
    world_clear(&world);
    assert_int_equal(sg_limit_finish(&l, NULL), SG_OK);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        sg_verdict_t v;
        decide(&l, 1, NOW_US + steps[i].at_us, &v);
        assert_int_equal(v.allowed, steps[i].allowed);
        assert_int_equal(v.at[0].remaining, steps[i].remaining);
    }
    world_clear(&world);
}

/* --- random states
 * ------------------------------------------------------------------------------------------------ */

/* xorshift64*: the same states in every run. */
static uint64_t random_state = 88172645463325252u;

static int64_t below(int64_t n)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (int64_t)((random_state * 2685821657736338717u >> 1) % (uint64_t)n);
}

static void some_limit(sg_limit_t *l, sg_algo_t algo)
{
    static const int64_t periods_us[] = {1000, S_US, 7 * S_US, 60 * S_US, 3600 * S_US, DAY_US};

    do {
        *l = (sg_limit_t){
            .name = "c.l",
            .algo = algo,
            .limit = 1 + below(below(2) ? 5 : 100000),
            .rate_count = 1 + below(below(2) ? 10 : 9999),
            .rate_us = periods_us[below(6)],
            .window_us = periods_us[below(6)],
            .lease_us = periods_us[below(6)],
            .precision = (uint32_t)(1 + below(20)),
        };
        if (algo == SG_ALGO_SLIDING_LOG || algo == SG_ALGO_CONCURRENCY)
            l->limit = 1 + below(30);
    } while (sg_limit_finish(l, NULL) != SG_OK);
}

static int64_t span_us(const sg_limit_t *l)
{
    return l->algo == SG_ALGO_CONCURRENCY ? l->lease_us : l->window_us;
}

/* Waiting as long as retry-after says is enough, and a millisecond less is not. */
static void retry_after_is_a_promise(void **state)
{
    int denials = 0;

    (void)state;
    for (int round = 0; round < 60000; round++) {
        int64_t now_us = NOW_US + below(DAY_US), cost, retry_us;
        sg_verdict_t v, then;
        sg_limit_t l;
        some_limit(&l, (sg_algo_t)below(SG_ALGO_COUNT));
        world_clear(&world);
        for (int64_t i = below(12); i >= 0; i--) {
            decide(&l, 1 + below(below(3) ? 2 + l.limit / 4 : l.limit), now_us, &v);
            now_us += below(3) ? below(span_us(&l) / 8 + 2) : 0;
        }
        cost = 1 + below(l.limit);
        decide(&l, cost, now_us, &v);
        if (v.allowed)
            continue;
        denials++;
        retry_us = v.at[0].retry_us;
        assert_true(retry_us >= 1000 && retry_us % 1000 == 0);
        if (l.algo == SG_ALGO_FIXED_WINDOW)
            assert_true(retry_us <= l.window_us);
        decide(&l, cost, now_us + retry_us - 1000, &then);
        assert_false(then.allowed);
        assert_int_equal(then.at[0].retry_us, 1000);
        decide(&l, cost, now_us + retry_us, &then);
        assert_true(then.allowed);
    }
    world_clear(&world);
    assert_true(denials > 20000);
}

/* `more` and `reset` are exact in the same way. */
static void more_and_reset_are_exact(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        int64_t now_us = NOW_US + below(DAY_US);
        sg_verdict_t v, then;
        sg_limit_t l;
        some_limit(&l, (sg_algo_t)below(SG_ALGO_COUNT));
        world_clear(&world);
        for (int64_t i = below(8); i >= 0; i--) {
            decide(&l, 1 + below(l.limit), now_us, &v);
            now_us += below(span_us(&l) / 4 + 2);
        }
        decide(&l, 0, now_us, &v);
        if (!v.at[0].reset_us) {
            assert_int_equal(v.at[0].remaining, l.limit);
            assert_int_equal(v.at[0].more_us, 0);
            continue;
        }
        decide(&l, 0, now_us + v.at[0].more_us, &then);
        assert_true(then.at[0].remaining > v.at[0].remaining);
        decide(&l, 0, now_us + v.at[0].more_us - 1000, &then);
        assert_int_equal(then.at[0].remaining, v.at[0].remaining);
        decide(&l, 0, now_us + v.at[0].reset_us, &then);
        assert_int_equal(then.at[0].reset_us, 0);
        decide(&l, 0, now_us + v.at[0].reset_us - 1000, &then);
        assert_int_equal(then.at[0].reset_us, 1000);
    }
    world_clear(&world);
}

/* Same numbers, same answers; also when limits change or the clock goes back. */
static void gcra_decides_as_a_token_bucket(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        int64_t now_us = NOW_US + below(DAY_US);
        sg_limit_t bucket, gcra;
        bool goes_back = round % 2;
        world_clear(&world);
        some_limit(&bucket, SG_ALGO_TOKEN_BUCKET);
        for (int step = 0; step < 20; step++) {
            int64_t cost = below(bucket.limit + 2);
            sg_verdict_t a, b;
            gcra = bucket;
            gcra.algo = SG_ALGO_GCRA;
            decide(&bucket, cost, now_us, &a);
            decide(&gcra, cost, now_us, &b);
            assert_memory_equal(&a.at[0], &b.at[0], sizeof(a.at[0]));
            now_us += below(bucket.window_us / 4 + 2);
            if (below(10) != 0)
                continue;
            if (goes_back)
                now_us -= below(2 * bucket.window_us);
            else
                some_limit(&bucket, SG_ALGO_TOKEN_BUCKET);
        }
    }
    world_clear(&world);
}

/* In any trailing window a log admits its limit; a sliding window that, in the window less one sub-window. */
static void trailing_windows_hold(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        sg_algo_t algo = below(2) ? SG_ALGO_SLIDING_LOG : SG_ALGO_SLIDING_WINDOW;
        sg_limit_t l = {
            .name = "c.l", .algo = algo, .limit = 5 + below(20), .window_us = S_US, .precision = 10};
        int64_t held_us = algo == SG_ALGO_SLIDING_LOG ? S_US : S_US - S_US / 10;
        int64_t at_us[400], admitted = 0, now_us = NOW_US;
        assert_int_equal(sg_limit_finish(&l, NULL), SG_OK);
        world_clear(&world);
        for (int i = 0; i < 400; i++) {
            sg_verdict_t v;
            now_us += below(3) ? below(40000) : 0;
            decide(&l, 1, now_us, &v);
            if (!v.allowed)
                continue;
            at_us[admitted++] = now_us;
            if (admitted > l.limit)
                assert_true(now_us - at_us[admitted - 1 - l.limit] >= held_us);
        }
        assert_true(admitted > l.limit);
    }
    world_clear(&world);
}

/* --- bounds
 * ------------------------------------------------------------------------------------------------------- */

static bool refused(sg_limit_t l, const char *expected)
{
    sg_why_t why = {""};
    bool failed = sg_limit_finish(&l, &why) == SG_ERR_RANGE;

    if (failed && !strstr(why.text, expected))
        fail_msg("\"%s\" does not say \"%s\"", why.text, expected);
    return failed;
}

static sg_limit_t rate(int64_t limit, int64_t count, int64_t us)
{
    return (sg_limit_t){
        .name = "c.l", .algo = SG_ALGO_TOKEN_BUCKET, .limit = limit, .rate_count = count, .rate_us = us};
}

static sg_limit_t windowed(sg_algo_t algo, int64_t limit, int64_t window_us, uint32_t precision)
{
    return (sg_limit_t){.name = "c.l",
                        .algo = algo,
                        .limit = limit,
                        .window_us = window_us,
                        .lease_us = window_us,
                        .precision = precision};
}

static void bounds_are_named(void **state)
{
    (void)state;
    assert_true(refused(rate(INT64_C(9007199254740993), 1000, 1), "9000000000000000"));
    assert_true(refused(rate(-1, 1, S_US), "0 to"));
    assert_true(refused(rate(1, 0, S_US), "more than 0"));
    assert_true(refused(rate(1, 1, 367 * DAY_US), "366 days"));
    assert_true(refused(rate(1000000, 1, DAY_US), "at most 46296 are"));
    assert_false(refused(rate(46296, 1, DAY_US), ""));
    assert_true(refused(rate(46297, 1, DAY_US), "at most 46296 are"));
    assert_true(refused(rate(1, INT64_C(100000000000001), DAY_US - 1), "35184372088831"));
    assert_true(
        refused(windowed(SG_ALGO_FIXED_WINDOW, INT64_C(9007199254740992), DAY_US, 0), "9007199254740991"));
    assert_false(refused(windowed(SG_ALGO_FIXED_WINDOW, INT64_C(9007199254740991), DAY_US, 0), ""));
    assert_true(refused(windowed(SG_ALGO_FIXED_WINDOW, 1, 367 * DAY_US, 0), "366 days"));
    assert_true(refused(windowed(SG_ALGO_FIXED_WINDOW, 1, 1500, 0), "milliseconds"));
    assert_true(refused(windowed(SG_ALGO_FIXED_WINDOW, 1, 0, 0), "1 ms"));
    assert_true(
        refused(windowed(SG_ALGO_SLIDING_WINDOW, INT64_C(4503599627370496), DAY_US, 10), "4503599627370495"));
    assert_true(refused(windowed(SG_ALGO_SLIDING_WINDOW, 1, DAY_US, 0), "1 to 100"));
    assert_true(refused(windowed(SG_ALGO_SLIDING_WINDOW, 1, DAY_US, 101), "1 to 100"));
    assert_true(refused(windowed(SG_ALGO_SLIDING_LOG, 1000001, DAY_US, 0), "1000000"));
    assert_true(refused(windowed(SG_ALGO_CONCURRENCY, 1, 0, 0), "lease"));
}

static void rates_are_reduced(void **state)
{
    sg_limit_t l = rate(20, 10, S_US);

    (void)state;
    assert_int_equal(sg_limit_finish(&l, NULL), SG_OK);
    assert_int_equal(l.rate_count, 1);
    assert_int_equal(l.rate_us, 100000);
    assert_int_equal(l.window_us, 2 * S_US);
    l = rate(100, 7, 3600 * S_US);
    assert_int_equal(sg_limit_finish(&l, NULL), SG_OK);
    assert_int_equal(l.rate_count, 7);
    assert_int_equal(l.window_us, INT64_C(51428571429));
}

/* --- key names and expiry
 * -------------------------------------------------------------------------------------------- */

static void expect_key(const sg_limit_t *l, const sg_key_scope_t *scope, int64_t bucket, const char *expected)
{
    char room[SG_KEY_BYTES];
    int64_t got;
    sg_str_t key = sg_limit_key(scope, l, INT64_C(20423) * DAY_US + 5, room, &got);

    if (!sg_str_eq(key, sg_str(expected)))
        fail_msg("%.*s is not %s", SG_STR_ARG(key), expected);
    assert_int_equal(got, bucket);
}

static void key_names(void **state)
{
    sg_key_scope_t s = {.prefix = SG_STR("rl"), .version = SG_STR("v1"), .tag = "T", .key = "K", .ip = "I"};
    sg_limit_t l = windowed(SG_ALGO_FIXED_WINDOW, 1, DAY_US, 10);

    (void)state;
    l.name = "search.burst";
    expect_key(&l, &s, 20423, "rl:fw:v1:{T}:search.burst:86400:20423");
    l.window_us = 250000;
    expect_key(&l, &s, INT64_C(20423) * 86400 * 4, "rl:fw:v1:{T}:search.burst:250ms:7058188800");
    l.window_us = 1500000;
    l.algo = SG_ALGO_SLIDING_LOG;
    expect_key(&l, &s, 0, "rl:sl:v1:{T}:search.burst:1500ms");
    l.window_us = 60000000;
    expect_key(&l, &s, 0, "rl:sl:v1:{T}:search.burst:60");
    l.algo = SG_ALGO_SLIDING_WINDOW;
    l.per = SG_PER_KEY;
    expect_key(&l, &s, 0, "rl:sw:v1:{T}:k.K:search.burst:60");
    l.algo = SG_ALGO_TOKEN_BUCKET;
    expect_key(&l, &s, 0, "rl:tb:v1:{T}:k.K:search.burst");
    l.algo = SG_ALGO_GCRA;
    l.per = SG_PER_IP;
    expect_key(&l, &s, 0, "rl:gc:v1:{T}:i.I:search.burst");
    l.algo = SG_ALGO_CONCURRENCY;
    l.per = SG_PER_KEY;
    s.key = NULL;
    expect_key(&l, &s, 0, "rl:cc:v1:{T}:i.I:search.burst");
    l.per = SG_PER_ALL;
    expect_key(&l, &s, 0, "rl:cc:v1:{all}:search.burst");
}

static void no_key_is_too_long(void **state)
{
    char prefix[300], room[SG_KEY_BYTES + 8];
    sg_key_scope_t s = {.version = SG_STR("v1"), .tag = "T", .key = "K", .ip = "I"};
    sg_limit_t l = windowed(SG_ALGO_FIXED_WINDOW, 1, DAY_US, 0);
    int64_t bucket;

    (void)state;
    memset(prefix, 'p', sizeof(prefix));
    memset(room, '!', sizeof(room));
    s.prefix = sg_str_n(prefix, sizeof(prefix));
    assert_int_equal(sg_limit_key(&s, &l, NOW_US, room, &bucket).n, SG_KEY_BYTES);
    assert_memory_equal(room + SG_KEY_BYTES, "!!!!!!!!", 8);
}

static void expect_ttl(sg_limit_t l, int64_t life_us, int64_t window_us)
{
    int64_t most_us = window_us / 10 < 300 * S_US ? window_us / 10 : 300 * S_US, least = INT64_MAX, most = 0;

    assert_int_equal(sg_limit_finish(&l, NULL), SG_OK);
    for (int i = 0; i < 2000; i++) {
        char key[32];
        int64_t ttl_us, jitter_us;
        snprintf(key, sizeof(key), "rl:tb:v1:{%d}:c.l", i);
        jitter_us = sg_limit_jitter_us(&l, sg_str(key));
        ttl_us = sg_limit_ttl_us(&l, sg_str(key), NOW_US);
        assert_int_equal(ttl_us, life_us + S_US + jitter_us);
        assert_int_equal(ttl_us % 1000, 0);
        least = jitter_us < least ? jitter_us : least;
        most = jitter_us > most ? jitter_us : most;
    }
    /* Jitter spreads over all of its range. */
    assert_true(least >= 0 && least <= most_us / 20);
    assert_true(most <= most_us && most >= most_us - most_us / 20 - 1000);
}

static void ttl_comes_from_the_algorithm(void **state)
{
    (void)state;
    expect_ttl(rate(20, 10, S_US), 2 * S_US, 2 * S_US);
    expect_ttl(rate(100, 7, 3600 * S_US), INT64_C(51428572000), INT64_C(51428571429));
    expect_ttl(windowed(SG_ALGO_FIXED_WINDOW, 1, 60 * S_US, 0), 60 * S_US, 60 * S_US);
    expect_ttl(windowed(SG_ALGO_FIXED_WINDOW, 1, DAY_US, 0), DAY_US - NOW_US % DAY_US, DAY_US);
    expect_ttl(windowed(SG_ALGO_SLIDING_WINDOW, 1, 60 * S_US, 10), 66 * S_US, 60 * S_US);
    expect_ttl(windowed(SG_ALGO_SLIDING_LOG, 1, 60 * S_US, 0), 60 * S_US, 60 * S_US);
    expect_ttl(windowed(SG_ALGO_CONCURRENCY, 1, 60 * S_US, 0), 60 * S_US, 60 * S_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_bucket_traces),
        cmocka_unit_test(gcra_traces),
        cmocka_unit_test(fixed_window_traces),
        cmocka_unit_test(sliding_window_traces),
        cmocka_unit_test(sliding_log_traces),
        cmocka_unit_test(concurrency_traces),
        cmocka_unit_test(sliding_log_of_3_per_1000_ms),
        cmocka_unit_test(retry_after_is_a_promise),
        cmocka_unit_test(more_and_reset_are_exact),
        cmocka_unit_test(gcra_decides_as_a_token_bucket),
        cmocka_unit_test(trailing_windows_hold),
        cmocka_unit_test(bounds_are_named),
        cmocka_unit_test(rates_are_reduced),
        cmocka_unit_test(key_names),
        cmocka_unit_test(no_key_is_too_long),
        cmocka_unit_test(ttl_comes_from_the_algorithm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
