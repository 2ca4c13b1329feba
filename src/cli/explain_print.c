/* explain_print.c - what explain has found, for people and for programs. */
#include "cli/explain.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static const char *end_name(sg_explain_end_t e)
{
    switch (e) {
    case SG_EXPLAIN_FORWARD: return "forward";
    case SG_EXPLAIN_RESPOND: return "respond";
    case SG_EXPLAIN_REFUSE: return "refuse";
    }
    return "";
}

static const char *auth_name(sg_auth_t a)
{
    return a == SG_AUTH_REQUIRED ? "required" : a == SG_AUTH_OPTIONAL ? "optional" : "none";
}

static const char *store_note(const sg_explain_t *x)
{
    switch (x->store) {
    case SG_EXPLAIN_ASKED: return "asked";
    case SG_EXPLAIN_NO_LIMITS: return "no limit applies";
    case SG_EXPLAIN_IN_GATEWAY: return "the memory store's counters lie in the running gateway";
    case SG_EXPLAIN_NO_ANSWER: return "no answer";
    }
    return "";
}

/* --- text ---------------------------------------------------------------------------------------- */

static void print_route(const sg_explain_t *x)
{
    const sg_route_t *r = x->match.route;
    if (!r) {
        puts("route      none");
        return;
    }
    printf("route      %s  (%s%s)\n", r->name, r->host ? r->host : "", r->pattern);
    for (size_t i = 0; i < x->match.param_count; i++)
        printf("           :%.*s = %.*s\n", SG_STR_ARG(x->match.params[i].name),
               SG_STR_ARG(x->match.params[i].raw));
    printf("auth       %s\n", auth_name(r->auth));
}

static void print_identity(const sg_explain_t *x)
{
    char text[SG_ADDR_TEXT];
    if (!x->identified)
        return;
    const sg_tenant_t *t = x->identity.tenant;
    sg_addr_text(&x->client, text);
    if (t)
        printf("tenant     %s%s%s\n", t->name, t->plan ? ", plan " : "", t->plan ? t->plan : "");
    if (x->identity.key)
        printf("key        %s  (hash %s)\n", x->identity.key->id, x->identity.key->hash.text);
    printf("client     %s  (hash %s)\n", text, x->identity.ip.text);
    printf("slot tag   %s\n", x->identity.tag);
}

static void print_limit(const sg_explain_limit_t *l)
{
    const sg_limit_t *limit = l->limit;
    printf("  %-24s %-14s per %-6s ", limit->name, sg_algo_name(limit->algo), sg_scope_name(limit->per));
    if (limit->unlimited) {
        puts("unlimited");
        return;
    }
    if (l->left)
        printf("%" PRId64 " of %" PRId64 " left, full in %.3f s", l->left->remaining, limit->limit,
               (double)l->left->reset_us / 1e6);
    else
        printf("limit %" PRId64, limit->limit);
    if (limit->ledger)
        printf(", and what gateways have taken ahead (at most %" PRId64 " each)", limit->block);
    printf("%s\n    %s\n", limit->dry_run ? "  (dry run)" : "", l->key);
}

void sg_explain_print_text(const sg_explain_t *x)
{
    printf("request    %s %s\n", x->method_text, x->url);
    if (x->host.n)
        printf("host       %.*s\n", SG_STR_ARG(x->host));
    print_route(x);
    print_identity(x);
    if (x->limit_count > 0) {
        printf("limits     cost %" PRId64 "\n", x->cost);
        for (size_t i = 0; i < x->limit_count; i++)
            print_limit(&x->limits[i]);
        printf("store      %s%s%s\n", store_note(x), x->store_error[0] ? ": " : "", x->store_error);
    }
    if (x->end == SG_EXPLAIN_REFUSE)
        printf("answer     %u %s\n", x->status, x->reason);
    else if (x->end == SG_EXPLAIN_RESPOND)
        printf("answer     %u, by the gateway itself\n", x->status);
    else
        printf("answer     forwarded as %.*s%s%.*s\n", SG_STR_ARG(x->path), x->has_query ? "?" : "",
               SG_STR_ARG(x->query));
}

/* --- JSON ---------------------------------------------------------------------------------------- */

/* Bytes that are not UTF-8 (a field may hold any) become U+FFFD, as everywhere. */
static json_t *text(sg_str_t s)
{
    json_t *plain = json_stringn(s.p ? s.p : "", s.n);
    return plain ? plain : json_string("\xef\xbf\xbd");
}

static json_t *text_or_null(const char *z)
{
    return z ? text(sg_str(z)) : json_null();
}

static json_t *route_json(const sg_explain_t *x)
{
    const sg_route_t *r = x->match.route;
    if (!r)
        return json_null();
    json_t *params = json_object();
    for (size_t i = 0; i < x->match.param_count; i++) {
        char *name = sg_strndup(x->match.params[i].name);
        json_object_set_new(params, name, text(x->match.params[i].raw));
        sg_free(name);
    }
    return json_pack("{s:s, s:o, s:s, s:s, s:o}", "name", r->name, "host", text_or_null(r->host), "path",
                     r->pattern, "auth", auth_name(r->auth), "params", params);
}

static json_t *identity_json(const sg_explain_t *x)
{
    char client[SG_ADDR_TEXT];
    const sg_identity_t *id = &x->identity;
    if (!x->identified)
        return json_null();
    sg_addr_text(&x->client, client);
    return json_pack("{s:o, s:o, s:o, s:o, s:s, s:s, s:s}",
                     "tenant", text_or_null(id->tenant ? id->tenant->name : NULL),
                     "plan", text_or_null(id->tenant ? id->tenant->plan : NULL),
                     "key", text_or_null(id->key ? id->key->id : NULL),
                     "key_hash", text_or_null(id->key ? id->key->hash.text : NULL), "client", client,
                     "client_hash", id->ip.text, "tag", id->tag);
}

static json_t *limit_json(const sg_explain_limit_t *l)
{
    const sg_limit_t *limit = l->limit;
    json_t *o = json_pack("{s:s, s:s, s:s, s:b, s:b, s:I, s:o}", "name", limit->name, "algorithm",
                          sg_algo_name(limit->algo), "per", sg_scope_name(limit->per), "dry_run",
                          limit->dry_run, "unlimited", limit->unlimited, "limit", (json_int_t)limit->limit,
                          "key", text_or_null(l->key[0] ? l->key : NULL));
    if (limit->ledger)
        json_object_set_new(o, "block", json_integer(limit->block));
    if (l->left) {
        json_object_set_new(o, "remaining", json_integer(l->left->remaining));
        json_object_set_new(o, "reset_seconds", json_real((double)l->left->reset_us / 1e6));
    }
    return o;
}

static json_t *answer_json(const sg_explain_t *x)
{
    json_t *o = json_pack("{s:s}", "action", end_name(x->end));
    if (x->end != SG_EXPLAIN_FORWARD)
        json_object_set_new(o, "status", json_integer(x->status));
    if (x->end == SG_EXPLAIN_REFUSE)
        json_object_set_new(o, "reason", json_string(x->reason));
    if (x->path.n > 0)
        json_object_set_new(o, "path", text(x->path));
    if (x->path.n > 0 && x->has_query)
        json_object_set_new(o, "query", text(x->query));
    return o;
}

void sg_explain_print_json(const sg_explain_t *x)
{
    json_t *limits = json_array();
    for (size_t i = 0; i < x->limit_count; i++)
        json_array_append_new(limits, limit_json(&x->limits[i]));
    json_t *store = json_pack("{s:b, s:s, s:o}", "asked", x->store == SG_EXPLAIN_ASKED, "note", store_note(x),
                              "error", text(sg_str(x->store_error)));
    json_t *all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "method", x->method_text, "url",
                            text(sg_str(x->url)), "host", text(x->host), "route", route_json(x), "identity",
                            identity_json(x), "cost", (json_int_t)x->cost, "limits", limits, "store", store,
                            "answer", answer_json(x));
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(all);
}
