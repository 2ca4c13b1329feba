#include "store/deny_cache.h"

#include "base/mem.h"
#include "base/num.h"

/* About 3 MiB when all places are in use. Callers that fall into the same set do not push each other out
 * until there are more of them than ways: with one place each, two of some hundred would, all the time. */
#define SETS 1024               /* a power of two */
#define WAYS 4
#define NAME_BYTES 320
#define LIMITS_KEPT 8           /* requests with more limits are asked each time */

typedef struct {
    size_t name_len;
    char name[NAME_BYTES];
    int64_t put_us, until_us;
    int64_t ask_us;             /* from then on one request asks the store; INT64_MAX: none */
    int64_t store_now_us;
    size_t count;
    sg_limit_result_t at[LIMITS_KEPT];
} denial_t;

struct sg_deny_cache {
    int64_t last_us;            /* no entry holds longer: nothing to look for after it */
    denial_t *places[SETS][WAYS];
};

/* Who asks what: the caller's tags, the cost, and the limits by address. */
typedef struct {
    char text[NAME_BYTES];
    size_t n;
    bool fits;
} name_t;

static void name_add(name_t *name, const void *p, size_t n)
{
    if (!name->fits || n > sizeof name->text - name->n) {
        name->fits = false;
        return;
    }
    memcpy(name->text + name->n, p, n);
    name->n += n;
}

static void name_add_text(name_t *name, const char *z)
{
    if (z)
        name_add(name, z, strlen(z));
    name_add(name, "", 1);
}

static bool name_of(const sg_check_t *check, name_t *name)
{
    name->n = 0;
    name->fits = check->count <= LIMITS_KEPT && check->cost > 0;
    name_add_text(name, check->scope.tag);
    name_add_text(name, check->scope.key);
    name_add_text(name, check->scope.ip);
    name_add(name, &check->cost, sizeof check->cost);
    name_add(name, check->limits, check->count * sizeof *check->limits);
    return name->fits;
}

static denial_t **set_of(sg_deny_cache_t *c, const name_t *name)
{
    return c->places[sg_siphash(sg_str_n(name->text, name->n)) & (SETS - 1)];
}

static bool is_of(const denial_t *d, const name_t *name)
{
    return d && sg_str_eq(sg_str_n(d->name, d->name_len), sg_str_n(name->text, name->n));
}

/* Its own place, or an empty one, or that of the denial that ends first. */
static denial_t *place_for(sg_deny_cache_t *c, const name_t *name)
{
    denial_t **set = set_of(c, name), **best = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (is_of(set[i], name))
            return set[i];
        if (*best && (!set[i] || set[i]->until_us < (*best)->until_us))
            best = &set[i];
    }
    if (!*best)
        *best = SG_NEW(denial_t);
    return *best;
}

sg_deny_cache_t *sg_deny_cache_new(void)
{
    return SG_NEW(sg_deny_cache_t);
}

void sg_deny_cache_free(sg_deny_cache_t *c)
{
    for (size_t i = 0; c && i < SETS; i++)
        for (size_t k = 0; k < WAYS; k++)
            sg_free(c->places[i][k]);
    sg_free(c);
}

/* How long the denial holds whatever others do; 0 = not at all. */
static int64_t holds_us(const sg_check_t *check, const sg_verdict_t *v)
{
    int64_t us = SG_DENY_CACHE_MAX_US;
    for (size_t i = 0; i < v->count; i++) {
        if (v->at[i].allowed || check->limits[i]->dry_run)
            continue;
        if (check->limits[i]->algo == SG_ALGO_CONCURRENCY)
            return 0;
        if (!v->at[i].never && v->at[i].retry_us < us)
            us = v->at[i].retry_us;
    }
    return us;
}

void sg_deny_cache_put(sg_deny_cache_t *c, const sg_check_t *check, const sg_verdict_t *verdict,
                       int64_t now_us)
{
    name_t name;
    if (verdict->allowed || verdict->count > LIMITS_KEPT || !name_of(check, &name))
        return;
    int64_t us = holds_us(check, verdict);
    if (us <= 0)
        return;
    denial_t *d = place_for(c, &name);
    d->name_len = name.n;
    memcpy(d->name, name.text, name.n);
    d->put_us = now_us;
    d->until_us = now_us + us;
    /* One that ends by its retry time may pass then, and not before. */
    d->ask_us = us < SG_DENY_CACHE_MAX_US ? INT64_MAX : d->until_us - SG_DENY_CACHE_AHEAD_US;
    if (d->until_us > c->last_us)
        c->last_us = d->until_us;
    d->store_now_us = verdict->now_us;
    d->count = verdict->count;
    memcpy(d->at, verdict->at, verdict->count * sizeof d->at[0]);
}

bool sg_deny_cache_get(sg_deny_cache_t *c, const sg_check_t *check, int64_t now_us, sg_verdict_t *out)
{
    name_t name;
    if (now_us >= c->last_us || !name_of(check, &name))
        return false;
    denial_t **set = set_of(c, &name), *d = NULL;
    for (size_t i = 0; i < WAYS && !d; i++)
        if (is_of(set[i], &name))
            d = set[i];
    if (!d || now_us >= d->until_us)
        return false;
    if (now_us >= d->ask_us) {
        d->ask_us = INT64_MAX;
        return false;
    }
    int64_t gone_us = now_us - d->put_us;
    out->allowed = false;
    out->now_us = d->store_now_us + gone_us;
    out->count = d->count;
    for (size_t i = 0; i < d->count; i++) {
        sg_limit_result_t r = d->at[i];
        r.reset_us = sg_i64_less(r.reset_us, gone_us);
        r.more_us = sg_i64_less(r.more_us, gone_us);
        r.retry_us = sg_i64_less(r.retry_us, gone_us);
        out->at[i] = r;
    }
    return true;
}
