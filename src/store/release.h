/* release.h - concurrency slots on their way back to Redis: ready-made ZREM commands that may have
 * to wait for a connection. */
#ifndef SG_STORE_RELEASE_H
#define SG_STORE_RELEASE_H

#include "base/list.h"
#include "store/redis.h"
#include "store/redis_conn.h"
#include "store/script.h"

/* Zeroed memory is an empty list, too; one that is never sent. */
typedef struct sg_releases {
    sg_link_t head;
    size_t count;
    sg_redis_conn_t *conn;
    const sg_redis_hooks_t *hooks;
} sg_releases_t;

void sg_releases_init(sg_releases_t *r, sg_redis_conn_t *conn, const sg_redis_hooks_t *hooks);
void sg_releases_deinit(sg_releases_t *r);
/* One command for each concurrency limit of the check. `call` and `wire` are scratch. */
void sg_releases_add(sg_releases_t *r, const sg_check_t *check, sg_script_call_t *call, sg_buf_t *wire);
/* All of `from` go to `to`; past SG_REDIS_RELEASES_MAX the oldest of `to` are dropped (their leases
 * lapse). */
void sg_releases_move(sg_releases_t *to, sg_releases_t *from);
/* As many as the connection takes. Those that get no reply come back to `r`, which must stay until the
 * connection is freed; after MOVED and ASK they go on from the releases of the server that hooks.moved names.
 */
void sg_releases_send(sg_releases_t *r);

/* The whole call in wire form; a view of `wire`, whose content is replaced. */
sg_str_t sg_resp_call(sg_buf_t *wire, const sg_script_call_t *call);

#endif
