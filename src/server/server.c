/* server.c - listening, and libmicrohttpd inside the loop. */
#include "server/server_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "base/magic.h"

enum { ACCEPTS_PER_EVENT = 64 };

/* --- running libmicrohttpd --------------------------------------------------------------------------- */

static void mark_dirty(void *arg)
{
    sg_server_t *s = arg;
    s->dirty = true;
}

static void run_again(sg_server_t *s)
{
    /* A task, so that this turn does not end before the hook has run (again). */
    sg_defer(s->loop, &s->mhd_again, mark_dirty, s);
}

void sg_server_run_soon(sg_server_t *s)
{
    sg_pace_reset(&s->pace);
    run_again(s);
}

static void mhd_readable(void *arg, unsigned events)
{
    sg_server_t *s = arg;
    (void)events;
    sg_pace_reset(&s->pace);
    s->dirty = true;
}

static void run_mhd(void *arg)
{
    sg_server_t *s = arg;
    if (!s->dirty)
        return;
    s->dirty = false;
    (void)MHD_run(s->daemon);
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(s->daemon, &ms) != MHD_YES) {
        sg_timer_stop(s->loop, &s->mhd_timer);
        return;
    }
    int64_t wait_us = ms ? (int64_t)ms * 1000 : sg_pace_wait_us(&s->pace);
    if (wait_us == 0)
        run_again(s);
    else
        sg_timer_in(s->loop, &s->mhd_timer, wait_us, mark_dirty, s);
}

/* --- libmicrohttpd's callbacks ----------------------------------------------------------------------- */

sg_client_t *sg_client_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    sg_client_t *c;
    SG_MAGIC_CAST(c, info ? info->socket_context : NULL, SG_CLIENT_MAGIC);
    return c;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    sg_server_t *s = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = s->arriving;
        sg_client_started(s->arriving, mhd);
        s->arriving = NULL;
        return;
    }
    sg_client_t *c;
    SG_MAGIC_CAST(c, *socket_context, SG_CLIENT_MAGIC);
    *socket_context = NULL;
    sg_client_closed(c);
}

/* The raw target, before the library decodes it. */
static void *on_target(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    (void)cls;
    sg_client_t *c = sg_client_of(mhd);
    sg_buf_clear(&c->target);
    sg_buf_z(&c->target, uri);
    c->target_at = uri;
    c->target_len = strlen(uri);
    /* The library would split the query into arguments, in the connection's memory: many of them exhaust it,
     * and hang the connection (0.9) or are answered with 431 (1.0). A query that looks empty is not split;
     * the raw target is kept above. */
    char *query = strchr(c->target_at, '?');
    if (query)
        query[1] = '\0';
    return NULL;
}

static size_t no_unescape(void *cls, struct MHD_Connection *mhd, char *z)
{
    (void)cls;
    (void)mhd;
    return strlen(z);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **state)
{
    (void)url;
    sg_pace_reset(&((sg_server_t *)cls)->pace);
    return sg_request_handle(cls, mhd, method, version, data, size, state);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **state,
                         enum MHD_RequestTerminationCode how)
{
    (void)cls;
    (void)mhd;
    sg_live_t *live = *state;
    *state = NULL;
    if (live)
        sg_request_completed(live, how);
}

#if !SG_MHD_STRICT
/* Only between a complete head and the end of the connection are there fields to look at: when a connection
 * has ended, the library has given their memory back and still points to it, until it says so at the end of
 * its turn. It tells the size of a head in that time only. */
static bool has_head(sg_client_t *c)
{
    return c->mhd && MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
}

/* A field of a head that is complete and has not come to on_request: the one that is being refused. */
static const char *field_of_refused(sg_client_t *c, const char *name)
{
    if (c->live || c->linger || !has_head(c))
        return NULL;
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

static bool has_bad_length(sg_client_t *c)
{
    uint64_t n;
    const char *value = field_of_refused(c, "Content-Length");
    return value && sg_str_u64(sg_str(value), UINT64_MAX, &n) != SG_OK; /* "3 " is malformed to the library */
}

static bool has_cookies(sg_client_t *c)
{
    return field_of_refused(c, "Cookie") != NULL;
}

/* The library sends the heads of two refusals twice, when it looks at the fields of a complete head: a
 * malformed length, and more cookies than its memory takes. It does not tell whose request it is, so all
 * connections are looked at that are in this state: they get a good answer, and the library's goes nowhere.
 */
static void answer_for_library(sg_server_t *s, bool (*is_meant)(sg_client_t *c), sg_refuse_t why)
{
    SG_LIST_EACH(l, &s->clients)
    {
        sg_client_t *c = SG_OWNER(l, sg_client_t, link);
        if (!is_meant(c))
            continue;
        if (!s->tls) /* an answer would have to be encrypted: none is better than one with two heads */
            sg_client_write_raw(c, sg_refusal(why));
        (void)shutdown(c->fd, SHUT_WR);
        c->linger = true;
    }
}
#endif

/* What the library refuses by itself never reaches on_request: count it, and say it once. */
static void on_library_log(void *cls, const char *fmt, va_list ap) SG_PRINTF(2, 0);
static void on_library_log(void *cls, const char *fmt, va_list ap)
{
    sg_server_t *s = cls;
    char text[256];
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    bool refused = strncmp(text, "Error processing request", 24) == 0;
    if (refused)
        sg_count_refused(s->metrics, "library");
#if !SG_MHD_STRICT
    if (strstr(text, "`Content-Length'") || strstr(text, "'Content-Length'"))
        answer_for_library(s, has_bad_length, SG_REFUSE_BAD_FRAMING);
    else if (refused && strstr(text, "code is 431"))
        answer_for_library(s, has_cookies, SG_REFUSE_HEADER_TOO_LARGE);
#endif
    sg_log(refused ? SG_LOG_INFO : SG_LOG_DEBUG,
           refused ? "request refused by the HTTP library" : "HTTP library", SG_F_STR("detail", text));
}

/* --- listening --------------------------------------------------------------------------------------- */

static bool out_of_fds(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

static void on_acceptable(void *arg, unsigned events)
{
    sg_listener_t *l = arg;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        struct sockaddr_storage sa;
        socklen_t len = sizeof sa;
        int fd = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (out_of_fds(errno))
                sg_log(SG_LOG_ERROR, "cannot accept a connection", SG_F_STR("error", sg_errno_text(errno)));
            return;
        }
        (void)sg_client_accept(l->server, fd, (const struct sockaddr *)&sa, len);
        l->server->dirty = true;
    }
}

static void listeners_start(sg_server_t *s, const sg_server_setup_t *setup)
{
    s->listeners = sg_calloc(setup->fd_count, sizeof *s->listeners);
    s->listener_count = setup->fd_count;
    for (size_t i = 0; i < setup->fd_count; i++) {
        s->listeners[i].fd = setup->fds[i];
        s->listeners[i].server = s;
        sg_watch_start(s->loop, &s->listeners[i].watch, setup->fds[i], SG_EV_READ, on_acceptable,
                       &s->listeners[i]);
    }
}

static void listeners_stop(sg_server_t *s)
{
    for (size_t i = 0; i < s->listener_count; i++)
        sg_watch_stop(s->loop, &s->listeners[i].watch);
}

/* The head, the library's list of its fields, and the head of the answer share this. The library wipes all of
 * it at every request: no more than needed. */
static size_t connection_memory(const sg_server_conf_t *conf)
{
    enum { LEAST = 32 * 1024 }; /* beside the head */
    size_t head = (size_t)conf->max_header_bytes;
    return head + (head < LEAST ? LEAST : head);
}

static struct MHD_Daemon *daemon_start(sg_server_t *s, const sg_server_conf_t *conf)
{
    /* Deadlines are our own; the library's is for clients that do not take their answer. Later than ours. */
    unsigned timeout_s = (unsigned)((conf->idle_timeout_us + 999999) / 1000000) + 2;
    struct MHD_OptionItem tls[SG_TLS_OPTIONS];
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE |
                     MHD_USE_ERROR_LOG;
    if (s->tls)
        flags |= MHD_USE_TLS;
    sg_tls_options(s->tls, tls);
#if MHD_VERSION >= 0x00097707
    /* One thread owns all of it; else the library would put off what MHD_add_connection starts. */
    flags |= MHD_USE_NO_THREAD_SAFETY;
#endif
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_library_log,
                            s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
                            on_completed, s, MHD_OPTION_URI_LOG_CALLBACK, on_target, s,
                            MHD_OPTION_UNESCAPE_CALLBACK, no_unescape, s, MHD_OPTION_CONNECTION_TIMEOUT,
                            timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, s->memory_bytes,
                            MHD_OPTION_CONNECTION_LIMIT, 1000000u, MHD_OPTION_ARRAY, tls,
#if SG_MHD_STRICT
                            MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#endif
                            MHD_OPTION_END);
}

sg_server_t *sg_server_new(const sg_server_setup_t *setup, sg_why_t *why)
{
    sg_server_t *s = SG_NEW(sg_server_t);
    s->loop = setup->loop;
    s->config = sg_config_ref(setup->config);
    s->tls = sg_tls_ref(setup->tls);
    s->metrics = setup->metrics;
    s->admission = setup->admission;
    s->handler = setup->handler;
    s->handler_arg = setup->handler_arg;
    sg_list_init(&s->clients);
    sg_list_init(&s->lingerers);
    sg_list_init(&s->spares);
    s->memory_bytes = connection_memory(&s->config->server);
    s->daemon = daemon_start(s, &s->config->server);
    if (!s->daemon) {
        sg_why_set(why, "libmicrohttpd does not start: %s", sg_errno_text(errno));
        sg_config_unref(s->config);
        sg_tls_unref(s->tls);
        sg_free(s);
        return NULL;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    sg_watch_start(s->loop, &s->mhd_watch, info->epoll_fd, SG_EV_READ, mhd_readable, s);
    sg_hook_work(s->loop, &s->mhd_hook, run_mhd, s);
    listeners_start(s, setup);
    return s;
}

void sg_server_reload(sg_server_t *s, sg_config_t *config, sg_tls_t *tls)
{
    sg_config_ref(config);
    sg_config_unref(s->config);
    s->config = config;
    if (!s->tls || !tls)
        return;
    sg_tls_unref(s->tls);
    s->tls = sg_tls_ref(tls);
}

void sg_server_drain(sg_server_t *s)
{
    s->draining = true;
    listeners_stop(s);
    SG_LIST_EACH(l, &s->clients)
    {
        sg_client_t *c = SG_OWNER(l, sg_client_t, link);
        if (!c->live)
            sg_client_shut(c);
    }
}

size_t sg_server_connections(const sg_server_t *s)
{
    return s->client_count;
}

/* Behind the requests that ended in this turn. */
static void server_dead(void *arg)
{
    sg_server_t *s = arg;
    sg_spares_free(s);
    sg_free(s);
}

void sg_server_free(sg_server_t *s)
{
    if (!s)
        return;
    listeners_stop(s);
    SG_LIST_EACH(l, &s->clients)
    { /* a suspended connection may not be there when the library stops */
        sg_client_t *c = SG_OWNER(l, sg_client_t, link);
        if (c->live) {
            c->live->rq.drained = !c->live->cut;
            sg_request_cut(&c->live->rq);
        }
        sg_client_shut(c);
    }
    (void)MHD_run(s->daemon);
    (void)MHD_run(s->daemon);
    sg_hook_remove(&s->mhd_hook);
    sg_watch_stop(s->loop, &s->mhd_watch);
    sg_timer_stop(s->loop, &s->mhd_timer);
    sg_defer_cancel(&s->mhd_again);
    MHD_stop_daemon(s->daemon);
    sg_lingerers_free(s);
    sg_config_unref(s->config);
    sg_tls_unref(s->tls);
    sg_free(s->listeners);
    sg_defer_free(s->loop, &s->dead, server_dead, s);
}
