/* metrics.c - the registry: names, blocks, what the main thread knows. */
#include "metrics/block.h"

#define MAX_TENANTS_DEFAULT 1000

sg_metrics_t *sg_metrics_new(void)
{
    sg_metrics_t *m = SG_NEW(sg_metrics_t);
    sg_names_init(&m->routes, "_none");
    sg_names_init(&m->tenants, "_other");
    sg_names_init(&m->limits, "_other");
    sg_names_init(&m->upstreams, "_none");
    sg_names_init(&m->targets, "_none");
    m->max_tenants = MAX_TENANTS_DEFAULT;
    m->load = 1;
    m->start_us = sg_process_start_us();
    return m;
}

void sg_metrics_free(sg_metrics_t *m)
{
    if (!m)
        return;
    SG_BLOCKS_EACH(b, m)
        sg_metrics_block_free(b);
    sg_free(m->blocks);
    sg_names_deinit(&m->routes);
    sg_names_deinit(&m->tenants);
    sg_names_deinit(&m->limits);
    sg_names_deinit(&m->upstreams);
    sg_names_deinit(&m->targets);
    sg_free(m->config_hash);
    sg_free(m);
}

static unsigned intern(sg_metrics_t *m, sg_names_t *names, const char *name)
{
    sg_name_t *n = sg_names_add(names, name, name);
    n->load = m->load;
    m->named = true;
    return n->id;
}

unsigned sg_metrics_route(sg_metrics_t *m, const char *name)
{
    return intern(m, &m->routes, name);
}

unsigned sg_metrics_tenant(sg_metrics_t *m, const char *name)
{
    bool full = m->tenants.count - 1 >= m->max_tenants;     /* id 0 is nobody's */
    if (full && !sg_names_find(&m->tenants, name)) {
        m->tenant_overflow++;
        return 0;
    }
    return intern(m, &m->tenants, name);
}

unsigned sg_metrics_limit(sg_metrics_t *m, const char *name)
{
    return intern(m, &m->limits, name);
}

unsigned sg_metrics_upstream(sg_metrics_t *m, const char *name)
{
    return intern(m, &m->upstreams, name);
}

unsigned sg_metrics_target(sg_metrics_t *m, unsigned upstream, const char *url)
{
    char *key = sg_asprintf("%u %s", upstream, url);
    sg_name_t *n = sg_names_add(&m->targets, key, url);
    sg_free(key);
    n->parent = upstream;
    n->load = m->load;
    m->named = true;
    return n->id;
}

void sg_metrics_set_max_tenants(sg_metrics_t *m, size_t max)
{
    m->max_tenants = max;
}

sg_metrics_block_t *sg_metrics_block(sg_metrics_t *m)
{
    sg_metrics_block_t *b = SG_NEW(sg_metrics_block_t);
    m->blocks = sg_realloc(m->blocks, (m->block_count + 1) * sizeof *m->blocks);
    m->blocks[m->block_count++] = b;
    return b;
}

void sg_set_config_info(sg_metrics_t *m, const char *hash, bool last_reload_ok, int64_t success_wall_us)
{
    char *label = hash ? sg_label_escape(hash) : NULL;
    sg_free(m->config_hash);
    m->config_hash = label;
    m->reload_ok = last_reload_ok;
    m->reload_success_us = success_wall_us;
    if (!m->named)
        return;
    if (last_reload_ok)
        m->live_load = m->load;
    m->load++;
    m->named = false;
}

void sg_metrics_tenant_totals(sg_metrics_t *m, unsigned tenant, sg_tenant_totals_t *out)
{
    *out = (sg_tenant_totals_t){0};
    SG_BLOCKS_EACH(b, m) {
        sg_tenant_block_t *t = sg_chunks_peek(&b->tenants, sizeof *t, tenant);
        if (!t)
            continue;
        for (size_t i = 0; i < SG_RESULT_COUNT; i++)
            out->results[i] += sg_counter_get(&t->results[i]);
        out->request_bytes += sg_counter_get(&t->request_bytes);
        out->response_bytes += sg_counter_get(&t->response_bytes);
    }
}

uint64_t sg_metrics_requests(sg_metrics_t *m)
{
    sg_histogram_sum_t sum = {0};
    SG_BLOCKS_EACH(b, m)
        sg_histogram_collect(&b->overhead, &sum);   /* every request is in it once */
    return sg_histogram_count(&sum);
}
