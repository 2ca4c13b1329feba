/* families.c - one function for each line of metrics.def: which label sets there are, and their values. */
#include "metrics/expose.h"

#define LABELS(...) ((const char *const[]){__VA_ARGS__})
/* Sum of a counter of the block; of an element of one of its arrays. */
#define MEMBER(x, member) sg_sum_member((x)->m, offsetof(sg_metrics_block_t, member))
#define ELEMENT(x, array, type, index, member)                                                     \
    sg_sum_element((x)->m, offsetof(sg_metrics_block_t, array), sizeof(type), (index),             \
                   offsetof(type, member))

/* --- requests ------------------------------------------------------------------------------------------ */

/* Adds up one leaf of codes. False when no block has it. */
static bool sum_codes(const sg_metrics_t *m, unsigned route, unsigned method, unsigned class_,
                      uint64_t sum[100])
{
    bool any = false;
    memset(sum, 0, 100 * sizeof *sum);
    SG_BLOCKS_EACH(b, m) {
        sg_route_block_t *r = sg_chunks_peek(&b->routes, sizeof *r, route);
        sg_codes_t *codes = r ? atomic_load_explicit(&r->codes[method][class_], memory_order_acquire) : NULL;
        for (unsigned i = 0; codes && i < 100; i++)
            sum[i] += sg_counter_get(&codes->code[i]);
        any = any || codes;
    }
    return any;
}

static void write_codes(sg_expose_job_t *x, unsigned route, unsigned method)
{
    uint64_t sum[100];
    const char *label = x->m->routes.at[route]->label, *method_name = sg_method_name(method);
    for (unsigned class_ = 0; class_ < SG_CODE_CLASSES; class_++) {
        if (!sum_codes(x->m, route, method, class_, sum))
            continue;
        for (unsigned i = 0; i < 100; i++) {
            char code[4] = {(char)('0' + class_), (char)('0' + i / 10), (char)('0' + i % 10), '\0'};
            if (sum[i])
                sg_write_u64(&x->w, LABELS(label, method_name, code), sum[i]);
        }
    }
}

void sg_write_http_requests(sg_expose_job_t *x)
{
    for (unsigned r = 0; r < x->m->routes.count; r++) {
        for (unsigned method = 0; method < SG_METHOD_COUNT; method++)
            write_codes(x, r, method);
    }
}

void sg_write_http_duration(sg_expose_job_t *x)
{
    sg_histogram_sum_t sum;
    for (unsigned r = 0; r < x->m->routes.count; r++) {
        sg_sum_histogram_element(x->m, offsetof(sg_metrics_block_t, routes), sizeof(sg_route_block_t), r,
                                 offsetof(sg_route_block_t, duration), &sum);
        sg_write_histogram(&x->w, LABELS(x->m->routes.at[r]->label), &sg_bounds_request, &sum);
    }
}

void sg_write_overhead(sg_expose_job_t *x)
{
    sg_histogram_sum_t sum;
    sg_sum_histogram(x->m, offsetof(sg_metrics_block_t, overhead), &sum);
    sg_write_histogram(&x->w, NULL, &sg_bounds_fast, &sum);
}

/* --- tenants ------------------------------------------------------------------------------------------- */

void sg_write_tenant_requests(sg_expose_job_t *x)
{
    sg_tenant_totals_t totals;
    for (unsigned t = 0; t < x->m->tenants.count; t++) {
        sg_metrics_tenant_totals(x->m, t, &totals);
        for (unsigned r = 0; r < SG_RESULT_COUNT; r++)
            sg_write_u64(&x->w, LABELS(x->m->tenants.at[t]->label, sg_result_name(r)), totals.results[r]);
    }
}

void sg_write_tenant_request_bytes(sg_expose_job_t *x)
{
    for (unsigned t = 0; t < x->m->tenants.count; t++)
        sg_write_u64(&x->w, LABELS(x->m->tenants.at[t]->label),
                     ELEMENT(x, tenants, sg_tenant_block_t, t, request_bytes));
}

void sg_write_tenant_response_bytes(sg_expose_job_t *x)
{
    for (unsigned t = 0; t < x->m->tenants.count; t++)
        sg_write_u64(&x->w, LABELS(x->m->tenants.at[t]->label),
                     ELEMENT(x, tenants, sg_tenant_block_t, t, response_bytes));
}

static void write_quota(void *arg, unsigned tenant, unsigned limit, double ratio)
{
    sg_expose_job_t *x = arg;
    sg_write_ratio(&x->w, LABELS(x->m->tenants.at[tenant]->label, x->m->limits.at[limit]->label), ratio);
}

void sg_write_quota_used(sg_expose_job_t *x)
{
    sg_quotas_each(x->m, 0, x->m->tenants.count, x->wall_us, write_quota, x);
}

/* --- limits -------------------------------------------------------------------------------------------- */

/* The deny cache only denies, an open policy only allows, a closed one only denies. */
static bool can_happen(sg_source_t source, bool allowed)
{
    return source == SG_FROM_STORE || source == SG_FROM_LOCAL || (source == SG_FROM_OPEN) == allowed;
}

static void write_decisions(sg_expose_job_t *x, unsigned limit, unsigned mode, unsigned allowed)
{
    const char *label = x->m->limits.at[limit]->label;
    const char *mode_word = mode ? "dry_run" : "enforced", *outcome = allowed ? "allowed" : "denied";
    for (unsigned s = 0; s < SG_FROM_COUNT; s++) {
        uint64_t n = ELEMENT(x, limits, sg_limit_block_t, limit, decisions[mode][allowed][s]);
        if (n || can_happen(s, allowed))
            sg_write_u64(&x->w, LABELS(label, mode_word, outcome, sg_source_name(s)), n);
    }
}

void sg_write_limit_decisions(sg_expose_job_t *x)
{
    for (unsigned l = 0; l < x->m->limits.count; l++) {
        for (unsigned mode = 0; mode < SG_MODES; mode++) {
            write_decisions(x, l, mode, true);
            write_decisions(x, l, mode, false);
        }
    }
}

void sg_write_leases(sg_expose_job_t *x)
{
    for (unsigned l = 0; l < x->m->limits.count; l++)
        sg_write_i64(&x->w, LABELS(x->m->limits.at[l]->label),
                     (int64_t)ELEMENT(x, limits, sg_limit_block_t, l, leases));
}

/* --- store --------------------------------------------------------------------------------------------- */

void sg_write_store_duration(sg_expose_job_t *x)
{
    sg_histogram_sum_t sum;
    sg_sum_histogram(x->m, offsetof(sg_metrics_block_t, store_duration), &sum);
    sg_write_histogram(&x->w, NULL, &sg_bounds_fast, &sum);
}

void sg_write_settlements(sg_expose_job_t *x)
{
    for (unsigned s = 0; s < SG_SETTLED_COUNT; s++)
        sg_write_u64(&x->w, LABELS(sg_settled_name(s)), MEMBER(x, settlements[s]));
}

void sg_write_block_units(sg_expose_job_t *x)
{
    for (unsigned e = 0; e < SG_BLOCK_EVENTS; e++)
        sg_write_u64(&x->w, LABELS(sg_block_event_name(e)), MEMBER(x, block_units[e]));
}

void sg_write_store_errors(sg_expose_job_t *x)
{
    for (unsigned e = 0; e < SG_STORE_ERR_COUNT; e++)
        sg_write_u64(&x->w, LABELS(sg_store_err_name(e)), MEMBER(x, store_errors[e]));
}

void sg_write_store_up(sg_expose_job_t *x)
{
    bool up = true;
    SG_BLOCKS_EACH(b, x->m)
        up = up && sg_counter_get(&b->store_up) != SG_FLAG_OFF;
    sg_write_u64(&x->w, NULL, up);
}

void sg_write_breaker_open(sg_expose_job_t *x)
{
    bool open = false;
    SG_BLOCKS_EACH(b, x->m)
        open = open || sg_counter_get(&b->breaker_open) == SG_FLAG_ON;
    sg_write_u64(&x->w, NULL, open);
}

/* --- upstreams ----------------------------------------------------------------------------------------- */

void sg_write_upstream_requests(sg_expose_job_t *x)
{
    for (unsigned u = 0; u < x->m->upstreams.count; u++) {
        for (unsigned o = 0; o < SG_UP_COUNT; o++)
            sg_write_u64(&x->w, LABELS(x->m->upstreams.at[u]->label, sg_up_outcome_name(o)),
                         ELEMENT(x, upstreams, sg_upstream_block_t, u, outcomes[o]));
    }
}

void sg_write_upstream_attempts(sg_expose_job_t *x)
{
    for (unsigned u = 0; u < x->m->upstreams.count; u++)
        sg_write_u64(&x->w, LABELS(x->m->upstreams.at[u]->label),
                     ELEMENT(x, upstreams, sg_upstream_block_t, u, attempts));
}

/* A target that the configuration names no more is not shown: its last state would alarm for ever. */
void sg_write_target_up(sg_expose_job_t *x)
{
    for (unsigned t = 1; t < x->m->targets.count; t++) {
        const sg_name_t *target = x->m->targets.at[t];
        bool up = true;
        if (target->load < x->m->live_load)
            continue;
        SG_BLOCKS_EACH(b, x->m) {
            sg_counter_t *flag = sg_chunks_peek(&b->targets, sizeof *flag, t);
            up = up && !(flag && sg_counter_get(flag) == SG_FLAG_OFF);
        }
        sg_write_u64(&x->w, LABELS(x->m->upstreams.at[target->parent]->label, target->label), up);
    }
}

void sg_write_upstream_duration(sg_expose_job_t *x)
{
    sg_histogram_sum_t sum;
    for (unsigned u = 0; u < x->m->upstreams.count; u++) {
        sg_sum_histogram_element(x->m, offsetof(sg_metrics_block_t, upstreams), sizeof(sg_upstream_block_t),
                                 u, offsetof(sg_upstream_block_t, duration), &sum);
        sg_write_histogram(&x->w, LABELS(x->m->upstreams.at[u]->label), &sg_bounds_request, &sum);
    }
}

/* --- server -------------------------------------------------------------------------------------------- */

void sg_write_refused(sg_expose_job_t *x)
{
    for (unsigned r = 0; r < SG_REASON_COUNT; r++)
        sg_write_u64(&x->w, LABELS(sg_reason_words[r]), MEMBER(x, refused[r]));
}

void sg_write_tenant_overflow(sg_expose_job_t *x)
{
    sg_write_u64(&x->w, NULL, x->m->tenant_overflow);
}

void sg_write_connections(sg_expose_job_t *x)
{
    for (unsigned s = 0; s < SG_CONN_COUNT; s++)
        sg_write_i64(&x->w, LABELS(sg_conn_state_name(s)), (int64_t)MEMBER(x, connections[s]));
}

void sg_write_in_flight(sg_expose_job_t *x)
{
    sg_write_i64(&x->w, NULL, (int64_t)MEMBER(x, in_flight));
}

/* --- configuration, program, process ------------------------------------------------------------------- */

void sg_write_reload_ok(sg_expose_job_t *x)
{
    sg_write_u64(&x->w, NULL, x->m->reload_ok);
}

void sg_write_reload_time(sg_expose_job_t *x)
{
    sg_write_us(&x->w, NULL, x->m->reload_success_us);
}

void sg_write_config_info(sg_expose_job_t *x)
{
    if (x->m->config_hash)
        sg_write_u64(&x->w, LABELS(x->m->config_hash), 1);
}

void sg_write_build_info(sg_expose_job_t *x)
{
#ifdef __clang__
    sg_write_u64(&x->w, LABELS(PACKAGE_VERSION, "clang " __clang_version__), 1);
#else
    sg_write_u64(&x->w, LABELS(PACKAGE_VERSION, "gcc " __VERSION__), 1);
#endif
}

void sg_write_process_cpu(sg_expose_job_t *x)
{
    sg_write_us(&x->w, NULL, (int64_t)x->process->cpu_us);
}

void sg_write_process_resident(sg_expose_job_t *x)
{
    sg_write_u64(&x->w, NULL, x->process->resident_bytes);
}

void sg_write_process_virtual(sg_expose_job_t *x)
{
    sg_write_u64(&x->w, NULL, x->process->virtual_bytes);
}

void sg_write_process_fds(sg_expose_job_t *x)
{
    sg_write_u64(&x->w, NULL, x->process->open_fds);
}

void sg_write_process_max_fds(sg_expose_job_t *x)
{
    sg_write_u64(&x->w, NULL, x->process->max_fds);
}

void sg_write_process_start(sg_expose_job_t *x)
{
    sg_write_us(&x->w, NULL, x->m->start_us);
}
