/* Token bucket and GCRA with costs that are known afterwards: whatever is given back when, what was really
 * used keeps to the limit, as if the real costs had been taken at once. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gate/limit.h"

#define START_US INT64_C(1800000000000000)
#define S_US     INT64_C(1000000)
#define OPEN_MAX 64
#define USED_MAX 4096

typedef struct {
    sg_verdict_t verdict;
    int64_t reserve, cost;
    size_t used; /* its place in world_t.used */
} open_t;

typedef struct {
    int64_t at_us, units;
} used_t;

typedef struct {
    sg_limit_t limit;
    sg_limit_state_t state;
    int64_t now_us;
    open_t open[OPEN_MAX];
    size_t open_count, used_count;
    used_t used[USED_MAX];
} world_t;

static world_t w;
static uint64_t seed;

static int64_t below(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static void begin(sg_algo_t algo, int64_t units, int64_t count, int64_t us)
{
    sg_why_t why;
    sg_limit_state_free(&w.state);
    w = (world_t){.now_us = START_US,
                  .limit = {.name = "c.l", .algo = algo, .limit = units, .rate_count = count, .rate_us = us}};
    assert_int_equal(sg_limit_finish(&w.limit, &why), SG_OK);
}

/* NULL: denied. */
static open_t *ask(int64_t reserve, int64_t cost)
{
    const sg_limit_t *l = &w.limit;
    sg_limit_state_t *s = &w.state;
    open_t *o = &w.open[w.open_count];
    assert_true(w.open_count < OPEN_MAX && w.used_count < USED_MAX);
    sg_limit_decide(&l, &s, 1, reserve, w.now_us, "lease", &o->verdict);
    if (!o->verdict.allowed)
        return NULL;
    o->reserve = reserve;
    o->cost = cost;
    o->used = w.used_count;
    w.used[w.used_count++] = (used_t){w.now_us, cost};
    w.open_count++;
    return o;
}

static void settle(size_t i)
{
    sg_settlement_t what;
    open_t *o = &w.open[i];
    if (sg_limit_settlement(&w.limit, &o->verdict, 0, o->reserve, o->cost, &what))
        sg_limit_settle(&w.limit, &w.state, &what, w.now_us, "lease");
    *o = w.open[--w.open_count];
}

/* The most that a bucket would ever owe that the real costs had been taken from, rounded up. */
static int64_t most_owed(void)
{
    int64_t count = w.limit.rate_count, us = w.limit.rate_us;
    __int128 owed = 0, most = 0;
    for (size_t i = 0; i < w.used_count; i++) {
        if (i > 0)
            owed -= (__int128)(w.used[i].at_us - w.used[i - 1].at_us) * count;
        owed = (owed > 0 ? owed : 0) + (__int128)w.used[i].units * us;
        most = owed > most ? owed : most;
    }
    return (int64_t)((most + us - 1) / us);
}

static const sg_algo_t algos[] = {SG_ALGO_TOKEN_BUCKET, SG_ALGO_GCRA};

/* What two took has come back once: by the one's refund, and by time. */
static void test_what_is_back_does_not_come_back_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        begin(algos[i], 10, 1, S_US);
        assert_non_null(ask(5, 0));
        assert_non_null(ask(5, 0));
        settle(0);
        w.now_us += 5 * S_US;
        assert_non_null(ask(10, 10));
        settle(0);
        assert_null(ask(1, 1));
        assert_true(most_owed() <= 10);
    }
}

/* All comes back that should, however many settle in between. */
static void test_all_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        begin(algos[i], 100, 1, 3600 * S_US);
        for (int n = 0; n < 20; n++) {
            assert_non_null(ask(5, n % 3));
            w.now_us += 1000;
        }
        while (w.open_count) {
            settle((size_t)below((int64_t)w.open_count));
            w.now_us += 1000;
        }
        w.now_us += S_US;
        assert_int_equal(ask(1, 1)->verdict.at[0].remaining, 100 - 19 - 1);
    }
}

/* Mostly charged by those who have it back soon: much is under way, and much is lent. */
static void run(uint64_t with_seed, int steps)
{
    seed = with_seed;
    for (int n = 0; n < steps; n++) {
        int64_t reserve = 1 + below(w.limit.limit / (1 + below(4)) + 1);
        if (w.open_count < OPEN_MAX && below(3))
            (void)ask(reserve, below(3) ? below(reserve + 1) : below(2) * reserve);
        while (w.open_count && below(3) == 0)
            settle((size_t)below((int64_t)w.open_count));
        w.now_us += below(4) ? below(w.limit.window_us / 40 + 1) : below(2) * below(w.limit.window_us + 1);
    }
}

static void test_real_costs_keep_to_the_limit(void **state)
{
    static const int64_t rules[][3] = {
        {10, 1, S_US}, {100, 7, 3 * S_US}, {1000, 1000, S_US}, {20, 1, 3600 * S_US}};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
            for (uint64_t s = 1; s <= 300; s++) {
                begin(algos[i], rules[r][0], rules[r][1], rules[r][2]);
                run(s, 300);
                if (most_owed() > w.limit.limit)
                    fail_msg("algorithm %zu, rule %zu, seed %" PRIu64 ": %" PRId64 " of %" PRId64, i, r, s,
                             most_owed(), w.limit.limit);
            }
    sg_limit_state_free(&w.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_back_does_not_come_back_again),
        cmocka_unit_test(test_all_comes_back),
        cmocka_unit_test(test_real_costs_keep_to_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
