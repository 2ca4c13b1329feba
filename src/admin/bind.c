/* bind.c - listening sockets, with errors that say what to do. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/internal.h"

/* A socket file that nobody listens on is left over from a process that died: it may go. */
static void remove_stale_socket(const sg_endpoint_t *e)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&e->sa;
    struct stat st;
    if (lstat(un->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    bool dead = connect(fd, (const struct sockaddr *)&e->sa, e->len) != 0 && errno == ECONNREFUSED;
    close(fd);
    if (dead)
        unlink(un->sun_path);
}

static const char *hint(int errnum)
{
    switch (errnum) {
    case EADDRINUSE:
        return " (another process listens there)";
    case EACCES:
        return " (ports below 1024 and foreign folders need a permission)";
    case EADDRNOTAVAIL:
        return " (no interface of this machine has that address)";
    default:
        return "";
    }
}

static int fail(int fd, const sg_endpoint_t *e, const char *what, sg_why_t *why)
{
    int errnum = errno;
    sg_why_set(why, "admin.listen: cannot %s %s: %s%s", what, e->text, sg_errno_text(errnum), hint(errnum));
    if (fd >= 0)
        close(fd);
    return -1;
}

int sg_admin_bind(const sg_endpoint_t *e, sg_why_t *why)
{
    int on = 1, family = e->sa.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(fd, e, "make a socket for", why);
    if (e->is_unix)
        remove_stale_socket(e);
    else if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        return fail(fd, e, "set an option for", why);
    if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0)
        return fail(fd, e, "set an option for", why);
    if (bind(fd, (const struct sockaddr *)&e->sa, e->len) != 0)
        return fail(fd, e, "listen on", why);
    /* A unix socket is reached by the owner and the group: there may be no token. */
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&e->sa;
    if (e->is_unix && chmod(un->sun_path, 0660) != 0)
        return fail(fd, e, "set the mode of", why);
    if (listen(fd, 64) != 0)
        return fail(fd, e, "listen on", why);
    return fd;
}

void sg_admin_bound_text(int fd, const sg_endpoint_t *e, char *out, size_t size)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;
    char host[INET6_ADDRSTRLEN] = "?";
    snprintf(out, size, "%s", e->text);
    if (e->is_unix || getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        return;
    if (sa.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)&sa;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(out, size, "[%s]:%u", host, (unsigned)ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&sa;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, size, "%s:%u", host, (unsigned)ntohs(in->sin_port));
    }
}
