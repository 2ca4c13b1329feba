/* Who waits for units, and what the ledger is asked: with a ledger that the test plays itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gate/block.h"
#include "store/taker.h"
#include "store/ticket.h"

#define HOUR_US  INT64_C(3600000000)
#define STORE_US (INT64_C(500000) * HOUR_US)

typedef struct {
    sg_config_t config;
    sg_limit_t limit, ledger, *limits[1];
    sg_loop_t *loop;
    sg_blocks_t *blocks;
    sg_takers_t takers;
    sg_taker_t *taker;
    /* The asking that is out. */
    bool away, out;
    int asked;
    int64_t units;
    sg_ticket_t ticket;
    sg_answer_fn *fn;
    void *arg;
    int64_t settled; /* units that went back; charged: negative */
    int done;
} fixture_t;

static fixture_t f;

static void cancelled(sg_ticket_t *t)
{
    (void)t;
    f.out = false;
}

static bool ask(void *arg, const sg_check_t *check, bool cached, sg_answer_t *now, sg_ticket_t **ticket,
                sg_answer_fn *fn, void *fn_arg)
{
    (void)arg;
    (void)cached;
    assert_false(f.out);
    assert_int_equal(check->count, 1);
    assert_true(check->returns);
    *now = (sg_answer_t){.source = SG_FROM_CLOSED};
    if (f.away)
        return true;
    f.out = true;
    f.asked++;
    f.units = check->cost;
    f.fn = fn;
    f.arg = fn_arg;
    f.ticket.cancel = cancelled;
    *ticket = &f.ticket;
    return false;
}

static void release(void *arg, const sg_check_t *check)
{
    (void)arg;
    (void)check;
    fail();
}

static void settle(void *arg, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost)
{
    (void)arg;
    (void)verdict;
    f.settled += check->cost - cost;
}

static void failed(void *arg, const sg_check_t *check, sg_answer_t *out)
{
    (void)arg;
    (void)check;
    (void)out;
    fail();
}

static int setup(void **state)
{
    const sg_store_hooks_t hooks = {ask, release, settle, failed, NULL};
    sg_why_t why;
    (void)state;
    f = (fixture_t){.limit = {.name = "c.whole",
                              .algo = SG_ALGO_FIXED_WINDOW,
                              .per = SG_PER_ALL,
                              .limit = 100,
                              .window_us = HOUR_US,
                              .block = 40}};
    assert_int_equal(sg_limit_finish(&f.limit, &why), SG_OK);
    assert_int_equal(sg_block_ledger(&f.limit, &f.ledger, &f.limit.spend_us, &why), SG_OK);
    f.limit.ledger = &f.ledger;
    f.limits[0] = &f.limit;
    f.config.refs = 1;
    f.config.limits = f.limits;
    f.config.limit_count = 1;
    f.config.store.type = SG_STORE_REDIS;
    f.config.store.key_prefix = SG_STR("rl");
    f.config.store.key_version = SG_STR("v1");
    f.config.store.deny_cache = true;
    f.loop = sg_loop_new();
    f.blocks = sg_blocks_new();
    sg_takers_init(&f.takers, f.loop, &f.config, f.blocks, NULL, &hooks);
    f.taker = sg_takers_find(&f.takers, &f.limit);
    assert_non_null(f.taker);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sg_takers_deinit(&f.takers);
    sg_loop_turn(f.loop, 0);
    sg_loop_free(f.loop);
    sg_blocks_free(f.blocks);
    return 0;
}

static void done(sg_want_t *w)
{
    assert_int_not_equal(w->state, SG_WANT_OPEN);
    f.done++;
}

static void want(sg_want_t *w, int64_t units)
{
    *w = (sg_want_t){.units = units, .done = done};
    sg_taker_want(f.taker, w);
}

static void answer_at(bool allowed, int64_t remaining, int64_t store_us)
{
    sg_answer_t a = {.source = SG_FROM_STORE};
    a.verdict = (sg_verdict_t){.allowed = allowed, .count = 1, .now_us = store_us};
    a.verdict.at[0] =
        (sg_limit_result_t){.allowed = allowed, .remaining = remaining, .retry_us = allowed ? 0 : 9000000};
    assert_true(f.out);
    f.out = false;
    f.fn(f.arg, &a);
}

static void grant(int64_t remaining)
{
    answer_at(true, remaining, STORE_US);
}

static void deny(int64_t remaining)
{
    answer_at(false, remaining, STORE_US);
}

static void expect(const sg_want_t *w, sg_want_state_t state)
{
    assert_int_equal(w->state, state);
}

static void keep(sg_want_t *w)
{
    expect(w, SG_WANT_GRANTED);
    sg_block_keep(w->block);
}

/* One asking at a time, for all who wait. */
static void test_one_asking_for_all(void **state)
{
    sg_want_t w[4];
    (void)state;
    want(&w[0], 3);
    assert_int_equal(f.units, 3);
    for (int i = 1; i < 4; i++)
        want(&w[i], 2);
    assert_int_equal(f.asked, 1);
    grant(97);
    expect(&w[0], SG_WANT_GRANTED);
    expect(&w[1], SG_WANT_OPEN);
    assert_int_equal(f.asked, 2);
    assert_int_equal(f.units, 6 + 1); /* and one ahead: the second asking within a second */
    grant(90);
    assert_int_equal(f.done, 4);
    for (int i = 0; i < 4; i++)
        keep(&w[i]);
    /* What is there is spent at once, and more is fetched meanwhile. */
    want(&w[0], 1);
    keep(&w[0]);
    assert_true(f.out);
    assert_int_equal(f.units, 2);
    grant(88);
}

static void test_asks_for_less_down_to_what_the_first_one_needs(void **state)
{
    sg_want_t w[3];
    (void)state;
    want(&w[0], 30);
    want(&w[1], 5);
    want(&w[2], 30);
    deny(20); /* 30 were asked for, for the first one */
    expect(&w[0], SG_WANT_DENIED);
    expect(&w[2], SG_WANT_DENIED);
    assert_int_equal(w[0].result.retry_us, 9000000);
    expect(&w[1], SG_WANT_OPEN);
    assert_true(f.units >= 5);
    deny(4);
    if (f.out)
        deny(4);
    expect(&w[1], SG_WANT_DENIED);
    assert_false(f.out);
    /* Remembered, for this cost. */
    want(&w[0], 5);
    expect(&w[0], SG_WANT_DENIED);
    assert_true(w[0].cached);
    assert_false(f.out);
    want(&w[0], 4);
    assert_true(f.out);
    grant(0);
    keep(&w[0]);
}

static void test_never(void **state)
{
    sg_want_t w;
    (void)state;
    want(&w, 101);
    expect(&w, SG_WANT_DENIED);
    assert_true(w.result.never);
    assert_int_equal(f.asked, 0);
}

static void test_a_ledger_that_is_away(void **state)
{
    sg_want_t w[2];
    sg_answer_t closed = {.source = SG_FROM_CLOSED};
    (void)state;
    f.away = true;
    want(&w[0], 1);
    expect(&w[0], SG_WANT_FAILED);
    f.away = false;
    want(&w[0], 1);
    want(&w[1], 1);
    f.out = false;
    f.fn(f.arg, &closed);
    expect(&w[0], SG_WANT_FAILED);
    expect(&w[1], SG_WANT_FAILED);
    assert_int_equal(f.done, 2);
}

static void wait_until(int64_t us)
{
    while (sg_clock_mono_us() < us)
        ;
}

/* The answer comes in the next window. Whoever was there when the ledger was asked was admitted then; whoever
 * came in the new window has no part in the old one's units. */
static void test_no_unit_of_a_window_that_is_over(void **state)
{
    sg_want_t before, after;
    int64_t end_us = sg_clock_mono_us() + 3000;
    (void)state;
    want(&before, 1);
    want(&after, 1); /* asked for once more, so that the next asking is for two */
    grant(90);
    keep(&before);
    assert_int_equal(f.units, 2);
    wait_until(end_us);
    want(&before, 1);
    answer_at(true, 80, STORE_US + HOUR_US - 1500);
    /* Of the two units one is the first one's. */
    keep(&after);
    expect(&before, SG_WANT_OPEN);
    assert_true(f.out);
    assert_int_equal(f.settled, 0);
    grant(70);
    keep(&before);
    sg_takers_give_back(&f.takers);
    assert_true(f.settled > 0);
}

static void test_stopped(void **state)
{
    sg_want_t w[2];
    (void)state;
    want(&w[0], 7);
    want(&w[1], 1);
    sg_want_stop(&w[0]);
    expect(&w[0], SG_WANT_FAILED);
    grant(93);
    keep(&w[1]);
    assert_int_equal(f.done, 1);
    /* Nobody needed the rest of it. */
    if (f.out)
        grant(90);
    sg_takers_give_back(&f.takers);
    assert_true(f.settled >= 6);
}

/* Back to the block while it lasts, to the ledger afterwards; charged is charged there. */
static void test_put_back_and_charged(void **state)
{
    sg_want_t w;
    (void)state;
    want(&w, 10);
    grant(90);
    sg_takers_put_back(&f.takers, w.block, 10);
    assert_int_equal(f.settled, 0);
    want(&w, 4);
    sg_takers_give_back(&f.takers);
    assert_int_equal(f.settled, 6);
    sg_takers_charge(&f.takers, w.block, "request", 4, 9);
    assert_int_equal(f.settled, 1);
    sg_takers_put_back(&f.takers, w.block, 4);
    assert_int_equal(f.settled, 5);
    if (f.out)
        grant(80);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_asking_for_all),
        TEST(test_asks_for_less_down_to_what_the_first_one_needs),
        TEST(test_never),
        TEST(test_a_ledger_that_is_away),
        TEST(test_no_unit_of_a_window_that_is_over),
        TEST(test_stopped),
        TEST(test_put_back_and_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
