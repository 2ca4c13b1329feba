/* listen.h - the public listening sockets: own ones, one per worker and address, or those a service manager
 * hands over. Main thread. */
#ifndef SG_LISTEN_H
#define SG_LISTEN_H

#include "config/config.h"

/* For each worker its own set. The sockets are non-blocking and close-on-exec. */
typedef struct {
    int *fds; /* workers x per_worker, worker by worker */
    size_t workers, per_worker;
    char **paths; /* unix sockets that were made here, removed at the end */
    size_t path_count;
} sg_listen_t;

/* Opens every address (SO_REUSEPORT: the kernel spreads connections over the workers; a port 0 is the same
 * for all), or takes the sockets that were inherited, which all workers share. SG_ERR_IO with a sentence;
 * nothing is left open then. Logs each real address. */
SG_MUST sg_err_t sg_listen_open(sg_listen_t *l, const sg_endpoints_t *where, size_t workers, sg_why_t *why);
void sg_listen_close(sg_listen_t *l);

#endif
