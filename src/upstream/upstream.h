/* upstream.h - connections to upstreams: made by libcurl, kept in a pool per target, handed out by
 * balancing.
 *
 * One pool set per worker (one loop, one thread). What goes over a connection is framed by the caller with
 * http/framing.h. */
#ifndef SG_UPSTREAM_UPSTREAM_H
#define SG_UPSTREAM_UPSTREAM_H

#include "config/config.h"
#include "event/loop.h"
#include "metrics/metrics.h"

/* Counts over all workers (requests in flight per target). One per process; locked inside; names by
 * upstream and URL. */
typedef struct sg_upstream_shared sg_upstream_shared_t;
sg_upstream_shared_t *sg_upstream_shared_new(void);
void sg_upstream_shared_free(sg_upstream_shared_t *s);

typedef struct sg_upstreams sg_upstreams_t;
/* What is needed of config is copied. `metrics` may be NULL. */
sg_upstreams_t *sg_upstreams_new(sg_loop_t *loop, sg_config_t *config, sg_upstream_shared_t *shared,
                                 sg_metrics_block_t *metrics);
/* A reload: pools of targets that are still there (same upstream name, URL and TLS settings) stay; others
 * close when their last request ends. */
void sg_upstreams_reload(sg_upstreams_t *u, sg_config_t *config);
/* All connections must have been given back or closed, all dials have ended. Memory goes at the end
 * of the turn: turn the loop once more, or free it next. */
void sg_upstreams_free(sg_upstreams_t *u);

typedef struct sg_conn sg_conn_t;           /* a live connection, lent to one exchange */
typedef struct sg_dial sg_dial_t;           /* a connection being made */

/* err SG_OK: conn is the caller's until sg_conn_give_back or sg_conn_close. Else SG_ERR_CONNECT, _RESOLVE,
 * _TLS, _TIMEOUT; `text` says more (constant for the time of the call). Never called from inside
 * sg_upstream_dial. */
typedef void sg_dial_fn(void *arg, sg_err_t err, sg_conn_t *conn, const char *text);

typedef struct {
    const sg_upstream_conf_t *upstream;
    sg_str_t hash_key;              /* balance: hash */
    uint64_t tried;                 /* bits of target indexes it has failed on: others are preferred */
    bool fresh;                     /* only a new connection, none from the pool */
} sg_dial_request_t;

/* A connection of the pool at once (SG_OK, *conn) or a new one later (SG_ERR_AGAIN, *dial); SG_ERR_FULL:
 * every target has max_requests in flight; other errors: no target to try. */
SG_MUST sg_err_t sg_upstream_dial(sg_upstreams_t *u, const sg_dial_request_t *req, sg_conn_t **conn,
                                  sg_dial_t **dial, sg_dial_fn *fn, void *arg);
void sg_dial_cancel(sg_dial_t *d);          /* no callback any more; not after the callback */
/* Which target; until the callback returns. */
unsigned sg_dial_target_index(const sg_dial_t *d);
const sg_target_conf_t *sg_dial_target(const sg_dial_t *d);

bool sg_conn_reused(const sg_conn_t *c);                    /* it has carried a request before */
const sg_target_conf_t *sg_conn_target(const sg_conn_t *c); /* lives as long as the connection */
unsigned sg_conn_target_index(const sg_conn_t *c);

/* Readiness, level-triggered; the callback may close or give back the connection. `events` are SG_EV_...;
 * for TLS they are what the socket needs, the callback is called when a send or recv may make progress. */
void sg_conn_watch(sg_conn_t *c, unsigned events, sg_watch_fn *fn, void *arg);
/* SG_OK with *n > 0; SG_ERR_AGAIN; SG_ERR_EOF (recv only; libcurl 7 gives it also for a TLS stream that was
 * cut without close_notify, libcurl 8 then SG_ERR_RESET); SG_ERR_RESET. After SG_ERR_AGAIN of a send the
 * next one must begin with the same bytes, and be no shorter. */
SG_MUST sg_err_t sg_conn_send(sg_conn_t *c, const void *data, size_t len, size_t *n);
SG_MUST sg_err_t sg_conn_recv(sg_conn_t *c, void *data, size_t len, size_t *n);

/* End of the loan. `give_back` only after a complete answer that allows reuse and with no byte left over;
 * the pool checks for stray bytes when it hands the connection out again. Both count the request as done at
 * its target. */
void sg_conn_give_back(sg_conn_t *c);
void sg_conn_close(sg_conn_t *c);
/* What balancing and ejection learn of a finished attempt: ok = a response below 500 came. Call before
 * giving back or closing, or with the target index of a failed dial. */
void sg_upstream_report(sg_upstreams_t *u, const sg_upstream_conf_t *upstream, unsigned target_index,
                        bool ok);

/* For /status: per target, idle and busy connections of this worker. */
typedef struct {
    unsigned idle, busy;
    bool up, ejected;
} sg_target_status_t;
void sg_upstream_status(const sg_upstreams_t *u, const sg_upstream_conf_t *upstream, unsigned target_index,
                        sg_target_status_t *out);

#endif
