/* admit.c - may this request pass? Target, route, identity, limits. */
#include "base/clock.h"
#include "base/magic.h"
#include "base/random.h"
#include "proxy/exchange.h"

/* False: refused. */
static bool read_target(sg_exchange_t *ex)
{
    sg_request_t *rq = ex->rq;
    sg_target_err_t err = sg_target_parse(rq->arena, rq->target, &ex->target);
    if (err) {
        sg_exchange_refuse_why(ex, sg_refusal_of_target(err));
        return false;
    }
    /* RFC 9112 section 3.2.2: the authority of an absolute-form replaces Host. */
    ex->authority = ex->target.form == SG_TARGET_ABSOLUTE ? ex->target.authority : rq->host;
    unsigned port;
    if (ex->authority.n && sg_host_parse(rq->arena, ex->authority, &ex->host, &port)) {
        sg_exchange_refuse_why(ex, SG_REFUSE_BAD_HOST);
        return false;
    }
    if (ex->target.form == SG_TARGET_ASTERISK && ex->method != SG_METHOD_OPTIONS) {
        sg_exchange_refuse_why(ex, SG_REFUSE_BAD_TARGET);
        return false;
    }
    return true;
}

static bool find_route(sg_exchange_t *ex)
{
    sg_router_match(ex->config->router, ex->host, ex->method, &ex->target, &ex->match);
    const sg_route_t *route = ex->match.route;
    if (!route) {
        /* The odd spelling of a path that has a route must not tell more than the plain one. */
        sg_exchange_refuse_why(ex, ex->target.odd    ? SG_REFUSE_ODD_PATH
                                   : ex->match.allow ? SG_REFUSE_METHOD_NOT_ALLOWED
                                                     : SG_REFUSE_NO_ROUTE);
        return false;
    }
    if (ex->target.odd && !route->odd_paths_pass) {
        sg_exchange_refuse_why(ex, SG_REFUSE_ODD_PATH);
        return false;
    }
    if (ex->rq->upload == SG_UPLOAD_LENGTH &&
        ex->rq->upload_length > (uint64_t)sg_config_max_body(ex->config, route)) {
        sg_exchange_refuse_why(ex, SG_REFUSE_BODY_TOO_LARGE);
        return false;
    }
    return true;
}

/* --- limits ------------------------------------------------------------------------------------------ */

static void decided(sg_exchange_t *ex);

static void on_answer(void *arg, const sg_answer_t *answer)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    ex->ticket = NULL;
    ex->answer = *answer;
    decided(ex);
}

static void ask_store(sg_exchange_t *ex)
{
    const sg_config_t *c = ex->config;
    ex->check.limits = ex->limits;
    ex->check.scope.prefix = c->store.key_prefix;
    ex->check.scope.version = c->store.key_version;
    ex->check.scope.ip = ex->identity.ip.text;
    ex->check.lease = ex->lease;
    ex->check.on_failure = ex->match.route->on_failure;
    sg_exchange_go(ex, SG_EX_LIMITING);
    if (sg_store_check(ex->proxy->store, &ex->check, &ex->answer, &ex->ticket, on_answer, ex))
        decided(ex);
}

static bool has_slots(const sg_exchange_t *ex)
{
    for (size_t i = 0; i < ex->check.count; i++)
        if (ex->limits[i]->algo == SG_ALGO_CONCURRENCY)
            return true;
    return false;
}

static void count_slots(sg_exchange_t *ex, int delta)
{
    for (size_t i = 0; i < ex->check.count; i++)
        if (ex->limits[i]->algo == SG_ALGO_CONCURRENCY)
            sg_add_leases(ex->proxy->metrics, ex->limits[i]->metric, delta);
}

void sg_exchange_release_slots(sg_exchange_t *ex)
{
    if (!ex->holds_slots)
        return;
    ex->holds_slots = false;
    count_slots(ex, -1);
    sg_store_release(ex->proxy->store, &ex->check, ex->answer.source);
}

static bool slots_were_taken(const sg_exchange_t *ex)
{
    return ex->answer.verdict.allowed &&
           (ex->answer.source == SG_FROM_STORE || ex->answer.source == SG_FROM_LOCAL) && ex->check.cost > 0 &&
           has_slots(ex);
}

static void decided_route(sg_exchange_t *ex)
{
    ex->answered = true;
    sg_account_decisions(ex);
    if (slots_were_taken(ex)) {
        ex->holds_slots = true;
        count_slots(ex, 1);
    }
    if (ex->answer.verdict.allowed)
        sg_exchange_forward(ex);
    else
        sg_exchange_refuse_why(ex, ex->answer.source == SG_FROM_CLOSED ? SG_REFUSE_STORE_AWAY
                                                                       : SG_REFUSE_LIMITED);
}

/* Bad keys: over the limit of failures the answer is 429, and it says nothing about the key. */
static void decided_failures(sg_exchange_t *ex)
{
    bool over = !ex->answer.verdict.allowed && ex->answer.source != SG_FROM_CLOSED;
    ex->answered = over;
    sg_exchange_refuse_why(ex, over ? SG_REFUSE_TOO_MANY_BAD_KEYS : SG_REFUSE_BAD_KEY);
}

static void decided(sg_exchange_t *ex)
{
    if (ex->checking_failures)
        decided_failures(ex);
    else
        decided_route(ex);
}

static void check_failures(sg_exchange_t *ex)
{
    const sg_limit_t *failures = &ex->config->identity.failures;
    if (failures->limit == 0 || failures->unlimited) {
        sg_exchange_refuse_why(ex, SG_REFUSE_BAD_KEY);
        return;
    }
    ex->checking_failures = true;
    ex->limits[0] = failures;
    ex->check.count = 1;
    ex->check.cost = 1;
    ex->check.scope.tag = ex->identity.ip.text;
    ask_store(ex);
}

static void check_limits(sg_exchange_t *ex)
{
    const sg_route_t *route = ex->match.route;
    for (size_t i = 0; i < route->limit_count; i++) {
        const sg_limit_t *l = ex->identity.tenant->limits[route->limits[i]];
        if (!l->unlimited)
            ex->limits[ex->check.count++] = l;
    }
    if (ex->check.count == 0) {
        sg_exchange_forward(ex);
        return;
    }
    ex->check.cost = route->cost;
    ex->check.settles = route->cost_from != SG_COST_FIXED;
    ex->check.scope.tag = ex->identity.tag;
    ex->check.scope.key = ex->identity.key ? ex->identity.key->hash.text : NULL;
    ask_store(ex);
}

/* --- identity ---------------------------------------------------------------------------------------- */

static void identify(sg_exchange_t *ex)
{
    ex->id_err =
        sg_identity_resolve(&ex->config->identity, ex->match.route->auth, &ex->rq->fields, &ex->target,
                            &ex->client, sg_clock_wall_us(), ex->rq->arena, &ex->identity);
    switch (ex->id_err) {
    case SG_ID_OK: check_limits(ex); break;
    case SG_ID_MISSING: sg_exchange_refuse_why(ex, SG_REFUSE_NO_KEY); break;
    case SG_ID_AMBIGUOUS: sg_exchange_refuse_why(ex, SG_REFUSE_AMBIGUOUS_KEY); break;
    case SG_ID_UNKNOWN:
    case SG_ID_DISABLED:
    case SG_ID_EXPIRED: check_failures(ex); break;
    }
}

static bool is_clean_id(sg_str_t id)
{
    return id.n <= 128 && sg_is_token(id);
}

/* An id that a trusted proxy gave is kept when it is short and clean; otherwise one is made. */
static void name_request(sg_exchange_t *ex)
{
    const sg_request_t *rq = ex->rq;
    const sg_field_t *id = sg_fields_get(&rq->fields, SG_STR("X-Request-Id"));
    ex->client = sg_client_addr(&ex->config->identity, rq->peer_is_unix ? NULL : &rq->peer, &rq->fields,
                                &ex->peer_trusted);
    sg_random_id(ex->lease);
    ex->request_id = ex->peer_trusted && id && is_clean_id(id->value) ? id->value : sg_str(ex->lease);
    const sg_field_t *tp = sg_fields_get(&ex->rq->fields, SG_STR("traceparent"));
    sg_trace_start(tp ? tp->value : (sg_str_t){NULL, 0}, &ex->trace);
}

void sg_exchange_admit(sg_exchange_t *ex)
{
    name_request(ex);
    ex->method = sg_method_parse(ex->rq->method);
    if (ex->rq->refusal)
        sg_exchange_refuse(ex, ex->rq->refusal);
    else if (read_target(ex) && find_route(ex))
        identify(ex);
}
