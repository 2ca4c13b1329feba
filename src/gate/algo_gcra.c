/* algo_gcra.c - the generic cell rate algorithm (ITU-T I.371, virtual scheduling), in one number.
 *
 * State: a and b = the theoretical arrival time, when all that was used is back (µs, and b/rate_count of
 * the next µs). rule[1], rule[2] = the rate that it was written under: under another rate the same units
 * are owed, not the same time. */
#include "gate/algo.h"

static sg_refill_t owed_at(const sg_limit_t *l, const sg_limit_state_t *s, int64_t now_us, bool *capped)
{
    sg_refill_rate_t rate = {s->rule[1], s->rule[2]};
    sg_refill_t owed;

    *capped = false;
    if (!s->exists)
        return (sg_refill_t){0, 0};
    owed = sg_refill_at(rate, INT64_MAX, 0, s->a, s->b, now_us);
    *capped = owed.used > l->limit;
    return sg_refill_convert(owed, rate.us, l->limit, l->rate_us);
}

static void save(const sg_limit_t *l, sg_limit_state_t *s, sg_refill_t owed, int64_t now_us)
{
    __int128 parts = (__int128)owed.used * l->rate_us - owed.part;

    s->exists = true;
    s->a = now_us + (int64_t)(parts / l->rate_count);
    s->b = (int64_t)(parts % l->rate_count);
    s->rule[1] = l->rate_count;
    s->rule[2] = l->rate_us;
}

static bool same_rate(const sg_limit_t *l, const sg_limit_state_t *s)
{
    return s->rule[1] == l->rate_count && s->rule[2] == l->rate_us;
}

static void look(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                 sg_limit_result_t *out)
{
    bool capped;
    sg_refill_t owed = owed_at(l, s, now_us, &capped);

    /* As in the token bucket: what was cut down to the burst must start to come back. */
    if (s->exists && cost && (capped || !same_rate(l, s)))
        save(l, s, owed, now_us);
    sg_refill_result(l, owed, cost, out);
}

static void take(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                 sg_limit_result_t *out)
{
    bool capped;
    sg_refill_t owed = owed_at(l, s, now_us, &capped);

    (void)lease;
    owed.used += cost;
    save(l, s, owed, now_us);
    sg_refill_result(l, owed, 0, out);
}

const sg_algo_ops_t sg_algo_gcra = {
    .name = "gcra",
    .code = "gc",
    .look = look,
    .take = take,
    .finish = sg_refill_finish,
    .life_us = sg_refill_life_us,
};
