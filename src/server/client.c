/* client.c - one connection from a client: counting, hang-up, deadlines, gentle closing. */
#include "server/server_internal.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "base/magic.h"
#include "http/problem.h"

enum { TARGET_MAX = 1024 * 1024, REPLY_BYTES = 16 * 1024 };
/* How long, and for how many bytes, a closed connection's unread input is taken and dropped, so that no reset
 * overtakes the answer. */
#define LINGER_US    INT64_C(2000000)
#define LINGER_BYTES (8 * 1024 * 1024)
#define HUNG_UP_US   1000
#define TICKS_US     INT64_C(20000)

typedef struct {
    sg_link_t link;
    sg_server_t *server;
    int fd;
    size_t bytes;
    sg_watch_t watch;
    sg_timer_t timer;
    sg_task_t dead;
} lingerer_t;

static void lingerer_dead(void *arg)
{
    sg_free(arg);
}

static void lingerer_end(lingerer_t *l)
{
    sg_watch_stop(l->server->loop, &l->watch);
    sg_timer_stop(l->server->loop, &l->timer);
    sg_list_remove(&l->link);
    (void)close(l->fd);
    sg_defer_free(l->server->loop, &l->dead, lingerer_dead, l);
}

static void lingerer_late(void *arg)
{
    lingerer_end(arg);
}

static void lingerer_read(void *arg, unsigned events)
{
    lingerer_t *l = arg;
    char drop[16 * 1024];
    (void)events;
    ssize_t n = recv(l->fd, drop, sizeof drop, MSG_DONTWAIT);
    if (n > 0)
        l->bytes += (size_t)n;
    if (n == 0 || (n < 0 && errno != EAGAIN) || l->bytes > LINGER_BYTES)
        lingerer_end(l);
}

/* libmicrohttpd is about to close its fd; ours keeps the connection until the client has read the answer. */
static void linger(sg_client_t *c)
{
    int fd = dup(c->fd);
    if (fd < 0)
        return;
    (void)shutdown(fd, SHUT_WR);
    lingerer_t *l = SG_NEW(lingerer_t);
    l->server = c->server;
    l->fd = fd;
    sg_list_push_back(&c->server->lingerers, &l->link);
    sg_watch_start(c->server->loop, &l->watch, fd, SG_EV_READ, lingerer_read, l);
    sg_timer_in(c->server->loop, &l->timer, LINGER_US, lingerer_late, l);
}

void sg_lingerers_free(sg_server_t *s)
{
    SG_LIST_EACH(l, &s->lingerers)
    lingerer_end(SG_OWNER(l, lingerer_t, link));
}

/* --- deadlines --------------------------------------------------------------------------------------- */

/* Has anything come since the last request ended (or the connection was opened)? */
static bool has_begun(const sg_client_t *c)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (c->peer_is_unix || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return false;
    if (c->requests == 0)
        return info.tcpi_bytes_received > 0;
    /* The kernel counts in ticks. An idle client must never get a 408: it would be the answer to its next
     * request. */
    int64_t quiet_us = sg_loop_now_us(c->server->loop) - c->waiting_since_us;
    return (int64_t)info.tcpi_last_data_recv * 1000 + TICKS_US < quiet_us;
}

void sg_client_shut(sg_client_t *c)
{
    (void)shutdown(c->fd, SHUT_RDWR);
    sg_server_run_soon(c->server);
}

/* False: nothing was taken. */
static bool write_out(const sg_client_t *c, const sg_buf_t *out)
{
    return send(c->fd, out->data + out->start, sg_buf_len(out), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

void sg_client_write_raw(sg_client_t *c, const sg_refusal_t *why)
{
    sg_buf_t body, out;
    sg_buf_init(&body, 4096);
    sg_buf_init(&out, 8192);
    sg_problem_write(&body, &(sg_problem_t){.status = why->status, .detail = why->detail});
    sg_buf_printf(&out,
                  "HTTP/1.1 %u %s\r\nContent-Type: application/problem+json\r\nContent-Length: "
                  "%zu\r\nConnection: close\r\n\r\n",
                  why->status, sg_status_phrase(why->status), sg_buf_len(&body));
    sg_buf_str_add(&out, sg_buf_str(&body));
    if (!write_out(c, &out))
        sg_log_event(SG_LOG_DEBUG, "an answer to a closing connection was not taken");
    sg_buf_deinit(&body);
    sg_buf_deinit(&out);
}

bool sg_client_write_reply(sg_client_t *c, const sg_reply_t *reply)
{
    sg_buf_t out;
    sg_buf_init(&out, REPLY_BYTES);
    sg_buf_printf(&out, "HTTP/1.1 %u %s\r\n", reply->status, sg_status_phrase(reply->status));
    SG_FIELDS_EACH(f, reply->fields)
    sg_buf_printf(&out, "%.*s: %.*s\r\n", SG_STR_ARG(f->name), SG_STR_ARG(f->value));
    sg_buf_printf(&out, "Content-Length: %zu\r\nConnection: close\r\n\r\n", reply->bytes.n);
    sg_buf_str_add(&out, reply->bytes);
    bool ok = !out.failed && write_out(c, &out);
    sg_buf_deinit(&out);
    return ok;
}

/* The head did not come in time. A client that has begun one is told; one that sent nothing is just closed.
 */
static void head_late(void *arg)
{
    sg_client_t *c = arg;
    static const sg_refusal_t late = {"header_timeout", 408, "The head did not come in time.", true, true};
    if (c->hung_up && c->live)
        sg_request_client_gone(c->live);
    else if (c->hung_up)
        sg_client_shut(c);
    if (c->hung_up || c->live)
        return;
    if (c->idle && has_begun(c)) { /* the idle time is over, but a head is coming */
        c->idle = false;
        sg_timer_in(c->server->loop, &c->deadline, c->server->config->server.header_timeout_us, head_late, c);
        return;
    }
    if (!c->tls && has_begun(c)) {
        sg_count_refused(c->server->metrics, late.word);
        sg_client_write_raw(c, &late);
    }
    sg_client_shut(c);
}

void sg_client_expect_head(sg_client_t *c)
{
    const sg_server_conf_t *conf = &c->server->config->server;
    /* The library may have read the end of the connection together with the last request, and not know: what
     * it still holds is served, then it is told. */
    int64_t wait_us = c->hung_up    ? HUNG_UP_US
                      : c->requests ? conf->idle_timeout_us
                                    : conf->header_timeout_us;
    c->idle = c->requests > 0;
    c->waiting_since_us = sg_loop_now_us(c->server->loop);
    sg_timer_in(c->server->loop, &c->deadline, wait_us, head_late, c);
}

/* --- life -------------------------------------------------------------------------------------------- */

static void hangup(void *arg, unsigned events)
{
    sg_client_t *c = arg;
    SG_MAGIC_CAST(c, arg, SG_CLIENT_MAGIC);
    (void)events;
    c->hung_up = true;
    if (c->live)
        sg_request_client_gone(c->live);
    else
        sg_client_expect_head(c);
}

void sg_client_started(sg_client_t *c, struct MHD_Connection *mhd)
{
    c->mhd = mhd;
    sg_watch_start_hangup(c->server->loop, &c->hangup, c->fd, hangup, c);
    sg_add_connections(c->server->metrics, SG_CONN_IDLE, 1);
    sg_client_expect_head(c);
}

static void client_free(sg_client_t *c)
{
    sg_admission_leave(c->server->admission, c->peer_is_unix ? NULL : &c->peer, c->counted);
    sg_list_remove(&c->link);
    c->server->client_count--;
    sg_buf_deinit(&c->target);
    sg_tls_unref(c->tls);
    c->magic = 0;
    sg_free(c);
}

void sg_client_closed(sg_client_t *c)
{
    sg_watch_stop(c->server->loop, &c->hangup);
    sg_timer_stop(c->server->loop, &c->deadline);
    sg_add_connections(c->server->metrics, SG_CONN_IDLE, -1);
    if (c->linger && !c->hung_up && !c->peer_is_unix)
        linger(c);
    client_free(c);
}

static void refuse_connection(sg_server_t *s, int fd)
{
    static const sg_refusal_t full = {"connection_limit", 503, "Too many connections.", true, true};
    sg_client_t c = {.fd = fd, .server = s};
    sg_count_refused(s->metrics, full.word);
    if (!s->tls)
        sg_client_write_raw(&c, &full);
    (void)close(fd);
}

bool sg_client_accept(sg_server_t *s, int fd, const struct sockaddr *sa, socklen_t len)
{
    sg_addr_t peer = {{0}};
    bool is_unix = sg_addr_from_sockaddr(sa, &peer) != SG_OK, counted;
    const sg_server_conf_t *conf = &s->config->server;
    if (!sg_admission_enter(s->admission, is_unix ? NULL : &peer, conf->max_connections,
                            conf->max_connections_per_ip, &counted)) {
        refuse_connection(s, fd);
        return false;
    }
    sg_client_t *c = SG_NEW(sg_client_t);
    c->magic = SG_CLIENT_MAGIC;
    c->server = s;
    c->fd = fd;
    c->peer = peer;
    c->peer_is_unix = is_unix;
    c->counted = counted;
    c->tls = sg_tls_ref(s->tls);
    sg_buf_init(&c->target, TARGET_MAX);
    sg_list_push_back(&s->clients, &c->link);
    s->client_count++;
    if (!is_unix)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    s->arriving = c;
    enum MHD_Result ok =
        MHD_add_connection(s->daemon, fd, sa, len); /* calls sg_client_started; closes fd on failure */
    if (ok == MHD_NO && s->arriving)                /* it never started */
        client_free(c);
    s->arriving = NULL;
    return ok == MHD_YES;
}
