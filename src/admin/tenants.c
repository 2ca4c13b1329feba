/* tenants.c - /tenants: what each tenant did, busiest first. */
#include <stdlib.h>

#include "admin/json.h"
#include "base/clock.h"

#define LIST_DEFAULT 200u
#define LIST_MAX 10000u

typedef struct {
    const sg_tenant_t *tenant;      /* NULL: all that have no label of their own */
    sg_tenant_totals_t totals;
    uint64_t requests;
} row_t;

static void fill(sg_metrics_t *m, const sg_tenant_t *t, unsigned id, row_t *row)
{
    *row = (row_t){.tenant = t};
    sg_metrics_tenant_totals(m, id, &row->totals);
    for (size_t i = 0; i < SG_RESULT_COUNT; i++)
        row->requests += row->totals.results[i];
}

static int by_requests(const void *a, const void *b)
{
    const row_t *x = a, *y = b;
    if (x->requests != y->requests)
        return x->requests < y->requests ? 1 : -1;
    if (!x->tenant || !y->tenant)
        return x->tenant ? -1 : y->tenant ? 1 : 0;
    return strcmp(x->tenant->name, y->tenant->name);
}

static void add_quota(void *arg, const char *limit, double ratio)
{
    /* Whole per mille: no float that prints in seventeen digits. */
    sg_json_set(arg, limit, json_integer((json_int_t)(ratio * 1000 + 0.5)));
}

static json_t *row_json(sg_metrics_t *m, const row_t *row)
{
    const sg_tenant_t *t = row->tenant;
    json_t *o = json_object(), *results = json_object(), *used = json_object();
    for (size_t i = 0; i < SG_RESULT_COUNT; i++)
        sg_json_set(results, sg_result_name(i), json_integer((json_int_t)row->totals.results[i]));
    if (t)
        sg_metrics_tenant_quotas(m, t->metric, sg_clock_wall_us(), add_quota, used);
    sg_json_set(o, "name", sg_json_text(t ? t->name : "_other"));
    sg_json_set(o, "plan", sg_json_text(t ? t->plan : NULL));
    sg_json_set(o, "keys", json_integer(t ? (json_int_t)t->key_count : 0));
    sg_json_set(o, "requests", json_integer((json_int_t)row->requests));
    sg_json_set(o, "results", results);
    sg_json_set(o, "request_bytes", json_integer((json_int_t)row->totals.request_bytes));
    sg_json_set(o, "response_bytes", json_integer((json_int_t)row->totals.response_bytes));
    sg_json_set(o, "quota_used_permille", used);
    return o;
}

void sg_admin_tenants(sg_admin_request_t *r)
{
    const sg_admin_host_t *h = &r->admin->host;
    const sg_config_t *c = h->config(h->arg);
    uint64_t want = LIST_DEFAULT;
    if (!sg_admin_query_u64(r, "limit", LIST_MAX, &want)) {
        sg_admin_problem(r, 400, "limit: expected an integer from 0 to 10000");
        return;
    }
    size_t known = c ? c->tenant_count : 0, rows = 0;
    row_t *row = sg_calloc(known + 1, sizeof *row);
    for (size_t i = 0; i < known; i++) {
        if (c->tenants[i]->metric != 0)
            fill(h->metrics, c->tenants[i], c->tenants[i]->metric, &row[rows++]);
    }
    if (rows < known)
        fill(h->metrics, NULL, 0, &row[rows++]);
    qsort(row, rows, sizeof *row, by_requests);
    json_t *list = json_array();
    for (size_t i = 0; i < rows && i < want; i++)
        json_array_append_new(list, row_json(h->metrics, &row[i]));
    sg_free(row);
    sg_admin_json(r, 200, json_pack("{s:I, s:o}", "count", (json_int_t)known, "tenants", list));
}
