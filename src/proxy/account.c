/* account.c - every exchange is counted once and logged once. */
#include "base/clock.h"
#include "proxy/exchange.h"

/* --- decisions --------------------------------------------------------------------------------------- */

static bool limit_allowed(const sg_exchange_t *ex, size_t i)
{
    switch (ex->answer.source) {
    case SG_FROM_OPEN: return true;
    case SG_FROM_CLOSED: return ex->limits[i]->dry_run;
    case SG_FROM_STORE:
    case SG_FROM_DENY_CACHE:
    case SG_FROM_LOCAL:
    case SG_FROM_COUNT: break;
    }
    return ex->answer.verdict.at[i].allowed;
}

static void count_quota(sg_exchange_t *ex, const sg_limit_t *l, const sg_limit_result_t *r)
{
    const sg_tenant_t *t = ex->identity.tenant;
    if (l->per != SG_PER_TENANT || l->dry_run || l->limit <= 0 || !t || t->anonymous)
        return;
    double used = 1.0 - (double)r->remaining / (double)l->limit;
    sg_count_quota(ex->proxy->metrics, t->metric, l->metric, used, ex->answer.verdict.now_us + r->reset_us);
}

void sg_account_decisions(sg_exchange_t *ex)
{
    const sg_answer_t *a = &ex->answer;
    bool known = a->source != SG_FROM_OPEN && a->source != SG_FROM_CLOSED;
    for (size_t i = 0; i < ex->check.count; i++) {
        const sg_limit_t *l = ex->limits[i];
        sg_count_decision(ex->proxy->metrics, l->metric, l->dry_run, limit_allowed(ex, i), a->source);
        /* A kept denial was counted when it was new; it may be older than a reset. */
        if (known && a->source != SG_FROM_DENY_CACHE)
            count_quota(ex, l, &a->verdict.at[i]);
    }
}

/* --- the result -------------------------------------------------------------------------------------- */

static sg_result_t result_of_refusal(const sg_refusal_t *why)
{
    if (why->status == 429)
        return SG_RESULT_LIMITED;
    if (why->status == 401)
        return SG_RESULT_UNAUTHORIZED;
    return why->status >= 500 && !why->malformed ? SG_RESULT_FAILED : SG_RESULT_REFUSED;
}

static sg_result_t result_of(const sg_exchange_t *ex, bool complete)
{
    if (ex->refusal)
        return result_of_refusal(ex->refusal);
    if (ex->upstream_cut)
        return SG_RESULT_FAILED;
    if (complete)
        return SG_RESULT_ALLOWED;
    return ex->rq->drained ? SG_RESULT_FAILED : SG_RESULT_ABORTED;
}

static const char *error_of(const sg_exchange_t *ex, sg_result_t result)
{
    if (result == SG_RESULT_ABORTED)
        return "client_gone";
    if (ex->refusal == sg_refusal(SG_REFUSE_BAD_KEY) ||
        ex->refusal == sg_refusal(SG_REFUSE_TOO_MANY_BAD_KEYS))
        return sg_id_err_name(ex->id_err);
    if (ex->refusal)
        return ex->refusal->word;
    if (ex->upstream_cut)
        return "upstream_cut";
    return result == SG_RESULT_FAILED ? "drained" : NULL;
}

/* --- the access log: JSON with OpenTelemetry's attribute names --------------------------------------- */

/* Names are the gateway's own words: nothing in them has to be escaped. */
static void log_name(sg_buf_t *b, const char *name)
{
    sg_buf_z(b, ",\"");
    sg_buf_z(b, name);
    sg_buf_z(b, "\":");
}

static void log_str(sg_buf_t *b, const char *name, sg_str_t v)
{
    log_name(b, name);
    sg_buf_json(b, v);
}

static void log_u64(sg_buf_t *b, const char *name, uint64_t v)
{
    log_name(b, name);
    sg_buf_u64(b, v);
}

static void log_seconds(sg_buf_t *b, const char *name, int64_t us)
{
    char fraction[] = ".000000";
    int64_t left = us % 1000000;
    for (size_t at = 6; at > 0; left /= 10)
        fraction[at--] = (char)('0' + left % 10);
    log_name(b, name);
    sg_buf_i64(b, us / 1000000);
    sg_buf_z(b, fraction);
}

static void log_field(sg_buf_t *b, const char *name, const sg_exchange_t *ex, const char *field)
{
    const sg_field_t *f = sg_fields_get(&ex->rq->fields, sg_str(field));
    if (f)
        log_str(b, name, f->value.n > 256 ? sg_str_n(f->value.p, 256) : f->value);
}

static void log_address(sg_buf_t *b, const char *name, const sg_addr_t *a)
{
    char text[SG_ADDR_TEXT];
    sg_addr_text(a, text);
    log_str(b, name, sg_str(text));
}

static void log_request(sg_buf_t *b, const sg_exchange_t *ex)
{
    enum { PATH_MAX_LOGGED = 1024 };
    const sg_request_t *rq = ex->rq;
    sg_str_t path = ex->target.path.n ? ex->target.path : SG_STR("");
    log_str(b, "http.request.method", rq->method);
    log_str(b, "url.path", path.n > PATH_MAX_LOGGED ? sg_str_n(path.p, PATH_MAX_LOGGED) : path);
    if (ex->match.route)
        log_str(b, "http.route", sg_str(ex->match.route->pattern));
    log_u64(b, "http.response.status_code", ex->status);
    log_u64(b, "http.request.body.size", ex->upload_bytes);
    log_u64(b, "http.response.body.size", ex->response_bytes);
    log_address(b, "client.address", &ex->client);
    if (!rq->peer_is_unix)
        log_address(b, "network.peer.address", &rq->peer);
    log_str(b, "network.protocol.version", rq->version_minor ? SG_STR("1.1") : SG_STR("1.0"));
    if (ex->host.n)
        log_str(b, "server.address", ex->host);
    log_field(b, "user_agent.original", ex, "User-Agent");
}

static void log_limits(sg_buf_t *b, const sg_exchange_t *ex)
{
    if (!ex->answered)
        return;
    log_str(b, "slotgate.limit.source", sg_str(sg_source_name(ex->answer.source)));
    log_str(b, "slotgate.limit.outcome", ex->answer.verdict.allowed ? SG_STR("allowed") : SG_STR("denied"));
    const char *open = ",\"slotgate.limit.violated\":[";
    bool any = false;
    for (size_t i = 0; i < ex->check.count; i++) {
        if (limit_allowed(ex, i))
            continue;
        sg_buf_z(b, any ? "," : open);
        sg_buf_json(b, sg_str(ex->limits[i]->name));
        any = true;
    }
    if (any)
        sg_buf_char(b, ']');
}

static void log_cost(sg_buf_t *b, const sg_exchange_t *ex)
{
    if (!ex->cost_reserved)
        return;
    log_u64(b, "slotgate.cost.reserved", (uint64_t)ex->check.cost);
    if (ex->cost_told)
        log_u64(b, "slotgate.cost.units", (uint64_t)ex->cost);
    log_str(b, "slotgate.cost.settlement", sg_str(sg_settled_name(ex->settled)));
}

static void log_upstream(sg_buf_t *b, const sg_exchange_t *ex)
{
    if (ex->upstream_us < 0)
        return;
    log_str(b, "slotgate.upstream.name", sg_str(ex->match.route->upstream->name));
    if (ex->target_text)
        log_str(b, "slotgate.upstream.target", sg_str(ex->target_text));
    log_seconds(b, "slotgate.upstream.duration_s", ex->upstream_us);
    log_u64(b, "slotgate.upstream.attempts", ex->attempts);
    log_str(b, "slotgate.upstream.outcome", sg_str(sg_up_outcome_name(ex->outcome)));
}

static void log_line(const sg_exchange_t *ex, sg_result_t result, int64_t duration_us)
{
    sg_buf_t *b = &ex->proxy->log_lines;
    char when[SG_RFC3339_BYTES];
    const char *error = error_of(ex, result);
    sg_clock_rfc3339(sg_clock_wall_us(), when);
    sg_buf_printf(b, "{\"timestamp\":\"%s\",\"trace_id\":\"%s\",\"span_id\":\"%s\",\"trace_flags\":\"%s\"",
                  when, ex->trace.trace_id, ex->trace.span_id, ex->trace.flags);
    log_request(b, ex);
    if (error)
        log_str(b, "error.type", sg_str(error));
    log_str(b, "slotgate.request_id", ex->request_id);
    log_str(b, "slotgate.result", sg_str(sg_result_name(result)));
    log_seconds(b, "slotgate.duration_s", duration_us);
    if (ex->match.route)
        log_str(b, "slotgate.route", sg_str(ex->match.route->name));
    if (ex->identity.tenant)
        log_str(b, "slotgate.tenant", sg_str(ex->identity.tenant->name));
    if (ex->identity.key)
        log_str(b, "slotgate.key", sg_str(ex->identity.key->id));
    log_limits(b, ex);
    log_cost(b, ex);
    log_upstream(b, ex);
    sg_buf_z(b, "}\n");
}

/* A line is whole or not there: when the turn's buffer is full it goes out first. */
static void log_exchange(const sg_exchange_t *ex, sg_result_t result, int64_t duration_us)
{
    sg_proxy_t *p = ex->proxy;
    enum { LINE_ROOM = 64 * 1024 };
    if (!sg_access_log_is_on(p->log))
        return;
    if (sg_buf_len(&p->log_lines) + LINE_ROOM > p->log_lines.cap) {
        sg_access_log_write(p->log, sg_buf_str(&p->log_lines));
        sg_buf_clear(&p->log_lines);
    }
    log_line(ex, result, duration_us);
}

void sg_account_done(sg_exchange_t *ex, bool complete)
{
    if (!complete && !ex->refusal && ex->rq->refusal) { /* found in the middle of the body */
        ex->refusal = ex->rq->refusal;
        ex->status = ex->refusal->status;
    }
    sg_result_t result = result_of(ex, complete);
    if (result == SG_RESULT_ABORTED)
        ex->status = 499;
    else if (result == SG_RESULT_FAILED && ex->status == 0) /* drained before there was an answer */
        ex->status = 503;
    if (ex->refusal && ex->refusal->malformed)
        sg_count_refused(ex->proxy->metrics, ex->refusal->word);
    int64_t duration_us = sg_clock_mono_us() - ex->rq->begun_us;
    const sg_tenant_t *tenant = ex->identity.tenant ? ex->identity.tenant : ex->config->identity.anonymous;
    sg_request_sample_t s = {
        .route = ex->match.route ? ex->match.route->metric : 0,
        .tenant = tenant->metric,
        .method = ex->method,
        .status = ex->status,
        .result = result,
        .duration_us = duration_us,
        .upstream_us = ex->upstream_us,
        .request_bytes = ex->upload_bytes,
        .response_bytes = ex->response_bytes,
    };
    sg_count_request(ex->proxy->metrics, &s);
    log_exchange(ex, result, duration_us);
}
