/* usage.c - slotgate usage: what is left of each limit of a tenant, and of each of its keys. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/session.h"

typedef struct {
    sg_session_t *session;
    const sg_api_key_t *key;    /* NULL: the limits of the whole tenant */
    const sg_limit_t *limits[SG_LIMITS_MAX];
    sg_check_t check;
    sg_answer_t answer;
    bool done, headed;
    json_t *list;               /* NULL: a table for people */
} usage_t;

static void on_answer(void *arg, const sg_answer_t *answer)
{
    usage_t *u = arg;
    u->answer = *answer;
    u->done = true;
}

/* --- output --------------------------------------------------------------------------------------------- */

static int64_t whole_s(int64_t us)
{
    return us / 1000000 + (us % 1000000 > 0);
}

static void print_head(usage_t *u)
{
    const sg_tenant_t *t = u->session->tenant;
    if (u->headed)
        return;
    u->headed = true;
    printf("tenant %s%s%s\n", t->name, t->plan ? ", plan " : "", t->plan ? t->plan : "");
    printf("%-28s %-16s %16s %16s %12s\n", "LIMIT", "KEY", "REMAINING", "OF", "RESET");
}

static void print_limit(const usage_t *u, const sg_limit_t *l, const sg_limit_result_t *r)
{
    printf("%-28s %-16s %16" PRId64 " %16" PRId64 " %10" PRId64 " s%s\n", l->name, u->key ? u->key->id : "",
           r->remaining, l->limit, whole_s(r->reset_us), l->dry_run ? "  dry run" : "");
}

static json_t *rule_json(const sg_limit_t *l)
{
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:b, s:I}", "name", l->name, "algorithm", sg_algo_name(l->algo), "per",
                  sg_scope_name(l->per), "dry_run", l->dry_run, "limit", (json_int_t)l->limit);
    if (l->window_us > 0)
        (void)json_object_set_new(o, "window_ms", json_integer(l->window_us / 1000));
    return o;
}

static void add_limit(const usage_t *u, const sg_limit_t *l, const sg_limit_result_t *r)
{
    json_t *o = rule_json(l);
    (void)json_object_set_new(o, "remaining", json_integer(r->remaining));
    (void)json_object_set_new(o, "reset_ms", json_integer((r->reset_us + 999) / 1000));
    if (u->key)
        (void)json_object_set_new(o, "key", json_string(u->key->id));
    (void)json_array_append_new(u->list, o);
}

/* Counters of client addresses and of the whole gateway are not the tenant's: only the rule is shown, as the
 * admin listener does. */
static void show_others(usage_t *u)
{
    const sg_session_t *s = u->session;
    for (size_t i = 0; i < s->config->limit_count; i++) {
        const sg_limit_t *l = s->tenant->limits[i];
        if (l->unlimited || (l->per != SG_PER_IP && l->per != SG_PER_ALL))
            continue;
        if (u->list)
            (void)json_array_append_new(u->list, rule_json(l));
        else
            printf("%-28s %-16s %16s %16" PRId64 " %12s  %s%s\n", l->name, "", "-", l->limit, "-",
                   l->per == SG_PER_IP ? "for each client address" : "for all tenants together",
                   l->dry_run ? ", dry run" : "");
    }
}

/* --- asking --------------------------------------------------------------------------------------------- */

/* A peek at the limits that are gathered. False when the store did not answer. */
static bool ask(usage_t *u)
{
    sg_ticket_t *ticket = NULL;
    sg_session_t *s = u->session;
    u->done = sg_store_check(s->store, &u->check, &u->answer, &ticket, on_answer, u);
    /* The question goes out at the end of a turn: the first one does not wait, the deadline runs already. */
    for (int64_t wait_us = 0; !u->done; wait_us = 100000)
        sg_loop_turn(s->loop, wait_us);
    if (u->answer.source != SG_FROM_STORE)
        return false;
    if (!u->list)
        print_head(u);
    for (size_t i = 0; i < u->check.count; i++) {
        if (u->list)
            add_limit(u, u->limits[i], &u->answer.verdict.at[i]);
        else
            print_limit(u, u->limits[i], &u->answer.verdict.at[i]);
    }
    u->check.count = 0;
    return true;
}

/* All limits of this scope, as many at a time as one question holds. */
static bool ask_scope(usage_t *u, sg_scope_t per)
{
    const sg_session_t *s = u->session;
    u->check.count = 0;
    for (size_t i = 0; i < s->config->limit_count; i++) {
        const sg_limit_t *l = s->tenant->limits[i];
        if (l->unlimited || l->per != per)
            continue;
        u->limits[u->check.count++] = l;
        if (u->check.count == SG_LIMITS_MAX && !ask(u))
            return false;
    }
    return u->check.count == 0 || ask(u);
}

static bool ask_all(usage_t *u)
{
    const sg_tenant_t *t = u->session->tenant;
    if (!ask_scope(u, SG_PER_TENANT))
        return false;
    for (size_t i = 0; i < t->key_count; i++) {
        u->key = &t->keys[i];
        u->check.scope.key = u->key->hash.text;
        if (!ask_scope(u, SG_PER_KEY))
            return false;
    }
    return true;
}

static int finish(usage_t *u, bool ok)
{
    const sg_tenant_t *t = u->session->tenant;
    if (ok && !u->list)
        print_head(u);
    if (ok)
        show_others(u);
    if (!ok)
        fputs("slotgate usage: the store does not answer\n", stderr);
    else if (u->list) {
        json_t *o = json_pack("{s:s, s:s?, s:O}", "tenant", t->name, "plan", t->plan, "limits", u->list);
        (void)json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(o);
    }
    json_decref(u->list);
    return ok ? SG_EXIT_OK : SG_EXIT_FOUND;
}

static int show(sg_session_t *s)
{
    const sg_store_conf_t *c = &s->config->store;
    usage_t u = {.session = s, .list = s->json ? json_array() : NULL};
    u.check = (sg_check_t){.limits = u.limits, .lease = "usage", .on_failure = SG_FAIL_CLOSED};
    u.check.scope = (sg_key_scope_t){c->key_prefix, c->key_version, s->tenant->tag.text, NULL, ""};
    return finish(&u, ask_all(&u));
}

int sg_cli_usage(int argc, char **argv)
{
    sg_session_t s;
    int status = sg_session_open(&s, "usage", argc, argv);
    if (status == SG_EXIT_OK)
        status = show(&s);
    sg_session_close(&s);
    return status;
}
