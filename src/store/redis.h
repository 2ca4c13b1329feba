/* redis.h - decisions by Redis: one EVALSHA each, with a deadline, behind the breaker.
 *
 * A decision is sent once. NOSCRIPT and a mispredicted bucket wrote nothing, so the same decision
 * is asked again; after a timeout or a lost connection it may have counted, so it never is. */
#ifndef SG_STORE_REDIS_H
#define SG_STORE_REDIS_H

#include "store/breaker.h"
#include "store/store.h"

typedef struct sg_redis sg_redis_t;

/* What the store around it adds. Both run in the loop's thread; `check` holds during the call. */
typedef struct {
    /* No answer came: say what the policy says. */
    void (*failed)(void *arg, const sg_check_t *check, sg_answer_t *out);
    /* An answer came. */
    void (*answered)(void *arg, const sg_check_t *check, const sg_verdict_t *verdict);
    /* NULL outside a cluster. MOVED and ASK: the server to go on with, *asking after ASK; NULL: none. */
    struct sg_redis *(*moved)(void *arg, sg_str_t error, bool *asking);
    /* NULL outside a cluster, where the metrics of one server are the store's. */
    void (*changed)(void *arg);
    /* NULL outside a cluster. A retired server has freed itself; nothing comes after it. */
    void (*ended)(void *arg);
    void *arg;
} sg_redis_hooks_t;

/* Connects by itself. References `config`. */
sg_redis_t *sg_redis_new(sg_loop_t *loop, sg_config_t *config, sg_metrics_block_t *metrics,
                         const sg_redis_hooks_t *hooks);
/* A node of a cluster, with the credentials of the config. `host` is copied. */
sg_redis_t *sg_redis_new_node(sg_loop_t *loop, sg_config_t *config, const char *host, unsigned port,
                              sg_metrics_block_t *metrics, const sg_redis_hooks_t *hooks);
/* Timeouts of the new config from now on. False, and nothing is changed, when it names another
 * server, user or database. */
bool sg_redis_reload(sg_redis_t *r, sg_config_t *config);
/* Takes no new decisions; frees itself after the last answer or cancel. */
void sg_redis_retire(sg_redis_t *r);
/* All tickets must have been answered or cancelled. */
void sg_redis_free(sg_redis_t *r);

/* NULL: not asked (breaker open, or too much is out), the policy must answer. Else fn comes once,
 * never from inside. */
sg_ticket_t *sg_redis_check(sg_redis_t *r, const sg_check_t *check, sg_answer_fn *fn, void *arg);
/* Slots wait for the connection when there is none, at most SG_REDIS_RELEASES_MAX. */
#define SG_REDIS_RELEASES_MAX 4096
void sg_redis_release(sg_redis_t *r, const sg_check_t *check);
struct sg_releases *sg_redis_releases(sg_redis_t *r); /* for release.c: one that was handed on */

/* Deletes all keys of this slot tag, in batches; fn comes once, from inside or later. */
void sg_redis_reset(sg_redis_t *r, const char *tag, sg_reset_fn *fn, void *arg);
/* A settlement is sent once, like a decision. Without a connection it waits for one, at most
 * SG_SETTLINGS_MAX of them. */
void sg_redis_settle(sg_redis_t *r, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost);

/* May it be asked? Also while the breaker is on trial, which the status does not call up. */
bool sg_redis_is_up(const sg_redis_t *r);
void sg_redis_status(const sg_redis_t *r, sg_store_status_t *out);
/* What the store's clock (epoch µs) is thought to say now, until its next answer: it picks the
 * bucket of fixed windows. */
void sg_redis_assume_clock(sg_redis_t *r, int64_t now_us);

#endif
