#include "upstream/group.h"

#include "base/hash.h"

sg_group_t *sg_group_new(sg_pools_t *all, const sg_upstream_conf_t *conf)
{
    sg_group_t *g = SG_NEW(sg_group_t);
    g->bound = conf;
    g->arena = sg_arena_new(512);
    g->name = sg_arena_strndup(g->arena, sg_str(conf->name));
    g->balance = conf->balance;
    g->max_requests = conf->max_requests;
    g->eject_failures = conf->eject.failures;
    g->eject_us = conf->eject.for_us;
    g->checked = conf->health.path != NULL;
    g->count = conf->target_count;
    g->pools = sg_arena_calloc(g->arena, (g->count + 1) * sizeof *g->pools);
    g->candidates = sg_arena_calloc(g->arena, (g->count + 1) * sizeof *g->candidates);
    for (size_t i = 0; i < g->count; i++) {
        const sg_target_conf_t *t = &conf->targets[i];
        g->pools[i] = sg_pool_get(all, conf, t);
        g->candidates[i].weight = t->weight;
        g->candidates[i].seed = sg_fnv1a(sg_str(t->url));
    }
    return g;
}

void sg_group_check(sg_group_t *g, const sg_upstream_conf_t *conf, sg_health_fn *changed, void *arg)
{
    if (!g->checked)
        return;
    g->checks = sg_arena_calloc(g->arena, (g->count + 1) * sizeof *g->checks);
    for (size_t i = 0; i < g->count; i++)
        g->checks[i] = sg_health_new(g->pools[i], conf, (unsigned)i, changed, arg);
}

void sg_group_free(sg_group_t *g)
{
    for (size_t i = 0; i < g->count; i++) {
        if (g->checks)
            sg_health_free(g->checks[i]);
        sg_pool_put(g->pools[i]);
    }
    sg_arena_free(g->arena);
    sg_free(g);
}

bool sg_group_is_of(const sg_group_t *g, const sg_upstream_conf_t *conf)
{
    if (g->bound != conf || g->count != conf->target_count || strcmp(g->name, conf->name) != 0)
        return false;
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->pools[i]->target.url, conf->targets[i].url) != 0)
            return false;
    return true;
}

bool sg_group_target_is_up(const sg_group_t *g, size_t index)
{
    const sg_pool_t *p = g->pools[index];
    return !(g->checked && atomic_load_explicit(&p->shared->down, memory_order_relaxed)) &&
           !sg_shared_target_is_ejected(p->shared, sg_loop_now_us(p->all->loop));
}

static void look(sg_group_t *g, uint64_t tried)
{
    for (size_t i = 0; i < g->count; i++) {
        sg_candidate_t *c = &g->candidates[i];
        c->out = !sg_group_target_is_up(g, i);
        c->tried = i < 64 && (tried >> i & 1) != 0;
        c->full = false;
        c->in_flight = atomic_load_explicit(&g->pools[i]->shared->in_flight, memory_order_relaxed);
    }
}

sg_err_t sg_group_pick(sg_group_t *g, const sg_dial_request_t *req, unsigned *index)
{
    if (g->count == 1 && g->candidates[0].weight > 0) {
        *index = 0;
        return sg_shared_target_enter(g->pools[0]->shared, g->max_requests) ? SG_OK : SG_ERR_FULL;
    }
    look(g, req->tried);
    uint64_t key = g->balance == SG_BALANCE_HASH ? sg_fnv1a(req->hash_key) : 0;
    for (;;) {
        int i = sg_balance_pick(g->balance, g->candidates, g->count, key);
        if (i < 0)
            return i == SG_PICK_FULL ? SG_ERR_FULL : SG_ERR_NOT_FOUND;
        if (sg_shared_target_enter(g->pools[i]->shared, g->max_requests)) {
            *index = (unsigned)i;
            return SG_OK;
        }
        g->candidates[i].full = true;
    }
}
