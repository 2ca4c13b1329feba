/* reset.h - all keys of one slot tag go from a Redis: SCAN in batches, and UNLINK for what it finds. */
#ifndef SG_STORE_RESET_H
#define SG_STORE_RESET_H

#include "store/redis_conn.h"
#include "store/store.h"

/* Runs on a connection beside the decisions; one batch at a time, so that none of them waits long. fn
 * comes once: from inside when the connection is not up, else later; also when it goes. */
void sg_reset_start(sg_redis_conn_t *conn, const sg_store_conf_t *conf, const char *tag, sg_reset_fn *fn,
                    void *arg);

#endif
