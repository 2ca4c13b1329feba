/* The memory store by a clock of the test's: the traces that the reference model wrote (tests/vectors), and
 * the promise of Retry-After for requests of many limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../vectors/world.h"
#include "gate/rate_headers.h"
#include "store/store.h"

#define NOW_US    INT64_C(1800000000000000)
#define S_US      INT64_C(1000000)
#define DAY_US    (86400 * S_US)
#define WHOLE     1000000
#define STEPS_MAX 64

/* --- traces -------------------------------------------------------------------------------------- */

typedef struct {
    sg_memory_t *m;
    const char *name;
    decided_t decided[STEPS_MAX];
} player_t;

static void expect_number(const player_t *p, size_t step, const char *what, int64_t got, int64_t expected)
{
    if (got != expected)
        fail_msg("%s, step %zu: %s is %lld, expected %lld", p->name, step, what, (long long)got,
                 (long long)expected);
}

static void expect_verdict(const player_t *p, size_t step, const sg_verdict_t *v, const json_t *e)
{
    const json_t *answers = json_object_get(e, "limits"), *a;
    size_t i;

    expect_number(p, step, "the verdict", v->allowed, json_is_true(json_object_get(e, "allowed")));
    json_array_foreach(answers, i, a)
    {
        const sg_limit_result_t *r = &v->at[i];
        expect_number(p, step, "allowed", r->never ? 2 : r->allowed, number_of(a, "allowed"));
        expect_number(p, step, "remaining", r->remaining, number_of(a, "remaining"));
        expect_number(p, step, "reset_us", r->reset_us, number_of(a, "reset_ms") * 1000);
        expect_number(p, step, "retry_us", r->retry_us, number_of(a, "retry_ms") * 1000);
        expect_number(p, step, "more_us", r->more_us, number_of(a, "more_ms") * 1000);
        expect_number(p, step, "given", r->allowed ? r->given : 0, r->allowed ? number_of(a, "given") : 0);
    }
}

static void play_step(player_t *p, size_t step, const json_t *e, const sg_check_t *c)
{
    int64_t now_us = number_of(e, "at_us");
    sg_verdict_t v;

    if (json_object_get(e, "release")) {
        sg_memory_release(p->m, c, now_us);
    } else if (json_object_get(e, "settle")) {
        const decided_t *d = &p->decided[(size_t)number_of(e, "settle") % STEPS_MAX];
        sg_memory_settle(p->m, &d->check, &d->verdict, number_of(e, "cost"), WHOLE, now_us);
    } else {
        sg_memory_check(p->m, c, WHOLE, now_us, &v);
        decided_keep(&p->decided[step % STEPS_MAX], c, &v);
        expect_verdict(p, step, &v, e);
    }
}

static void play(player_t *p, const json_t *trace)
{
    sg_limit_t limits[TRACE_LIMITS];
    const sg_limit_t *at[TRACE_LIMITS] = {&limits[0], &limits[1], &limits[2], &limits[3]};
    size_t count = limits_of(json_object_get(trace, "limits"), limits), i;
    json_t *step;

    p->m = sg_memory_new(1000);
    p->name = json_string_value(json_object_get(trace, "name"));
    json_array_foreach(json_object_get(trace, "steps"), i, step)
    {
        char lease[33];
        if (json_object_get(step, "change"))
            count = limits_of(json_object_get(step, "change"), limits);
        sg_check_t c = check_of(at, count, number_of(step, "cost"), lease_of(step, i, lease));
        play_step(p, i, step, &c);
    }
    sg_memory_free(p->m);
}

static void traces(void **state)
{
    static player_t player;

    (void)state;
    for (int a = 0; a < SG_ALGO_COUNT; a++) {
        char *path =
            sg_asprintf("%s/tests/vectors/%s.json", getenv("SG_SRCDIR") ? getenv("SG_SRCDIR") : ".",
                        sg_algo_name((sg_algo_t)a));
        json_t *root = json_load_file(path, 0, NULL), *trace;
        size_t i;
        assert_non_null(root);
        json_array_foreach(json_object_get(root, "traces"), i, trace)
            play(&player, trace);
        assert_true(i > 40);
        json_decref(root);
        sg_free(path);
    }
}

/* --- Retry-After --------------------------------------------------------------------------------- */

/* xorshift64*: the same states in every run. */
static uint64_t random_state = 88172645463325252u;

static int64_t below(int64_t n)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (int64_t)((random_state * 2685821657736338717u >> 1) % (uint64_t)n);
}

#define MANY 8

typedef struct {
    sg_memory_t *m;
    sg_limit_t limits[MANY];
    const sg_limit_t *at[MANY];
    sg_check_t check;
    char lease[24];
    unsigned algos;             /* a bit for each, of those that denied */
} mix_t;

static void some_limits(mix_t *x)
{
    static const char *const names[MANY] = {"c.a", "c.b", "c.c", "c.d", "c.e", "c.f", "c.g", "c.h"};
    static const int64_t periods_us[] = {250000, S_US, 7 * S_US, 60 * S_US, 3600 * S_US, DAY_US};
    size_t count = 1 + (size_t)below(MANY);

    for (size_t i = 0; i < count; i++) {
        sg_limit_t *l = &x->limits[i];
        do {
            *l = (sg_limit_t){
                .name = names[i],
                .algo = (sg_algo_t)below(SG_ALGO_COUNT),
                .per = below(3) == 0 ? SG_PER_TENANT : below(2) ? SG_PER_KEY : SG_PER_IP,
                .dry_run = below(6) == 0,
                .limit = 1 + below(below(2) ? 5 : 60),
                .rate_count = 1 + below(below(2) ? 10 : 9999),
                .rate_us = periods_us[below(6)],
                .window_us = periods_us[below(6)],
                .lease_us = periods_us[below(6)],
                .precision = (uint32_t)(1 + below(20)),
            };
        } while (sg_limit_finish(l, NULL) != SG_OK);
        x->at[i] = l;
    }
    x->check = check_of(x->at, count, 1, x->lease);
}

static bool ask(mix_t *x, int64_t now_us, sg_verdict_t *v)
{
    snprintf(x->lease, sizeof x->lease, "%lld", (long long)below(INT64_MAX));
    sg_memory_check(x->m, &x->check, WHOLE, now_us, v);
    return v->allowed;
}

/* A state that random requests have left; every now and then one turned out to cost something else. */
static int64_t some_state(mix_t *x, int64_t now_us)
{
    for (int64_t i = below(20); i >= 0; i--) {
        const sg_limit_t *l = &x->limits[below((int64_t)x->check.count)];
        sg_verdict_t v;
        x->check.cost = 1 + below(below(2) ? 2 : 10);
        if (ask(x, now_us, &v) && below(4) == 0)
            sg_memory_settle(x->m, &x->check, &v, below(20), WHOLE, now_us);
        if (below(3) == 0)
            now_us += below((l->algo == SG_ALGO_CONCURRENCY ? l->lease_us : l->window_us) / 8 + 2);
    }
    x->check.cost = 1 + below(below(2) ? 2 : 10);
    return now_us;
}

/* A second less is denied, and so is a ms less than the longest wait of those that deny; then it passes. */
static void keep_the_promise(mix_t *x, int64_t now_us, const sg_verdict_t *v)
{
    int64_t wait_us = 0, wait_s = sg_retry_after_s(x->at, v);
    sg_verdict_t then;

    for (size_t i = 0; i < v->count; i++) {
        if (x->at[i]->dry_run || v->at[i].allowed)
            continue;
        x->algos |= 1u << x->at[i]->algo;
        wait_us = v->at[i].retry_us > wait_us ? v->at[i].retry_us : wait_us;
    }
    assert_true(wait_s >= 1 && (wait_s - 1) * S_US < wait_us && wait_us <= wait_s * S_US);
    assert_false(ask(x, now_us + (wait_s - 1) * S_US, &then));
    assert_false(ask(x, now_us + wait_us - 1000, &then));
    assert_true(ask(x, now_us + wait_s * S_US, &then));
}

static void retry_after_of_any_mix_is_a_promise(void **state)
{
    int denials = 0, never = 0;
    static mix_t x;

    (void)state;
    for (int round = 0; round < 60000; round++) {
        sg_verdict_t v;
        x.m = sg_memory_new(1000);
        some_limits(&x);
        int64_t now_us = some_state(&x, NOW_US + below(DAY_US));
        if (!ask(&x, now_us, &v)) {
            bool ever = sg_retry_after_s(x.at, &v) > 0;
            denials += ever;
            never += !ever;
            if (ever)
                keep_the_promise(&x, now_us, &v);
            else
                assert_false(ask(&x, now_us + 400 * DAY_US, &v));
        }
        sg_memory_free(x.m);
    }
    printf("# %d denials, %d of them for ever\n", denials + never, never);
    assert_true(denials > 20000 && never > 1000);
    assert_int_equal(x.algos, (1u << SG_ALGO_COUNT) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces),
        cmocka_unit_test(retry_after_of_any_mix_is_a_promise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
