/* algo.h - what an algorithm is to limit.c, and the arithmetic that several of them share. Private to gate/.
 *
 * Times are µs and exact here; limit.c rounds what leaves the room up to whole ms, once, as the script
 * does. */
#ifndef SG_GATE_ALGO_H
#define SG_GATE_ALGO_H

#include "gate/limit.h"

/* One algorithm. look, take and release have the contracts of sg_limit_look, _take and _release, and these
 * liberties: limit > 0, and `allowed`, `never` are filled in by the caller from `remaining`. */
typedef struct {
    const char *name, *code;
    bool windowed; /* the window stands in the key's name */
    /* With cost > 0 it may also put right what a clock that went back or a changed limit left behind. */
    void (*look)(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                 sg_limit_result_t *out);
    void (*take)(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                 sg_limit_result_t *out);
    void (*release)(sg_limit_state_t *s, const char *lease); /* NULL: nothing to give back */
    /* As sg_limit_settle; delta is not 0. NULL: costs nothing afterwards. */
    void (*settle)(const sg_limit_t *l, sg_limit_state_t *s, const sg_settlement_t *what, int64_t now_us,
                   const char *lease);
    /* Bounds, and the derived fields of *l. */
    sg_err_t (*finish)(sg_limit_t *l, sg_why_t *why);
    /* How long what is written at now_us matters. */
    int64_t (*life_us)(const sg_limit_t *l, int64_t now_us);
} sg_algo_ops_t;

extern const sg_algo_ops_t sg_algo_token_bucket, sg_algo_gcra, sg_algo_fixed_window, sg_algo_sliding_window,
    sg_algo_sliding_log, sg_algo_concurrency;

/* Units left of `limit` when `used` are used: never negative. */
static inline int64_t sg_algo_left(int64_t limit, int64_t used)
{
    return used < limit ? limit - used : 0;
}

/* Quotients of products that may not fit into 64 bits; the quotient must. b, c > 0. */
int64_t sg_mul_div_floor(int64_t a, int64_t b, int64_t c);
int64_t sg_mul_div_ceil(int64_t a, int64_t b, int64_t c);

/* A window of whole ms, at most SG_WINDOW_MAX_US; `what` names it in the sentence. */
SG_MUST sg_err_t sg_algo_check_window(int64_t us, const char *what, sg_why_t *why);
SG_MUST sg_err_t sg_algo_check_limit(int64_t limit, int64_t max, sg_why_t *why);

/* --- refill: token bucket and GCRA
 * ------------------------------------------------------------------------- */

/* count units come back in every `us` µs, in lowest terms. What is owed is always used * us - part, in 1/us
 * units: `used` whole units, less the part (0 <= part < us) of the next one that is back already. */
typedef struct {
    int64_t count, us;
} sg_refill_rate_t;

typedef struct {
    int64_t used, part;
} sg_refill_t;

/* The largest capacity or burst: leaves the script room to tell a quotient that is too large from one that
 * is not. */
#define SG_REFILL_LIMIT_MAX INT64_C(9000000000000000)

/* What is owed at now_us, when exactly `used` units were at the time at_us + frac / rate.count. A time that
 * is still to come makes it more; the caller holds it to the limit. */
sg_refill_t sg_refill_at(sg_refill_rate_t rate, int64_t used, int64_t at_us, int64_t frac, int64_t now_us);
/* The same under the limit and rate of `to`: whole units stay, a part keeps its share (rounded against the
 * caller), and no more than the limit is owed; in debt, no more than comes back in time. */
sg_refill_t sg_refill_convert(sg_refill_t owed, int64_t from_us, bool debt, const sg_limit_t *to);
/* Call it before anything is added to what is owed. If that is nothing, the bucket is full, and decisions of
 * before have nothing to give back any more. */
void sg_refill_begin(sg_limit_state_t *s, sg_refill_t owed, int64_t now_us);
/* What is owed after a settlement. A refund is at most what is left of what was owed at the decision: what
 * time has brought back since cannot be given back again, nor what other settlements have. */
sg_refill_t sg_refill_settle(sg_refill_rate_t rate, sg_limit_state_t *s, sg_refill_t owed,
                             const sg_settlement_t *what, int64_t now_us);
/* remaining, reset, more, retry, given. */
void sg_refill_result(const sg_limit_t *l, const sg_limit_state_t *s, sg_refill_t owed, int64_t cost,
                      sg_limit_result_t *out);
/* Bounds of token bucket and GCRA. */
SG_MUST sg_err_t sg_refill_finish(sg_limit_t *l, sg_why_t *why);
int64_t sg_refill_life_us(const sg_limit_t *l, int64_t now_us);

static inline sg_refill_rate_t sg_refill_rate(const sg_limit_t *l)
{
    return (sg_refill_rate_t){l->rate_count, l->rate_us};
}

#endif
