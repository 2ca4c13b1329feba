/* algo_concurrency.c - requests in flight. Each holds one slot, whatever its cost, until it is released or
 * its lease runs out.
 *
 * State: more = the leases, by expiry. */
#include "gate/algo.h"

#include "base/mem.h"
#include "base/num.h"

#define LIMIT_MAX   1000000
#define LEASE_BYTES 36

typedef struct {
    int64_t expires_us;
    char name[LEASE_BYTES];
} lease_t;

typedef struct {
    size_t count, size;
    lease_t at[];
} leases_t;

/* Until `slots` of the leases from i on have run out. No lease runs longer than a new one would. */
static int64_t wait_us(const sg_limit_t *l, const leases_t *all, size_t i, int64_t slots, int64_t now_us)
{
    return sg_i64_min(all->at[i + (size_t)slots - 1].expires_us - now_us, l->lease_us);
}

static size_t first_alive(const leases_t *all, int64_t now_us)
{
    size_t i = 0;

    while (i < all->count && all->at[i].expires_us <= now_us)
        i++;
    return i;
}

static void result(const sg_limit_t *l, const leases_t *all, int64_t cost, int64_t now_us,
                   sg_limit_result_t *out)
{
    size_t first = all ? first_alive(all, now_us) : 0;
    int64_t used = all ? (int64_t)(all->count - first) : 0, over = used - l->limit;

    out->remaining = sg_algo_left(l->limit, used);
    out->reset_us = out->more_us = out->retry_us = 0;
    if (!used)
        return;
    out->reset_us = wait_us(l, all, first, used, now_us);
    out->more_us = wait_us(l, all, first, over > 0 ? over + 1 : 1, now_us);
    if (cost > 0 && over >= 0)
        out->retry_us = out->more_us;
}

/* A clock that went back, or a lease that was made shorter. */
static void shorten(const sg_limit_t *l, leases_t *all, int64_t now_us)
{
    for (size_t i = all->count; i > 0 && all->at[i - 1].expires_us > now_us + l->lease_us; i--)
        all->at[i - 1].expires_us = now_us + l->lease_us;
}

static void look(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                 sg_limit_result_t *out)
{
    if (cost && s->more)
        shorten(l, s->more, now_us);
    result(l, s->more, cost, now_us, out);
}

static void release(sg_limit_state_t *s, const char *lease)
{
    leases_t *all = s->more;

    for (size_t i = 0; all && i < all->count; i++) {
        if (strcmp(all->at[i].name, lease) != 0)
            continue;
        memmove(all->at + i, all->at + i + 1, (all->count - i - 1) * sizeof(lease_t));
        all->count--;
        return;
    }
}

static leases_t *with_room(leases_t *all)
{
    size_t size = all ? 2 * all->size : 4;

    if (all && all->count < all->size)
        return all;
    all = sg_realloc(all, sizeof(*all) + size * sizeof(lease_t));
    if (size == 4)
        all->count = 0;
    all->size = size;
    return all;
}

/* Names longer than a lease may be are cut; the interface allows 32 characters. */
static void add(leases_t *all, const char *lease, int64_t expires_us)
{
    lease_t *new = &all->at[all->count++];
    size_t n = strnlen(lease, LEASE_BYTES - 1);

    new->expires_us = expires_us;
    memcpy(new->name, lease, n);
    new->name[n] = '\0';
}

static void take(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                 sg_limit_result_t *out)
{
    leases_t *all = s->more;
    size_t lapsed;

    (void)cost;
    release(s, lease);
    if (all) {
        shorten(l, all, now_us);
        lapsed = first_alive(all, now_us);
        all->count -= lapsed;
        memmove(all->at, all->at + lapsed, all->count * sizeof(lease_t));
    }
    s->more = all = with_room(all);
    s->exists = true;
    add(all, lease, now_us + l->lease_us);
    result(l, all, 0, now_us, out);
}

static sg_err_t finish(sg_limit_t *l, sg_why_t *why)
{
    if (sg_algo_check_limit(l->limit, LIMIT_MAX, why) != SG_OK)
        return SG_ERR_RANGE;
    return sg_algo_check_window(l->lease_us, "lease", why);
}

static int64_t life_us(const sg_limit_t *l, int64_t now_us)
{
    (void)now_us;
    return l->lease_us;
}

const sg_algo_ops_t sg_algo_concurrency = {
    .name = "concurrency",
    .code = "cc",
    .look = look,
    .take = take,
    .release = release,
    .finish = finish,
    .life_us = life_us,
};
