/* quotas.c - reading back how much of their limits tenants have used. */
#include "metrics/expose.h"

static void collect(sg_metrics_t *m, unsigned tenant, int64_t wall_us, double *best)
{
    SG_BLOCKS_EACH(b, m) {
        sg_tenant_block_t *t = sg_chunks_peek(&b->tenants, sizeof *t, tenant);
        sg_quota_t *q = t ? atomic_load_explicit(&t->quotas, memory_order_acquire) : NULL;
        for (; q; q = q->next) {
            uint64_t seen = sg_counter_get(&q->seen);
            bool over = sg_quota_end_s(seen) * 1000000 < wall_us;
            double ratio = over ? 0 : sg_quota_ratio(seen);
            if (q->limit < m->limits.count && ratio > best[q->limit])
                best[q->limit] = ratio;
        }
    }
}

void sg_quotas_each(sg_metrics_t *m, unsigned first, unsigned end, int64_t wall_us, sg_quota_each_fn *fn,
                    void *arg)
{
    double *best = sg_calloc(m->limits.count, sizeof *best);
    for (unsigned t = first; t < end; t++) {
        for (unsigned l = 0; l < m->limits.count; l++)
            best[l] = -1;
        collect(m, t, wall_us, best);
        for (unsigned l = 0; l < m->limits.count; l++) {
            if (best[l] >= 0)
                fn(arg, t, l, best[l]);
        }
    }
    sg_free(best);
}

typedef struct {
    sg_metrics_t *m;
    sg_quota_fn *fn;
    void *arg;
} named_t;

static void by_name(void *arg, unsigned tenant, unsigned limit, double ratio)
{
    named_t *n = arg;
    (void)tenant;
    n->fn(n->arg, n->m->limits.at[limit]->key, ratio);
}

void sg_metrics_tenant_quotas(sg_metrics_t *m, unsigned tenant, int64_t wall_us, sg_quota_fn *fn, void *arg)
{
    named_t n = {m, fn, arg};
    sg_quotas_each(m, tenant, tenant + 1, wall_us, by_name, &n);
}
