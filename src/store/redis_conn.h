/* redis_conn.h - the one connection of a worker to its Redis, kept up: look-up, connect, AUTH,
 * SELECT, CLIENT SETNAME, PING, then a heartbeat; after a loss again, with jittered backoff.
 *
 * Times: an attempt may take SG_REDIS_ATTEMPT_US; then comes a pause that doubles from
 * SG_REDIS_BACKOFF_MIN_US to SG_REDIS_BACKOFF_MAX_US, half of it random; a connection that says
 * nothing for a heartbeat is pinged, and one that says nothing for another is given up. */
#ifndef SG_STORE_REDIS_CONN_H
#define SG_STORE_REDIS_CONN_H

#include "config/config.h"
#include "store/redis_link.h"

#define SG_REDIS_ATTEMPT_US 1000000
#define SG_REDIS_BACKOFF_MIN_US 20000
#define SG_REDIS_BACKOFF_MAX_US 400000
#define SG_REDIS_HEARTBEAT_US 1000000

typedef struct sg_redis_conn sg_redis_conn_t;

/* Callbacks run in the loop's thread, never from inside _new or _send; _drop runs `down` and the
 * outstanding replies' callbacks before it returns. */
typedef struct {
    void (*up)(void *arg);      /* from now on commands can be sent; the handshake's PING was answered */
    /* An attempt failed, or the connection is lost. `why` holds no secret. After it the outstanding
     * replies get NULL. */
    void (*down)(void *arg, sg_store_err_t kind, const char *why);
} sg_redis_conn_events_t;

/* `conf` must stay as long as the connection. The first attempt begins in the next turn. */
sg_redis_conn_t *sg_redis_conn_new(sg_loop_t *loop, const sg_store_conf_t *conf,
                                   const sg_redis_conn_events_t *events, void *arg);
/* Another config that names the same server, user and database. */
void sg_redis_conn_reload(sg_redis_conn_t *c, const sg_store_conf_t *conf);
/* What was sent in this turn is still written. `down` does not come; outstanding replies get NULL
 * before it returns. */
void sg_redis_conn_free(sg_redis_conn_t *c);

bool sg_redis_conn_is_up(const sg_redis_conn_t *c);
/* A whole command in RESP; copied. False when the connection is not up. */
bool sg_redis_conn_send(sg_redis_conn_t *c, sg_str_t command, sg_redis_reply_fn *fn, void *arg);
bool sg_redis_conn_send_large(sg_redis_conn_t *c, sg_str_t command, sg_redis_reply_fn *fn, void *arg);
/* Give this connection up and make another one. Safe when it is not up (an attempt that runs goes on). */
void sg_redis_conn_drop(sg_redis_conn_t *c, sg_store_err_t kind, const char *why);

/* "10.0.0.1:6379", "unix:/run/redis.sock": for logs. */
const char *sg_redis_conn_place(const sg_redis_conn_t *c);

#endif
