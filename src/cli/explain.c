/* explain.c - what would become of a request: the same decisions that an exchange makes, without the
 * exchange. */
#include "cli/explain.h"

#include <getopt.h>
#include <stdio.h>


#include "base/clock.h"
#include "cli/cli.h"
#include "server/head.h"

static int usage(const char *what)
{
    if (what)
        fprintf(stderr, "slotgate explain: %s\n", what);
    fputs("usage: slotgate explain -c FILE METHOD URL [-H 'Name: value']... [--peer ADDRESS] [--json]\n",
          stderr);
    return SG_EXIT_USAGE;
}

/* --- what is asked ------------------------------------------------------------------------------- */

static bool add_field(sg_explain_t *x, const char *text)
{
    sg_str_t value = sg_str(text), name;
    if (!strchr(text, ':') || !sg_str_next(&value, ':', &name))
        return false;
    if (!sg_is_token(name) || !sg_is_field_value(value))
        return false;
    sg_fields_add(&x->fields, x->arena, name, sg_str_trim(value));
    return true;
}

static int read_options(sg_explain_t *x, int argc, char **argv)
{
    enum { JSON = 256, PEER };
    static const struct option options[] = {
        {"json", no_argument, NULL, JSON},
        {"peer", required_argument, NULL, PEER},
        {NULL, 0, NULL, 0},
    };
    optind = 0;                 /* begin anew: the caller may have read options of its own */
    for (int o; (o = getopt_long(argc, argv, "c:H:", options, NULL)) != -1;) {
        if (o == 'c')
            x->file = optarg;
        else if (o == JSON)
            x->json = true;
        else if (o == PEER)
            x->peer_text = optarg;
        else if (o != 'H')
            return usage(NULL);
        else if (!add_field(x, optarg))
            return usage("-H: expected 'Name: value'");
    }
    if (!x->file)
        return usage("-c FILE is missing");
    if (argc - optind != 2)
        return usage("expected a method and a URL");
    x->method_text = argv[optind];
    x->url = argv[optind + 1];
    if (sg_addr_parse(sg_str(x->peer_text), &x->client))
        return usage("--peer: expected an IP address");
    if (!sg_is_token(sg_str(x->method_text)))
        return usage("the method is not a token");
    return SG_EXIT_OK;
}

static int load_config(sg_explain_t *x)
{
    sg_diags_t diags = {0};
    x->config = sg_config_load(x->file, NULL, &diags);
    if (!x->config)
        sg_diags_print(&diags, stderr);
    sg_diags_deinit(&diags);
    return x->config ? SG_EXIT_OK : SG_EXIT_CONFIG;
}

/* --- decisions ----------------------------------------------------------------------------------- */

static bool refuse(sg_explain_t *x, unsigned status, const char *reason)
{
    x->end = SG_EXPLAIN_REFUSE;
    x->status = status;
    x->reason = reason;
    return false;
}

static bool refuse_for(sg_explain_t *x, const sg_refusal_t *why)
{
    return refuse(x, why->status, why->word);
}

/* As it would be sent: "METHOD URL HTTP/1.1", the fields, and an empty line. */
static size_t head_bytes(const sg_request_t *rq)
{
    size_t n = rq->method.n + 1 + rq->target.n + sizeof " HTTP/1.1\r\n" - 1 + 2;
    SG_FIELDS_EACH(f, &rq->fields)
    n += f->name.n + 2 + f->value.n + 2;
    return n;
}

/* Every client sends a Host: one that is not given is made up, for this check only. */
static bool check_head(sg_explain_t *x)
{
    sg_request_t rq = {.arena = x->arena,
                       .method = sg_str(x->method_text),
                       .target = sg_str(x->url),
                       .version_minor = 1};
    SG_FIELDS_EACH(f, &x->fields)
    sg_fields_add(&rq.fields, x->arena, f->name, f->value);
    if (!sg_fields_get(&rq.fields, SG_STR("Host")))
        sg_fields_add(&rq.fields, x->arena, SG_STR("Host"), SG_STR("localhost"));
    const sg_refusal_t *why =
        sg_head_check_size((size_t)x->config->server.max_header_bytes, rq.target.n, head_bytes(&rq));
    if (!why)
        why = sg_head_check_method(rq.method);
    if (!why)
        why = sg_head_check_fields(&rq);
    x->method = sg_method_parse(rq.method);
    x->body_bytes = rq.upload == SG_UPLOAD_LENGTH ? rq.upload_length : 0;
    return why ? refuse_for(x, why) : true;
}

static bool read_target(sg_explain_t *x)
{
    sg_target_err_t err = sg_target_parse(x->arena, sg_str(x->url), &x->target);
    if (err)
        return refuse_for(x, sg_refusal(sg_refusal_of_target(err)));
    if (x->target.form == SG_TARGET_ASTERISK && x->method != SG_METHOD_OPTIONS)
        return refuse_for(x, sg_refusal(SG_REFUSE_BAD_TARGET));
    const sg_field_t *field = sg_fields_get(&x->fields, SG_STR("Host"));
    sg_str_t authority = x->target.form == SG_TARGET_ABSOLUTE ? x->target.authority : (sg_str_t){NULL, 0};
    if (!authority.n && field)
        authority = field->value;
    unsigned port;
    if (authority.n && sg_host_parse(x->arena, authority, &x->host, &port))
        return refuse_for(x, sg_refusal(SG_REFUSE_BAD_HOST));
    return true;
}

static bool find_route(sg_explain_t *x)
{
    sg_router_match(x->config->router, x->host, x->method, &x->target, &x->match);
    const sg_route_t *route = x->match.route;
    if (!route && !x->target.odd)
        return refuse_for(x, sg_refusal(x->match.allow ? SG_REFUSE_METHOD_NOT_ALLOWED : SG_REFUSE_NO_ROUTE));
    if (!route || (x->target.odd && !route->odd_paths_pass))
        return refuse_for(x, sg_refusal(SG_REFUSE_ODD_PATH));
    if (x->body_bytes > (uint64_t)sg_config_max_body(x->config, route))
        return refuse_for(x, sg_refusal(SG_REFUSE_BODY_TOO_LARGE));
    return true;
}

/* The limits that the request has to pass, with those that are switched off. */
static void list_limits(sg_explain_t *x)
{
    const sg_route_t *route = x->match.route;
    for (size_t i = 0; i < route->limit_count && x->limit_count < SG_LIMITS_MAX; i++)
        x->limits[x->limit_count++].limit = x->identity.tenant->limits[route->limits[i]];
    x->cost = route->cost;
}

static void list_failures(sg_explain_t *x)
{
    const sg_limit_t *failures = &x->config->identity.failures;
    if (failures->limit > 0 && !failures->unlimited)
        x->limits[x->limit_count++].limit = failures;
    x->cost = 1;
}

static bool identify(sg_explain_t *x)
{
    const sg_identity_conf_t *c = &x->config->identity;
    bool trusted;
    x->client = sg_client_addr(c, &x->client, &x->fields, &trusted);
    sg_id_err_t err = sg_identity_resolve(c, x->match.route->auth, &x->fields, &x->target, &x->client,
                                          sg_clock_wall_us(), x->arena, &x->identity);
    x->identified = true;
    if (err == SG_ID_OK) {
        list_limits(x);
        return true;
    }
    if (err == SG_ID_UNKNOWN || err == SG_ID_DISABLED || err == SG_ID_EXPIRED)
        list_failures(x);
    return refuse(x, err == SG_ID_AMBIGUOUS ? 400 : 401, sg_id_err_name(err));
}

/* What the upstream would get. */
static void find_path(sg_explain_t *x)
{
    const sg_route_t *route = x->match.route;
    sg_fields_t fields = {0};           /* the key's fields are not shown: only the query matters here */
    if (route->respond) {
        x->end = SG_EXPLAIN_RESPOND;
        x->status = route->respond_status;
        return;
    }
    x->end = SG_EXPLAIN_FORWARD;
    x->path = sg_route_path(route, &x->match, &x->target, x->arena);
    x->query = x->target.query;
    x->has_query = x->target.has_query;
    sg_identity_strip(&x->config->identity, x->arena, &fields, &x->query, &x->has_query);
}

/* --- what is left -------------------------------------------------------------------------------- */

typedef struct {
    sg_explain_t *x;
    sg_loop_t *loop;
    bool done;
} wait_t;

static void on_answer(void *arg, const sg_answer_t *answer)
{
    wait_t *w = arg;
    w->x->answer = *answer;
    w->done = true;
}

/* The store's own deadline ends the wait. What goes wrong is part of the answer, so it is not logged as
 * well. */
static void peek(sg_explain_t *x, const sg_check_t *check)
{
    sg_log_set(SG_LOG_ERROR, false);
    wait_t w = {.x = x, .loop = sg_loop_new()};
    sg_memory_t *memory = sg_memory_new(1);
    sg_store_t *store = sg_store_new(w.loop, x->config, memory, NULL, NULL);
    sg_ticket_t *ticket = NULL;
    bool now = sg_store_check(store, check, &x->answer, &ticket, on_answer, &w);
    for (int64_t wait_us = 0; !now && !w.done; wait_us = 100000) /* the first turn sends what was asked */
        sg_loop_turn(w.loop, wait_us);
    if (x->answer.source != SG_FROM_STORE) {
        sg_store_status_t status;
        sg_store_status(store, &status);
        x->store = SG_EXPLAIN_NO_ANSWER;
        snprintf(x->store_error, sizeof x->store_error, "%s", status.error);
    }
    sg_store_free(store);
    sg_memory_free(memory);
    sg_loop_free(w.loop);
}

static void name_keys(sg_explain_t *x, const sg_key_scope_t *scope, int64_t now_us)
{
    for (size_t i = 0; i < x->limit_count; i++) {
        int64_t bucket;
        char room[SG_KEY_BYTES];
        if (x->limits[i].limit->unlimited)
            continue;
        sg_str_t key = sg_limit_key(scope, sg_limit_kept(x->limits[i].limit), now_us, room, &bucket);
        snprintf(x->limits[i].key, sizeof x->limits[i].key, "%.*s", SG_STR_ARG(key));
    }
}

/* The question was one of cost 0. A limit of 0 denies that as well; a slot is one, whatever the cost. */
static bool would_pass(const sg_limit_t *l, int64_t remaining, int64_t cost)
{
    int64_t units = l->algo == SG_ALGO_CONCURRENCY && cost > 1 ? 1 : cost;
    return l->limit > 0 && units <= remaining;
}

static void attach_results(sg_explain_t *x)
{
    size_t at = 0;
    for (size_t i = 0; i < x->limit_count; i++) {
        if (x->limits[i].limit->unlimited || at >= x->answer.verdict.count)
            continue;
        const sg_limit_t *limit = x->limits[i].limit;
        x->limits[i].left = &x->answer.verdict.at[at++];
        if (!limit->dry_run && !would_pass(limit, x->limits[i].left->remaining, x->cost))
            refuse(x, 429, "limited");
    }
}

static void ask_store(sg_explain_t *x)
{
    const sg_limit_t *limits[SG_LIMITS_MAX];
    const sg_store_conf_t *c = &x->config->store;
    sg_check_t check = {.limits = limits, .lease = "explain", .on_failure = SG_FAIL_CLOSED};
    check.scope = (sg_key_scope_t){c->key_prefix, c->key_version, x->identity.tag, NULL, x->identity.ip.text};
    if (x->identity.key)
        check.scope.key = x->identity.key->hash.text;
    for (size_t i = 0; i < x->limit_count; i++) {
        if (!x->limits[i].limit->unlimited)
            limits[check.count++] = x->limits[i].limit;
    }
    x->store = check.count == 0 ? SG_EXPLAIN_NO_LIMITS
               : c->type == SG_STORE_MEMORY ? SG_EXPLAIN_IN_GATEWAY : SG_EXPLAIN_ASKED;
    if (x->store == SG_EXPLAIN_ASKED)
        peek(x, &check);
    bool known = x->store == SG_EXPLAIN_ASKED;
    name_keys(x, &check.scope, known ? x->answer.verdict.now_us : sg_clock_wall_us());
    if (known)
        attach_results(x);
}

int sg_cli_explain(int argc, char **argv)
{
    sg_explain_t x = {.peer_text = "127.0.0.1", .arena = sg_arena_new(4096), .store = SG_EXPLAIN_NO_LIMITS};
    int status = read_options(&x, argc, argv);
    if (status == SG_EXIT_OK)
        status = load_config(&x);
    if (status == SG_EXIT_OK) {
        if (check_head(&x) && read_target(&x) && find_route(&x) && identify(&x))
            find_path(&x);
        if (x.identified)
            ask_store(&x);
        if (x.json)
            sg_explain_print_json(&x);
        else
            sg_explain_print_text(&x);
        status = x.end == SG_EXPLAIN_REFUSE ? SG_EXIT_FOUND : SG_EXIT_OK;
    }
    sg_config_unref(x.config);
    sg_arena_free(x.arena);
    return status;
}
