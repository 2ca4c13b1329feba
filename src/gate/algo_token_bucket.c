/* algo_token_bucket.c - starts full, refills at a steady rate, never above its capacity.
 *
 * State: a = whole tokens, b and c = the time at which exactly that many were there (µs, and c/rate_count
 * of the next µs): a clock that advances only by what was converted, so no fraction is ever lost. rule =
 * the capacity and rate that it was written under: used stays used when they change. Tokens below 0 are a
 * debt: a cost that turned out higher than what was reserved. */
#include "gate/algo.h"

static sg_refill_t owed_at(const sg_limit_t *l, const sg_limit_state_t *s, int64_t now_us, bool *capped)
{
    sg_refill_rate_t rate = {s->rule[1], s->rule[2]};
    int64_t used = s->rule[0] - s->a, most = s->a < 0 ? used : s->rule[0];
    sg_refill_t owed;

    *capped = false;
    if (!s->exists)
        return (sg_refill_t){0, 0};
    owed = sg_refill_at(rate, used, s->b, s->c, now_us);
    *capped = owed.used > most;
    if (*capped)
        owed = (sg_refill_t){most, 0};
    return sg_refill_convert(owed, rate.us, s->a < 0, l);
}

static void save(const sg_limit_t *l, sg_limit_state_t *s, sg_refill_t owed, int64_t now_us)
{
    int64_t back_us = sg_mul_div_ceil(owed.part, 1, l->rate_count);

    s->exists = true;
    s->a = l->limit - owed.used;
    s->b = now_us - back_us;
    s->c = back_us * l->rate_count - owed.part;
    s->rule[0] = l->limit;
    s->rule[1] = l->rate_count;
    s->rule[2] = l->rate_us;
}

static bool same_rule(const sg_limit_t *l, const sg_limit_state_t *s)
{
    return s->rule[0] == l->limit && s->rule[1] == l->rate_count && s->rule[2] == l->rate_us;
}

static void look(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                 sg_limit_result_t *out)
{
    bool capped;
    sg_refill_t owed = owed_at(l, s, now_us, &capped);

    /* A changed rule, or a bucket emptied by a clock that went back, is written down at once: it must start
     * to refill. */
    if (s->exists && cost && (capped || !same_rule(l, s)))
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

/* Under the rule that is stored: a settlement changes no rule. */
static void settle(const sg_limit_t *l, sg_limit_state_t *s, const sg_settlement_t *what, int64_t now_us,
                   const char *lease)
{
    sg_limit_t as = *l;
    sg_refill_t owed;
    bool capped;

    (void)lease;
    if (s->exists) {
        as.limit = s->rule[0];
        as.rate_count = s->rule[1];
        as.rate_us = s->rule[2];
    } else if (what->delta < 0) {
        return;
    }
    owed = owed_at(&as, s, now_us, &capped);
    owed = sg_refill_settle(sg_refill_rate(&as), s, owed, what, now_us);
    save(&as, s, owed, now_us);
}

const sg_algo_ops_t sg_algo_token_bucket = {
    .name = "token_bucket",
    .code = "tb",
    .look = look,
    .take = take,
    .settle = settle,
    .finish = sg_refill_finish,
    .life_us = sg_refill_life_us,
};
