#include "upstream/upstream.h"

#include "upstream/group.h"

struct sg_upstreams {
    sg_pools_t pools;
    sg_metrics_block_t *metrics;
    sg_group_t **groups;            /* by sg_upstream_conf_t.index of the current config */
    size_t group_count;
    sg_link_t old;                  /* of earlier configs, for exchanges in flight; until the next reload */
    sg_timer_t tick;
    sg_task_t freeing;
};

enum { TICK_US = 1000000 };

/* --- which group ---------------------------------------------------------------------------- */

static sg_group_t *find_group(const sg_upstreams_t *u, const sg_upstream_conf_t *conf)
{
    if (conf->index < u->group_count && u->groups[conf->index]->bound == conf)
        return u->groups[conf->index];
    SG_LIST_EACH(l, &u->old) {
        sg_group_t *g = SG_OWNER(l, sg_group_t, link);
        if (sg_group_is_of(g, conf))
            return g;
    }
    return NULL;
}

/* An exchange that began before a reload goes on with the upstream as it was then. */
static sg_group_t *need_group(sg_upstreams_t *u, const sg_upstream_conf_t *conf)
{
    sg_group_t *g = find_group(u, conf);
    if (!g) {
        g = sg_group_new(&u->pools, conf);
        sg_list_push_back(&u->old, &g->link);
    }
    return g;
}

/* --- what metrics show ---------------------------------------------------------------------- */

static void show_target(const sg_upstreams_t *u, const sg_group_t *g, size_t i)
{
    if (u->metrics)
        sg_set_target_up(u->metrics, g->pools[i]->target.metric, sg_group_target_is_up(g, i));
}

static void show_all(const sg_upstreams_t *u)
{
    for (size_t k = 0; k < u->group_count; k++)
        for (size_t i = 0; i < u->groups[k]->count; i++)
            show_target(u, u->groups[k], i);
}

/* Ejection ends by the clock alone, and other workers eject too: a look each second keeps this worker's
 * gauges true. */
static void on_tick(void *arg)
{
    sg_upstreams_t *u = arg;
    SG_LIST_EACH(l, &u->pools.pools) {
        sg_pool_expire(SG_OWNER(l, sg_pool_t, link));
    }
    show_all(u);
    sg_timer_in(u->pools.loop, &u->tick, TICK_US, on_tick, u);
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_health(void *arg)
{
    show_all(arg);
}

static void set_groups(sg_upstreams_t *u, const sg_config_t *config)
{
    u->group_count = config->upstream_count;
    u->groups = sg_calloc(u->group_count + 1, sizeof *u->groups);
    for (size_t i = 0; i < u->group_count; i++) {
        u->groups[i] = sg_group_new(&u->pools, &config->upstreams[i]);
        sg_group_check(u->groups[i], &config->upstreams[i], on_health, u);
    }
    show_all(u);
}

static void drop_groups(sg_group_t **groups, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sg_group_free(groups[i]);
    sg_free(groups);
}

static void drop_old(sg_upstreams_t *u)
{
    sg_link_t *l;
    while ((l = sg_list_pop(&u->old)))
        sg_group_free(SG_OWNER(l, sg_group_t, link));
}

sg_upstreams_t *sg_upstreams_new(sg_loop_t *loop, sg_config_t *config, sg_upstream_shared_t *shared,
                                 sg_metrics_block_t *metrics)
{
    sg_upstreams_t *u = SG_NEW(sg_upstreams_t);
    sg_pools_init(&u->pools, loop, shared);
    u->metrics = metrics;
    sg_list_init(&u->old);
    set_groups(u, config);
    sg_timer_in(loop, &u->tick, TICK_US, on_tick, u);
    return u;
}

/* The new groups take their references first, so that pools which both have never go down to none. */
void sg_upstreams_reload(sg_upstreams_t *u, sg_config_t *config)
{
    sg_group_t **before = u->groups;
    size_t count = u->group_count;
    set_groups(u, config);
    drop_groups(before, count);
    drop_old(u);
}

static void free_upstreams(void *arg)
{
    sg_free(arg);
}

void sg_upstreams_free(sg_upstreams_t *u)
{
    sg_timer_stop(u->pools.loop, &u->tick);
    drop_groups(u->groups, u->group_count);
    drop_old(u);
    sg_pools_deinit(&u->pools);
    sg_defer_free(u->pools.loop, &u->freeing, free_upstreams, u);
}

/* --- requests ------------------------------------------------------------------------------- */

sg_err_t sg_upstream_dial(sg_upstreams_t *u, const sg_dial_request_t *req, sg_conn_t **conn, sg_dial_t **dial,
                          sg_dial_fn *fn, void *arg)
{
    sg_group_t *g = need_group(u, req->upstream);
    unsigned index;
    sg_err_t err = sg_group_pick(g, req, &index);
    if (err != SG_OK)
        return err;
    sg_conn_t *c = req->fresh ? NULL : sg_pool_take(g->pools[index], index);
    if (c) {
        *conn = c;
        return SG_OK;
    }
    *dial = sg_dial_start(g->pools[index], index, true, fn, arg);
    return SG_ERR_AGAIN;
}

void sg_upstream_report(sg_upstreams_t *u, const sg_upstream_conf_t *upstream, unsigned target_index, bool ok)
{
    sg_group_t *g = find_group(u, upstream);
    if (!g || target_index >= g->count)
        return;
    sg_pool_t *p = g->pools[target_index];
    int64_t now_us = sg_loop_now_us(u->pools.loop);
    if (!sg_shared_target_report(p->shared, ok, g->eject_failures, g->eject_us, now_us))
        return;
    sg_log(SG_LOG_WARN, "target ejected", SG_F_STR("upstream", g->name), SG_F_STR("target", p->target.url),
           SG_F_I64("failures", g->eject_failures), SG_F_I64("for_ms", g->eject_us / 1000));
    show_target(u, g, target_index);
}

void sg_upstream_status(const sg_upstreams_t *u, const sg_upstream_conf_t *upstream, unsigned target_index,
                        sg_target_status_t *out)
{
    *out = (sg_target_status_t){0};
    const sg_group_t *g = find_group(u, upstream);
    if (!g || target_index >= g->count)
        return;
    const sg_pool_t *p = g->pools[target_index];
    out->idle = p->idle_count;
    out->busy = p->busy_count;
    out->up = sg_group_target_is_up(g, target_index);
    out->ejected = sg_shared_target_is_ejected(p->shared, sg_loop_now_us(u->pools.loop));
}
