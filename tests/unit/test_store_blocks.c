/* Piles: what is spent, put back and given back, when, and how much is fetched ahead. The clock is the test's
 * own. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gate/block.h"
#include "store/blocks.h"

#define NOW_US   INT64_C(5000000)
#define STORE_US INT64_C(1800000000000000)
#define S_US     INT64_C(1000000)

typedef struct {
    sg_blocks_t *all;
    sg_store_conf_t store;
    sg_limit_t limit, ledger;
    sg_pile_t *pile;
} fixture_t;

static void set_limit(fixture_t *f, sg_algo_t algo, int64_t units, int64_t window_us, int64_t block)
{
    sg_why_t why;
    f->limit = (sg_limit_t){.name = "c.whole",
                            .algo = algo,
                            .per = SG_PER_ALL,
                            .limit = units,
                            .window_us = window_us,
                            .block = block};
    if (sg_limit_finish(&f->limit, &why) || sg_block_ledger(&f->limit, &f->ledger, &f->limit.spend_us, &why))
        fail_msg("%s", why.text);
    f->limit.ledger = &f->ledger;
}

static int setup(void **state)
{
    static fixture_t f;
    f.all = sg_blocks_new();
    f.store = (sg_store_conf_t){.type = SG_STORE_REDIS,
                                .host = (char *)(uintptr_t) "a",
                                .port = 6379,
                                .key_prefix = SG_STR("rl"),
                                .key_version = SG_STR("v1")};
    set_limit(&f, SG_ALGO_SLIDING_LOG, 1000, 60 * S_US, 64);
    f.pile = sg_pile_open(f.all, &f.store, &f.limit);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture_t *f = *state;
    sg_pile_unref(f->pile);
    sg_blocks_free(f->all);
    return 0;
}

/* A granted asking, published. */
static sg_block_t *add(fixture_t *f, int64_t units, int64_t asked_us)
{
    sg_verdict_t v = {.allowed = true, .now_us = STORE_US, .count = 1};
    v.at[0] = (sg_limit_result_t){.allowed = true, .remaining = 500};
    sg_block_t *b = sg_block_new(f->pile, "name", units, asked_us, asked_us, &v);
    sg_block_publish(b);
    return b;
}

static void close_and_keep(sg_block_t *b, int64_t expected_units)
{
    sg_give_back_t g;
    sg_block_close(b, &g);
    assert_int_equal(g.units, expected_units);
    sg_block_keep(b);
}

static void spend_and_keep(fixture_t *f, int64_t units, int64_t now_us)
{
    sg_limit_result_t r;
    sg_block_t *b = sg_pile_spend(f->pile, units, now_us, &r);
    assert_non_null(b);
    sg_block_keep(b);
}

static void test_spent_until_its_time_is_over(void **state)
{
    fixture_t *f = *state;
    sg_limit_result_t r;
    sg_block_t *b = add(f, 10, NOW_US);
    assert_int_equal(b->until_us, NOW_US + S_US - 1000);
    spend_and_keep(f, 4, NOW_US);
    assert_null(sg_pile_spend(f->pile, 7, NOW_US, &r));
    sg_block_t *last = sg_pile_spend(f->pile, 1, b->until_us - 1, &r);
    assert_non_null(last);
    assert_true(r.allowed);
    assert_int_equal(r.remaining, 500 + 5);
    sg_block_keep(last);
    assert_null(sg_pile_spend(f->pile, 1, b->until_us, &r));
    close_and_keep(b, 5);
}

/* The oldest first, and no request from two blocks. */
static void test_the_oldest_first(void **state)
{
    fixture_t *f = *state;
    sg_limit_result_t r;
    sg_block_t *one = add(f, 3, NOW_US), *two = add(f, 3, NOW_US + 1);
    assert_null(sg_pile_spend(f->pile, 4, NOW_US + 1, &r));
    sg_block_t *got = sg_pile_spend(f->pile, 2, NOW_US + 1, &r);
    assert_ptr_equal(got, one);
    sg_block_keep(got);
    got = sg_pile_spend(f->pile, 2, NOW_US + 1, &r);
    assert_ptr_equal(got, two);
    sg_block_keep(got);
    close_and_keep(one, 1);
    close_and_keep(two, 1);
}

static void test_put_back(void **state)
{
    fixture_t *f = *state;
    sg_limit_result_t r;
    sg_give_back_t g;
    sg_block_t *b = add(f, 5, NOW_US), *got = sg_pile_spend(f->pile, 5, NOW_US, &r);
    assert_null(sg_pile_spend(f->pile, 1, NOW_US, &r));
    assert_false(sg_block_put_back(got, 5, &g));
    got = sg_pile_spend(f->pile, 3, NOW_US, &r);
    close_and_keep(b, 2);
    /* The block is over: it goes to the ledger, as what is left of the asking less what went before. */
    assert_true(sg_block_put_back(got, 3, &g));
    assert_int_equal(g.units, 3);
    assert_int_equal(g.taken, 3);
    sg_block_keep(got);
    assert_null(sg_pile_spend(f->pile, 1, NOW_US, &r));
}

/* A few units here and there do not make a long way. */
static void test_many_blocks(void **state)
{
    fixture_t *f = *state;
    sg_limit_result_t r;
    sg_block_t *b[20];
    for (size_t i = 0; i < 20; i++)
        b[i] = add(f, 1, NOW_US);
    int64_t units = 0;
    for (sg_block_t *got; (got = sg_pile_spend(f->pile, 1, NOW_US, &r)); units++)
        sg_block_keep(got);
    assert_int_equal(units, 8);
    int64_t back = 0;
    for (size_t i = 0; i < 20; i++) {
        sg_give_back_t g;
        sg_block_close(b[i], &g);
        back += g.units;
        sg_block_keep(b[i]);
    }
    assert_int_equal(back, 12);
}

static void test_how_much_is_fetched(void **state)
{
    fixture_t *f = *state;
    int64_t now_us = NOW_US;
    /* Alone: nothing ahead. */
    assert_int_equal(sg_pile_fetch(f->pile, true, now_us), 0);
    /* Soon after: more each time, up to the block, by one at a time. */
    for (int64_t expected = 1; expected <= 128; expected *= 2) {
        now_us += S_US / 2;
        assert_int_equal(sg_pile_fetch(f->pile, true, now_us), expected > 64 ? 64 : expected);
        assert_int_equal(sg_pile_fetch(f->pile, true, now_us), 0);
        sg_pile_fetched(f->pile, 0, now_us);
    }
    /* What is there counts; half of it is enough. */
    sg_block_t *b = add(f, 40, now_us);
    assert_int_equal(sg_pile_fetch(f->pile, false, now_us + 2 * S_US), 0);
    spend_and_keep(f, 9, now_us);
    assert_int_equal(sg_pile_fetch(f->pile, false, now_us + 2 * S_US), 64 - 31);
    /* There were none: a pause. */
    sg_pile_fetched(f->pile, S_US / 2, now_us);
    assert_int_equal(sg_pile_fetch(f->pile, true, now_us + S_US / 2 - 1), 0);
    /* Nobody spent the rest: so many are too many. */
    close_and_keep(b, 31);
    assert_int_equal(sg_pile_fetch(f->pile, true, now_us + 10 * S_US), 9);
    sg_pile_fetched(f->pile, 0, now_us);
}

static void test_denials_are_remembered(void **state)
{
    fixture_t *f = *state;
    sg_limit_result_t r = {.remaining = 2, .reset_us = 9 * S_US, .retry_us = 700000, .more_us = S_US}, got;
    sg_pile_deny(f->pile, 5, &r, NOW_US);
    assert_true(sg_pile_is_denied(f->pile, 5, NOW_US + 300000, &got));
    assert_int_equal(got.retry_us, 400000);
    assert_int_equal(got.reset_us, 9 * S_US - 300000);
    assert_false(sg_pile_is_denied(f->pile, 4, NOW_US, &got));
    assert_false(sg_pile_is_denied(f->pile, 5, NOW_US + 700000, &got));
    r.retry_us = 60 * S_US;
    sg_pile_deny(f->pile, 5, &r, NOW_US);
    assert_true(sg_pile_is_denied(f->pile, 5, NOW_US + S_US - 1, &got));
    assert_false(sg_pile_is_denied(f->pile, 5, NOW_US + S_US, &got));
}

/* Found again while everything is the same that the key and the rule are made of. */
static void test_one_pile_for_one_rule(void **state)
{
    fixture_t *f = *state;
    sg_pile_t *again = sg_pile_open(f->all, &f->store, &f->limit);
    assert_ptr_equal(again, f->pile);
    sg_pile_unref(again);
    for (int i = 0; i < 5; i++) {
        sg_store_conf_t store = f->store;
        set_limit(f, SG_ALGO_SLIDING_LOG, i == 0 ? 999 : 1000, i == 1 ? S_US : 60 * S_US, i == 2 ? 63 : 64);
        if (i == 3)
            store.port = 6380;
        if (i == 4)
            store.key_prefix = SG_STR("other");
        sg_pile_t *other = sg_pile_open(f->all, &store, &f->limit);
        assert_ptr_not_equal(other, f->pile);
        assert_int_equal(sg_pile_is_at(other, &f->store), i != 3);
        sg_pile_unref(other);
    }
}

/* Workers at once: nothing is spent twice, nothing gets lost. */
enum { THREADS = 4, BLOCKS = 200, UNITS = 50 };

typedef struct {
    fixture_t *f;
    int64_t taken, spent, back;
} worker_t;

static void *work(void *arg)
{
    worker_t *w = arg;
    for (int i = 0; i < BLOCKS; i++) {
        sg_limit_result_t r;
        sg_give_back_t g;
        sg_block_t *mine = add(w->f, UNITS, NOW_US), *got;
        w->taken += UNITS;
        for (int k = 0; k < 2 * UNITS && (got = sg_pile_spend(w->f->pile, 1 + k % 3, NOW_US, &r)); k++) {
            if (k % 4) {
                w->spent += 1 + k % 3;
                sg_block_keep(got);
            } else if (sg_block_put_back(got, 1 + k % 3, &g)) {
                w->back += g.units;
                sg_block_keep(got);
            }
        }
        sg_block_close(mine, &g);
        w->back += g.units;
        sg_block_keep(mine);
    }
    return NULL;
}

static void test_several_workers(void **state)
{
    pthread_t threads[THREADS];
    worker_t workers[THREADS];
    int64_t taken = 0, gone = 0;
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (worker_t){.f = *state};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        taken += workers[i].taken;
        gone += workers[i].spent + workers[i].back;
    }
    assert_int_equal(gone, taken);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_spent_until_its_time_is_over),
        TEST(test_the_oldest_first),
        TEST(test_put_back),
        TEST(test_many_blocks),
        TEST(test_how_much_is_fetched),
        TEST(test_denials_are_remembered),
        TEST(test_one_pile_for_one_rule),
        TEST(test_several_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
