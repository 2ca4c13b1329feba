/* sentinel.h - asks the sentinels, one after the other, where the master is. */
#ifndef SG_STORE_SENTINEL_H
#define SG_STORE_SENTINEL_H

#include "config/config.h"
#include "event/loop.h"

/* How long one sentinel may take. */
#define SG_SENTINEL_US 300000

typedef struct sg_sentinel sg_sentinel_t;

/* host: a name or a numeric address, during the call; NULL when no sentinel could say, and `why`
 * tells what the last one did. In the loop's thread, never from inside _ask. The handle is gone
 * afterwards. */
typedef void sg_sentinel_fn(void *arg, const char *host, unsigned port, const char *why);

/* store.nodes are asked in turn, beginning with number `first` (modulo their number), for store.master. */
sg_sentinel_t *sg_sentinel_ask(sg_loop_t *loop, const sg_store_conf_t *conf, size_t first, sg_sentinel_fn *fn,
                               void *arg);
void sg_sentinel_cancel(sg_sentinel_t *s);      /* fn will not run; NULL is fine */

#endif
