/* resolver.h - names to numeric addresses without blocking the loop (getaddrinfo in a thread). */
#ifndef SG_EVENT_RESOLVER_H
#define SG_EVENT_RESOLVER_H

#include "base/addr.h"
#include "event/loop.h"

typedef struct sg_resolve sg_resolve_t;

/* First address that the system returned; err is SG_OK or SG_ERR_RESOLVE. Runs in the loop's thread,
 * never from inside sg_resolve_start. */
typedef void sg_resolve_fn(void *arg, sg_err_t err, const sg_addr_t *addr);

/* A numeric host needs no thread. The handle is freed by itself after the callback or after a cancel.
 * Cancel what is still out before the loop is freed. */
sg_resolve_t *sg_resolve_start(sg_loop_t *loop, const char *host, sg_resolve_fn *fn, void *arg);
void sg_resolve_cancel(sg_resolve_t *r);    /* the callback will not run; NULL is fine */

/* From inside the callback only: all addresses in the system's order, the first one included, each once. */
#define SG_RESOLVE_MAX 8
const sg_addr_t *sg_resolve_all(const sg_resolve_t *r, size_t *count);

#endif
