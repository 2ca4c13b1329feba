/* Limits: a rule and a trace of decisions, both from the input, and the fields that tell a client of them.
 * What must hold: a rule is refused with a sentence, or every number it leads to is in range; who waits as
 * long as he was told passes; nobody gets more than the limit at once. */
#include "fuzz.h"

#include "gate/limit.h"
#include "gate/rate_headers.h"

typedef struct {
    const uint8_t *at, *end;
} input_t;

static uint64_t take_number(input_t *in, unsigned bytes)
{
    uint64_t v = 0;
    for (; bytes > 0 && in->at < in->end; bytes--)
        v = v << 8 | *in->at++;
    return v;
}

/* Small numbers and the largest ones alike: the first byte says how many follow. */
static int64_t take_any(input_t *in, int64_t max)
{
    uint64_t v = take_number(in, (unsigned)take_number(in, 1) % 8 + 1);
    return (int64_t)(v % (uint64_t)max);
}

static bool take_rule(input_t *in, sg_limit_t *l)
{
    sg_why_t why = {""};
    *l = (sg_limit_t){.name = "a.b", .algo = (sg_algo_t)(take_number(in, 1) % SG_ALGO_COUNT)};
    l->limit = take_any(in, SG_LIMIT_NUMBER_MAX);
    l->window_us = 1000 * take_any(in, SG_WINDOW_MAX_US / 1000) + 1000;
    l->lease_us = l->window_us;
    l->precision = (uint32_t)take_number(in, 1) % 60 + 1;
    l->rate_count = take_any(in, SG_LIMIT_NUMBER_MAX);
    l->rate_us = take_any(in, SG_WINDOW_MAX_US) + 1;
    sg_err_t err = sg_limit_finish(l, &why);
    CHECK(err == SG_OK || (err == SG_ERR_RANGE && why.text[0]));
    return err == SG_OK;
}

static void check_result(const sg_limit_t *l, const sg_limit_result_t *r)
{
    CHECK(r->remaining >= 0 && r->remaining <= l->limit);
    CHECK(r->reset_us >= 0 && r->more_us >= 0 && r->retry_us >= 0);
    CHECK(!r->allowed || (r->retry_us == 0 && !r->never));
    CHECK(r->allowed || r->never || r->retry_us > 0);
}

static void check_fields(const sg_limit_t *l, const sg_verdict_t *v)
{
    const sg_limit_t *limits[] = {l};
    sg_arena_t *arena = sg_arena_new(1024);
    sg_fields_t fields = {0};
    sg_rate_headers(SG_DIALECT_BOTH, limits, v, arena, &fields);
    SG_FIELDS_EACH(f, &fields)
    {
        CHECK(sg_is_rate_header(f->name) && f->value.n > 0);
        for (size_t i = 0; i < f->value.n; i++)
            CHECK(f->value.p[i] >= ' ' && f->value.p[i] < 0x7f);
    }
    int64_t wait_s = sg_retry_after_s(limits, v);
    CHECK(wait_s >= 0 && (wait_s > 0) == (!v->allowed && !v->at[0].never));
    CHECK(wait_s == 0 || wait_s >= v->at[0].retry_us / 1000000);
    sg_arena_free(arena);
}

/* A fixed window's counters have a key for each window. */
static void begin_window(const sg_limit_t *l, sg_limit_state_t *s, int64_t now_us, int64_t *bucket)
{
    const sg_key_scope_t scope = {SG_STR("rl"), SG_STR("v1"), "t", NULL, NULL};
    char key[SG_KEY_BYTES];
    int64_t now;
    CHECK(sg_limit_key(&scope, l, now_us, key, &now).n < sizeof key);
    if (now != *bucket)
        sg_limit_state_free(s);
    *bucket = now;
}

/* The next decision of the trace. */
static void decide(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, unsigned turn,
                   sg_verdict_t *v)
{
    const sg_limit_t *limits[] = {l};
    sg_limit_state_t *states[] = {s};
    char lease[32];
    (void)snprintf(lease, sizeof lease, "%031u", turn);
    sg_limit_decide(limits, states, 1, cost, now_us, lease, v);
    CHECK(v->count == 1 && v->allowed == v->at[0].allowed);
    check_result(l, &v->at[0]);
    check_fields(l, v);
}

static void run_trace(const sg_limit_t *l, input_t *in)
{
    enum { TURNS = 200 };
    sg_limit_state_t state = {0};
    sg_verdict_t v;
    int64_t now_us = INT64_C(1700000000) * 1000000, taken = 0, bucket = 0;
    for (unsigned turn = 0; turn < TURNS && in->at < in->end; turn++) {
        int64_t step_us = take_any(in, SG_WINDOW_MAX_US), cost = take_any(in, l->limit + 2);
        bool stand_still = take_number(in, 1) & 1;
        now_us += stand_still ? 0 : step_us;
        taken = stand_still ? taken : 0;
        int64_t units = l->algo == SG_ALGO_CONCURRENCY ? cost > 0 : cost;
        begin_window(l, &state, now_us, &bucket);
        decide(l, &state, cost, now_us, 2 * turn, &v);
        taken += v.allowed ? units : 0;
        CHECK(taken <= l->limit);
        if (v.allowed || v.at[0].never)
            continue;
        now_us += v.at[0].retry_us;
        begin_window(l, &state, now_us, &bucket);
        decide(l, &state, cost, now_us, 2 * turn + 1, &v);
        CHECK(v.allowed);
        taken = units;
    }
    sg_limit_state_free(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    sg_limit_t l;
    if (take_rule(&in, &l))
        run_trace(&l, &in);
    return 0;
}
