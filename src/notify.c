#include "notify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FIRST_LISTEN_FD 3 /* SD_LISTEN_FDS_START */
#define STATUS_MAX_BYTES 255

/* False when the address is neither a path nor an abstract name, or is too long. */
static bool notify_address(struct sockaddr_un *addr, socklen_t *len)
{
    const char *text = getenv("NOTIFY_SOCKET");
    if (text == NULL || (text[0] != '/' && text[0] != '@'))
        return false;
    size_t n = strlen(text);
    if (n < 2 || n >= sizeof(addr->sun_path))
        return false;
    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    memcpy(addr->sun_path, text, n);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (text[0] == '@')
        addr->sun_path[0] = '\0';
    else
        *len += 1;
    return true;
}

static bool notify_send(const char *message)
{
    struct sockaddr_un addr;
    socklen_t len = 0;
    if (!notify_address(&addr, &len))
        return false;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    ssize_t sent;
    do {
        sent = sendto(fd, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *)&addr, len);
    } while (sent < 0 && errno == EINTR);
    close(fd);
    return sent == (ssize_t)strlen(message);
}

bool sg_notify_ready(void)
{
    return notify_send("READY=1");
}

bool sg_notify_reloading(void)
{
    /* The time tells the manager which READY=1 ends this reload and not an earlier one. */
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return false;
    char message[64];
    uint64_t now_us = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
    snprintf(message, sizeof(message), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_us);
    return notify_send(message);
}

bool sg_notify_stopping(void)
{
    return notify_send("STOPPING=1");
}

bool sg_notify_watchdog(void)
{
    return notify_send("WATCHDOG=1");
}

bool sg_notify_status(const char *text)
{
    char message[sizeof("STATUS=") + STATUS_MAX_BYTES];
    snprintf(message, sizeof(message), "STATUS=%.*s", STATUS_MAX_BYTES, text);
    for (char *p = message; *p != '\0'; p++) {
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    }
    return notify_send(message);
}

/* False when the variable is absent or anything but a decimal number. */
static bool env_number(const char *name, uint64_t *out)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *out = value;
    return true;
}

/* Variables reach children too: they count only when they name this process, or (the watchdog) nobody. */
static bool env_names_other(const char *name)
{
    uint64_t pid = 0;
    return getenv(name) != NULL && !(env_number(name, &pid) && pid == (uint64_t)getpid());
}

uint64_t sg_notify_watchdog_us(void)
{
    uint64_t interval_us = 0;
    if (env_names_other("WATCHDOG_PID") || !env_number("WATCHDOG_USEC", &interval_us))
        return 0;
    return interval_us;
}

/* Copies the next name of a colon-separated list and steps past it. */
static void take_name(const char **names, char *out, size_t size)
{
    size_t n = strcspn(*names, ":");
    size_t kept = n < size ? n : size - 1;
    memcpy(out, *names, kept);
    out[kept] = '\0';
    *names += n;
    if (**names == ':')
        *names += 1;
}

static size_t take_fds(size_t count, const char *names, sg_listen_fd_t *out, size_t max)
{
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        int fd = FIRST_LISTEN_FD + (int)i;
        char name[sizeof(out->name)];
        take_name(&names, name, sizeof(name));
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
            continue;
        if (taken == max) {
            close(fd);
            continue;
        }
        out[taken].fd = fd;
        memcpy(out[taken].name, name, sizeof(name));
        taken++;
    }
    return taken;
}

size_t sg_listen_fds(sg_listen_fd_t *out, size_t max)
{
    uint64_t count = 0;
    size_t taken = 0;
    bool ours = getenv("LISTEN_PID") != NULL && !env_names_other("LISTEN_PID");
    if (ours && env_number("LISTEN_FDS", &count) && count <= 1024) {
        const char *names = getenv("LISTEN_FDNAMES");
        taken = take_fds((size_t)count, names != NULL ? names : "", out, max);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return taken;
}
