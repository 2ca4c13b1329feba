/* actions.c - POST /tenants/NAME/reset and POST /reload. */
#include "admin/json.h"

const sg_tenant_t *sg_admin_tenant(sg_admin_request_t *r)
{
    const sg_admin_host_t *h = &r->admin->host;
    const sg_config_t *c = h->config(h->arg);
    const sg_tenant_t *t = c ? sg_config_tenant(c, sg_str(r->name)) : NULL;
    if (!t) {
        sg_admin_problem(r, 404, "the config has no tenant of that name");
    } else if (t->anonymous) {
        sg_admin_problem(r, 409,
                         "callers without a key are counted by address: they have no counters in common");
        return NULL;
    }
    return t;
}

/* --- reset --------------------------------------------------------------------------------------------- */

/* Outlives its request when the gateway stops first. */
typedef struct {
    sg_admin_request_t *request;        /* NULL: nobody waits any more */
    const sg_admin_host_t *host;
    unsigned tenant;                    /* its id in metrics; 0: it shares one with others */
    size_t keys;                        /* forgotten in this process's own memory */
    bool inside;                        /* the host's function has not returned yet */
    bool answered;
} reset_t;

static void abandon_reset(void *arg)
{
    reset_t *x = arg;
    x->request = NULL;
}

static void on_reset(void *arg, size_t keys, const char *error)
{
    reset_t *x = arg;
    sg_admin_request_t *r = x->request;
    x->answered = true;
    if (!error && x->tenant && x->host->forget)
        x->host->forget(x->host->arg, x->tenant);
    if (r) {
        if (error) {
            sg_log(SG_LOG_WARN, "tenant not reset", SG_F_STR("tenant", r->name), SG_F_STR("error", error));
            sg_admin_problem(r, 503, error);
        } else {
            sg_log(SG_LOG_INFO, "tenant reset", SG_F_STR("tenant", r->name));
            sg_admin_json(r, 200, json_pack("{s:o, s:I}", "tenant", sg_json_text(r->name), "counters",
                                            (json_int_t)(x->keys + keys)));
        }
        sg_admin_done(r);
    }
    if (!x->inside)
        sg_free(x);
}

static reset_t reset_of(sg_admin_request_t *r, const sg_tenant_t *t, size_t keys)
{
    return (reset_t){
        .request = r, .host = &r->admin->host, .tenant = t->metric, .keys = keys, .inside = true};
}

static void reset_in_redis(sg_admin_request_t *r, const sg_tenant_t *t, size_t keys)
{
    const sg_admin_host_t *h = &r->admin->host;
    reset_t *x = SG_NEW(reset_t);
    *x = reset_of(r, t, keys);
    h->reset(h->arg, t, on_reset, x);
    x->inside = false;
    if (x->answered)
        sg_free(x);
    else
        sg_admin_wait(r, abandon_reset, x);
}

void sg_admin_reset(sg_admin_request_t *r)
{
    const sg_admin_host_t *h = &r->admin->host;
    const sg_tenant_t *t = sg_admin_tenant(r);
    size_t keys = 0;
    if (!t)
        return;
    bool redis = h->config(h->arg)->store.type == SG_STORE_REDIS;
    if (redis && !h->reset) {
        sg_admin_problem(r, 501, "this build resets the memory store only; use slotgate reset for Redis");
        return;
    }
    /* With Redis the process's own memory holds what was counted while Redis was away. */
    if (h->memory)
        keys = h->memory_reset(h->memory, t->tag.text);
    if (redis) {
        reset_in_redis(r, t, keys);
        return;
    }
    reset_t x = reset_of(r, t, keys);
    on_reset(&x, 0, NULL);
}

/* --- reload -------------------------------------------------------------------------------------------- */

#define FINDINGS_MAX 65536u

/* A reload may open and close listeners, which libmicrohttpd does not allow from its own callbacks: it runs
 * as a task. */
typedef struct {
    sg_admin_request_t *request;
    sg_task_t task;
} reload_t;

static void abandon_reload(void *arg)
{
    reload_t *x = arg;
    sg_defer_cancel(&x->task);
    sg_free(x);
}

static json_t *lines_json(sg_str_t text)
{
    json_t *list = json_array();
    sg_str_t line;
    while (sg_str_next(&text, '\n', &line)) {
        if (line.n > 0)
            json_array_append_new(list, sg_json_view(line));
    }
    return list;
}

static void run_reload(void *arg)
{
    reload_t *x = arg;
    sg_admin_request_t *r = x->request;
    const sg_admin_host_t *h = &r->admin->host;
    sg_buf_t text = {0};
    sg_free(x);
    sg_buf_init(&text, FINDINGS_MAX);
    bool ok = h->reload(h->arg, &text);
    const sg_config_t *c = h->config(h->arg);
    json_t *findings = lines_json(sg_buf_str(&text));
    if (ok) {
        sg_admin_json(
            r, 200, json_pack("{s:o, s:o}", "hash", sg_json_text(c ? c->hash : NULL), "findings", findings));
    } else {
        json_t *problem = json_pack(
            "{s:s, s:s, s:i, s:s, s:o}", "type", "about:blank", "title", "Unprocessable Content", "status",
            422, "detail", "the config file has errors; the old one stays in use", "findings", findings);
        sg_admin_json(r, 422, problem);
        sg_admin_reply(r, 422, "application/problem+json");
    }
    sg_buf_deinit(&text);
    sg_admin_done(r);
}

void sg_admin_reload_now(sg_admin_request_t *r)
{
    reload_t *x = SG_NEW(reload_t);
    x->request = r;
    sg_admin_wait(r, abandon_reload, x);
    sg_defer(r->admin->loop, &x->task, run_reload, x);
}
