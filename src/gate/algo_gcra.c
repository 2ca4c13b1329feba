/* algo_gcra.c - the generic cell rate algorithm (ITU-T I.371, virtual scheduling), in one number.
 *
 * State: a and b = the theoretical arrival time, when all that was used is back (µs, and b/rate_count of
 * the next µs). rule[1], rule[2] = the rate that it was written under: under another rate the same units
 * are owed, not the same time. rule[0] = the units that were owed then, if they were more than the burst (a
 * cost that turned out higher than what was reserved), else 0. */
#include "gate/algo.h"

static sg_refill_t owed_at(const sg_limit_t *l, const sg_limit_state_t *s, int64_t now_us, bool *capped)
{
    sg_refill_rate_t rate = {s->rule[1], s->rule[2]};
    int64_t most = l->limit;
    sg_refill_t owed;

    *capped = false;
    if (!s->exists)
        return (sg_refill_t){0, 0};
    if (s->rule[0] > most)
        most = s->rule[0];
    owed = sg_refill_at(rate, 0, s->a, s->b, now_us);
    *capped = owed.used > most;
    if (*capped)
        owed = (sg_refill_t){most, 0};
    return sg_refill_convert(owed, rate.us, most > l->limit, l);
}

static void save(const sg_limit_t *l, sg_limit_state_t *s, sg_refill_t owed, int64_t now_us)
{
    __int128 parts = (__int128)owed.used * l->rate_us - owed.part;

    s->exists = true;
    s->a = now_us + (int64_t)(parts / l->rate_count);
    s->b = (int64_t)(parts % l->rate_count);
    s->rule[0] = owed.used > l->limit ? owed.used : 0;
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
    sg_refill_result(l, s, owed, cost, out);
}

static void take(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                 sg_limit_result_t *out)
{
    bool capped;
    sg_refill_t owed = owed_at(l, s, now_us, &capped);

    (void)lease;
    sg_refill_begin(s, owed, now_us);
    owed.used += cost;
    save(l, s, owed, now_us);
    sg_refill_result(l, s, owed, 0, out);
}

/* Under the rate that is stored: a settlement changes no rule. A burst that was raised since the decision is
 * not known here, so a refund cuts nothing down. */
static void settle(const sg_limit_t *l, sg_limit_state_t *s, const sg_settlement_t *what, int64_t now_us,
                   const char *lease)
{
    sg_limit_t as = *l;
    sg_refill_t owed;
    bool capped;

    (void)lease;
    if (s->exists) {
        as.rate_count = s->rule[1];
        as.rate_us = s->rule[2];
    } else if (what->delta < 0) {
        return;
    }
    if (what->delta < 0 && s->rule[0] == 0)
        as.limit = SG_REFILL_LIMIT_MAX;
    owed = owed_at(&as, s, now_us, &capped);
    owed = sg_refill_settle(sg_refill_rate(&as), s, owed, what, now_us);
    save(&as, s, owed, now_us);
}

const sg_algo_ops_t sg_algo_gcra = {
    .name = "gcra",
    .code = "gc",
    .look = look,
    .take = take,
    .settle = settle,
    .finish = sg_refill_finish,
    .life_us = sg_refill_life_us,
};
