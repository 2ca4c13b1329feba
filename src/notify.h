/*
 * The service manager's two protocols, without its library: notifications (sd_notify(3)) and inherited
 * sockets (sd_listen_fds(3)). Main thread only.
 */
#ifndef SG_NOTIFY_H
#define SG_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Each sends one datagram to $NOTIFY_SOCKET (a path, or an abstract name that begins with '@').
 * True when it was sent; false when there is no service manager or it could not be told. Neither is a reason
 * to stop.
 */
bool sg_notify_ready(void);
bool sg_notify_reloading(void);
bool sg_notify_stopping(void);
bool sg_notify_watchdog(void);

/* A sentence for "systemctl status"; line breaks in it become blanks, and it is cut at 255 bytes. */
bool sg_notify_status(const char *text);

/* How often the service manager expects sg_notify_watchdog, in µs; 0: it does not watch this process. */
uint64_t sg_notify_watchdog_us(void);

typedef struct {
    int fd;        /* open, close-on-exec; the caller closes it */
    char name[64]; /* FileDescriptorName= of the socket unit; "" when it has none */
} sg_listen_fd_t;

/*
 * The sockets handed over by $LISTEN_FDS, at most max of them; returns how many were written to out.
 * 0 when there are none or they are meant for another process ($LISTEN_PID).
 * The environment variables are removed, so that a second call gives 0 and no child takes them for its own.
 */
size_t sg_listen_fds(sg_listen_fd_t *out, size_t max);

#endif
