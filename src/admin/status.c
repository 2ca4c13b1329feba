/* status.c - /status: what runs, and how it is. */
#include "admin/json.h"
#include "base/clock.h"

static json_t *config_json(const sg_admin_host_t *h, const sg_config_t *c)
{
    json_t *o = json_object();
    if (c) {
        sg_json_set(o, "hash", sg_json_text(c->hash));
        sg_json_set(o, "source", sg_json_text(c->source));
        sg_json_set(o, "loaded", sg_json_time(c->loaded_us));
    }
    sg_json_set(o, "last_error", sg_json_text(h->load_error(h->arg)));
    return o;
}

static const char *policy_name(sg_on_failure_t p)
{
    switch (p) {
    case SG_FAIL_OPEN:
        return "open";
    case SG_FAIL_CLOSED:
        return "closed";
    case SG_FAIL_LOCAL:
    case SG_FAIL_INHERIT:
        break;
    }
    return "local";
}

/* The store as all workers see it: up in every one, the breaker open in any, an error of one of them. */
static json_t *store_json(const sg_admin_host_t *h, const sg_config_t *c)
{
    sg_store_status_t all = {.type = NULL, .up = true};
    size_t workers = h->workers(h->arg);
    for (size_t i = 0; i < workers; i++) {
        sg_store_status_t s = {0};
        h->store_status(h->arg, i, &s);
        all.up = all.up && s.up;
        all.breaker_open = all.breaker_open || s.breaker_open;
        all.type = s.type ? s.type : all.type;
        all.entries = s.entries > all.entries ? s.entries : all.entries;
        if (s.error[0])
            memcpy(all.error, s.error, sizeof all.error);
    }
    return json_pack("{s:o, s:b, s:b, s:o, s:I, s:s}", "type", sg_json_text(all.type), "up", all.up,
                     "breaker_open", all.breaker_open, "last_error",
                     sg_json_text(all.error[0] ? all.error : NULL), "entries", (json_int_t)all.entries,
                     "on_failure", policy_name(c ? c->store.on_failure : SG_FAIL_LOCAL));
}

static json_t *workers_json(const sg_admin_host_t *h)
{
    json_t *list = json_array();
    size_t workers = h->workers(h->arg);
    for (size_t i = 0; i < workers; i++) {
        sg_store_status_t s = {0};
        h->store_status(h->arg, i, &s);
        json_array_append_new(list,
                              json_pack("{s:b, s:b, s:o}", "store_up", s.up, "breaker_open", s.breaker_open,
                                        "store_error", sg_json_text(s.error[0] ? s.error : NULL)));
    }
    return list;
}

static json_t *targets_json(const sg_admin_host_t *h, const sg_upstream_conf_t *u)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < u->target_count; i++) {
        sg_target_status_t s = {0};
        h->target_status(h->arg, u, i, &s);
        json_array_append_new(
            list, json_pack("{s:o, s:b, s:b, s:I, s:I}", "url", sg_json_text(u->targets[i].url), "up", s.up,
                            "ejected", s.ejected, "busy", (json_int_t)s.busy, "idle", (json_int_t)s.idle));
    }
    return list;
}

static json_t *upstreams_json(const sg_admin_host_t *h, const sg_config_t *c)
{
    json_t *list = json_array();
    for (size_t i = 0; c && i < c->upstream_count; i++)
        json_array_append_new(list, json_pack("{s:o, s:o}", "name", sg_json_text(c->upstreams[i].name),
                                              "targets", targets_json(h, &c->upstreams[i])));
    return list;
}

void sg_admin_status(sg_admin_request_t *r)
{
    const sg_admin_host_t *h = &r->admin->host;
    const sg_config_t *c = h->config(h->arg);
    json_t *o = json_object();
    sg_json_set(o, "version", sg_json_text(PACKAGE_VERSION));
    sg_json_set(o, "time", sg_json_time(sg_clock_wall_us()));
    sg_json_set(o, "draining", json_boolean(h->draining(h->arg)));
    sg_json_set(o, "requests", json_integer((json_int_t)sg_metrics_requests(h->metrics)));
    sg_json_set(o, "config", config_json(h, c));
    sg_json_set(o, "store", store_json(h, c));
    sg_json_set(o, "upstreams", upstreams_json(h, c));
    sg_json_set(o, "tenants", json_integer(c ? (json_int_t)c->tenant_count : 0));
    sg_json_set(o, "workers", workers_json(h));
    sg_admin_json(r, 200, o);
}
