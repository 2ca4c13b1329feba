/* relay_request.c - the request on its way to the upstream, with back-pressure towards the client. */
#include "proxy/relay.h"

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
    if (!ex->upload_blocked || sg_relay_unsent(ex) > SG_RELAY_LOW)
        return;
    ex->upload_blocked = false;
    sg_request_want_body(ex->rq);
}

void sg_relay_flush(sg_exchange_t *ex)
{
    while (sg_relay_unsent(ex)) {
        size_t n;
        sg_err_t err =
            sg_conn_send(ex->conn, ex->out.data + ex->out.start + ex->sent, sg_relay_unsent(ex), &n);
        if (err == SG_ERR_AGAIN)
            break;
        if (err) { /* it may have answered before it closed (RFC 9112 section 9.5): look before giving up */
            const sg_conn_t *failed = ex->conn;
            sg_relay_receive(ex);
            if (ex->conn == failed && (ex->state == SG_EX_SENDING || ex->state == SG_EX_WAITING))
                sg_relay_broken(ex, SG_UP_RESET, SG_REFUSE_UPSTREAM_RESET);
            return;
        }
        ex->sent += n;
        sg_relay_still_alive(ex);
    }
    forget_sent(ex);
    if (sg_relay_unsent(ex) == 0 && ex->state == SG_EX_SENDING) {
        if (ex->upload_done)
            sg_exchange_go(ex, SG_EX_WAITING);
        sg_relay_expect_progress(ex); /* of the upstream, or of the client's body */
    }
    sg_relay_watch(ex);
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
    return ex->upload_bytes + more > (uint64_t)sg_config_max_body(ex->config, ex->match.route);
}

size_t sg_relay_body(sg_exchange_t *ex, sg_str_t data)
{
    if (over_limit(ex, data.n)) {
        sg_relay_refuse_upload(ex, SG_REFUSE_BODY_TOO_LARGE);
        return data.n;
    }
    if (!sg_relay_wants_upload(ex)) { /* answered meanwhile */
        ex->upload_bytes += data.n;
        return data.n;
    }
    size_t room = sg_relay_unsent(ex) < SG_UPLOAD_HIGH ? SG_UPLOAD_HIGH - sg_relay_unsent(ex) : 0;
    size_t n = data.n < room ? data.n : room;
    if (ex->rq->upload == SG_UPLOAD_CHUNKED)
        sg_chunk_write(&ex->out, data.p, n);
    else
        sg_buf_add(&ex->out, data.p, n);
    ex->upload_bytes += n;
    ex->upload_blocked = n < data.n;
    if (ex->conn && n)
        sg_relay_flush_soon(ex);
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
        sg_relay_flush(ex);
}
