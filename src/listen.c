#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "notify.h"

enum { BACKLOG = 4096, INHERITED_MAX = 64 };

static sg_err_t fail(int fd, const sg_endpoint_t *e, const char *what, sg_why_t *why)
{
    sg_why_set(why, "cannot %s %s: %s", what, e->text, sg_errno_text(errno));
    if (fd >= 0)
        (void)close(fd);
    return SG_ERR_IO;
}

static const char *unix_path(const sg_endpoint_t *e)
{
    return ((const struct sockaddr_un *)(const void *)&e->sa)->sun_path;
}

/* A socket file that nobody listens on any more is in the way; one that answers is somebody else's. */
static void remove_dead_socket(const sg_endpoint_t *e)
{
    const char *path = unix_path(e);
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&e->sa, e->len) < 0 && errno == ECONNREFUSED)
        (void)unlink(path);
    (void)close(fd);
}

static sg_err_t open_one(const sg_endpoint_t *e, int *out, sg_why_t *why)
{
    int fd = socket(e->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return fail(fd, e, "make a socket for", why);
    if (e->is_unix)
        remove_dead_socket(e);
    else if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
             setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0)
        return fail(fd, e, "share", why);
    if (e->sa.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0)
        return fail(fd, e, "set up", why);
    if (bind(fd, (const struct sockaddr *)&e->sa, e->len) < 0)
        return fail(fd, e, "listen on", why);
    /* Whatever the umask, owner and group may connect: a proxy in front is let in by its group. */
    if (e->is_unix && chmod(unix_path(e), 0660) < 0)
        return fail(fd, e, "set the mode of", why);
    if (listen(fd, BACKLOG) < 0)
        return fail(fd, e, "listen on", why);
    *out = fd;
    return SG_OK;
}

/* SO_REUSEPORT would let a second gateway take half of the connections unnoticed: try without it first. */
static sg_err_t check_free(const sg_endpoint_t *e, sg_why_t *why)
{
    int on = 1, fd;
    if (e->is_unix)
        return SG_OK;
    fd = socket(e->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail(fd, e, "make a socket for", why);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (e->sa.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&e->sa, e->len) < 0)
        return fail(fd, e, "listen on", why);
    (void)close(fd);
    return SG_OK;
}

static void log_address(int fd, const sg_endpoint_t *e)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;
    sg_addr_t addr;
    char text[SG_ADDR_TEXT];
    if (e && e->is_unix) {
        sg_log(SG_LOG_INFO, "listening", SG_F_STR("address", e->text));
        return;
    }
    if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
        sg_addr_from_sockaddr((struct sockaddr *)&sa, &addr)) {
        sg_log(SG_LOG_INFO, "listening", SG_F_STR("address", "an inherited socket"));
        return;
    }
    sg_addr_text(&addr, text);
    int port = ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&sa)->sin6_port
                                              : ((struct sockaddr_in *)(void *)&sa)->sin_port);
    sg_log(SG_LOG_INFO, "listening", SG_F_STR("address", text), SG_F_I64("port", port));
}

static int *slot(sg_listen_t *l, size_t worker, size_t i)
{
    return &l->fds[worker * l->per_worker + i];
}

static sg_err_t open_for_all(sg_listen_t *l, const sg_endpoint_t *e, size_t i, sg_why_t *why)
{
    sg_endpoint_t real = *e;
    sg_err_t err = check_free(e, why);
    for (size_t w = 0; w < l->workers && !err; w++) {
        if (e->is_unix && w > 0) {
            *slot(l, w, i) = fcntl(*slot(l, 0, i), F_DUPFD_CLOEXEC, 3);
            continue;
        }
        err = open_one(&real, slot(l, w, i), why);
        if (!err && w == 0 && !e->is_unix) /* port 0: the others get the same */
            (void)getsockname(*slot(l, 0, i), (struct sockaddr *)&real.sa, &real.len);
    }
    if (err)
        return err;
    log_address(*slot(l, 0, i), e);
    if (e->is_unix)
        l->paths[l->path_count++] = sg_strdup(e->text + strlen("unix:"));
    return SG_OK;
}

static void take_inherited(sg_listen_t *l, const sg_listen_fd_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)fcntl(in[i].fd, F_SETFL, fcntl(in[i].fd, F_GETFL) | O_NONBLOCK);
        *slot(l, 0, i) = in[i].fd;
        for (size_t w = 1; w < l->workers; w++)
            *slot(l, w, i) = fcntl(in[i].fd, F_DUPFD_CLOEXEC, 3);
        log_address(in[i].fd, NULL);
    }
}

sg_err_t sg_listen_open(sg_listen_t *l, const sg_endpoints_t *where, size_t workers, sg_why_t *why)
{
    sg_listen_fd_t inherited[INHERITED_MAX];
    size_t n = sg_listen_fds(inherited, INHERITED_MAX);
    *l = (sg_listen_t){.workers = workers, .per_worker = n ? n : where->count};
    l->fds = sg_calloc(workers * l->per_worker, sizeof *l->fds);
    l->paths = sg_calloc(where->count, sizeof *l->paths);
    for (size_t i = 0; i < workers * l->per_worker; i++)
        l->fds[i] = -1;
    if (n) {
        take_inherited(l, inherited, n);
        return SG_OK;
    }
    for (size_t i = 0; i < where->count; i++) {
        sg_err_t err = open_for_all(l, &where->at[i], i, why);
        if (err) {
            sg_listen_close(l);
            return err;
        }
    }
    return SG_OK;
}

void sg_listen_close(sg_listen_t *l)
{
    for (size_t i = 0; i < l->workers * l->per_worker; i++)
        if (l->fds[i] >= 0)
            (void)close(l->fds[i]);
    for (size_t i = 0; i < l->path_count; i++) {
        (void)unlink(l->paths[i]);
        sg_free(l->paths[i]);
    }
    sg_free(l->fds);
    sg_free(l->paths);
    *l = (sg_listen_t){0};
}
