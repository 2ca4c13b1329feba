/* metrics.h - what is counted: one block per worker, summed on a scrape.
 *
 * Names (routes, tenants, limits, upstreams, targets) are interned once, at config load, and keep their ids
 * for the life of the process: counters survive reloads. A block has one writer (its worker); readers use
 * relaxed atomic loads. No label ever comes from a client. Families, labels and help texts stand in
 * metrics.def; label sets are shown with 0 from the moment their names are interned, but for two:
 * slotgate_http_requests_total (combinations of route, method and code that have occurred) and
 * slotgate_tenant_quota_used_ratio (pairs that have been seen). */
#ifndef SG_METRICS_METRICS_H
#define SG_METRICS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

typedef struct sg_metrics sg_metrics_t;
typedef struct sg_metrics_block sg_metrics_block_t;

sg_metrics_t *sg_metrics_new(void);
void sg_metrics_free(sg_metrics_t *m);

/* Interning: main thread only. The same name gives the same id. Id 0 of each kind is its "none" or overflow
 * entry: route "_none", tenant "_other", limit "_other", upstream "_none". */
unsigned sg_metrics_route(sg_metrics_t *m, const char *name);
/* Past max_tenants: 0, and the overflow counter grows. */
unsigned sg_metrics_tenant(sg_metrics_t *m, const char *name);
unsigned sg_metrics_limit(sg_metrics_t *m, const char *name);
unsigned sg_metrics_upstream(sg_metrics_t *m, const char *name);
unsigned sg_metrics_target(sg_metrics_t *m, unsigned upstream, const char *url);
void sg_metrics_set_max_tenants(sg_metrics_t *m, size_t max);

/* One per worker, plus one for the main thread; made by the main thread, used by one thread. Freed with m.
 * A NULL block is allowed in all calls that count: it counts nothing. */
sg_metrics_block_t *sg_metrics_block(sg_metrics_t *m);

typedef enum {
    SG_RESULT_ALLOWED, SG_RESULT_LIMITED, SG_RESULT_UNAUTHORIZED, SG_RESULT_REFUSED, SG_RESULT_FAILED,
    SG_RESULT_ABORTED, SG_RESULT_COUNT
} sg_result_t;
const char *sg_result_name(sg_result_t r);

/* One finished request. `method` is an sg_method_t as number (gate/route.h); a status above 999 counts as
 * 000. */
typedef struct {
    unsigned route, tenant, method, status;
    sg_result_t result;
    int64_t duration_us, upstream_us;       /* upstream_us < 0: no upstream was asked */
    uint64_t request_bytes, response_bytes; /* bodies */
} sg_request_sample_t;
void sg_count_request(sg_metrics_block_t *b, const sg_request_sample_t *s);

typedef enum {
    SG_FROM_STORE, SG_FROM_DENY_CACHE, SG_FROM_LOCAL, SG_FROM_OPEN, SG_FROM_CLOSED, SG_FROM_COUNT
} sg_source_t;
const char *sg_source_name(sg_source_t s);
void sg_count_decision(sg_metrics_block_t *b, unsigned limit, bool dry_run, bool allowed, sg_source_t source);
/* slotgate_tenant_quota_used_ratio: highest use seen in the window that ends at window_end_us (epoch); 0 is
 * shown once that is past. */
void sg_count_quota(sg_metrics_block_t *b, unsigned tenant, unsigned limit, double ratio,
                    int64_t window_end_us);
/* The tenant's counters have been reset: what was seen of its use so far is forgotten. */
void sg_forget_quotas(sg_metrics_block_t *b, unsigned tenant);

/* A cost that is known afterwards, against what was reserved. */
typedef enum {
    SG_SETTLED_SAME, SG_SETTLED_LESS, SG_SETTLED_MORE,
    SG_SETTLED_UNKNOWN,     /* the answer does not tell it: the reservation stands */
    SG_SETTLED_LOST,        /* the store did not confirm a LESS or MORE, which is counted as well */
    SG_SETTLED_COUNT
} sg_settled_t;
const char *sg_settled_name(sg_settled_t s);
void sg_count_settlement(sg_metrics_block_t *b, sg_settled_t how);

/* Units of limits per: all that are taken ahead in blocks. */
typedef enum {
    SG_BLOCK_TAKEN,
    SG_BLOCK_RETURNED,      /* not spent in time, and given back */
    SG_BLOCK_LOST,          /* given back, which the store did not confirm; counted as returned as well */
    SG_BLOCK_EVENTS
} sg_block_event_t;
const char *sg_block_event_name(sg_block_event_t e);
void sg_count_block_units(sg_metrics_block_t *b, sg_block_event_t e, int64_t units);

/* Store. */
typedef enum {
    SG_STORE_ERR_TIMEOUT, SG_STORE_ERR_CONNECT, SG_STORE_ERR_RESET, SG_STORE_ERR_AUTH, SG_STORE_ERR_LOADING,
    SG_STORE_ERR_READONLY, SG_STORE_ERR_OOM, SG_STORE_ERR_WRONGTYPE, SG_STORE_ERR_MOVED,
    SG_STORE_ERR_PROTOCOL, SG_STORE_ERR_OTHER, SG_STORE_ERR_COUNT
} sg_store_err_t;
const char *sg_store_err_name(sg_store_err_t e);
void sg_count_store_request(sg_metrics_block_t *b, int64_t duration_us);
void sg_count_store_error(sg_metrics_block_t *b, sg_store_err_t kind);
void sg_set_store_up(sg_metrics_block_t *b, bool up);           /* over all blocks: the minimum is shown */
void sg_set_breaker_open(sg_metrics_block_t *b, bool open);     /* over all blocks: the maximum is shown */

typedef enum {
    SG_UP_OK, SG_UP_CONNECT, SG_UP_TIMEOUT, SG_UP_RESET, SG_UP_PROTOCOL,
    SG_UP_CUT,          /* the answer broke off after its head */
    SG_UP_BUSY,         /* max_requests */
    SG_UP_CANCELLED,    /* the client went, or the gateway stopped */
    SG_UP_COUNT
} sg_up_outcome_t;
const char *sg_up_outcome_name(sg_up_outcome_t o);
void sg_count_upstream_request(sg_metrics_block_t *b, unsigned upstream, sg_up_outcome_t o,
                               int64_t duration_us);
void sg_count_upstream_attempt(sg_metrics_block_t *b, unsigned upstream);
/* Over all blocks the minimum is shown; a target that no block has set is up. */
void sg_set_target_up(sg_metrics_block_t *b, unsigned target, bool up);

/* A request that was refused before it had a meaning. `reason` is one of the words that metrics.def lists;
 * any other counts as "other". */
void sg_count_refused(sg_metrics_block_t *b, const char *reason);

typedef enum { SG_CONN_ACTIVE, SG_CONN_IDLE, SG_CONN_UPGRADED, SG_CONN_COUNT } sg_conn_state_t;
const char *sg_conn_state_name(sg_conn_state_t s);
void sg_add_connections(sg_metrics_block_t *b, sg_conn_state_t state, int delta);
void sg_add_in_flight(sg_metrics_block_t *b, int delta);
void sg_add_leases(sg_metrics_block_t *b, unsigned limit, int delta);

/* The result of a config load, to be told after each (NULL hash: none has succeeded yet). A successful one
 * ends the series of targets that it did not name. Main thread. */
void sg_set_config_info(sg_metrics_t *m, const char *hash, bool last_reload_ok, int64_t success_wall_us);

typedef enum { SG_EXPOSE_PROMETHEUS, SG_EXPOSE_OPENMETRICS } sg_expose_t;
/* Prometheus text 0.0.4 or OpenMetrics 1.0. Main thread. */
void sg_metrics_write(sg_metrics_t *m, sg_expose_t how, sg_buf_t *out);

/* For /status and the admin page: sums over all blocks. */
typedef struct {
    uint64_t results[SG_RESULT_COUNT];
    uint64_t request_bytes, response_bytes;
} sg_tenant_totals_t;
void sg_metrics_tenant_totals(sg_metrics_t *m, unsigned tenant, sg_tenant_totals_t *out);
/* Calls fn for each limit that slotgate_tenant_quota_used_ratio shows for the tenant, with the limit's name.
 */
typedef void sg_quota_fn(void *arg, const char *limit, double ratio);
void sg_metrics_tenant_quotas(sg_metrics_t *m, unsigned tenant, int64_t wall_us, sg_quota_fn *fn, void *arg);
uint64_t sg_metrics_requests(sg_metrics_t *m);      /* all requests so far */

#endif
