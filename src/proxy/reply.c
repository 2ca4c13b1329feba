/* reply.c - what the client gets: refusals, answers of the gateway's own, answers of the upstream. */
#include "http/problem.h"
#include "proxy/exchange.h"

static void add(sg_exchange_t *ex, const char *name, sg_str_t value)
{
    sg_fields_add(&ex->fields, ex->rq->arena, sg_str(name), value);
}

static void add_seconds(sg_exchange_t *ex, const char *name, int64_t s)
{
    add(ex, name, sg_arena_printf(ex->rq->arena, "%lld", (long long)s));
}

/* --- fields that every answer may carry -------------------------------------------------------------- */

static bool has_verdict(const sg_exchange_t *ex)
{
    return ex->answered && ex->answer.source != SG_FROM_OPEN && ex->answer.source != SG_FROM_CLOSED;
}

/* A route with limits says what the gateway knows, and nothing that an upstream says under those names. */
static void add_rate_fields(sg_exchange_t *ex)
{
    if (!has_verdict(ex))
        return;
    sg_rate_headers(ex->config->server.dialect, ex->limits, &ex->answer.verdict, ex->rq->arena, &ex->fields);
}

static void remove_rate_fields(sg_fields_t *fs)
{
    size_t kept = 0;
    for (size_t i = 0; i < fs->count; i++)
        if (!sg_is_rate_header(fs->at[i].name))
            fs->at[kept++] = fs->at[i];
    fs->count = kept;
}

static void finish_fields(sg_exchange_t *ex)
{
    add_rate_fields(ex);
    sg_fields_remove(&ex->fields, SG_STR("X-Request-Id"));
    add(ex, "X-Request-Id", ex->request_id);
    if (ex->match.route)
        sg_exchange_edit_fields(ex, &ex->fields, &ex->match.route->response_fields);
}

static void send_reply(sg_exchange_t *ex)
{
    ex->reply.fields = &ex->fields;
    ex->reply.status = ex->status;
    sg_request_reply(ex->rq, &ex->reply);
}

/* --- refusals ---------------------------------------------------------------------------------------- */

static void add_violated(sg_exchange_t *ex, sg_problem_t *p)
{
    sg_str_t *names = sg_arena_alloc(ex->rq->arena, ex->check.count * sizeof *names + 1);
    for (size_t i = 0; i < ex->check.count; i++)
        if (!ex->answer.verdict.at[i].allowed && !ex->limits[i]->dry_run)
            names[p->violated_count++] = sg_str(ex->limits[i]->name);
    p->violated = names;
}

static void add_retry_after(sg_exchange_t *ex)
{
    int64_t s = has_verdict(ex) ? sg_retry_after_s(ex->limits, &ex->answer.verdict)
                                : (ex->answer.retry_us + 999999) / 1000000;
    if (!has_verdict(ex) && s < 1)
        s = 1;
    if (s > 0)
        add_seconds(ex, "Retry-After", s);
}

static void add_allow(sg_exchange_t *ex)
{
    sg_buf_t text;
    sg_buf_init(&text, 256);
    sg_allow_text(ex->match.allow, &text);
    add(ex, "Allow", sg_arena_str(ex->rq->arena, sg_buf_str(&text)));
    sg_buf_deinit(&text);
}

static void add_refusal_fields(sg_exchange_t *ex, const sg_refusal_t *why)
{
    add(ex, "Content-Type", SG_STR("application/problem+json"));
    add(ex, "Cache-Control", SG_STR("no-store"));
    if (why->status == 401)
        add(ex, "WWW-Authenticate", SG_STR("Bearer realm=\"slotgate\""));
    else if (why->status == 405)
        add_allow(ex);
    else if (why->status == 429 || why->status == 503)
        add_retry_after(ex);
}

void sg_exchange_refuse(sg_exchange_t *ex, const sg_refusal_t *why)
{
    ex->refusal = why;
    ex->status = why->status;
    sg_exchange_go(ex, SG_EX_REFUSING);
    sg_relay_abandon(ex);
    sg_problem_t p = {.status = why->status, .detail = why->detail, .instance = ex->lease};
    if (why == sg_refusal(SG_REFUSE_LIMITED) || why == sg_refusal(SG_REFUSE_TOO_MANY_BAD_KEYS)) {
        p.type = SG_PROBLEM_QUOTA;
        add_violated(ex, &p);
    } else if (why->status == 503) {
        p.type = SG_PROBLEM_CAPACITY;
    }
    add_refusal_fields(ex, why);
    finish_fields(ex);
    sg_buf_init(&ex->problem, 16 * 1024);
    sg_problem_write(&ex->problem, &p);
    ex->reply.kind = SG_ANSWER_BYTES;
    ex->reply.bytes = sg_buf_str(&ex->problem);
    ex->reply.close = why->close;
    ex->response_bytes = ex->method == SG_METHOD_HEAD ? 0 : ex->reply.bytes.n;
    send_reply(ex);
}

void sg_exchange_refuse_why(sg_exchange_t *ex, sg_refuse_t why)
{
    sg_exchange_refuse(ex, sg_refusal(why));
}

/* --- answers ----------------------------------------------------------------------------------------- */

static void copy_fields(sg_exchange_t *ex, const sg_fields_t *from)
{
    SG_FIELDS_EACH(f, from)
    sg_fields_add(&ex->fields, ex->rq->arena, f->name, f->value);
}

void sg_reply_local(sg_exchange_t *ex)
{
    const sg_route_t *r = ex->match.route;
    ex->status = r->respond_status;
    copy_fields(ex, &r->respond_fields);
    finish_fields(ex);
    ex->reply.kind =
        ex->status == 204 || ex->status == 205 || ex->status == 304 ? SG_ANSWER_BARE : SG_ANSWER_BYTES;
    ex->reply.bytes = r->respond_body;
    ex->response_bytes =
        ex->method == SG_METHOD_HEAD || ex->reply.kind == SG_ANSWER_BARE ? 0 : r->respond_body.n;
    send_reply(ex);
}

void sg_reply_upgrade(sg_exchange_t *ex)
{
    sg_cost_note(ex);
    ex->status = ex->head.status;
    copy_fields(ex, &ex->head.fields);
    sg_fields_strip_hops(&ex->fields, NULL);
    sg_fields_remove(&ex->fields, SG_STR("Content-Length"));
    finish_fields(ex);
    add(ex, "Upgrade", SG_STR("websocket"));
    ex->reply.kind = SG_ANSWER_UPGRADE;
    send_reply(ex);
}

static sg_answer_kind_t answer_kind(const sg_exchange_t *ex)
{
    const sg_response_head_t *h = &ex->head;
    if (h->status == 204 || h->status == 205)
        return SG_ANSWER_BARE;
    if (ex->method == SG_METHOD_HEAD || h->status == 304)
        return h->has_length ? SG_ANSWER_HEAD : SG_ANSWER_BARE;
    if (ex->upstream_done)
        return SG_ANSWER_BYTES;
    return h->body == SG_BODY_LENGTH ? SG_ANSWER_LENGTH : SG_ANSWER_CHUNKED;
}

void sg_reply_upstream(sg_exchange_t *ex)
{
    sg_cost_note(ex);
    ex->status = ex->head.status;
    copy_fields(ex, &ex->head.fields);
    sg_fields_strip_hops(&ex->fields, NULL);
    sg_fields_remove(&ex->fields, SG_STR("Content-Length"));
    if (ex->answered)
        remove_rate_fields(&ex->fields);
    finish_fields(ex);
    ex->reply.kind = answer_kind(ex);
    ex->reply.length = ex->head.length;
    ex->reply.keep_body = sg_relay_wants_upload(ex);
    if (ex->reply.kind == SG_ANSWER_BYTES) {
        ex->reply.bytes = sg_buf_str(&ex->down);
        ex->response_bytes = ex->reply.bytes.n;
    }
    send_reply(ex);
}
