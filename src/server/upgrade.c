/* upgrade.c - a connection that has left HTTP: bytes both ways. RFC 9110 section 7.8.
 *
 * Plain: libmicrohttpd hands its socket over. TLS: its own forwarding (0.9.75) moves four bytes a record and
 * misses the client's end, so the connection stays suspended, which means that the library leaves it alone,
 * and the TLS session is used from here. What a client sends before it has seen the 101 is then lost in the
 * library's buffer; RFC 6455 section 4.1 forbids it to. */
#include "server/server_internal.h"

#include <errno.h>
#include <gnutls/gnutls.h>

#include "base/magic.h"

static sg_live_t *tunnel_of(sg_request_t *rq)
{
    sg_live_t *live = SG_OWNER(rq, sg_live_t, rq);
    SG_MAGIC_CAST(live, live, SG_LIVE_MAGIC);
    return live;
}

static void opened(sg_live_t *live, int fd, sg_str_t early)
{
    sg_client_t *c = live->client;
    live->phase = SG_PHASE_TUNNEL;
    live->tunnel_open = true;
    live->tunnel_fd = fd;
    sg_watch_stop(c->server->loop, &c->hangup);
    sg_add_connections(c->server->metrics, SG_CONN_ACTIVE, -1);
    sg_add_connections(c->server->metrics, SG_CONN_UPGRADED, 1);
    if (live->cut)
        sg_tunnel_close(live);
    else
        c->server->handler->upgraded(&live->rq, early);
}

/* --- plain ------------------------------------------------------------------------------------------- */

static void on_upgrade(void *cls, struct MHD_Connection *mhd, void *state, const char *early,
                       size_t early_len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    sg_live_t *live;
    SG_MAGIC_CAST(live, cls, SG_LIVE_MAGIC);
    (void)mhd;
    (void)state;
    live->tunnel_handle = handle;
    opened(live, fd, sg_str_n(early, early_len));
}

struct MHD_Response *sg_upgrade_response(sg_live_t *live)
{
    return MHD_create_response_for_upgrade(on_upgrade, live);
}

/* --- TLS ------------------------------------------------------------------------------------------------ */

static gnutls_session_t session_of(const sg_live_t *live)
{
    return MHD_get_connection_info(live->client->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
}

static void on_tls_opened(void *arg)
{
    sg_live_t *live;
    SG_MAGIC_CAST(live, arg, SG_LIVE_MAGIC);
    opened(live, live->client->fd, SG_STR(""));
}

void sg_upgrade_tls(sg_live_t *live)
{
    enum { HEAD_BYTES = 128 * 1024 };
    sg_buf_t *head = &live->tunnel_head;
    sg_buf_init(head, HEAD_BYTES);
    sg_buf_printf(head, "HTTP/1.1 %u Switching Protocols\r\nConnection: Upgrade\r\n", live->reply.status);
    SG_FIELDS_EACH(f, live->reply.fields)
    sg_buf_printf(head, "%.*s: %.*s\r\n", SG_STR_ARG(f->name), SG_STR_ARG(f->value));
    sg_buf_z(head, "\r\n");
    live->queued = !head->failed;
    sg_live_suspend(live);
    if (live->queued)
        sg_defer(live->client->server->loop, &live->tunnel_task, on_tls_opened, live);
    else
        sg_request_cut(&live->rq);
}

/* After a send that had to wait, GnuTLS wants the same bytes again; it has kept them, and NULL stands for
 * them. */
static sg_err_t tls_send(sg_live_t *live, const void *data, size_t len, size_t *n)
{
    ssize_t sent = live->tunnel_blocked ? gnutls_record_send(session_of(live), NULL, 0)
                                        : gnutls_record_send(session_of(live), data, len);
    live->tunnel_blocked = sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED;
    if (live->tunnel_blocked)
        return SG_ERR_AGAIN;
    if (sent <= 0)
        return SG_ERR_RESET;
    *n = (size_t)sent;
    return SG_OK;
}

static sg_err_t tls_send_head(sg_live_t *live)
{
    sg_buf_t *head = &live->tunnel_head;
    size_t n;
    while (sg_buf_len(head)) {
        sg_err_t err = tls_send(live, head->data + head->start, sg_buf_len(head), &n);
        if (err)
            return err;
        sg_buf_consume(head, n);
    }
    return SG_OK;
}

static sg_err_t tls_recv(sg_live_t *live, void *data, size_t len, size_t *n)
{
    ssize_t got = gnutls_record_recv(session_of(live), data, len);
    if (got == 0 || got == GNUTLS_E_PREMATURE_TERMINATION)
        return SG_ERR_EOF;
    if (got < 0)
        return gnutls_error_is_fatal((int)got) ? SG_ERR_RESET : SG_ERR_AGAIN;
    *n = (size_t)got;
    return SG_OK;
}

/* --- both --------------------------------------------------------------------------------------------------
 */

void sg_tunnel_close(sg_live_t *live)
{
    sg_server_t *s = live->client->server;
    sg_defer_cancel(&live->tunnel_task);
    if (!live->tunnel_open)
        return;
    live->tunnel_open = false;
    sg_watch_stop(s->loop, &live->tunnel_watch);
    if (live->tunnel_handle)
        (void)MHD_upgrade_action(live->tunnel_handle, MHD_UPGRADE_ACTION_CLOSE);
    live->cut = true;
    sg_live_resume(live);
    sg_server_run_soon(s);
}

sg_err_t sg_request_tunnel_send(sg_request_t *rq, const void *data, size_t len, size_t *n)
{
    sg_live_t *live = tunnel_of(rq);
    if (rq->tls) {
        sg_err_t err = tls_send_head(live);
        return err ? err : len ? tls_send(live, data, len, n) : SG_ERR_AGAIN;
    }
    ssize_t sent = send(live->tunnel_fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? SG_ERR_AGAIN : SG_ERR_RESET;
    *n = (size_t)sent;
    return SG_OK;
}

sg_err_t sg_request_tunnel_recv(sg_request_t *rq, void *data, size_t len, size_t *n)
{
    sg_live_t *live = tunnel_of(rq);
    if (rq->tls)
        return tls_recv(live, data, len, n);
    ssize_t got = recv(live->tunnel_fd, data, len, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? SG_ERR_AGAIN : SG_ERR_RESET;
    if (got == 0)
        return SG_ERR_EOF;
    *n = (size_t)got;
    return SG_OK;
}

static void on_pending(void *arg)
{
    sg_live_t *live;
    SG_MAGIC_CAST(live, arg, SG_LIVE_MAGIC);
    live->tunnel_watch.fn(live->tunnel_watch.arg, SG_EV_READ);
}

void sg_request_tunnel_watch(sg_request_t *rq, unsigned events, sg_watch_fn *fn, void *arg)
{
    sg_live_t *live = tunnel_of(rq);
    sg_loop_t *loop = live->client->server->loop;
    if (rq->tls && tls_send_head(live) == SG_ERR_AGAIN)
        events |= SG_EV_WRITE; /* an error is met again by the next call */
    if (!live->tunnel_watch.on)
        sg_watch_start(loop, &live->tunnel_watch, live->tunnel_fd, events, fn, arg);
    else
        sg_watch_set(loop, &live->tunnel_watch, events);
    if (rq->tls && events & SG_EV_READ && gnutls_record_check_pending(session_of(live)) > 0)
        sg_defer(loop, &live->tunnel_task, on_pending,
                 live); /* no event tells of bytes that TLS holds already */
}

void sg_request_tunnel_end(sg_request_t *rq)
{
    sg_live_t *live = tunnel_of(rq);
    live->tunnel_ended = true;
    sg_tunnel_close(live);
}
