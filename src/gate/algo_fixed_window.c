/* algo_fixed_window.c - a counter for each window; windows start at multiples of their length since the
 * epoch (UTC).
 *
 * State: a = the count. Which window it counts is part of the key's name, so another window is another
 * state. */
#include "gate/algo.h"

static void result(const sg_limit_t *l, int64_t used, int64_t cost, int64_t now_us, sg_limit_result_t *out)
{
    int64_t end_us = l->window_us - now_us % l->window_us;

    out->remaining = sg_algo_left(l->limit, used);
    out->reset_us = out->more_us = used ? end_us : 0;
    out->retry_us = cost > out->remaining && cost <= l->limit ? end_us : 0;
}

static void look(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                 sg_limit_result_t *out)
{
    result(l, s->a, cost, now_us, out);
}

static void take(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                 sg_limit_result_t *out)
{
    (void)lease;
    s->exists = true;
    s->a += cost;
    result(l, s->a, 0, now_us, out);
}

/* The state is the window's of the decision for a refund, the present one's for a charge. */
static void settle(const sg_limit_t *l, sg_limit_state_t *s, const sg_settlement_t *what, int64_t now_us,
                   const char *lease)
{
    int64_t room = SG_LIMIT_NUMBER_MAX - s->a;

    (void)l;
    (void)now_us;
    (void)lease;
    if (what->delta < 0)
        s->a = sg_algo_left(s->a, -what->delta);
    else
        s->a += what->delta < room ? what->delta : room;
    s->exists |= what->delta > 0;
}

static sg_err_t finish(sg_limit_t *l, sg_why_t *why)
{
    if (sg_algo_check_limit(l->limit, SG_LIMIT_NUMBER_MAX, why) != SG_OK)
        return SG_ERR_RANGE;
    return sg_algo_check_window(l->window_us, "window", why);
}

static int64_t life_us(const sg_limit_t *l, int64_t now_us)
{
    return l->window_us - now_us % l->window_us;
}

const sg_algo_ops_t sg_algo_fixed_window = {
    .name = "fixed_window",
    .code = "fw",
    .windowed = true,
    .look = look,
    .take = take,
    .settle = settle,
    .finish = finish,
    .life_us = life_us,
};
