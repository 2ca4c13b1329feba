/* pool.h - the connections of one worker to one target: being made, lent out, idle. Private to upstream/. */
#ifndef SG_UPSTREAM_POOL_H
#define SG_UPSTREAM_POOL_H

#include "base/mem.h"
#include "upstream/multi.h"
#include "upstream/shared.h"

/* What pools of one worker have in common. */
typedef struct {
    sg_loop_t *loop;
    sg_upstream_shared_t *shared;
    sg_multi_t *plain;              /* makes all connections without TLS */
    int keep_fd;                    /* the socket that libcurl must not close just now; -1 = none */
    unsigned idle_max;              /* idle connections per target */
    int64_t idle_us;                /* they are closed after it */
    sg_link_t pools;
    unsigned pool_count;
} sg_pools_t;

#define SG_POOL_IDLE_MAX 512
#define SG_POOL_IDLE_US INT64_C(55000000)   /* below the 60 s and 75 s that most servers wait */

void sg_pools_init(sg_pools_t *all, sg_loop_t *loop, sg_upstream_shared_t *shared);
/* All pools must be gone. Memory behind it goes at the end of the turn; *all must live until then. */
void sg_pools_deinit(sg_pools_t *all);

/* One target. It lives as long as somebody counts on it: groups (the config's upstreams that name it),
 * dials and connections. When no group does, idle connections close at once and others when they are given
 * back. */
typedef struct {
    sg_pools_t *all;
    sg_arena_t *arena;              /* the copies of config values below */
    char *upstream;                 /* name */
    sg_target_conf_t target;
    struct {
        bool verify;
        char *ca, *server_name, *certificate, *key;
        uint64_t files;             /* of inodes and times: a renewed certificate makes a new pool */
    } tls;
    int64_t connect_timeout_us, resolve_interval_us;    /* of the latest config */
    sg_shared_target_t *shared;
    sg_multi_t *multi;              /* https: its own, from the first dial on, with the parsed CA file */
    sg_link_t link;                 /* sg_pools_t.pools */
    sg_link_t idle;                 /* most recent first */
    unsigned idle_count, busy_count;
    unsigned groups, users;         /* references: of groups, and of dials and connections */
    sg_task_t freeing;
} sg_pool_t;

/* The pool of that target, found or made; one reference of a group. */
sg_pool_t *sg_pool_get(sg_pools_t *all, const sg_upstream_conf_t *upstream, const sg_target_conf_t *target);
void sg_pool_put(sg_pool_t *p);
void sg_pool_use(sg_pool_t *p);             /* a dial or a connection begins to count on it */
void sg_pool_unuse(sg_pool_t *p);           /* ends; may free the pool at the end of the turn */
static inline bool sg_pool_is_retired(const sg_pool_t *p)
{
    return p->groups == 0;
}

/* The most recently used idle connection that is still clean, lent to the caller; NULL when there is none. */
sg_conn_t *sg_pool_take(sg_pool_t *p, unsigned target_index);
/* Close what has been idle for too long. */
void sg_pool_expire(sg_pool_t *p);

/* --- dial.c --------------------------------------------------------------------------------- */

/* A new connection; the slot at the target (sg_shared_target_enter) is the caller's to take before, and
 * belongs to the dial when `slot`: it moves on to the connection, or is left when the dial fails or is
 * cancelled. */
sg_dial_t *sg_dial_start(sg_pool_t *p, unsigned target_index, bool slot, sg_dial_fn *fn, void *arg);
/* sg_multi_done_fn of every multi. */
void sg_dial_done(void *owner, CURLcode result);

/* --- conn.c --------------------------------------------------------------------------------- */

/* The parts of a live TLS connection: libcurl's handle, which stays in its multi. */
typedef struct {
    CURL *easy;
    CURLSH *share;
    struct curl_slist *connect_to;
} sg_curl_parts_t;
void sg_curl_parts_free(sg_curl_parts_t *parts);

/* A new connection on fd, lent out. Takes fd when `parts` is NULL (no TLS), else the parts (their socket
 * stays libcurl's). */
sg_conn_t *sg_conn_new(sg_pool_t *p, unsigned target_index, bool slot, int fd, const sg_curl_parts_t *parts);
/* The pool's side of idle connections. */
sg_conn_t *sg_conn_of_link(sg_link_t *l);
int64_t sg_conn_idle_since_us(const sg_conn_t *c);
bool sg_conn_is_clean(sg_conn_t *c);        /* open, and no byte waits */
void sg_conn_lend(sg_conn_t *c, unsigned target_index);

#endif
