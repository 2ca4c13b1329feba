/* relay_answer.c - the answer on its way from the upstream, with back-pressure towards it. */
#include "proxy/relay.h"

enum { INTERIM_MAX = 10 };

/* The whole answer is here. */
static void finished(sg_exchange_t *ex, bool clean)
{
    bool all_sent = ex->upload_done && sg_relay_unsent(ex) == 0;
    ex->upstream_done = true;
    sg_relay_count(ex, SG_UP_OK);
    sg_timer_stop(ex->proxy->loop, &ex->timer);
    sg_defer_cancel(&ex->flush_task);
    sg_upstream_report(ex->proxy->upstreams, sg_relay_upstream(ex), ex->target_index, ex->head.status < 500);
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
    return sg_relay_upstream(ex)->retry_on & bit && ex->attempts <= sg_relay_upstream(ex)->retries &&
           ex->replayable && sg_method_is_idempotent(ex->method);
}

static void log_invalid(const sg_exchange_t *ex, const char *reason)
{
    sg_log(SG_LOG_INFO, "upstream's answer is not valid HTTP",
           SG_F_STR("upstream", sg_relay_upstream(ex)->name), SG_F_STR("target", ex->target_text),
           SG_F_STR("reason", reason));
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
        sg_relay_target_failed(ex);
        ex->answer_begun = false;
        sg_relay_again(ex, false);
        return;
    }
    if (!head_fits(ex)) {
        log_invalid(ex, "head_too_large");
        sg_relay_fail(ex, SG_UP_PROTOCOL, SG_REFUSE_UPSTREAM_PROTOCOL);
        return;
    }
    keep_head(ex);
    sg_body_init(&ex->body, ex->head.body, ex->head.length);
    if (ex->body.done || ex->head.body == SG_BODY_NONE) {
        finished(ex, rest.n == 0);
    } else if (!feed(ex, rest)) { /* nothing has gone out: the client can still be told */
        log_invalid(ex, "chunks");
        sg_relay_fail(ex, SG_UP_PROTOCOL, SG_REFUSE_UPSTREAM_PROTOCOL);
        return;
    }
    sg_exchange_go(ex, SG_EX_RELAYING);
    if (ex->conn)
        sg_relay_expect_progress(ex);
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
        sg_relay_fail(ex, SG_UP_PROTOCOL, SG_REFUSE_UPSTREAM_PROTOCOL);
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
    sg_relay_still_alive(ex);
    if (ex->state != SG_EX_RELAYING) {
        take_answer(ex, in);
        return;
    }
    if (feed(ex, in))
        sg_request_have_answer(ex->rq);
    else
        sg_relay_cut(ex, SG_UP_PROTOCOL);
}

static void ended(sg_exchange_t *ex, sg_err_t err)
{
    if (ex->state == SG_EX_RELAYING) {
        if (err == SG_ERR_EOF && sg_body_eof(&ex->body) == SG_OK) {
            finished(ex, false);
            sg_request_have_answer(ex->rq);
        } else {
            sg_relay_fail(ex, SG_UP_CUT, SG_REFUSE_UPSTREAM_RESET);
        }
    } else if (ex->answer_begun) {
        sg_relay_fail(ex, SG_UP_PROTOCOL, SG_REFUSE_UPSTREAM_PROTOCOL);
    } else {
        sg_relay_broken(ex, SG_UP_RESET, SG_REFUSE_UPSTREAM_RESET);
    }
}

void sg_relay_receive(sg_exchange_t *ex)
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
        sg_relay_watch(ex);
}

ptrdiff_t sg_relay_pull(sg_exchange_t *ex, char *out, size_t max)
{
    if (sg_buf_len(&ex->down) == 0 && ex->conn)
        sg_relay_receive(ex);
    sg_str_t have = sg_buf_str(&ex->down);
    size_t n = have.n < max ? have.n : max;
    if (n == 0)
        return ex->upstream_done ? SG_PULL_END : ex->upstream_cut ? SG_PULL_CUT : 0;
    memcpy(out, have.p, n);
    sg_buf_consume(&ex->down, n);
    ex->response_bytes += n;
    if (ex->paused && ex->conn && sg_buf_len(&ex->down) <= SG_RELAY_LOW) {
        ex->paused = false;
        sg_relay_still_alive(ex);
        sg_relay_watch(ex);
    }
    return (ptrdiff_t)n;
}
