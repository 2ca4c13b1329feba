/* usage.c - /tenants/NAME/usage: what is left of each of a tenant's limits. The store is asked with cost 0,
 * which writes nothing: first the limits that all callers of the tenant share, then, key by key, those that
 * each key has for itself. */
#include "admin/json.h"

#define KEYS_MAX 100u               /* keys looked at; the rest is counted in keys_omitted */

typedef struct {
    sg_admin_request_t *request;
    sg_config_t *config;            /* referenced: it may be exchanged while the store is asked */
    const sg_tenant_t *tenant;
    size_t key;                     /* 0: the shared limits; n: the tenant's n-th key */
    size_t next;                    /* index of the next limit to ask for in this pass */
    const sg_limit_t *batch[SG_LIMITS_MAX];
    sg_check_t check;
    sg_ticket_t *ticket;
    json_t *list;
    sg_source_t source;
} usage_t;

static void ask(usage_t *u);

static void usage_free(usage_t *u)
{
    json_decref(u->list);
    sg_config_unref(u->config);
    sg_free(u);
}

static void abandon(void *arg)
{
    usage_t *u = arg;
    u->request->admin->host.cancel(u->ticket);
    usage_free(u);
}

static size_t keys_to_ask(const usage_t *u)
{
    return u->tenant->key_count < KEYS_MAX ? u->tenant->key_count : KEYS_MAX;
}

static json_t *limit_json(const sg_limit_t *l)
{
    json_t *o = json_object();
    sg_json_set(o, "name", sg_json_text(l->name));
    sg_json_set(o, "algorithm", sg_json_text(sg_algo_name(l->algo)));
    sg_json_set(o, "per", sg_json_text(sg_scope_name(l->per)));
    sg_json_set(o, "dry_run", json_boolean(l->dry_run));
    sg_json_set(o, "limit", json_integer(l->limit));
    if (l->window_us > 0)
        sg_json_set(o, "window_ms", json_integer(l->window_us / 1000));
    return o;
}

static void add_results(usage_t *u, const sg_verdict_t *v)
{
    for (size_t i = 0; i < u->check.count && i < v->count; i++) {
        json_t *o = limit_json(u->batch[i]);
        if (u->key > 0)
            sg_json_set(o, "key", sg_json_text(u->tenant->keys[u->key - 1].id));
        sg_json_set(o, "remaining", json_integer(v->at[i].remaining));
        sg_json_set(o, "reset_ms", json_integer((v->at[i].reset_us + 999) / 1000));
        json_array_append_new(u->list, o);
    }
}

/* Counters of client addresses and of the whole gateway are not the tenant's: only the rule is shown. */
static void add_others(usage_t *u)
{
    for (size_t i = 0; i < u->config->limit_count; i++) {
        const sg_limit_t *l = u->tenant->limits[i];
        if (!l->unlimited && (l->per == SG_PER_IP || l->per == SG_PER_ALL))
            json_array_append_new(u->list, limit_json(l));
    }
}

static void finish(usage_t *u)
{
    sg_admin_request_t *r = u->request;
    add_others(u);
    json_t *o =
        json_pack("{s:o, s:o, s:s, s:O}", "tenant", sg_json_text(u->tenant->name), "plan",
                  sg_json_text(u->tenant->plan), "source", sg_source_name(u->source), "limits", u->list);
    if (u->tenant->key_count > keys_to_ask(u))
        sg_json_set(o, "keys_omitted", json_integer((json_int_t)(u->tenant->key_count - keys_to_ask(u))));
    sg_admin_json(r, 200, o);
    usage_free(u);
    sg_admin_done(r);
}

static void take(usage_t *u, const sg_answer_t *answer)
{
    u->ticket = NULL;
    if (answer->source != SG_FROM_OPEN && answer->source != SG_FROM_CLOSED) {
        u->source = answer->source;
        add_results(u, &answer->verdict);
        return;
    }
    sg_admin_request_t *r = u->request;
    usage_free(u);
    sg_admin_problem(r, 503, "the store does not answer");
    sg_admin_done(r);
}

static void on_answer(void *arg, const sg_answer_t *answer)
{
    usage_t *u = arg;
    bool known = answer->source != SG_FROM_OPEN && answer->source != SG_FROM_CLOSED;
    take(u, answer);
    if (known)
        ask(u);
}

/* Gathers the next limits of this pass, or goes on to the next key. False when all passes are over. */
static bool next_batch(usage_t *u)
{
    for (;;) {
        sg_scope_t per = u->key == 0 ? SG_PER_TENANT : SG_PER_KEY;
        u->check.count = 0;
        while (u->next < u->config->limit_count && u->check.count < SG_LIMITS_MAX) {
            const sg_limit_t *l = u->tenant->limits[u->next++];
            if (!l->unlimited && l->per == per)
                u->batch[u->check.count++] = l;
        }
        if (u->check.count > 0)
            return true;
        if (u->key >= keys_to_ask(u))
            return false;
        u->key++;
        u->next = 0;
        u->check.scope.key = u->tenant->keys[u->key - 1].hash.text;
    }
}

/* Asks until an answer is late or all are there. */
static void ask(usage_t *u)
{
    const sg_admin_host_t *h = &u->request->admin->host;
    sg_answer_t now;
    while (next_batch(u)) {
        if (!h->check(h->store, &u->check, &now, &u->ticket, on_answer, u)) {
            if (!u->request->waiting)
                sg_admin_wait(u->request, abandon, u);
            return;
        }
        if (now.source == SG_FROM_OPEN || now.source == SG_FROM_CLOSED) {
            take(u, &now);
            return;
        }
        take(u, &now);
    }
    finish(u);
}

void sg_admin_usage(sg_admin_request_t *r)
{
    const sg_tenant_t *t = sg_admin_tenant(r);
    if (!t)
        return;
    const sg_admin_host_t *h = &r->admin->host;
    usage_t *u = SG_NEW(usage_t);
    u->request = r;
    u->config = sg_config_ref(h->config(h->arg));
    u->tenant = t;
    u->list = json_array();
    u->check = (sg_check_t){.limits = u->batch, .lease = "admin", .on_failure = SG_FAIL_INHERIT};
    u->check.scope = (sg_key_scope_t){
        .prefix = u->config->store.key_prefix, .version = u->config->store.key_version, .tag = t->tag.text};
    ask(u);
}
