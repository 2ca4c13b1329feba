/* health.c - /metrics, /healthz, /readyz, and the page. */
#include "admin/json.h"
#include "admin/page.h"

#define TEXT "text/plain; charset=utf-8"

void sg_admin_metrics(sg_admin_request_t *r)
{
    const char *accept = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    bool open = accept && strstr(accept, "application/openmetrics-text");
    sg_metrics_write(r->admin->host.metrics, open ? SG_EXPOSE_OPENMETRICS : SG_EXPOSE_PROMETHEUS, &r->body);
    sg_admin_reply(r, 200, open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                : "text/plain; version=0.0.4; charset=utf-8");
}

/* That this answers is the proof: the main loop turns. */
void sg_admin_healthz(sg_admin_request_t *r)
{
    sg_buf_z(&r->body, "ok\n");
    sg_admin_reply(r, 200, TEXT);
}

void sg_admin_page(sg_admin_request_t *r)
{
    sg_buf_add(&r->body, sg_admin_page_html, sg_admin_page_html_len);
    sg_admin_reply(r, 200, "text/html; charset=utf-8");
}

/* --- readiness ----------------------------------------------------------------------------------------- */

enum { CHECK_CONFIG, CHECK_STORE, CHECK_DRAINING, CHECK_WORKERS, CHECKS };

typedef struct {
    const char *name;
    bool ok;
    sg_why_t why;
} check_t;

/* Some route with limits refuses requests while the store is away. */
static bool needs_store(const sg_config_t *c)
{
    for (size_t i = 0; i < c->route_count; i++) {
        sg_on_failure_t policy = c->routes[i]->on_failure;
        if (policy == SG_FAIL_INHERIT)
            policy = c->store.on_failure;
        if (c->routes[i]->limit_count > 0 && policy == SG_FAIL_CLOSED)
            return true;
    }
    return false;
}

static bool store_reachable(const sg_admin_host_t *h)
{
    size_t workers = h->workers(h->arg);
    for (size_t i = 0; i < workers; i++) {
        sg_store_status_t s = {0};
        h->store_status(h->arg, i, &s);
        if (s.up)
            return true;
    }
    return workers == 0;
}

static void check_store(const sg_admin_host_t *h, const sg_config_t *c, check_t *out)
{
    bool up = store_reachable(h), needed = c && needs_store(c);
    out->ok = up || !needed;
    sg_why_set(&out->why, "%s", up ? "reachable"
                                   : needed ? "not reachable, and a route's on_failure is closed"
                                            : "not reachable; requests are served by the failure policy");
}

static bool run_checks(const sg_admin_host_t *h, check_t checks[CHECKS])
{
    const sg_config_t *c = h->config(h->arg);
    check_t *config = &checks[CHECK_CONFIG], *draining = &checks[CHECK_DRAINING],
            *workers = &checks[CHECK_WORKERS];
    *config = (check_t){.name = "config", .ok = c != NULL};
    sg_why_set(&config->why, "%s", c ? "loaded" : "none is loaded");
    checks[CHECK_STORE] = (check_t){.name = "store"};
    check_store(h, c, &checks[CHECK_STORE]);
    *draining = (check_t){.name = "draining", .ok = !h->draining(h->arg)};
    sg_why_set(&draining->why, "%s", draining->ok ? "no" : "the gateway is stopping");
    *workers = (check_t){.name = "workers", .ok = true};
    sg_why_set(&workers->why, "running");
    if (h->ready)
        workers->ok = h->ready(h->arg, &workers->why);
    return config->ok && checks[CHECK_STORE].ok && draining->ok && workers->ok;
}

static void write_verbose(sg_admin_request_t *r, bool ready, const check_t checks[CHECKS])
{
    json_t *list = json_object();
    for (size_t i = 0; i < CHECKS; i++)
        sg_json_set(list, checks[i].name, json_pack("{s:b, s:o}", "ok", checks[i].ok, "detail",
                                                    sg_json_text(checks[i].why.text)));
    sg_admin_json(r, ready ? 200 : 503, json_pack("{s:b, s:o}", "ready", ready, "checks", list));
}

/* The plain answer names the checks that failed, no more: it is for probes without a token. */
void sg_admin_readyz(sg_admin_request_t *r)
{
    check_t checks[CHECKS];
    bool ready = run_checks(&r->admin->host, checks);
    if (sg_admin_query_flag(r, "verbose")) {
        if (sg_admin_authorized(r))
            write_verbose(r, ready, checks);
        return;
    }
    sg_buf_z(&r->body, ready ? "ready" : "not ready:");
    for (size_t i = 0; i < CHECKS; i++) {
        if (!checks[i].ok)
            sg_buf_printf(&r->body, " %s", checks[i].name);
    }
    sg_buf_char(&r->body, '\n');
    sg_admin_reply(r, ready ? 200 : 503, TEXT);
}
