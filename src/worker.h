/* worker.h - one thread with all it needs: a loop, a server, a proxy, a store, upstream connections. */
#ifndef SG_WORKER_H
#define SG_WORKER_H

#include "proxy/access_log.h"
#include "server/admission.h"
#include "server/tls.h"
#include "store/store.h"
#include "upstream/upstream.h"

typedef struct sg_worker sg_worker_t;

typedef struct {
    unsigned index;
    sg_config_t *config;
    sg_tls_t *tls; /* NULL: plain HTTP */
    sg_metrics_block_t *metrics;
    sg_memory_t *memory; /* these five are shared by all workers and outlive them */
    sg_blocks_t *blocks;
    sg_upstream_shared_t *upstreams;
    sg_admission_t *admission;
    sg_access_log_t *log;
    const int *fds; /* listening sockets; the caller's */
    size_t fd_count;
} sg_worker_setup_t;

/* Main thread, all of these. Everything is made; the thread is started last. NULL with a sentence. */
sg_worker_t *sg_worker_new(const sg_worker_setup_t *setup, sg_why_t *why);
void sg_worker_reload(sg_worker_t *w, sg_config_t *config, sg_tls_t *tls);
/* A tenant, by its id in metrics, was reset. */
void sg_worker_forget_quotas(sg_worker_t *w, unsigned tenant);
/* Accept no more, and finish what is open. sg_worker_is_drained tells when. */
void sg_worker_drain(sg_worker_t *w);
/* From then on the listening sockets of a worker that drains are not touched by it. */
bool sg_worker_is_deaf(const sg_worker_t *w);
bool sg_worker_is_drained(const sg_worker_t *w);
/* Ends the thread: what is still open is cut. Frees w. */
void sg_worker_stop(sg_worker_t *w);

/* Turns of its loop so far: a worker that hangs shows none (it has a timer, so an idle one does). */
uint64_t sg_worker_turns(const sg_worker_t *w);
/* As of a quarter of a second ago at most. */
void sg_worker_store_status(sg_worker_t *w, sg_store_status_t *out);
void sg_worker_target_status(sg_worker_t *w, const sg_upstream_conf_t *upstream, unsigned target,
                             sg_target_status_t *out);

#endif
