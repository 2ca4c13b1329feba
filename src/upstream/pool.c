#include "upstream/pool.h"

#include <sys/stat.h>

#include "base/hash.h"

/* --- the identity of a target --------------------------------------------------------------- */

static uint64_t file_stamp(const char *path, uint64_t seed)
{
    struct stat st;
    if (!path || stat(path, &st) != 0)
        return seed;
    uint64_t parts[] = {seed, (uint64_t)st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
                        (uint64_t)st.st_mtim.tv_nsec};
    return sg_fnv1a(sg_str_n((const char *)parts, sizeof parts));
}

static uint64_t files_stamp(const sg_upstream_conf_t *u)
{
    return file_stamp(u->tls.key, file_stamp(u->tls.certificate, file_stamp(u->tls.ca, 0)));
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_tls(const sg_pool_t *p, const sg_upstream_conf_t *u)
{
    return p->tls.verify == u->tls.verify && same(p->tls.ca, u->tls.ca) &&
           same(p->tls.server_name, u->tls.server_name) && same(p->tls.certificate, u->tls.certificate) &&
           same(p->tls.key, u->tls.key) && p->tls.files == files_stamp(u);
}

static sg_pool_t *find(sg_pools_t *all, const sg_upstream_conf_t *u, const sg_target_conf_t *t)
{
    SG_LIST_EACH(l, &all->pools) {
        sg_pool_t *p = SG_OWNER(l, sg_pool_t, link);
        if (!sg_pool_is_retired(p) && same(p->upstream, u->name) && same(p->target.url, t->url) &&
            (!t->https || same_tls(p, u)))
            return p;
    }
    return NULL;
}

/* --- all pools of a worker ------------------------------------------------------------------ */

void sg_pools_init(sg_pools_t *all, sg_loop_t *loop, sg_upstream_shared_t *shared)
{
    *all = (sg_pools_t){.loop = loop, .shared = shared, .keep_fd = -1};
    all->idle_max = SG_POOL_IDLE_MAX;
    all->idle_us = SG_POOL_IDLE_US;
    all->plain = sg_multi_new(loop, sg_dial_done);
    sg_list_init(&all->pools);
}

void sg_pools_deinit(sg_pools_t *all)
{
    if (all->pool_count > 0)
        sg_log(SG_LOG_ERROR, "upstream connections are still lent", SG_F_I64("pools", all->pool_count));
    sg_multi_free(all->plain);
}

/* --- life ----------------------------------------------------------------------------------- */

static char *copy(sg_pool_t *p, const char *z)
{
    return z ? sg_arena_strndup(p->arena, sg_str(z)) : NULL;
}

static sg_pool_t *make(sg_pools_t *all, const sg_upstream_conf_t *u, const sg_target_conf_t *t)
{
    sg_pool_t *p = SG_NEW(sg_pool_t);
    p->all = all;
    p->arena = sg_arena_new(512);
    p->upstream = copy(p, u->name);
    p->target = *t;
    p->target.url = copy(p, t->url);
    p->target.host = copy(p, t->host);
    p->target.unix_path = copy(p, t->unix_path);
    p->tls.verify = u->tls.verify;
    p->tls.ca = copy(p, u->tls.ca);
    p->tls.server_name = copy(p, u->tls.server_name);
    p->tls.certificate = copy(p, u->tls.certificate);
    p->tls.key = copy(p, u->tls.key);
    p->tls.files = files_stamp(u);
    p->shared = sg_shared_target_get(all->shared, u->name, t->url);
    sg_list_init(&p->idle);
    sg_list_push_back(&all->pools, &p->link);
    all->pool_count++;
    return p;
}

sg_pool_t *sg_pool_get(sg_pools_t *all, const sg_upstream_conf_t *upstream, const sg_target_conf_t *target)
{
    sg_pool_t *p = find(all, upstream, target);
    if (!p)
        p = make(all, upstream, target);
    p->groups++;
    p->target.weight = target->weight;
    p->target.metric = target->metric;
    p->connect_timeout_us = upstream->connect_timeout_us;
    p->resolve_interval_us = upstream->resolve_interval_us;
    return p;
}

static void free_pool(void *arg)
{
    sg_pool_t *p = arg;
    sg_arena_free(p->arena);
    sg_free(p);
}

/* Callbacks above on the stack may still look at the pool: its memory goes at the end of the turn. */
static void free_if_unused(sg_pool_t *p)
{
    if (p->groups > 0 || p->users > 0)
        return;
    sg_list_remove(&p->link);
    p->all->pool_count--;
    sg_multi_free(p->multi);
    sg_shared_target_put(p->all->shared, p->shared);
    sg_defer_free(p->all->loop, &p->freeing, free_pool, p);
}

void sg_pool_put(sg_pool_t *p)
{
    if (--p->groups > 0)
        return;
    sg_pool_use(p);
    SG_LIST_EACH(l, &p->idle) {
        sg_conn_close(sg_conn_of_link(l));
    }
    sg_pool_unuse(p);
}

void sg_pool_use(sg_pool_t *p)
{
    p->users++;
}

void sg_pool_unuse(sg_pool_t *p)
{
    p->users--;
    free_if_unused(p);
}

/* --- idle connections ----------------------------------------------------------------------- */

sg_conn_t *sg_pool_take(sg_pool_t *p, unsigned target_index)
{
    while (!sg_list_empty(&p->idle)) {
        sg_conn_t *c = sg_conn_of_link(p->idle.next);
        if (sg_conn_is_clean(c)) {
            sg_conn_lend(c, target_index);
            return c;
        }
        sg_conn_close(c);
    }
    return NULL;
}

void sg_pool_expire(sg_pool_t *p)
{
    int64_t since = sg_loop_now_us(p->all->loop) - p->all->idle_us;
    while (!sg_list_empty(&p->idle)) {
        sg_conn_t *oldest = sg_conn_of_link(p->idle.prev);
        if (sg_conn_idle_since_us(oldest) > since)
            return;
        sg_conn_close(oldest);
    }
}
