/* count.c - the writer's side of a block: called in its one thread, at most a few loads and stores each. */
#include <math.h>

#include "metrics/block.h"

static void free_route(void *element)
{
    sg_route_block_t *r = element;
    for (size_t m = 0; m < SG_METHOD_COUNT; m++) {
        for (size_t c = 0; c < SG_CODE_CLASSES; c++)
            sg_free(atomic_load_explicit(&r->codes[m][c], memory_order_relaxed));
    }
}

static void free_tenant(void *element)
{
    sg_tenant_block_t *t = element;
    sg_quota_t *q = atomic_load_explicit(&t->quotas, memory_order_relaxed);
    while (q) {
        sg_quota_t *next = q->next;
        sg_free(q);
        q = next;
    }
}

void sg_metrics_block_free(sg_metrics_block_t *b)
{
    sg_chunks_each(&b->routes, sizeof(sg_route_block_t), free_route);
    sg_chunks_each(&b->tenants, sizeof(sg_tenant_block_t), free_tenant);
    sg_chunks_deinit(&b->routes);
    sg_chunks_deinit(&b->tenants);
    sg_chunks_deinit(&b->limits);
    sg_chunks_deinit(&b->upstreams);
    sg_chunks_deinit(&b->targets);
    sg_free(b);
}

static void count_code(sg_route_block_t *r, unsigned method, unsigned status)
{
    if (method >= SG_METHOD_COUNT)
        method = SG_METHOD_OTHER;
    if (status >= SG_CODE_CLASSES * 100)
        status = 0;
    _Atomic(sg_codes_t *) *leaf = &r->codes[method][status / 100];
    sg_codes_t *codes = atomic_load_explicit(leaf, memory_order_relaxed);
    if (!codes) {
        codes = SG_NEW(sg_codes_t);
        atomic_store_explicit(leaf, codes, memory_order_release);
    }
    sg_counter_add(&codes->code[status % 100], 1);
}

void sg_count_request(sg_metrics_block_t *b, const sg_request_sample_t *s)
{
    if (!b)
        return;
    sg_route_block_t *r = sg_chunks_at(&b->routes, sizeof *r, s->route);
    count_code(r, s->method, s->status);
    sg_histogram_add(&r->duration, &sg_bounds_request, s->duration_us);
    int64_t upstream_us = s->upstream_us > 0 ? s->upstream_us : 0;
    sg_histogram_add(&b->overhead, &sg_bounds_fast, s->duration_us - upstream_us);

    sg_tenant_block_t *t = sg_chunks_at(&b->tenants, sizeof *t, s->tenant);
    sg_counter_add(&t->results[s->result], 1);
    sg_counter_add(&t->request_bytes, s->request_bytes);
    sg_counter_add(&t->response_bytes, s->response_bytes);
}

void sg_count_decision(sg_metrics_block_t *b, unsigned limit, bool dry_run, bool allowed, sg_source_t source)
{
    if (!b)
        return;
    sg_limit_block_t *l = sg_chunks_at(&b->limits, sizeof *l, limit);
    sg_counter_add(&l->decisions[dry_run][allowed][source], 1);
}

uint64_t sg_quota_pack(int64_t window_end_us, double ratio)
{
    float f = ratio > 0 && isfinite(ratio) ? (float)ratio : 0;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    /* To the nearest second: a store that counts in ms gives the end of one window a ms earlier or later. */
    int64_t end_s = window_end_us > 0 ? (window_end_us + 500000) / 1000000 : 0;
    if (end_s > UINT32_MAX)
        end_s = UINT32_MAX;
    return (uint64_t)end_s << 32 | bits;
}

int64_t sg_quota_end_s(uint64_t seen)
{
    return (int64_t)(seen >> 32);
}

double sg_quota_ratio(uint64_t seen)
{
    uint32_t bits = (uint32_t)seen;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static sg_quota_t *quota_of(sg_tenant_block_t *t, unsigned limit)
{
    sg_quota_t *first = atomic_load_explicit(&t->quotas, memory_order_relaxed), *q = first;
    while (q && q->limit != limit)
        q = q->next;
    if (q)
        return q;
    q = SG_NEW(sg_quota_t);
    q->limit = limit;
    q->next = first;
    atomic_store_explicit(&t->quotas, q, memory_order_release);
    return q;
}

void sg_count_quota(sg_metrics_block_t *b, unsigned tenant, unsigned limit, double ratio,
                    int64_t window_end_us)
{
    if (!b)
        return;
    sg_tenant_block_t *t = sg_chunks_at(&b->tenants, sizeof *t, tenant);
    sg_quota_t *q = quota_of(t, limit);
    uint64_t seen = sg_counter_get(&q->seen), now = sg_quota_pack(window_end_us, ratio);
    /* A later window begins anew. In the same one a positive float's bits order as its value does, so the
     * greater word wins; an older window (clocks of two stores) is the smaller word and changes nothing. */
    if (now > seen)
        sg_counter_set(&q->seen, now);
}

void sg_forget_quotas(sg_metrics_block_t *b, unsigned tenant)
{
    sg_tenant_block_t *t = b ? sg_chunks_peek(&b->tenants, sizeof *t, tenant) : NULL;
    sg_quota_t *q = t ? atomic_load_explicit(&t->quotas, memory_order_relaxed) : NULL;
    for (; q; q = q->next)
        sg_counter_set(&q->seen, 0);
}

void sg_count_settlement(sg_metrics_block_t *b, sg_settled_t how)
{
    if (b)
        sg_counter_add(&b->settlements[how], 1);
}

void sg_count_block_units(sg_metrics_block_t *b, sg_block_event_t e, int64_t units)
{
    if (b)
        sg_counter_add(&b->block_units[e], (uint64_t)units);
}

void sg_count_store_request(sg_metrics_block_t *b, int64_t duration_us)
{
    if (b)
        sg_histogram_add(&b->store_duration, &sg_bounds_fast, duration_us);
}

void sg_count_store_error(sg_metrics_block_t *b, sg_store_err_t kind)
{
    if (b)
        sg_counter_add(&b->store_errors[kind], 1);
}

void sg_set_store_up(sg_metrics_block_t *b, bool up)
{
    if (b)
        sg_counter_set(&b->store_up, up ? SG_FLAG_ON : SG_FLAG_OFF);
}

void sg_set_breaker_open(sg_metrics_block_t *b, bool open)
{
    if (b)
        sg_counter_set(&b->breaker_open, open ? SG_FLAG_ON : SG_FLAG_OFF);
}

void sg_count_upstream_request(sg_metrics_block_t *b, unsigned upstream, sg_up_outcome_t o,
                               int64_t duration_us)
{
    if (!b)
        return;
    sg_upstream_block_t *u = sg_chunks_at(&b->upstreams, sizeof *u, upstream);
    sg_counter_add(&u->outcomes[o], 1);
    sg_histogram_add(&u->duration, &sg_bounds_request, duration_us);
}

void sg_count_upstream_attempt(sg_metrics_block_t *b, unsigned upstream)
{
    if (!b)
        return;
    sg_upstream_block_t *u = sg_chunks_at(&b->upstreams, sizeof *u, upstream);
    sg_counter_add(&u->attempts, 1);
}

void sg_set_target_up(sg_metrics_block_t *b, unsigned target, bool up)
{
    if (!b)
        return;
    sg_counter_t *flag = sg_chunks_at(&b->targets, sizeof *flag, target);
    sg_counter_set(flag, up ? SG_FLAG_ON : SG_FLAG_OFF);
}

void sg_count_refused(sg_metrics_block_t *b, const char *reason)
{
    size_t i = 0;
    if (!b)
        return;
    while (i < SG_REASON_COUNT - 1 && (!reason || strcmp(sg_reason_words[i], reason) != 0))
        i++;
    sg_counter_add(&b->refused[i], 1);
}

void sg_add_connections(sg_metrics_block_t *b, sg_conn_state_t state, int delta)
{
    if (b)
        sg_gauge_add(&b->connections[state], delta);
}

void sg_add_in_flight(sg_metrics_block_t *b, int delta)
{
    if (b)
        sg_gauge_add(&b->in_flight, delta);
}

void sg_add_leases(sg_metrics_block_t *b, unsigned limit, int delta)
{
    if (!b)
        return;
    sg_limit_block_t *l = sg_chunks_at(&b->limits, sizeof *l, limit);
    sg_gauge_add(&l->leases, delta);
}
