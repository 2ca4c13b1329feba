/* listener.c - one libmicrohttpd daemon for each address, polled from outside: its epoll descriptor is
 * watched by the loop, and it runs once in each turn in which it is readable, its timeout has come, or a
 * suspended request was resumed. */
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/internal.h"
#include "base/magic.h"

#define LISTENER_MAGIC 0x5367616cu
#define CONNECTIONS_MAX 128u
#define CONNECTIONS_PER_IP_MAX 64u      /* nobody alone keeps the others out */
#define IDLE_TIMEOUT_S 30u

static sg_admin_listener_t *listener_of(void *arg)
{
    sg_admin_listener_t *l;
    SG_MAGIC_CAST(l, arg, LISTENER_MAGIC);
    return l;
}

static void on_events(void *arg, unsigned events)
{
    (void)events;
    sg_admin_run_soon(listener_of(arg));
}

void sg_admin_run_soon(sg_admin_listener_t *l)
{
    sg_pace_reset(&l->pace);
    l->dirty = true;
}

static void on_timeout(void *arg)
{
    listener_of(arg)->dirty = true;
}

static void on_bury(void *arg)
{
    sg_admin_unlisten(listener_of(arg));
}

static unsigned open_connections(const sg_admin_listener_t *l)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

static void run(void *arg)
{
    sg_admin_listener_t *l = listener_of(arg);
    MHD_UNSIGNED_LONG_LONG ms;
    if (!l->dirty)
        return;
    l->dirty = false;
    MHD_run(l->daemon);
    if (l->retired && open_connections(l) == 0)
        sg_defer_free(l->admin->loop, &l->bury, on_bury, l);
    if (MHD_get_timeout(l->daemon, &ms) != MHD_YES) {
        sg_timer_stop(l->admin->loop, &l->timer);
        return;
    }
    int64_t wait_us = ms == 0 ? sg_pace_wait_us(&l->pace) : ms > 60000 ? 60000000 : (int64_t)ms * 1000;
    sg_timer_in(l->admin->loop, &l->timer, wait_us, on_timeout, l);
}

static void SG_PRINTF(2, 0) on_log(void *cls, const char *fmt, va_list args)
{
    char text[256];
    (void)cls;
    vsnprintf(text, sizeof text, fmt, args);
    text[strcspn(text, "\n")] = '\0';
    sg_log(SG_LOG_DEBUG, "admin listener", SG_F_STR("text", text));
}

static size_t keep_escapes(void *cls, struct MHD_Connection *c, char *s)
{
    (void)cls;
    (void)c;
    return strlen(s);
}

static struct MHD_Daemon *start_daemon(sg_admin_listener_t *l, int fd)
{
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                            sg_admin_on_request, l,
                            /* first: an option before it would still log to stderr */
                            MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
                            MHD_OPTION_LISTEN_SOCKET, fd,
#if MHD_VERSION >= 0x01000000 /* before, it would only send the head of some refusals twice */
                            MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#endif
                            MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
                            MHD_OPTION_PER_IP_CONNECTION_LIMIT, CONNECTIONS_PER_IP_MAX,
                            MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S,
                            MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
                            MHD_OPTION_NOTIFY_CONNECTION, sg_admin_on_connection, l,
                            MHD_OPTION_URI_LOG_CALLBACK, sg_admin_on_uri, l,
                            MHD_OPTION_NOTIFY_COMPLETED, sg_admin_on_end, l, MHD_OPTION_END);
}

sg_admin_listener_t *sg_admin_listen(sg_admin_t *a, const sg_endpoint_t *e, sg_why_t *why)
{
    int fd = sg_admin_bind(e, why);
    if (fd < 0)
        return NULL;
    sg_admin_listener_t *l = SG_NEW(sg_admin_listener_t);
    l->magic = LISTENER_MAGIC;
    l->admin = a;
    l->endpoint = *e;
    l->daemon = start_daemon(l, fd);
    if (!l->daemon) {
        sg_why_set(why, "admin.listen: libmicrohttpd cannot serve %s", e->text);
        close(fd);
        sg_free(l);
        return NULL;
    }
    sg_admin_bound_text(fd, e, l->address, sizeof l->address);
    int epoll_fd = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    sg_watch_start(a->loop, &l->watch, epoll_fd, SG_EV_READ, on_events, l);
    sg_hook_work(a->loop, &l->hook, run, l);
    sg_list_push_back(&a->listeners, &l->link);
    sg_log(SG_LOG_INFO, "admin listening", SG_F_STR("address", l->address));
    return l;
}

/* The socket's file goes with the socket, so that nobody takes it for a gateway that hangs. */
static void remove_file(const sg_endpoint_t *e)
{
    if (e->is_unix)
        unlink(((const struct sockaddr_un *)(const void *)&e->sa)->sun_path);
}

void sg_admin_retire(sg_admin_listener_t *l)
{
    MHD_socket fd = MHD_quiesce_daemon(l->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
    remove_file(&l->endpoint);
    l->retired = true;
    l->dirty = true;
    sg_list_remove(&l->link);
    sg_list_push_back(&l->admin->retired, &l->link);
}

void sg_admin_unlisten(sg_admin_listener_t *l)
{
    sg_loop_t *loop = l->admin->loop;
    sg_hook_remove(&l->hook);
    sg_timer_stop(loop, &l->timer);
    sg_watch_stop(loop, &l->watch);
    sg_defer_cancel(&l->bury);
    if (!l->retired)
        remove_file(&l->endpoint);
    MHD_run(l->daemon);         /* answers of requests that were resumed a moment ago */
    MHD_stop_daemon(l->daemon);
    sg_list_remove(&l->link);
    l->magic = 0;
    sg_free(l);
}
