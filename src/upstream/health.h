/* health.h - active checks: a GET on a connection of its own, now and then. Private to upstream/. */
#ifndef SG_UPSTREAM_HEALTH_H
#define SG_UPSTREAM_HEALTH_H

#include "upstream/pool.h"

typedef struct sg_health sg_health_t;

/* The target went down or came up by this check; from the loop. */
typedef void sg_health_fn(void *arg);

/* Checks this target as conf->health says, beginning at once, until it is freed. Over all workers one check
 * runs per interval. The pool must outlive it; what is needed of conf is copied. */
sg_health_t *sg_health_new(sg_pool_t *pool, const sg_upstream_conf_t *conf, unsigned target_index,
                           sg_health_fn *changed, void *arg);
void sg_health_free(sg_health_t *h);        /* also in the middle of a check; NULL is fine */

#endif
