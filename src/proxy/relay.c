/* relay.c - to the upstream and back: a connection, the request out, the answer in, with back-pressure both
 * ways. */
#include "base/clock.h"
#include "base/magic.h"
#include "proxy/exchange.h"

enum { OUT_BYTES = 1024 * 1024, DOWN_BYTES = SG_RELAY_HIGH + SG_SCRATCH_BYTES, INTERIM_MAX = 10 };

static void dial(sg_exchange_t *ex, bool fresh);
static void flush(sg_exchange_t *ex);
static void receive(sg_exchange_t *ex);

static const sg_upstream_conf_t *upstream_of(const sg_exchange_t *ex)
{
    return ex->match.route->upstream;
}

/* --- endings ----------------------------------------------------------------------------------------- */

static void count_upstream(sg_exchange_t *ex, sg_up_outcome_t outcome)
{
    if (ex->upstream_begun_us == 0 || ex->upstream_us >= 0)
        return;
    ex->outcome = outcome;
    ex->upstream_us = sg_clock_mono_us() - ex->upstream_begun_us;
    sg_count_upstream_request(ex->proxy->metrics, upstream_of(ex)->metric, outcome, ex->upstream_us);
}

static void drop_conn(sg_exchange_t *ex)
{
    sg_timer_stop(ex->proxy->loop, &ex->timer);
    sg_defer_cancel(&ex->flush_task);
    if (ex->dial)
        sg_dial_cancel(ex->dial);
    if (ex->conn)
        sg_conn_close(ex->conn);
    ex->dial = NULL;
    ex->conn = NULL;
}

void sg_relay_abandon(sg_exchange_t *ex)
{
    if (ex->gone)
        count_upstream(ex, SG_UP_CANCELLED);
    drop_conn(ex);
}

/* The answer's head has gone out: the client can only be told by a cut. */
static void cut(sg_exchange_t *ex, sg_up_outcome_t outcome)
{
    count_upstream(ex, outcome);
    drop_conn(ex);
    ex->upstream_cut = true;
    sg_request_have_answer(ex->rq);
}

/* This attempt's target is tried last from now on, and balancing learns of it: once for each attempt. */
static void target_failed(sg_exchange_t *ex)
{
    if (!ex->attempt_failed)
        sg_upstream_report(ex->proxy->upstreams, upstream_of(ex), ex->target_index, false);
    ex->attempt_failed = true;
    ex->tried |= UINT64_C(1) << (ex->target_index & 63);
}

static void fail(sg_exchange_t *ex, sg_up_outcome_t outcome, sg_refuse_t why)
{
    if (ex->conn)
        target_failed(ex);
    if (ex->state == SG_EX_RELAYING) {
        cut(ex, SG_UP_CUT);
        return;
    }
    count_upstream(ex, outcome);
    sg_exchange_refuse_why(ex, why);
}

/* In the middle of the client's body. */
static void refuse_upload(sg_exchange_t *ex, sg_refuse_t why)
{
    count_upstream(ex, SG_UP_CANCELLED);
    drop_conn(ex);
    ex->refusal = sg_refusal(why);
    ex->status = ex->refusal->status;
    sg_request_cut_with(ex->rq, ex->refusal);
}

/* --- time-outs --------------------------------------------------------------------------------------- */

static int64_t first_byte_us(const sg_exchange_t *ex)
{
    int64_t own = ex->match.route->timeout_us;
    return own ? own : upstream_of(ex)->timeout_us;
}

/* How long the exchange may stand still in its present state. */
static int64_t patience_us(const sg_exchange_t *ex)
{
    if (ex->state == SG_EX_WAITING)
        return first_byte_us(ex);
    if (ex->state == SG_EX_SENDING && ex->sent == sg_buf_len(&ex->out))
        return ex->config->server.idle_timeout_us; /* for the client's body */
    return upstream_of(ex)->idle_timeout_us;
}

static void on_timer(void *arg)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    int64_t due_us = ex->active_us + patience_us(ex);
    if (ex->paused ||
        sg_loop_now_us(ex->proxy->loop) < due_us) { /* bytes moved meanwhile, or the client is the slow one */
        if (ex->paused)
            due_us = sg_loop_now_us(ex->proxy->loop) + patience_us(ex);
        sg_timer_at(ex->proxy->loop, &ex->timer, due_us, on_timer, ex);
        return;
    }
    if (ex->state == SG_EX_SENDING && ex->conn && ex->sent == sg_buf_len(&ex->out)) {
        refuse_upload(ex, SG_REFUSE_BODY_TIMEOUT);
        return;
    }
    fail(ex, SG_UP_TIMEOUT, SG_REFUSE_UPSTREAM_TIMEOUT);
}

static void still_alive(sg_exchange_t *ex)
{
    ex->active_us = sg_loop_now_us(ex->proxy->loop);
}

static void expect_progress(sg_exchange_t *ex)
{
    still_alive(ex);
    sg_timer_at(ex->proxy->loop, &ex->timer, ex->active_us + patience_us(ex), on_timer, ex);
}

/* --- attempts ---------------------------------------------------------------------------------------- */

static bool may_replay(const sg_exchange_t *ex)
{
    return !ex->answer_begun && ex->replayable && (ex->sent == 0 || sg_method_is_idempotent(ex->method));
}

/* Put the request together again for another attempt: the head may differ by target, the body is kept. */
static void rewind_request(sg_exchange_t *ex)
{
    sg_buf_consume(&ex->out, ex->head_len);
    ex->head_len = 0;
    ex->sent = 0;
    sg_buf_clear(&ex->head_in);
    ex->interim = 0;
}

static void again(sg_exchange_t *ex, bool fresh)
{
    drop_conn(ex);
    rewind_request(ex);
    ex->attempt_failed = false;
    sg_exchange_go(ex, SG_EX_SENDING);
    dial(ex, fresh);
}

/* The connection broke before a byte of the answer. A kept connection that its upstream closed meanwhile is
 * nobody's fault: that one retry is free. */
static void broken(sg_exchange_t *ex, sg_up_outcome_t outcome, sg_refuse_t why)
{
    bool stale = ex->conn && sg_conn_reused(ex->conn) && !ex->stale_retry_done;
    unsigned kind = ex->conn ? SG_RETRY_RESET : SG_RETRY_CONNECT;
    bool allowed = upstream_of(ex)->retry_on & kind && ex->attempts <= upstream_of(ex)->retries;
    if (!may_replay(ex) || (!stale && !allowed)) {
        fail(ex, outcome, why);
        return;
    }
    if (stale) {
        ex->stale_retry_done = true;
        ex->attempts--;
    } else {
        target_failed(ex);
    }
    again(ex, true);
}

static void on_conn(void *arg, unsigned events)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    if (ex->tunnel) /* it is looked at when the client's side is open */
        return;
    if (events & SG_EV_WRITE)
        flush(ex);
    if (ex->conn && events & (SG_EV_READ | SG_EV_RDHUP | SG_EV_HUP))
        receive(ex);
}

static void watch(sg_exchange_t *ex)
{
    bool unsent = ex->sent < sg_buf_len(&ex->out);
    sg_conn_watch(ex->conn, (ex->paused ? 0u : SG_EV_READ) | (unsent ? SG_EV_WRITE : 0u), on_conn, ex);
}

static void on_flush_task(void *arg)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    if (ex->conn)
        flush(ex);
}

static void connected(sg_exchange_t *ex, sg_conn_t *conn)
{
    const sg_target_conf_t *target = sg_conn_target(conn);
    ex->conn = conn;
    ex->target_index = sg_conn_target_index(conn);
    ex->target_text = sg_arena_strndup(ex->rq->arena, sg_str(target->url));
    ex->attempts++;
    sg_count_upstream_attempt(ex->proxy->metrics, upstream_of(ex)->metric);
    sg_buf_t body = ex->out; /* what has come of the body goes behind the head */
    sg_buf_init(&ex->out, OUT_BYTES);
    sg_forward_head(ex, target, &ex->out);
    ex->head_len = sg_buf_len(&ex->out);
    ex->replayable = true;
    sg_buf_str_add(&ex->out, sg_buf_str(&body));
    sg_buf_deinit(&body);
    expect_progress(ex);
    if (ex->upload_done)
        flush(ex);
    else /* the first bytes of the body go out with the head */
        sg_defer(ex->proxy->loop, &ex->flush_task, on_flush_task, ex);
}

static void dial_failed(sg_exchange_t *ex, sg_err_t err)
{
    ex->attempts++;
    broken(ex, err == SG_ERR_TIMEOUT ? SG_UP_TIMEOUT : SG_UP_CONNECT,
           err == SG_ERR_TIMEOUT ? SG_REFUSE_UPSTREAM_TIMEOUT : SG_REFUSE_UPSTREAM_CONNECT);
}

static void on_dial(void *arg, sg_err_t err, sg_conn_t *conn, const char *text)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    if (err == SG_OK) {
        ex->dial = NULL;
        connected(ex, conn);
        return;
    }
    ex->target_index = sg_dial_target_index(ex->dial);
    sg_log(SG_LOG_INFO, "upstream connection failed", SG_F_STR("upstream", upstream_of(ex)->name),
           SG_F_STR("target", sg_dial_target(ex->dial)->url), SG_F_STR("error", sg_err_name(err)),
           SG_F_STR("detail", text));
    ex->dial = NULL;
    target_failed(ex);
    sg_count_upstream_attempt(ex->proxy->metrics, upstream_of(ex)->metric);
    dial_failed(ex, err);
}

static void dial(sg_exchange_t *ex, bool fresh)
{
    sg_dial_request_t req = {.upstream = upstream_of(ex),
                             .hash_key = sg_str(ex->identity.tag),
                             .tried = ex->tried,
                             .fresh = fresh};
    sg_conn_t *conn = NULL;
    sg_err_t err = sg_upstream_dial(ex->proxy->upstreams, &req, &conn, &ex->dial, on_dial, ex);
    if (err == SG_OK)
        connected(ex, conn);
    else if (err == SG_ERR_FULL)
        fail(ex, SG_UP_BUSY, SG_REFUSE_UPSTREAM_BUSY);
    else if (err != SG_ERR_AGAIN)
        fail(ex, SG_UP_CONNECT, SG_REFUSE_UPSTREAM_CONNECT);
}

void sg_exchange_forward(sg_exchange_t *ex)
{
    const sg_request_t *rq = ex->rq;
    if (ex->match.route->respond) {
        sg_exchange_go(ex, SG_EX_RELAYING);
        sg_reply_local(ex);
        return;
    }
    sg_exchange_go(ex, SG_EX_SENDING);
    sg_request_admit(ex->rq);
    sg_buf_init(&ex->out, OUT_BYTES);
    sg_buf_init(&ex->down, DOWN_BYTES);
    sg_buf_init(&ex->head_in, SG_RESPONSE_HEAD_MAX + SG_SCRATCH_BYTES);
    ex->upload_done =
        rq->upload == SG_UPLOAD_NONE || (rq->upload == SG_UPLOAD_LENGTH && rq->upload_length == 0);
    ex->upstream_begun_us = sg_clock_mono_us();
    ex->replayable = true; /* nothing has been sent */
    dial(ex, false);
}

/* --- out --------------------------------------------------------------------------------------------- */

static size_t unsent(const sg_exchange_t *ex)
{
    return sg_buf_len(&ex->out) - ex->sent;
}

/* What was sent is kept only while it is small enough to be sent again. */
static void forget_sent(sg_exchange_t *ex)
{
    bool small = sg_buf_len(&ex->out) <= ex->head_len + SG_UPLOAD_HIGH;
    if (small && ex->replayable)
        return;
    ex->replayable = false;
    sg_buf_consume(&ex->out, ex->sent);
    ex->sent = 0;
}

static void want_more_upload(sg_exchange_t *ex)
{
    if (!ex->upload_blocked || unsent(ex) > SG_RELAY_LOW)
        return;
    ex->upload_blocked = false;
    sg_request_want_body(ex->rq);
}

static void flush(sg_exchange_t *ex)
{
    while (unsent(ex)) {
        size_t n;
        sg_err_t err = sg_conn_send(ex->conn, ex->out.data + ex->out.start + ex->sent, unsent(ex), &n);
        if (err == SG_ERR_AGAIN)
            break;
        if (err) { /* it may have answered before it closed (RFC 9112 section 9.5): look before giving up */
            const sg_conn_t *failed = ex->conn;
            receive(ex);
            if (ex->conn == failed && (ex->state == SG_EX_SENDING || ex->state == SG_EX_WAITING))
                broken(ex, SG_UP_RESET, SG_REFUSE_UPSTREAM_RESET);
            return;
        }
        ex->sent += n;
        still_alive(ex);
    }
    forget_sent(ex);
    if (unsent(ex) == 0 && ex->state == SG_EX_SENDING) {
        if (ex->upload_done)
            sg_exchange_go(ex, SG_EX_WAITING);
        expect_progress(ex); /* of the upstream, or of the client's body */
    }
    watch(ex);
    want_more_upload(ex);
}

/* An upstream may begin its answer before it has the whole request, and still want the rest: not when it
 * refuses (RFC 9112 section 9.3: "stop sending"). */
bool sg_relay_wants_upload(const sg_exchange_t *ex)
{
    if (ex->upload_done)
        return false;
    return ex->state == SG_EX_SENDING || (ex->state == SG_EX_RELAYING && ex->conn && ex->head.status < 400);
}

static bool over_limit(const sg_exchange_t *ex, size_t more)
{
    int64_t own = ex->match.route->max_body_bytes;
    return ex->upload_bytes + more > (uint64_t)(own ? own : ex->config->server.max_body_bytes);
}

size_t sg_relay_body(sg_exchange_t *ex, sg_str_t data)
{
    if (over_limit(ex, data.n)) {
        refuse_upload(ex, SG_REFUSE_BODY_TOO_LARGE);
        return data.n;
    }
    if (!sg_relay_wants_upload(ex)) { /* answered meanwhile */
        ex->upload_bytes += data.n;
        return data.n;
    }
    size_t room = unsent(ex) < SG_UPLOAD_HIGH ? SG_UPLOAD_HIGH - unsent(ex) : 0;
    size_t n = data.n < room ? data.n : room;
    if (ex->rq->upload == SG_UPLOAD_CHUNKED)
        sg_chunk_write(&ex->out, data.p, n);
    else
        sg_buf_add(&ex->out, data.p, n);
    ex->upload_bytes += n;
    ex->upload_blocked = n < data.n;
    if (ex->conn && n)
        sg_defer(ex->proxy->loop, &ex->flush_task, on_flush_task, ex);
    return n;
}

void sg_relay_body_end(sg_exchange_t *ex)
{
    if (!sg_relay_wants_upload(ex))
        return;
    if (ex->rq->upload == SG_UPLOAD_CHUNKED)
        sg_chunk_write_last(&ex->out);
    ex->upload_done = true;
    if (ex->conn)
        flush(ex);
}

/* --- in ---------------------------------------------------------------------------------------------- */

/* The whole answer is here. */
static void finished(sg_exchange_t *ex, bool clean)
{
    bool all_sent = ex->upload_done && unsent(ex) == 0;
    ex->upstream_done = true;
    count_upstream(ex, SG_UP_OK);
    sg_timer_stop(ex->proxy->loop, &ex->timer);
    sg_defer_cancel(&ex->flush_task);
    sg_upstream_report(ex->proxy->upstreams, upstream_of(ex), ex->target_index, ex->head.status < 500);
    if (clean && all_sent && ex->head.keep_alive)
        sg_conn_give_back(ex->conn);
    else
        sg_conn_close(ex->conn);
    ex->conn = NULL;
}

/* Body bytes from the wire to `down`. False: the framing is broken. */
static bool feed(sg_exchange_t *ex, sg_str_t in)
{
    size_t used;
    sg_str_t data;
    do {
        if (sg_body_feed(&ex->body, in, &used, &data))
            return false;
        sg_buf_str_add(&ex->down, data);
        in = sg_str_n(in.p + used, in.n - used);
    } while (used > 0 && !ex->body.done);
    if (ex->body.done)
        finished(ex, in.n == 0);
    return true;
}

static bool status_is_retried(const sg_exchange_t *ex)
{
    unsigned bit = ex->head.status == 502   ? SG_RETRY_502
                   : ex->head.status == 503 ? SG_RETRY_503
                   : ex->head.status == 504 ? SG_RETRY_504
                                            : 0;
    return upstream_of(ex)->retry_on & bit && ex->attempts <= upstream_of(ex)->retries && ex->replayable &&
           sg_method_is_idempotent(ex->method);
}

static void log_invalid(const sg_exchange_t *ex, const char *reason)
{
    sg_log(SG_LOG_INFO, "upstream's answer is not valid HTTP", SG_F_STR("upstream", upstream_of(ex)->name),
           SG_F_STR("target", ex->target_text), SG_F_STR("reason", reason));
}

/* The head's views point into a buffer that moves on: keep what is needed in the arena. */
static void keep_head(sg_exchange_t *ex)
{
    SG_FIELDS_EACH(f, &ex->head.fields)
    *f = (sg_field_t){sg_arena_str(ex->rq->arena, f->name), sg_arena_str(ex->rq->arena, f->value)};
}

/* The HTTP library builds the answer's head in bounded memory: better a 502 than a connection that just
 * closes. */
static bool head_fits(const sg_exchange_t *ex)
{
    enum { OWN_FIELDS_BYTES = 4096 };
    size_t bytes = OWN_FIELDS_BYTES;
    SG_FIELDS_EACH(f, &ex->head.fields)
    bytes += f->name.n + f->value.n + 4;
    return bytes <= sg_request_answer_room(ex->rq);
}

static void head_complete(sg_exchange_t *ex, sg_str_t rest)
{
    if (status_is_retried(ex)) {
        target_failed(ex);
        ex->answer_begun = false;
        again(ex, false);
        return;
    }
    if (!head_fits(ex)) {
        log_invalid(ex, "head_too_large");
        fail(ex, SG_UP_PROTOCOL, SG_REFUSE_UPSTREAM_PROTOCOL);
        return;
    }
    keep_head(ex);
    sg_body_init(&ex->body, ex->head.body, ex->head.length);
    if (ex->body.done || ex->head.body == SG_BODY_NONE) {
        finished(ex, rest.n == 0);
    } else if (!feed(ex, rest)) { /* nothing has gone out: the client can still be told */
        log_invalid(ex, "chunks");
        fail(ex, SG_UP_PROTOCOL, SG_REFUSE_UPSTREAM_PROTOCOL);
        return;
    }
    sg_exchange_go(ex, SG_EX_RELAYING);
    if (ex->conn)
        expect_progress(ex);
    sg_reply_upstream(ex);
}

/* The upstream waits until the client's side of the tunnel is open. */
static void switch_protocols(sg_exchange_t *ex, sg_str_t rest)
{
    keep_head(ex);
    sg_exchange_go(ex, SG_EX_RELAYING);
    sg_timer_stop(ex->proxy->loop, &ex->timer);
    ex->paused = ex->tunnel = true;
    sg_buf_str_add(&ex->down, rest);
    sg_reply_upgrade(ex);
}

void sg_relay_end_tunnel(sg_exchange_t *ex)
{
    count_upstream(ex, SG_UP_OK);
    drop_conn(ex);
}

/* One head, if it is complete; *used of `in` is spent. False: no more to do with `in` now. */
static bool take_head(sg_exchange_t *ex, sg_str_t in, size_t *used)
{
    const char *why = NULL;
    sg_err_t err = sg_response_head_find(in, &ex->head_seen, used, &why);
    if (err == SG_ERR_AGAIN)
        return false;
    if (err == SG_OK)
        err = sg_response_head_parse(ex->rq->arena, in, ex->method == SG_METHOD_HEAD, &ex->head, used, &why);
    ex->head_seen = 0;
    bool interim = err == SG_OK && ex->head.status < 200;
    bool refused = ex->head.status == 101 && !sg_tunnel_granted(ex);
    if (err || refused || (interim && ++ex->interim > INTERIM_MAX)) {
        log_invalid(ex, why ? why : interim ? "interim" : "too_large");
        fail(ex, SG_UP_PROTOCOL, SG_REFUSE_UPSTREAM_PROTOCOL);
        return false;
    }
    return true;
}

/* Bytes while the head has not been complete. */
static void take_answer(sg_exchange_t *ex, sg_str_t in)
{
    bool kept = sg_buf_len(&ex->head_in) > 0;
    if (kept) {
        sg_buf_str_add(&ex->head_in, in);
        in = sg_buf_str(&ex->head_in);
    }
    size_t used;
    ex->answer_begun = true;
    while (in.n && take_head(ex, in, &used)) {
        in = sg_str_n(in.p + used, in.n - used);
        if (ex->head.status == 101) {
            switch_protocols(ex, in);
            return;
        }
        if (ex->head.status >= 200) {
            head_complete(ex, in);
            return;
        }
    }
    if (!ex->conn)
        return;
    sg_str_t rest = in; /* an incomplete head: kept, without the interim heads before it */
    if (kept)
        sg_buf_consume(&ex->head_in, sg_buf_len(&ex->head_in) - rest.n);
    else
        sg_buf_str_add(&ex->head_in, rest);
}

static void take_bytes(sg_exchange_t *ex, sg_str_t in)
{
    still_alive(ex);
    if (ex->state != SG_EX_RELAYING) {
        take_answer(ex, in);
        return;
    }
    if (feed(ex, in))
        sg_request_have_answer(ex->rq);
    else
        cut(ex, SG_UP_PROTOCOL);
}

static void ended(sg_exchange_t *ex, sg_err_t err)
{
    if (ex->state == SG_EX_RELAYING) {
        if (err == SG_ERR_EOF && sg_body_eof(&ex->body) == SG_OK) {
            finished(ex, false);
            sg_request_have_answer(ex->rq);
        } else {
            fail(ex, SG_UP_CUT, SG_REFUSE_UPSTREAM_RESET);
        }
    } else if (ex->answer_begun) {
        fail(ex, SG_UP_PROTOCOL, SG_REFUSE_UPSTREAM_PROTOCOL);
    } else {
        broken(ex, SG_UP_RESET, SG_REFUSE_UPSTREAM_RESET);
    }
}

static void receive(sg_exchange_t *ex)
{
    sg_proxy_t *p = ex->proxy;
    for (int round = 0; round < 2 && ex->conn && !ex->tunnel;
         round++) { /* bounded, so that one fast upstream does not starve the rest */
        size_t n;
        ex->paused = sg_buf_len(&ex->down) >= SG_RELAY_HIGH;
        if (ex->paused)
            break;
        sg_err_t err = sg_conn_recv(ex->conn, p->scratch, sizeof p->scratch, &n);
        if (err == SG_ERR_AGAIN)
            break;
        if (err) {
            ended(ex, err);
            return;
        }
        take_bytes(ex, sg_str_n(p->scratch, n));
        if (n < sizeof p->scratch)
            break;
    }
    if (ex->conn)
        watch(ex);
}

ptrdiff_t sg_relay_pull(sg_exchange_t *ex, char *out, size_t max)
{
    if (sg_buf_len(&ex->down) == 0 && ex->conn)
        receive(ex);
    sg_str_t have = sg_buf_str(&ex->down);
    size_t n = have.n < max ? have.n : max;
    if (n == 0)
        return ex->upstream_done ? SG_PULL_END : ex->upstream_cut ? SG_PULL_CUT : 0;
    memcpy(out, have.p, n);
    sg_buf_consume(&ex->down, n);
    ex->response_bytes += n;
    if (ex->paused && ex->conn && sg_buf_len(&ex->down) <= SG_RELAY_LOW) {
        ex->paused = false;
        still_alive(ex);
        watch(ex);
    }
    return (ptrdiff_t)n;
}
