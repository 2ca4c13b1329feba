/* limit.c - what all algorithms have in common: names, keys, expiry, and the frame of a decision. */
#include "gate/limit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "gate/algo.h"

#define SECOND_US     INT64_C(1000000)
#define GRACE_US      SECOND_US
#define JITTER_MAX_US (300 * SECOND_US)

static const sg_algo_ops_t *const algos[SG_ALGO_COUNT] = {
    [SG_ALGO_TOKEN_BUCKET] = &sg_algo_token_bucket, [SG_ALGO_GCRA] = &sg_algo_gcra,
    [SG_ALGO_FIXED_WINDOW] = &sg_algo_fixed_window, [SG_ALGO_SLIDING_WINDOW] = &sg_algo_sliding_window,
    [SG_ALGO_SLIDING_LOG] = &sg_algo_sliding_log,   [SG_ALGO_CONCURRENCY] = &sg_algo_concurrency,
};

const char *sg_algo_name(sg_algo_t a)
{
    return algos[a]->name;
}

const char *sg_scope_name(sg_scope_t per)
{
    static const char *const names[] = {
        [SG_PER_TENANT] = "tenant", [SG_PER_KEY] = "key", [SG_PER_IP] = "ip", [SG_PER_ALL] = "all"};
    return names[per];
}

const char *sg_algo_code(sg_algo_t a)
{
    return algos[a]->code;
}

/* --- bounds
 * ------------------------------------------------------------------------------------------------ */

sg_err_t sg_algo_check_window(int64_t us, const char *what, sg_why_t *why)
{
    if (us < 1000 || us > SG_WINDOW_MAX_US) {
        sg_why_set(why, "%s must be 1 ms to 366 days", what);
        return SG_ERR_RANGE;
    }
    if (us % 1000 != 0) {
        sg_why_set(why, "%s must be a whole number of milliseconds", what);
        return SG_ERR_RANGE;
    }
    return SG_OK;
}

sg_err_t sg_algo_check_limit(int64_t limit, int64_t max, sg_why_t *why)
{
    if (limit >= 0 && limit <= max)
        return SG_OK;
    sg_why_set(why, "must be 0 to %" PRId64, max);
    return SG_ERR_RANGE;
}

sg_err_t sg_limit_finish(sg_limit_t *l, sg_why_t *why)
{
    return algos[l->algo]->finish(l, why);
}

void sg_limit_scale(const sg_limit_t *l, int64_t ppm, sg_limit_t *out)
{
    __int128 count = (__int128)l->rate_count * ppm, us = (__int128)l->rate_us * 1000000;

    *out = *l;
    if (l->limit == 0 || ppm == 1000000)
        return;
    out->limit = sg_mul_div_floor(l->limit, ppm, 1000000);
    if (out->limit < 1)
        out->limit = 1;
    if (l->algo != SG_ALGO_TOKEN_BUCKET && l->algo != SG_ALGO_GCRA)
        return;
    /* Halving both keeps the rate to better than one part in a million; the count never reaches 0 this way.
     * */
    while ((us > INT64_C(1) << 60 || count > INT64_C(1) << 60) && count > 1 && us > 1) {
        us = (us + 1) / 2;
        count /= 2;
    }
    if (count < 1)
        count = 1;
    out->rate_count = (int64_t)count;
    out->rate_us = (int64_t)us;
    out->window_us = sg_mul_div_ceil(out->limit, out->rate_us, out->rate_count);
}

/* --- key names
 * ---------------------------------------------------------------------------------------------- */

/* Writes into the fixed room of a key name; what does not fit is cut, which the caps on names rule out. */
typedef struct {
    char *at;
    size_t n;
} key_writer_t;

static void put(key_writer_t *w, const char *p, size_t n)
{
    if (n > SG_KEY_BYTES - w->n)
        n = SG_KEY_BYTES - w->n;
    memcpy(w->at + w->n, p, n);
    w->n += n;
}

static void put_z(key_writer_t *w, const char *z)
{
    put(w, z, strlen(z));
}

static void put_number(key_writer_t *w, int64_t v)
{
    char digits[20];
    size_t i = sizeof(digits);

    do {
        digits[--i] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    put(w, digits + i, sizeof(digits) - i);
}

/* The hash of whose counter it is; nothing for a whole tenant or for all. */
static void put_sub(key_writer_t *w, const sg_key_scope_t *scope, sg_scope_t per)
{
    if (per == SG_PER_KEY && scope->key) {
        put_z(w, ":k.");
        put_z(w, scope->key);
    } else if (per == SG_PER_KEY || per == SG_PER_IP) {
        put_z(w, ":i.");
        put_z(w, scope->ip);
    }
}

static void put_window(key_writer_t *w, int64_t window_us)
{
    put(w, ":", 1);
    if (window_us % SECOND_US == 0) {
        put_number(w, window_us / SECOND_US);
    } else {
        put_number(w, window_us / 1000);
        put(w, "ms", 2);
    }
}

sg_str_t sg_limit_key(const sg_key_scope_t *scope, const sg_limit_t *l, int64_t now_us,
                      char out[SG_KEY_BYTES], int64_t *bucket)
{
    key_writer_t w = {out, 0};

    *bucket = 0;
    put(&w, scope->prefix.p, scope->prefix.n);
    put(&w, ":", 1);
    put_z(&w, algos[l->algo]->code);
    put(&w, ":", 1);
    put(&w, scope->version.p, scope->version.n);
    put(&w, ":{", 2);
    put_z(&w, l->per == SG_PER_ALL ? "all" : scope->tag);
    put(&w, "}", 1);
    put_sub(&w, scope, l->per);
    put(&w, ":", 1);
    put_z(&w, l->name);
    if (algos[l->algo]->windowed)
        put_window(&w, l->window_us);
    if (l->algo == SG_ALGO_FIXED_WINDOW) {
        *bucket = now_us / l->window_us;
        put(&w, ":", 1);
        put_number(&w, *bucket);
    }
    return sg_str_n(out, w.n);
}

/* --- expiry
 * --------------------------------------------------------------------------------------------------- */

int64_t sg_limit_jitter_us(const sg_limit_t *l, sg_str_t key)
{
    int64_t most_us = (l->algo == SG_ALGO_CONCURRENCY ? l->lease_us : l->window_us) / 10;

    if (most_us > JITTER_MAX_US)
        most_us = JITTER_MAX_US;
    return (int64_t)(sg_fnv1a(key) % (uint64_t)(most_us / 1000 + 1)) * 1000;
}

static int64_t whole_ms(int64_t us)
{
    return (us + 999) / 1000 * 1000;
}

int64_t sg_limit_ttl_us(const sg_limit_t *l, sg_str_t key, int64_t now_us)
{
    return whole_ms(algos[l->algo]->life_us(l, now_us)) + GRACE_US + sg_limit_jitter_us(l, key);
}

/* --- decisions
 * -------------------------------------------------------------------------------------------------- */

void sg_limit_state_free(sg_limit_state_t *s)
{
    sg_free(s->more);
    *s = (sg_limit_state_t){0};
}

/* Rounded up, so that waiting that long is enough; the script's reply is in ms. */
static void round_times(sg_limit_result_t *r)
{
    r->reset_us = whole_ms(r->reset_us);
    r->more_us = whole_ms(r->more_us);
    r->retry_us = whole_ms(r->retry_us);
}

void sg_limit_look(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                   sg_limit_result_t *out)
{
    int64_t units = l->algo == SG_ALGO_CONCURRENCY && cost > 1 ? 1 : cost;

    *out = (sg_limit_result_t){.never = l->limit == 0 || units > l->limit};
    /* Limit 0 has no arithmetic, and leaves alone what is there. */
    if (l->limit == 0)
        return;
    algos[l->algo]->look(l, s, units, now_us, out);
    out->allowed = units <= out->remaining;
    round_times(out);
}

void sg_limit_take(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                   sg_limit_result_t *out)
{
    algos[l->algo]->take(l, s, cost, now_us, lease, out);
    round_times(out);
}

void sg_limit_decide(const sg_limit_t *const *limits, sg_limit_state_t *const *states, size_t count,
                     int64_t cost, int64_t now_us, const char *lease, sg_verdict_t *out)
{
    out->allowed = true;
    out->now_us = now_us;
    out->count = count;
    for (size_t i = 0; i < count; i++) {
        sg_limit_look(limits[i], states[i], cost, now_us, &out->at[i]);
        if (!limits[i]->dry_run && !out->at[i].allowed)
            out->allowed = false;
    }
    if (!out->allowed || cost == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (out->at[i].allowed)
            sg_limit_take(limits[i], states[i], cost, now_us, lease, &out->at[i]);
}

void sg_limit_release(sg_limit_state_t *s, const char *lease)
{
    sg_algo_concurrency.release(s, lease);
}

bool sg_limit_settlement(const sg_limit_t *l, const sg_verdict_t *v, size_t i, int64_t reserve, int64_t cost,
                         sg_settlement_t *out)
{
    /* What was owed before is in it; that a part of a unit had come back is not known. */
    int64_t level = l->limit - v->at[i].remaining - 1;

    if (!v->allowed || reserve <= 0 || cost < 0 || cost == reserve || i >= v->count || !v->at[i].allowed ||
        l->limit == 0 || !algos[l->algo]->settle)
        return false;
    *out = (sg_settlement_t){.reserve = reserve,
                             .delta = cost - reserve,
                             .decided_us = v->now_us,
                             .level = level > reserve ? level : reserve,
                             .given = v->at[i].given};
    return true;
}

int64_t sg_limit_settle_at_us(const sg_settlement_t *what, int64_t now_us)
{
    return what->delta < 0 ? what->decided_us : now_us;
}

void sg_limit_settle(const sg_limit_t *l, sg_limit_state_t *s, const sg_settlement_t *what, int64_t now_us,
                     const char *lease)
{
    if (l->limit > 0 && what->delta != 0 && algos[l->algo]->settle)
        algos[l->algo]->settle(l, s, what, now_us, lease);
}
