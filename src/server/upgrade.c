/* upgrade.c - a connection that has left HTTP: bytes both ways. RFC 9110 section 7.8. */
#include "server/server_internal.h"

#include <errno.h>

#include "base/magic.h"

static sg_live_t *tunnel_of(sg_request_t *rq)
{
    sg_live_t *live = SG_OWNER(rq, sg_live_t, rq);
    SG_MAGIC_CAST(live, live, SG_LIVE_MAGIC);
    return live;
}

static void on_upgrade(void *cls, struct MHD_Connection *mhd, void *state, const char *early,
                       size_t early_len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    sg_live_t *live;
    SG_MAGIC_CAST(live, cls, SG_LIVE_MAGIC);
    sg_client_t *c = live->client;
    (void)mhd;
    (void)state;
    live->phase = SG_PHASE_TUNNEL;
    live->tunnel = handle;
    live->tunnel_fd = fd;
    sg_watch_stop(c->server->loop, &c->hangup);
    sg_add_connections(c->server->metrics, SG_CONN_ACTIVE, -1);
    sg_add_connections(c->server->metrics, SG_CONN_UPGRADED, 1);
    if (live->cut)
        sg_tunnel_close(live);
    else
        c->server->handler->upgraded(&live->rq, sg_str_n(early, early_len));
}

struct MHD_Response *sg_upgrade_response(sg_live_t *live)
{
    return MHD_create_response_for_upgrade(on_upgrade, live);
}

void sg_tunnel_close(sg_live_t *live)
{
    if (!live->tunnel)
        return;
    struct MHD_UpgradeResponseHandle *handle = live->tunnel;
    live->tunnel = NULL;
    sg_watch_stop(live->client->server->loop, &live->tunnel_watch);
    (void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    sg_server_run_soon(live->client->server);
}

sg_err_t sg_request_tunnel_send(sg_request_t *rq, const void *data, size_t len, size_t *n)
{
    ssize_t sent = send(tunnel_of(rq)->tunnel_fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? SG_ERR_AGAIN : SG_ERR_RESET;
    *n = (size_t)sent;
    return SG_OK;
}

sg_err_t sg_request_tunnel_recv(sg_request_t *rq, void *data, size_t len, size_t *n)
{
    ssize_t got = recv(tunnel_of(rq)->tunnel_fd, data, len, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? SG_ERR_AGAIN : SG_ERR_RESET;
    if (got == 0)
        return SG_ERR_EOF;
    *n = (size_t)got;
    return SG_OK;
}

void sg_request_tunnel_watch(sg_request_t *rq, unsigned events, sg_watch_fn *fn, void *arg)
{
    sg_live_t *live = tunnel_of(rq);
    sg_loop_t *loop = live->client->server->loop;
    if (!live->tunnel_watch.on)
        sg_watch_start(loop, &live->tunnel_watch, live->tunnel_fd, events, fn, arg);
    else
        sg_watch_set(loop, &live->tunnel_watch, events);
}

void sg_request_tunnel_end(sg_request_t *rq)
{
    sg_tunnel_close(tunnel_of(rq));
}
