/* relay.c - an exchange's upstream side: connections and attempts, time-outs, and the ways it can end. */
#include "base/clock.h"
#include "base/magic.h"
#include "proxy/relay.h"

enum { OUT_BYTES = 1024 * 1024, DOWN_BYTES = SG_RELAY_HIGH + SG_SCRATCH_BYTES };

static void dial(sg_exchange_t *ex, bool fresh);

/* --- endings ----------------------------------------------------------------------------------------- */

void sg_relay_count(sg_exchange_t *ex, sg_up_outcome_t outcome)
{
    if (ex->upstream_begun_us == 0 || ex->upstream_us >= 0)
        return;
    ex->outcome = outcome;
    ex->upstream_us = sg_clock_mono_us() - ex->upstream_begun_us;
    sg_count_upstream_request(ex->proxy->metrics, sg_relay_upstream(ex)->metric, outcome, ex->upstream_us);
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
    sg_relay_count(ex, SG_UP_CANCELLED); /* unless its end has been counted */
    drop_conn(ex);
}

void sg_relay_end_tunnel(sg_exchange_t *ex)
{
    sg_relay_count(ex, SG_UP_OK);
    drop_conn(ex);
}

/* The answer's head has gone out: the client can only be told by a cut. */
void sg_relay_cut(sg_exchange_t *ex, sg_up_outcome_t outcome)
{
    sg_relay_count(ex, outcome);
    drop_conn(ex);
    ex->upstream_cut = true;
    sg_request_have_answer(ex->rq);
}

/* This attempt's target is tried last from now on, and balancing learns of it: once for each attempt. */
void sg_relay_target_failed(sg_exchange_t *ex)
{
    if (!ex->attempt_failed)
        sg_upstream_report(ex->proxy->upstreams, sg_relay_upstream(ex), ex->target_index, false);
    ex->attempt_failed = true;
    ex->tried |= UINT64_C(1) << (ex->target_index & 63);
}

void sg_relay_fail(sg_exchange_t *ex, sg_up_outcome_t outcome, sg_refuse_t why)
{
    if (ex->conn)
        sg_relay_target_failed(ex);
    if (ex->state == SG_EX_RELAYING) {
        sg_relay_cut(ex, SG_UP_CUT);
        return;
    }
    sg_relay_count(ex, outcome);
    sg_exchange_refuse_why(ex, why);
}

/* In the middle of the client's body. */
void sg_relay_refuse_upload(sg_exchange_t *ex, sg_refuse_t why)
{
    sg_relay_count(ex, SG_UP_CANCELLED);
    drop_conn(ex);
    ex->refusal = sg_refusal(why);
    ex->status = ex->refusal->status;
    sg_request_cut_with(ex->rq, ex->refusal);
}

/* --- time-outs --------------------------------------------------------------------------------------- */

static int64_t first_byte_us(const sg_exchange_t *ex)
{
    int64_t own = ex->match.route->timeout_us;
    return own ? own : sg_relay_upstream(ex)->timeout_us;
}

/* How long the exchange may stand still in its present state. */
static int64_t patience_us(const sg_exchange_t *ex)
{
    if (ex->state == SG_EX_WAITING)
        return first_byte_us(ex);
    if (ex->state == SG_EX_SENDING && sg_relay_unsent(ex) == 0)
        return ex->config->server.idle_timeout_us; /* for the client's body */
    return sg_relay_upstream(ex)->idle_timeout_us;
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
    if (ex->state == SG_EX_SENDING && ex->conn && sg_relay_unsent(ex) == 0) {
        sg_relay_refuse_upload(ex, SG_REFUSE_BODY_TIMEOUT);
        return;
    }
    sg_relay_fail(ex, SG_UP_TIMEOUT, SG_REFUSE_UPSTREAM_TIMEOUT);
}

void sg_relay_still_alive(sg_exchange_t *ex)
{
    ex->active_us = sg_loop_now_us(ex->proxy->loop);
}

void sg_relay_expect_progress(sg_exchange_t *ex)
{
    sg_relay_still_alive(ex);
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

void sg_relay_again(sg_exchange_t *ex, bool fresh)
{
    drop_conn(ex);
    rewind_request(ex);
    ex->attempt_failed = false;
    sg_exchange_go(ex, SG_EX_SENDING);
    dial(ex, fresh);
}

/* The connection broke before a byte of the answer. A kept connection that its upstream closed meanwhile is
 * nobody's fault: that one retry is free. */
void sg_relay_broken(sg_exchange_t *ex, sg_up_outcome_t outcome, sg_refuse_t why)
{
    bool stale = ex->conn && sg_conn_reused(ex->conn) && !ex->stale_retry_done;
    unsigned kind = ex->conn ? SG_RETRY_RESET : SG_RETRY_CONNECT;
    bool allowed = sg_relay_upstream(ex)->retry_on & kind && ex->attempts <= sg_relay_upstream(ex)->retries;
    if (!may_replay(ex) || (!stale && !allowed)) {
        sg_relay_fail(ex, outcome, why);
        return;
    }
    if (stale) {
        ex->stale_retry_done = true;
        ex->attempts--;
    } else {
        sg_relay_target_failed(ex);
    }
    sg_relay_again(ex, true);
}

static void on_conn(void *arg, unsigned events)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    if (ex->tunnel) /* it is looked at when the client's side is open */
        return;
    if (events & SG_EV_WRITE)
        sg_relay_flush(ex);
    if (ex->conn && events & (SG_EV_READ | SG_EV_RDHUP | SG_EV_HUP))
        sg_relay_receive(ex);
}

void sg_relay_watch(sg_exchange_t *ex)
{
    bool unsent = ex->sent < sg_buf_len(&ex->out);
    sg_conn_watch(ex->conn, (ex->paused ? 0u : SG_EV_READ) | (unsent ? SG_EV_WRITE : 0u), on_conn, ex);
}

static void on_flush_task(void *arg)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    if (ex->conn)
        sg_relay_flush(ex);
}

void sg_relay_flush_soon(sg_exchange_t *ex)
{
    sg_defer(ex->proxy->loop, &ex->flush_task, on_flush_task, ex);
}

static void connected(sg_exchange_t *ex, sg_conn_t *conn)
{
    const sg_target_conf_t *target = sg_conn_target(conn);
    ex->conn = conn;
    ex->target_index = sg_conn_target_index(conn);
    ex->target_text = sg_arena_strndup(ex->rq->arena, sg_str(target->url));
    ex->attempts++;
    sg_count_upstream_attempt(ex->proxy->metrics, sg_relay_upstream(ex)->metric);
    sg_buf_t body = ex->out; /* what has come of the body goes behind the head */
    sg_buf_init(&ex->out, OUT_BYTES);
    sg_forward_head(ex, target, &ex->out);
    ex->head_len = sg_buf_len(&ex->out);
    ex->replayable = true;
    sg_buf_str_add(&ex->out, sg_buf_str(&body));
    sg_buf_deinit(&body);
    sg_relay_expect_progress(ex);
    if (ex->upload_done)
        sg_relay_flush(ex);
    else /* the first bytes of the body go out with the head */
        sg_relay_flush_soon(ex);
}

static void dial_failed(sg_exchange_t *ex, sg_err_t err)
{
    ex->attempts++;
    sg_relay_broken(ex, err == SG_ERR_TIMEOUT ? SG_UP_TIMEOUT : SG_UP_CONNECT,
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
    sg_log(SG_LOG_INFO, "upstream connection failed", SG_F_STR("upstream", sg_relay_upstream(ex)->name),
           SG_F_STR("target", sg_dial_target(ex->dial)->url), SG_F_STR("error", sg_err_name(err)),
           SG_F_STR("detail", text));
    ex->dial = NULL;
    sg_relay_target_failed(ex);
    sg_count_upstream_attempt(ex->proxy->metrics, sg_relay_upstream(ex)->metric);
    dial_failed(ex, err);
}

static void dial(sg_exchange_t *ex, bool fresh)
{
    sg_dial_request_t req = {.upstream = sg_relay_upstream(ex),
                             .hash_key = sg_str(ex->identity.tag),
                             .tried = ex->tried,
                             .fresh = fresh};
    sg_conn_t *conn = NULL;
    sg_err_t err = sg_upstream_dial(ex->proxy->upstreams, &req, &conn, &ex->dial, on_dial, ex);
    if (err == SG_OK)
        connected(ex, conn);
    else if (err == SG_ERR_FULL)
        sg_relay_fail(ex, SG_UP_BUSY, SG_REFUSE_UPSTREAM_BUSY);
    else if (err != SG_ERR_AGAIN)
        sg_relay_fail(ex, SG_UP_CONNECT, SG_REFUSE_UPSTREAM_CONNECT);
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
