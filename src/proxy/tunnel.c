/* tunnel.c - an upgraded connection (WebSocket): bytes from the client to the upstream and back, each way
 * with a bound. */
#include "base/magic.h"
#include "proxy/exchange.h"

static void pump(sg_exchange_t *ex);

bool sg_tunnel_asked(const sg_request_t *rq)
{
    const sg_field_t *upgrade = sg_fields_get(&rq->fields, SG_STR("Upgrade"));
    return upgrade && rq->version_minor == 1 && rq->upload == SG_UPLOAD_NONE &&
           sg_fields_count(&rq->fields, SG_STR("Upgrade")) == 1 && sg_str_eq(rq->method, SG_STR("GET")) &&
           sg_str_ieq(upgrade->value, SG_STR("websocket")) &&
           sg_fields_has_token(&rq->fields, SG_STR("Connection"), SG_STR("upgrade"));
}

bool sg_tunnel_granted(const sg_exchange_t *ex)
{
    const sg_field_t *upgrade = sg_fields_get(&ex->head.fields, SG_STR("Upgrade"));
    return sg_tunnel_asked(ex->rq) && upgrade && sg_str_ieq(upgrade->value, SG_STR("websocket")) &&
           sg_fields_has_token(&ex->head.fields, SG_STR("Connection"), SG_STR("upgrade"));
}

static void end(sg_exchange_t *ex)
{
    sg_relay_end_tunnel(ex);
    sg_request_tunnel_end(ex->rq);
}

static void on_idle(void *arg)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    int64_t due_us = ex->active_us + ex->match.route->upstream->idle_timeout_us;
    if (sg_loop_now_us(ex->proxy->loop) >= due_us)
        end(ex);
    else
        sg_timer_at(ex->proxy->loop, &ex->timer, due_us, on_idle, ex);
}

static void on_ready(void *arg, unsigned events)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, arg, SG_EXCHANGE_MAGIC);
    (void)events;
    pump(ex);
}

/* Room in a buffer that may hold `high` bytes, at most what one call brings. */
static size_t room(const sg_buf_t *b, size_t high)
{
    size_t have = sg_buf_len(b), left = have < high ? high - have : 0;
    return left < SG_SCRATCH_BYTES ? left : SG_SCRATCH_BYTES;
}

/* Each of these four moves what can be moved; false: that side broke. */

static bool from_client(sg_exchange_t *ex)
{
    size_t n, max = room(&ex->out, SG_UPLOAD_HIGH);
    if (max == 0 || ex->client_ended)
        return true;
    sg_err_t err = sg_request_tunnel_recv(ex->rq, ex->proxy->scratch, max, &n);
    ex->client_ended = err == SG_ERR_EOF;
    if (err)
        return err == SG_ERR_AGAIN || err == SG_ERR_EOF;
    sg_buf_add(&ex->out, ex->proxy->scratch, n);
    ex->upload_bytes += n;
    ex->active_us = sg_loop_now_us(ex->proxy->loop);
    return true;
}

static bool from_upstream(sg_exchange_t *ex)
{
    size_t n, max = room(&ex->down, SG_RELAY_HIGH);
    if (max == 0 || ex->upstream_ended)
        return true;
    sg_err_t err = sg_conn_recv(ex->conn, ex->proxy->scratch, max, &n);
    ex->upstream_ended = err == SG_ERR_EOF;
    if (err)
        return err == SG_ERR_AGAIN || err == SG_ERR_EOF;
    sg_buf_add(&ex->down, ex->proxy->scratch, n);
    ex->active_us = sg_loop_now_us(ex->proxy->loop);
    return true;
}

static bool to_upstream(sg_exchange_t *ex)
{
    while (sg_buf_len(&ex->out)) {
        size_t n;
        sg_err_t err = sg_conn_send(ex->conn, ex->out.data + ex->out.start, sg_buf_len(&ex->out), &n);
        if (err)
            return err == SG_ERR_AGAIN;
        sg_buf_consume(&ex->out, n);
    }
    return true;
}

static bool to_client(sg_exchange_t *ex)
{
    while (sg_buf_len(&ex->down)) {
        size_t n;
        sg_err_t err =
            sg_request_tunnel_send(ex->rq, ex->down.data + ex->down.start, sg_buf_len(&ex->down), &n);
        if (err)
            return err == SG_ERR_AGAIN;
        sg_buf_consume(&ex->down, n);
        ex->response_bytes += n;
    }
    return true;
}

static void watch(sg_exchange_t *ex)
{
    bool read_client = !ex->client_ended && room(&ex->out, SG_UPLOAD_HIGH) > 0;
    bool read_upstream = !ex->upstream_ended && room(&ex->down, SG_RELAY_HIGH) > 0;
    unsigned client = (read_client ? SG_EV_READ : 0u) | (sg_buf_len(&ex->down) ? SG_EV_WRITE : 0u);
    unsigned upstream = (read_upstream ? SG_EV_READ : 0u) | (sg_buf_len(&ex->out) ? SG_EV_WRITE : 0u);
    sg_request_tunnel_watch(ex->rq, client, on_ready, ex);
    sg_conn_watch(ex->conn, upstream, on_ready, ex);
}

/* When one side has ended, what it sent before still goes to the other; then both end. */
static bool is_over(const sg_exchange_t *ex)
{
    return (ex->client_ended && sg_buf_len(&ex->out) == 0) ||
           (ex->upstream_ended && sg_buf_len(&ex->down) == 0);
}

static void pump(sg_exchange_t *ex)
{
    bool alive = from_client(ex) && from_upstream(ex) && to_upstream(ex) && to_client(ex);
    if (!alive || is_over(ex))
        end(ex);
    else
        watch(ex);
}

void sg_tunnel_begin(sg_exchange_t *ex, sg_str_t early)
{
    sg_buf_clear(&ex->out);
    sg_buf_str_add(&ex->out, early);
    ex->upload_bytes += early.n;
    ex->active_us = sg_loop_now_us(ex->proxy->loop);
    sg_timer_at(ex->proxy->loop, &ex->timer, ex->active_us + ex->match.route->upstream->idle_timeout_us,
                on_idle, ex);
    if (ex->conn)
        pump(ex);
    else
        end(ex);
}
