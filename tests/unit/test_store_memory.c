/* The embedded store: atomic over its limits, bounded, and forgetful only of what does not matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/store.h"

#define NOW_US INT64_C(1800000000000000)
#define WHOLE  1000000

static sg_limit_t limit(const char *name, sg_algo_t algo, int64_t n)
{
    sg_limit_t l = {
        .name = name,
        .algo = algo,
        .limit = n,
        .rate_count = 1,
        .rate_us = 1000000,
        .window_us = 60000000,
        .lease_us = 10000000,
        .precision = 10,
    };

    assert_int_equal(sg_limit_finish(&l, NULL), SG_OK);
    return l;
}

static sg_check_t check_for(const sg_limit_t *const *limits, size_t count, const char *tag, int64_t cost)
{
    return (sg_check_t){
        .limits = limits,
        .count = count,
        .cost = cost,
        .lease = "lease",
        .scope = {.prefix = SG_STR("rl"), .version = SG_STR("v1"), .tag = tag, .key = "key", .ip = "ip"},
    };
}

static bool allowed(sg_memory_t *m, const sg_check_t *c, int64_t now_us)
{
    sg_verdict_t v;

    sg_memory_check(m, c, WHOLE, now_us, &v);
    return v.allowed;
}

static int64_t remaining(sg_memory_t *m, const sg_limit_t *l, const char *tag, int64_t now_us)
{
    sg_check_t c = check_for(&l, 1, tag, 0);
    sg_verdict_t v;

    sg_memory_check(m, &c, WHOLE, now_us, &v);
    return v.at[0].remaining;
}

static void denied_consumes_nothing(void **state)
{
    sg_memory_t *m = sg_memory_new(1000);
    sg_limit_t user = limit("c.user", SG_ALGO_FIXED_WINDOW, 2), org = limit("c.org", SG_ALGO_SLIDING_LOG, 10);
    const sg_limit_t *both[] = {&user, &org};
    sg_check_t c = check_for(both, 2, "tag", 1);
    int passed = 0;

    (void)state;
    for (int i = 0; i < 8; i++)
        passed += allowed(m, &c, NOW_US + i);
    assert_int_equal(passed, 2);
    assert_int_equal(remaining(m, &org, "tag", NOW_US + 9), 8);
    assert_int_equal(sg_memory_entries(m), 2);
    sg_memory_free(m);
}

static void peek_keeps_nothing(void **state)
{
    sg_memory_t *m = sg_memory_new(1000);
    sg_limit_t l = limit("c.l", SG_ALGO_TOKEN_BUCKET, 5);

    (void)state;
    assert_int_equal(remaining(m, &l, "tag", NOW_US), 5);
    assert_int_equal(sg_memory_entries(m), 0);
    sg_memory_free(m);
}

/* --- threads
 * ---------------------------------------------------------------------------------------------------- */

typedef struct {
    sg_memory_t *m;
    const sg_limit_t *limits[2];
    const char *lease;
    atomic_int *admitted;
} hammer_t;

static void *hammer(void *arg)
{
    hammer_t *h = arg;
    char lease[33];

    for (int i = 0; i < 2000; i++) {
        sg_check_t c = check_for(h->limits, 2, "tag", 1);
        snprintf(lease, sizeof(lease), "%s%d", h->lease, i);
        c.lease = lease;
        if (allowed(h->m, &c, NOW_US))
            atomic_fetch_add(h->admitted, 1);
    }
    return NULL;
}

static void eight_threads_admit_the_limit(void **state)
{
    (void)state;
    for (int algo = 0; algo < SG_ALGO_COUNT; algo++) {
        static const char *const names[8] = {"a", "b", "c", "d", "e", "f", "g", "h"};
        sg_memory_t *m = sg_memory_new(1000);
        sg_limit_t l = limit("c.l", (sg_algo_t)algo, 1234),
                   whole = limit("c.whole", SG_ALGO_FIXED_WINDOW, 5000);
        atomic_int admitted = 0;
        pthread_t threads[8];
        hammer_t h[8];
        whole.per = SG_PER_ALL;
        for (int i = 0; i < 8; i++) {
            h[i] = (hammer_t){m, {&l, &whole}, names[i], &admitted};
            assert_int_equal(pthread_create(&threads[i], NULL, hammer, &h[i]), 0);
        }
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(admitted, 1234);
        assert_int_equal(remaining(m, &whole, "tag", NOW_US), 5000 - 1234);
        sg_memory_free(m);
    }
}

/* --- what is kept
 * ------------------------------------------------------------------------------------------------ */

static void expired_entries_go(void **state)
{
    sg_memory_t *m = sg_memory_new(100000);
    sg_limit_t l = limit("c.l", SG_ALGO_SLIDING_LOG, 1);
    const sg_limit_t *one = &l;
    char tag[16];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        sg_check_t c = check_for(&one, 1, tag, 1);
        snprintf(tag, sizeof(tag), "tag%d", i);
        assert_true(allowed(m, &c, NOW_US));
        assert_false(allowed(m, &c, NOW_US));
    }
    assert_int_equal(sg_memory_entries(m), 5000);
    for (int i = 0; i < 64; i++)
        sg_memory_sweep(m, NOW_US + l.window_us);
    assert_int_equal(sg_memory_entries(m), 5000);
    /* The window, a second of grace, and at most a tenth of the window as jitter. */
    for (int i = 0; i < 64; i++)
        sg_memory_sweep(m, NOW_US + l.window_us + 1000000 + l.window_us / 10);
    assert_int_equal(sg_memory_entries(m), 0);
    sg_memory_free(m);
}

static void expired_state_is_not_used(void **state)
{
    sg_memory_t *m = sg_memory_new(10);
    sg_limit_t l = limit("c.l", SG_ALGO_CONCURRENCY, 1);
    const sg_limit_t *one = &l;
    sg_check_t c = check_for(&one, 1, "tag", 1);

    (void)state;
    assert_true(allowed(m, &c, NOW_US));
    assert_false(allowed(m, &c, NOW_US + l.lease_us - 1));
    assert_true(allowed(m, &c, NOW_US + l.lease_us));
    assert_true(allowed(m, &c, NOW_US + 100 * l.lease_us));
    assert_int_equal(sg_memory_entries(m), 1);
    sg_memory_free(m);
}

/* An abuser uses a limit up, and a flood of newcomers fills the store `later_us` after it. Each of them
 * reserves so much, and turns out to cost 1. */
static void flood(sg_algo_t algo, int64_t began_us, int64_t later_us, int64_t reserve)
{
    sg_memory_t *m = sg_memory_new(500);
    sg_limit_t l = limit("c.l", algo, 20);
    const sg_limit_t *one = &l;
    char text[24];
    sg_check_t abuser = check_for(&one, 1, "abuser", 1);
    sg_verdict_t v;

    abuser.lease = text;
    for (int i = 0; i <= 20; i++) {
        snprintf(text, sizeof(text), "lease%d", i);
        assert_int_equal(allowed(m, &abuser, began_us), i < 20);
    }
    for (int i = 0; i < 20000; i++) {
        sg_check_t c = check_for(&one, 1, text, reserve);
        snprintf(text, sizeof(text), "tag%d", i);
        sg_memory_check(m, &c, WHOLE, began_us + later_us + i, &v);
        assert_true(v.allowed);
        sg_memory_settle(m, &c, &v, 1, WHOLE, began_us + later_us + i);
        assert_true(sg_memory_entries(m) <= 500);
    }
    assert_int_equal(sg_memory_entries(m), 500);
    if (allowed(m, &abuser, began_us + later_us + 20000))
        fail_msg("%s: a fresh limit after %lld us", sg_algo_name(algo), (long long)later_us);
    sg_memory_free(m);
}

/* At once, and when what was used is nearly all back, but none of it yet: the end of a window or a lease. */
static void a_flood_frees_nobody(void **state)
{
    int64_t window_us = 60000000, lease_us = 10000000, short_of_it_us = 500000;

    (void)state;
    for (int algo = 0; algo < SG_ALGO_COUNT; algo++)
        flood((sg_algo_t)algo, NOW_US, 0, 1);
    flood(SG_ALGO_FIXED_WINDOW, NOW_US - NOW_US % window_us, window_us - short_of_it_us, 1);
    flood(SG_ALGO_SLIDING_WINDOW, NOW_US, window_us - short_of_it_us, 1);
    flood(SG_ALGO_SLIDING_LOG, NOW_US, window_us - short_of_it_us, 1);
    flood(SG_ALGO_CONCURRENCY, NOW_US, lease_us - short_of_it_us, 1);
}

/* Nor do callers who reserve all that there is and give it back. */
static void a_flood_of_refunds_frees_nobody(void **state)
{
    (void)state;
    for (int algo = 0; algo < SG_ALGO_COUNT; algo++)
        if (algo != SG_ALGO_CONCURRENCY)
            flood((sg_algo_t)algo, NOW_US, 0, 20);
}

/* Resident; 0 where it cannot be read. */
static size_t resident_bytes(void)
{
    char text[128] = "", *end = text;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    if (fgets(text, sizeof text, f))
        (void)strtoul(text, &end, 10);          /* the first number is the virtual size */
    (void)fclose(f);
    return strtoul(end, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Two million callers in turn: as many entries as are allowed, memory that does not grow once they are
 * there, and none of the hundred that used up their limits gets a new one. */
static void two_million_identities(void **state)
{
    enum { ENTRIES = 100000, CALLERS = 2000000, ABUSERS = 100, BURST = 5 };
    sg_memory_t *m = sg_memory_new(ENTRIES);
    sg_limit_t l = limit("c.l", SG_ALGO_TOKEN_BUCKET, BURST);
    l.rate_us = INT64_C(3600000000);
    assert_int_equal(sg_limit_finish(&l, NULL), SG_OK);
    const sg_limit_t *one = &l;
    char tag[24];
    sg_check_t c = check_for(&one, 1, tag, 1);
    size_t full_bytes = 0;

    (void)state;
    for (int i = 0; i < ABUSERS * (BURST + 1); i++) {
        (void)snprintf(tag, sizeof tag, "abuser%d", i / (BURST + 1));
        assert_int_equal(allowed(m, &c, NOW_US), i % (BURST + 1) < BURST);
    }
    for (int i = 0; i < CALLERS; i++) {
        (void)snprintf(tag, sizeof tag, "caller%d", i);
        assert_true(allowed(m, &c, NOW_US + i));
        if (i == 2 * ENTRIES)
            full_bytes = resident_bytes();
    }
    assert_int_equal(sg_memory_entries(m), ENTRIES);
#ifndef __SANITIZE_ADDRESS__
    assert_true(resident_bytes() < full_bytes + ((size_t)8 << 20));
#endif
    for (int i = 0; i < ABUSERS; i++) {
        (void)snprintf(tag, sizeof tag, "abuser%d", i);
        assert_false(allowed(m, &c, NOW_US + CALLERS));
    }
    printf("# %d entries, %d callers: %zu MiB resident when they were full, %zu MiB at the end\n", ENTRIES,
           CALLERS, full_bytes >> 20, resident_bytes() >> 20);
    sg_memory_free(m);
}

static void reset_takes_one_tenant(void **state)
{
    sg_memory_t *m = sg_memory_new(1000);
    sg_limit_t a = limit("c.a", SG_ALGO_GCRA, 2), b = limit("c.b", SG_ALGO_SLIDING_WINDOW, 2);
    const sg_limit_t *both[] = {&a, &b};
    sg_check_t acme = check_for(both, 2, "acme", 2), other = check_for(both, 2, "other", 2);

    (void)state;
    assert_true(allowed(m, &acme, NOW_US));
    assert_true(allowed(m, &other, NOW_US));
    assert_int_equal(sg_memory_reset(m, "acme"), 2);
    assert_int_equal(sg_memory_reset(m, "acme"), 0);
    assert_true(allowed(m, &acme, NOW_US));
    assert_false(allowed(m, &other, NOW_US));
    sg_memory_free(m);
}

static void released_slots_come_back(void **state)
{
    sg_memory_t *m = sg_memory_new(1000);
    sg_limit_t slots = limit("c.slots", SG_ALGO_CONCURRENCY, 1), l = limit("c.l", SG_ALGO_FIXED_WINDOW, 9);
    const sg_limit_t *both[] = {&slots, &l};
    sg_check_t c = check_for(both, 2, "tag", 1), other = c;

    (void)state;
    other.lease = "other";
    assert_true(allowed(m, &c, NOW_US));
    assert_false(allowed(m, &other, NOW_US));
    sg_memory_release(m, &other, NOW_US);
    assert_false(allowed(m, &other, NOW_US));
    sg_memory_release(m, &c, NOW_US);
    assert_true(allowed(m, &other, NOW_US));
    assert_int_equal(remaining(m, &l, "tag", NOW_US), 7);
    sg_memory_free(m);
}

static void all_share_one_counter(void **state)
{
    sg_memory_t *m = sg_memory_new(1000);
    sg_limit_t whole = limit("c.whole", SG_ALGO_FIXED_WINDOW, 100),
               own = limit("c.own", SG_ALGO_FIXED_WINDOW, 3);
    const sg_limit_t *both[] = {&own, &whole};
    int passed = 0;
    char tag[16];

    (void)state;
    whole.per = SG_PER_ALL;
    for (int i = 0; i < 400; i++) {
        sg_check_t c = check_for(both, 2, tag, 1);
        snprintf(tag, sizeof(tag), "tag%d", i % 50);
        passed += allowed(m, &c, NOW_US);
    }
    assert_int_equal(passed, 100);
    assert_int_equal(remaining(m, &whole, "tag1", NOW_US), 0);
    sg_memory_free(m);
}

/* --- shares
 * ------------------------------------------------------------------------------------------------------- */

static int admitted_share(sg_algo_t algo, int64_t n, int64_t ppm)
{
    sg_memory_t *m = sg_memory_new(1000);
    sg_limit_t l = limit("c.l", algo, n);
    const sg_limit_t *one = &l;
    int passed = 0;

    for (int i = 0; i < 100; i++) {
        char lease[8];
        sg_check_t c = check_for(&one, 1, "tag", 1);
        sg_verdict_t v;
        snprintf(lease, sizeof(lease), "%d", i);
        c.lease = lease;
        sg_memory_check(m, &c, ppm, NOW_US, &v);
        passed += v.allowed;
    }
    sg_memory_free(m);
    return passed;
}

static void shares_scale_limits(void **state)
{
    (void)state;
    for (int a = 0; a < SG_ALGO_COUNT; a++) {
        sg_algo_t algo = (sg_algo_t)a;
        assert_int_equal(admitted_share(algo, 40, WHOLE), 40);
        assert_int_equal(admitted_share(algo, 40, 500000), 20);
        assert_int_equal(admitted_share(algo, 40, 333333), 13);
        assert_int_equal(admitted_share(algo, 3, 100000), 1);
        assert_int_equal(admitted_share(algo, 0, 500000), 0);
    }
}

/* A half of 1/s is one unit in two seconds. */
static void shares_scale_rates(void **state)
{
    sg_memory_t *m = sg_memory_new(1000);
    sg_limit_t l = limit("c.l", SG_ALGO_GCRA, 2);
    const sg_limit_t *one = &l;
    sg_check_t c = check_for(&one, 1, "tag", 1);
    sg_verdict_t v;

    (void)state;
    sg_memory_check(m, &c, 500000, NOW_US, &v);
    assert_true(v.allowed);
    sg_memory_check(m, &c, 500000, NOW_US + 1999999, &v);
    assert_false(v.allowed);
    assert_int_equal(v.at[0].retry_us, 1000);
    sg_memory_check(m, &c, 500000, NOW_US + 2000000, &v);
    assert_true(v.allowed);
    sg_memory_free(m);
}

/* Decides with `reserve` at decided_us and settles for `cost` at now_us. */
static void decide_and_settle(sg_memory_t *m, const sg_limit_t *l, int64_t share, int64_t reserve,
                              int64_t cost, int64_t decided_us, int64_t now_us)
{
    sg_check_t c = check_for(&l, 1, "tag", reserve);
    sg_verdict_t v;

    sg_memory_check(m, &c, share, decided_us, &v);
    assert_true(v.allowed);
    sg_memory_settle(m, &c, &v, cost, share, now_us);
}

/* A charge counts in the window of now, a refund in that of the decision. */
static void settlements_find_their_window(void **state)
{
    sg_memory_t *m = sg_memory_new(100);
    sg_limit_t l = limit("c.l", SG_ALGO_FIXED_WINDOW, 10);
    int64_t next_us = NOW_US + 60000000;

    (void)state;
    decide_and_settle(m, &l, WHOLE, 6, 2, NOW_US, NOW_US + 1);
    assert_int_equal(remaining(m, &l, "tag", NOW_US + 2), 8);
    decide_and_settle(m, &l, WHOLE, 5, 1, NOW_US + 3, next_us);
    assert_int_equal(remaining(m, &l, "tag", NOW_US + 4), 8 - 1);
    assert_int_equal(remaining(m, &l, "tag", next_us), 10);
    decide_and_settle(m, &l, WHOLE, 3, 20, NOW_US + 5, next_us + 1);
    assert_int_equal(remaining(m, &l, "tag", NOW_US + 6), 8 - 1 - 3);
    assert_int_equal(remaining(m, &l, "tag", next_us + 2), 0);
    assert_int_equal(remaining(m, &l, "tag", next_us + 60000000), 10);
    sg_memory_free(m);
}

/* A bucket of 10 that fills in 10 s owes 100: its state lives until that is paid, whatever is swept. */
static void a_debt_outlives_the_bucket(void **state)
{
    sg_memory_t *m = sg_memory_new(100);
    sg_limit_t l = limit("c.l", SG_ALGO_TOKEN_BUCKET, 10);
    const sg_limit_t *one = &l;
    sg_check_t c = check_for(&one, 1, "tag", 1);

    (void)state;
    decide_and_settle(m, &l, WHOLE, 5, 100, NOW_US, NOW_US);
    for (int s = 20; s <= 90; s += 10) {
        assert_false(allowed(m, &c, NOW_US + s * INT64_C(1000000)));
        sg_memory_sweep(m, NOW_US + s * INT64_C(1000000));
    }
    assert_int_equal(sg_memory_entries(m), 1);
    assert_true(allowed(m, &c, NOW_US + 91000000));
    assert_false(allowed(m, &c, NOW_US + 91000000));
    sg_memory_free(m);
}

static void shares_are_settled_as_shares(void **state)
{
    sg_memory_t *m = sg_memory_new(100);
    sg_limit_t l = limit("c.l", SG_ALGO_SLIDING_LOG, 20);
    const sg_limit_t *one = &l;
    sg_check_t c = check_for(&one, 1, "tag", 8);
    sg_verdict_t v;

    (void)state;
    decide_and_settle(m, &l, 500000, 8, 2, NOW_US, NOW_US);
    sg_memory_check(m, &c, 500000, NOW_US + 1, &v);
    assert_true(v.allowed);
    assert_int_equal(v.at[0].remaining, 0);
    sg_memory_free(m);
}

/* What took nothing gets nothing: a denied request, and a dry run that said no beside one that said yes. */
static void what_took_nothing_is_not_settled(void **state)
{
    sg_memory_t *m = sg_memory_new(100);
    sg_limit_t l = limit("c.l", SG_ALGO_FIXED_WINDOW, 10), dry = limit("c.dry", SG_ALGO_FIXED_WINDOW, 4);
    const sg_limit_t *both[] = {&l, &dry};
    sg_check_t c = check_for(both, 2, "tag", 4);
    sg_verdict_t v;

    (void)state;
    dry.dry_run = true;
    assert_true(allowed(m, &c, NOW_US));
    sg_memory_check(m, &c, WHOLE, NOW_US, &v);
    assert_true(v.allowed && !v.at[1].allowed);
    sg_memory_settle(m, &c, &v, 1, WHOLE, NOW_US);
    assert_int_equal(remaining(m, &l, "tag", NOW_US), 5);
    assert_int_equal(remaining(m, &dry, "tag", NOW_US), 0);
    c.cost = 6;
    sg_memory_check(m, &c, WHOLE, NOW_US, &v);
    assert_false(v.allowed);
    sg_memory_settle(m, &c, &v, 0, WHOLE, NOW_US);
    assert_int_equal(remaining(m, &l, "tag", NOW_US), 5);
    sg_memory_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(denied_consumes_nothing),
        cmocka_unit_test(peek_keeps_nothing),
        cmocka_unit_test(eight_threads_admit_the_limit),
        cmocka_unit_test(expired_entries_go),
        cmocka_unit_test(expired_state_is_not_used),
        cmocka_unit_test(a_flood_frees_nobody),
        cmocka_unit_test(a_flood_of_refunds_frees_nobody),
        cmocka_unit_test(two_million_identities),
        cmocka_unit_test(reset_takes_one_tenant),
        cmocka_unit_test(released_slots_come_back),
        cmocka_unit_test(all_share_one_counter),
        cmocka_unit_test(shares_scale_limits),
        cmocka_unit_test(shares_scale_rates),
        cmocka_unit_test(settlements_find_their_window),
        cmocka_unit_test(a_debt_outlives_the_bucket),
        cmocka_unit_test(shares_are_settled_as_shares),
        cmocka_unit_test(what_took_nothing_is_not_settled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
