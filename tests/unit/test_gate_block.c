/* Blocks that are taken ahead: what is *spent* keeps to the limit, whenever it is spent. Several takers, at
 * the worst moments that the contract allows, under a clock of the test's own; what each spends is written
 * down and held against the limit's definition. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gate/block.h"

#define START_US  INT64_C(1800000000000000)
#define S_US      INT64_C(1000000)
#define TAKERS    3
#define BLOCKS    64
#define SPENT_MAX 20000
#define WINDOWS   64

typedef struct {
    int64_t at_us, units;
} spent_t;

typedef struct {
    char name[24];
    int64_t taken, left, until_us;
    sg_verdict_t verdict;
} block_t;

typedef struct {
    sg_limit_t limit, ledger;
    int64_t spend_us, now_us;
    sg_limit_state_t states[WINDOWS]; /* by fixed window; the others have the first */
    block_t blocks[BLOCKS];
    size_t block_count, spent_count;
    unsigned names;
    spent_t spent[SPENT_MAX];
    int64_t total;
} world_t;

static world_t w;
static uint64_t seed;

static int64_t below(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static sg_limit_state_t *state_at(int64_t us)
{
    if (w.limit.algo != SG_ALGO_FIXED_WINDOW)
        return &w.states[0];
    return &w.states[us / w.ledger.window_us % WINDOWS];
}

/* A window's counter is of that window only. */
static void forget_next_window(void)
{
    if (w.limit.algo == SG_ALGO_FIXED_WINDOW)
        sg_limit_state_free(&w.states[(w.now_us / w.ledger.window_us + 1) % WINDOWS]);
}

static bool take(int64_t units, int64_t asked_us)
{
    const sg_limit_t *l = &w.ledger;
    sg_limit_state_t *s = state_at(w.now_us);
    block_t *b = &w.blocks[w.block_count];
    (void)snprintf(b->name, sizeof b->name, "block%u", w.names++);
    sg_limit_decide(&l, &s, 1, units, w.now_us, b->name, &b->verdict);
    if (!b->verdict.allowed)
        return false;
    b->taken = b->left = units;
    b->until_us = asked_us + sg_block_life_us(l, w.spend_us, w.now_us);
    w.block_count++;
    return true;
}

static void spend(block_t *b, int64_t units, int64_t at_us)
{
    assert_true(w.spent_count < SPENT_MAX);
    w.spent[w.spent_count++] = (spent_t){at_us, units};
    w.total += units;
    b->left -= units;
}

static void give_back(block_t *b)
{
    sg_settlement_t what;
    if (!sg_limit_settlement(&w.ledger, &b->verdict, 0, b->taken, b->taken - b->left, &what))
        return;
    int64_t at_us = sg_limit_settle_at_us(&what, w.now_us);
    sg_limit_settle(&w.ledger, state_at(at_us), &what, w.now_us, b->name);
}

/* Time goes on to at_us; blocks that end before are spent whole in their last moment, or in part, or not. */
static void go_to(int64_t at_us)
{
    for (;;) {
        block_t *next = NULL;
        for (size_t i = 0; i < w.block_count; i++)
            if (!next || w.blocks[i].until_us < next->until_us)
                next = &w.blocks[i];
        if (!next || next->until_us > at_us)
            break;
        if (next->until_us > w.now_us)
            w.now_us = next->until_us;
        if (next->left && below(4))
            spend(next, below(3) ? next->left : 1 + below(next->left), w.now_us);
        give_back(next);
        *next = w.blocks[--w.block_count];
    }
    w.now_us = at_us;
    forget_next_window();
}

static void spend_some(void)
{
    block_t *b = &w.blocks[below((int64_t)w.block_count)];
    if (b->left && w.now_us < b->until_us)
        spend(b, 1 + below(b->left), w.now_us);
}

static void begin(uint64_t with_seed)
{
    seed = with_seed;
    for (size_t i = 0; i < WINDOWS; i++)
        sg_limit_state_free(&w.states[i]);
    w.block_count = w.spent_count = 0;
    w.total = 0;
    w.now_us = START_US;
}

/* All that there is, one block after the other, spent in the last moment of each or at once. */
static void take_all(bool spend_late)
{
    for (int64_t units = w.limit.limit; units > 0 && w.block_count < BLOCKS - 1;)
        if (!take(units, w.now_us))
            units = w.blocks[w.block_count].verdict.at[0].remaining;
    for (size_t i = 0; i < w.block_count; i++)
        if (w.blocks[i].left) {
            w.now_us = spend_late ? w.blocks[i].until_us : w.now_us;
            spend(&w.blocks[i], w.blocks[i].left, w.now_us);
        }
    w.block_count = 0;
}

/* What is worst for all that forgets: all is spent as late as it may be, and all that is there again as soon
 * as it is, at once. */
static void run_late_then_early(void)
{
    begin(1);
    if (w.limit.algo == SG_ALGO_SLIDING_WINDOW)
        w.now_us += w.limit.window_us / w.limit.precision - 1; /* the end of a sub-window */
    take_all(true);
    for (int64_t end_us = w.now_us + 2 * w.ledger.window_us; w.now_us < end_us;
         w.now_us += w.ledger.window_us / 1000)
        take_all(false);
}

static void run(const sg_limit_t *l, uint64_t with_seed, int steps)
{
    begin(with_seed);
    for (int i = 0; i < steps; i++) {
        int64_t asked_us = w.now_us;
        bool late = below(4) == 0; /* the ledger decides some time after the asking began */
        go_to(w.now_us + below(late ? w.spend_us / 4 + 1 : w.spend_us / 64 + 1));
        int64_t units = 1 + below(l->block);
        if (w.block_count < BLOCKS - 1 && !take(units, asked_us) && w.block_count < BLOCKS - 1) {
            int64_t left = w.blocks[w.block_count].verdict.at[0].remaining;
            if (left > 0)
                (void)take(left, asked_us);
        }
        if (w.block_count && below(2))
            spend_some();
        if (below(40) == 0)
            go_to(w.now_us + l->window_us / (1 + below(8)));
    }
    go_to(w.now_us + 2 * S_US);
}

/* --- what may be spent ---------------------------------------------------------------------------------- */

/* Most units in any span of `us`, its end left out. */
static int64_t most_in(int64_t us)
{
    int64_t sum = 0, most = 0;
    for (size_t i = 0, j = 0; j < w.spent_count; j++) {
        sum += w.spent[j].units;
        while (w.spent[j].at_us - w.spent[i].at_us >= us)
            sum -= w.spent[i++].units;
        most = sum > most ? sum : most;
    }
    return most;
}

static int64_t most_in_a_window(int64_t us)
{
    int64_t sum = 0, most = 0;
    for (size_t j = 0; j < w.spent_count; j++) {
        bool same = j > 0 && w.spent[j].at_us / us == w.spent[j - 1].at_us / us;
        sum = same ? sum + w.spent[j].units : w.spent[j].units;
        most = sum > most ? sum : most;
    }
    return most;
}

/* Most units in any span, less what comes back in it: rounded up. */
static int64_t most_above_rate(int64_t count, int64_t us)
{
    __int128 before = 0, least = 0, most = 0;
    for (size_t j = 0; j < w.spent_count; j++) {
        __int128 at = (__int128)(w.spent[j].at_us - START_US) * count;
        if (j == 0 || before - at < least)
            least = before - at;
        before += (__int128)w.spent[j].units * us;
        if (before - at - least > most)
            most = before - at - least;
    }
    return (int64_t)((most + us - 1) / us);
}

static int64_t highest(const sg_limit_t *l)
{
    switch (l->algo) {
    case SG_ALGO_FIXED_WINDOW: return most_in_a_window(l->window_us);
    case SG_ALGO_SLIDING_WINDOW: return most_in(l->window_us - l->window_us / l->precision);
    case SG_ALGO_SLIDING_LOG: return most_in(l->window_us);
    case SG_ALGO_TOKEN_BUCKET:
    case SG_ALGO_GCRA:
    case SG_ALGO_CONCURRENCY:
    case SG_ALGO_COUNT: break;
    }
    return most_above_rate(l->rate_count, l->rate_us);
}

static const sg_limit_t limits[] = {
    {.algo = SG_ALGO_FIXED_WINDOW, .limit = 100, .window_us = S_US, .block = 20},
    {.algo = SG_ALGO_FIXED_WINDOW, .limit = 1000, .window_us = 60 * S_US, .block = 200},
    {.algo = SG_ALGO_FIXED_WINDOW, .limit = 7, .window_us = 2 * S_US, .block = 7},
    {.algo = SG_ALGO_SLIDING_WINDOW, .limit = 100, .window_us = S_US, .precision = 10, .block = 20},
    {.algo = SG_ALGO_SLIDING_WINDOW, .limit = 50, .window_us = 4 * S_US, .precision = 4, .block = 10},
    {.algo = SG_ALGO_SLIDING_WINDOW, .limit = 500, .window_us = 60 * S_US, .precision = 100, .block = 50},
    {.algo = SG_ALGO_SLIDING_LOG, .limit = 100, .window_us = S_US, .block = 20},
    {.algo = SG_ALGO_SLIDING_LOG, .limit = 10, .window_us = 10 * S_US, .block = 10},
    {.algo = SG_ALGO_TOKEN_BUCKET, .limit = 100, .rate_count = 100, .rate_us = S_US, .block = 20},
    {.algo = SG_ALGO_TOKEN_BUCKET, .limit = 12, .rate_count = 1, .rate_us = S_US, .block = 5},
    {.algo = SG_ALGO_GCRA, .limit = 100, .rate_count = 700, .rate_us = 3 * S_US, .block = 30},
    {.algo = SG_ALGO_GCRA, .limit = 2, .rate_count = 1, .rate_us = 2 * S_US, .block = 1},
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

static void set_limit(size_t i, bool with_ledger)
{
    sg_why_t why;
    w.limit = limits[i];
    w.limit.name = "c.whole";
    w.limit.per = SG_PER_ALL;
    if (sg_limit_finish(&w.limit, &why) || sg_block_ledger(&w.limit, &w.ledger, &w.spend_us, &why))
        fail_msg("limit %zu: %s", i, why.text);
    if (!with_ledger)
        w.ledger = w.limit;
}

static void test_never_over(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        int64_t most = 0, total = 0;
        set_limit(i, true);
        run_late_then_early();
        assert_true(highest(&w.limit) <= w.limit.limit);
        for (uint64_t s = 1; s <= 60; s++) {
            run(&w.limit, s, 400);
            int64_t now = highest(&w.limit);
            if (now > w.limit.limit)
                fail_msg("limit %zu, seed %" PRIu64 ": %" PRId64 " of %" PRId64 " spent", i, s, now,
                         w.limit.limit);
            most = now > most ? now : most;
            total += w.total;
        }
        /* It is used, too: not far below the limit, again and again. */
        assert_true(most >= w.ledger.limit * 7 / 10);
        assert_true(total > 100 * w.limit.limit);
    }
}

/* The test sees what it is for: with the limit itself in place of the ledger too much is spent. */
static void test_the_limit_itself_is_no_ledger(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        set_limit(i, false);
        run_late_then_early();
        bool over = highest(&w.limit) > w.limit.limit;
        if (over != (w.limit.algo != SG_ALGO_FIXED_WINDOW))
            fail_msg("limit %zu: %" PRId64 " of %" PRId64 " spent", i, highest(&w.limit), w.limit.limit);
    }
}

static void test_ledgers(void **state)
{
    (void)state;
    set_limit(0, true);
    assert_int_equal(w.ledger.limit, 100);
    assert_int_equal(w.ledger.window_us, S_US);
    assert_int_equal(w.spend_us, S_US);
    set_limit(4, true);
    assert_int_equal(w.ledger.precision, 5);
    assert_int_equal(w.ledger.window_us, 5 * S_US);
    assert_int_equal(w.spend_us, S_US);
    set_limit(6, true);
    assert_int_equal(w.ledger.window_us, S_US + S_US / 10);
    assert_int_equal(w.spend_us, S_US / 10);
    set_limit(8, true);
    assert_int_equal(w.ledger.limit, 80);
    assert_int_equal(w.spend_us, S_US / 5);
    set_limit(9, true);
    assert_int_equal(w.ledger.limit, 11);
    assert_int_equal(w.ledger.window_us, 11 * S_US);
}

/* A block lasts a little less than it may, and not into the next window. */
static void test_life(void **state)
{
    (void)state;
    set_limit(0, true);
    assert_int_equal(sg_block_life_us(&w.ledger, w.spend_us, START_US), S_US - 1000);
    assert_int_equal(sg_block_life_us(&w.ledger, w.spend_us, START_US + S_US - 50000), 50000 - 50);
    assert_int_equal(sg_block_life_us(&w.ledger, w.spend_us, START_US + S_US - 1), 0);
    set_limit(6, true);
    assert_int_equal(sg_block_life_us(&w.ledger, w.spend_us, START_US + S_US - 1), S_US / 10 - 100);
}

static int free_states(void **state)
{
    (void)state;
    for (size_t i = 0; i < WINDOWS; i++)
        sg_limit_state_free(&w.states[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_never_over, free_states),
        cmocka_unit_test_teardown(test_the_limit_itself_is_no_ledger, free_states),
        cmocka_unit_test(test_ledgers),
        cmocka_unit_test(test_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
