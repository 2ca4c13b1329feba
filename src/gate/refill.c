/* refill.c - the arithmetic of what comes back at a steady rate: token bucket and GCRA are two ways to
 * write the same debt down, so they decide alike. Mirrored by the functions of the same meaning in
 * lua/head.lua. */
#include "gate/algo.h"

#include <inttypes.h>

#include "base/num.h"

/* The script holds µs of the epoch plus this in one number below 2^53 (until the year 2120). */
#define FILL_MAX_US INT64_C(4000000000000000)
/* The script's exact division needs divisors below this. */
#define TERM_MAX (INT64_C(1) << 45)

static __int128 floor_div(__int128 a, __int128 b)
{
    __int128 q = a / b;

    return a % b < 0 ? q - 1 : q;
}

int64_t sg_mul_div_floor(int64_t a, int64_t b, int64_t c)
{
    return (int64_t)floor_div((__int128)a * b, c);
}

int64_t sg_mul_div_ceil(int64_t a, int64_t b, int64_t c)
{
    return (int64_t)-floor_div(-((__int128)a * b), c);
}

sg_refill_t sg_refill_at(sg_refill_rate_t rate, int64_t used, int64_t at_us, int64_t frac, int64_t now_us)
{
    __int128 gained = (__int128)(now_us - at_us) * rate.count - frac;
    __int128 units = floor_div(gained, rate.us), left = used - units;

    if (left <= 0)
        return (sg_refill_t){0, 0};
    if (left > INT64_MAX)
        return (sg_refill_t){INT64_MAX, 0};
    return (sg_refill_t){(int64_t)left, (int64_t)(gained - units * rate.us)};
}

static bool comes_back_in_time(int64_t units, sg_refill_rate_t rate)
{
    return (__int128)units * rate.us <= (__int128)FILL_MAX_US * rate.count;
}

sg_refill_t sg_refill_convert(sg_refill_t owed, int64_t from_us, bool debt, const sg_limit_t *to)
{
    if (owed.used > to->limit && !(debt && comes_back_in_time(owed.used, sg_refill_rate(to))))
        return (sg_refill_t){to->limit, 0};
    return (sg_refill_t){owed.used, sg_mul_div_floor(owed.part, to->rate_us, from_us)};
}

/* The most that may be owed. */
static int64_t most_owed(sg_refill_rate_t rate)
{
    __int128 most = (__int128)FILL_MAX_US * rate.count / rate.us;

    return most < SG_REFILL_LIMIT_MAX ? (int64_t)most : SG_REFILL_LIMIT_MAX;
}

void sg_refill_begin(sg_limit_state_t *s, sg_refill_t owed, int64_t now_us)
{
    if (owed.used > 0 || s->given == 0)
        return;
    s->given = 0;
    s->since_us = now_us;
}

static bool is_less(sg_refill_t a, sg_refill_t b)
{
    return a.used < b.used || (a.used == b.used && a.part > b.part);
}

/* What is left of the request's units, at least, by two views that both hold, so the better one counts. They
 * lie on top of all that was owed before, less what others have given back since (some of them may have taken
 * later, and lie above; that is not known). And time has drained them at most, had they been alone. */
static sg_refill_t left_of_decision(sg_refill_rate_t rate, const sg_limit_state_t *s,
                                    const sg_settlement_t *what, int64_t now_us)
{
    int64_t others = s->given - what->given;
    sg_refill_t own = sg_refill_at(rate, what->reserve, what->decided_us, 0, now_us), all = {0, 0};

    /* A time that is still to come was written by a clock that was ahead. */
    if ((what->decided_us >= s->since_us || s->since_us > now_us) && others >= 0 && others < what->level)
        all = sg_refill_at(rate, what->level - others, what->decided_us, 0, now_us);
    return is_less(all, own) ? own : all;
}

static sg_refill_t charge(sg_refill_rate_t rate, sg_refill_t owed, int64_t units)
{
    int64_t room = most_owed(rate) - owed.used;

    if (room > 0)
        owed.used += sg_i64_min(units, room);
    return owed;
}

sg_refill_t sg_refill_settle(sg_refill_rate_t rate, sg_limit_state_t *s, sg_refill_t owed,
                             const sg_settlement_t *what, int64_t now_us)
{
    int64_t back = -what->delta;
    sg_refill_t units;

    if (what->delta > 0) {
        sg_refill_begin(s, owed, now_us);
        return charge(rate, owed, what->delta);
    }
    units = left_of_decision(rate, s, what, now_us);
    if (units.used > back || (units.used == back && units.part == 0))
        units = (sg_refill_t){back, 0};
    s->given += sg_i64_min(units.used, SG_LIMIT_NUMBER_MAX - s->given);
    owed.used -= units.used;
    owed.part -= units.part;
    if (owed.part < 0) {
        owed.used++;
        owed.part += rate.us;
    }
    return owed.used > 0 ? owed : (sg_refill_t){0, 0};
}

/* Until `units` more are back: ceil((units * us - part) / count). */
static int64_t wait_us(const sg_limit_t *l, sg_refill_t owed, int64_t units)
{
    __int128 parts = (__int128)units * l->rate_us - owed.part;

    return (int64_t)-floor_div(-parts, l->rate_count);
}

void sg_refill_result(const sg_limit_t *l, const sg_limit_state_t *s, sg_refill_t owed, int64_t cost,
                      sg_limit_result_t *out)
{
    int64_t over = owed.used - l->limit;

    out->remaining = sg_algo_left(l->limit, owed.used);
    out->given = owed.used ? s->given : 0;
    out->reset_us = owed.used ? wait_us(l, owed, owed.used) : 0;
    out->more_us = owed.used ? wait_us(l, owed, over > 0 ? over + 1 : 1) : 0;
    out->retry_us = cost > out->remaining && cost <= l->limit ? wait_us(l, owed, cost + over) : 0;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

sg_err_t sg_refill_finish(sg_limit_t *l, sg_why_t *why)
{
    __int128 fill;
    int64_t common, most;

    if (sg_algo_check_limit(l->limit, SG_REFILL_LIMIT_MAX, why) != SG_OK)
        return SG_ERR_RANGE;
    l->window_us = 0;
    if (l->limit == 0)
        return SG_OK;
    if (l->rate_count < 1 || l->rate_us < 1 || l->rate_us > SG_WINDOW_MAX_US) {
        sg_why_set(why, "a rate must be more than 0, and its period at most 366 days");
        return SG_ERR_RANGE;
    }
    common = gcd(l->rate_count, l->rate_us);
    l->rate_count /= common;
    l->rate_us /= common;
    if (l->rate_count >= TERM_MAX) {
        sg_why_set(why,
                   "the rate is %" PRId64 " per %" PRId64 " µs in lowest terms, and counts up to %" PRId64
                   " are exact",
                   l->rate_count, l->rate_us, TERM_MAX - 1);
        return SG_ERR_RANGE;
    }
    fill = -floor_div(-((__int128)l->limit * l->rate_us), l->rate_count);
    if (fill > FILL_MAX_US) {
        most = sg_mul_div_floor(FILL_MAX_US, l->rate_count, l->rate_us);
        sg_why_set(why,
                   "%" PRId64 " units take more than 126 years to come back at that rate; at most %" PRId64
                   " are allowed with it",
                   l->limit, most);
        return SG_ERR_RANGE;
    }
    l->window_us = (int64_t)fill;
    return SG_OK;
}

int64_t sg_refill_life_us(const sg_limit_t *l, int64_t now_us)
{
    (void)now_us;
    return l->window_us;
}
