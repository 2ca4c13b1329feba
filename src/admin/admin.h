/* admin.h - the admin listener: /metrics, health, /status, the page, tenants' usage and reset, reload.
 *
 * Lives in the main thread's loop; all functions and callbacks belong to that thread. No route of the public
 * listeners leads here. Endpoints and their answers: docs/admin.md. */
#ifndef SG_ADMIN_ADMIN_H
#define SG_ADMIN_ADMIN_H

#include "config/config.h"
#include "event/loop.h"
#include "metrics/metrics.h"
#include "store/store.h"
#include "upstream/upstream.h"

typedef struct sg_admin sg_admin_t;

/* error NULL: done, `keys` counters were forgotten. Else a sentence. */
typedef void sg_admin_reset_fn(void *done_arg, size_t keys, const char *error);

/* What the gateway lends. Pointers and functions must work until sg_admin_free has returned; functions may
 * not call sg_admin_free, and none but `reload` may call sg_admin_reload. */
typedef struct {
    void *arg;                                      /* first argument of the functions below */
    sg_config_t *(*config)(void *arg);              /* the current snapshot, borrowed; NULL: none is loaded */
    const char *(*load_error)(void *arg);           /* why the last load failed; NULL when it did not */
    bool (*draining)(void *arg);
    /* What else keeps the process from serving (a worker that hangs); NULL = nothing ever does. */
    bool (*ready)(void *arg, sg_why_t *why);
    size_t (*workers)(void *arg);
    void (*store_status)(void *arg, size_t worker, sg_store_status_t *out);     /* a recent snapshot */
    /* Over all workers: connections added up, up = up in every one, ejected = ejected in any. */
    void (*target_status)(void *arg, const sg_upstream_conf_t *upstream, unsigned target,
                          sg_target_status_t *out);
    /* Load the file again. True when it is in use now; `text` gets the findings, one a line. Called from a
     * task of the loop, never from inside a library; it may call sg_admin_reload. */
    bool (*reload)(void *arg, sg_buf_t *text);

    sg_store_t *store;                              /* the main thread's own, for looking at usage */
    bool (*check)(sg_store_t *store, const sg_check_t *check, sg_answer_t *now, sg_ticket_t **ticket,
                  sg_answer_fn *fn, void *fn_arg);  /* sg_store_check */
    void (*cancel)(sg_ticket_t *ticket);            /* sg_store_cancel */
    sg_memory_t *memory;                            /* the process's own counters; NULL = none */
    size_t (*memory_reset)(sg_memory_t *memory, const char *tag);               /* sg_memory_reset */
    /* Forget a tenant's counters in Redis. Calls `done` once, from inside or later, but not after
     * sg_admin_free. NULL: a reset needs the memory store (501). */
    void (*reset)(void *arg, const sg_tenant_t *tenant, sg_admin_reset_fn *done, void *done_arg);
    /* A tenant, by its id in metrics, was reset: what was seen of its use is old. NULL: nobody minds. */
    void (*forget)(void *arg, unsigned tenant);

    sg_metrics_t *metrics;
} sg_admin_host_t;

/* Listens on all of config->admin.listen. NULL: one of them cannot be had, and `why` says which and why.
 * *host is copied. */
sg_admin_t *sg_admin_new(sg_loop_t *loop, const sg_admin_host_t *host, const sg_config_t *config,
                         sg_why_t *why);
/* Takes over token and addresses: new ones are opened first (on an error nothing has changed), then those
 * that are no longer wanted stop accepting, and end with their last connection. */
SG_MUST sg_err_t sg_admin_reload(sg_admin_t *a, const sg_config_t *config, sg_why_t *why);
/* Closes everything; requests that wait for the store are answered 503 if their connection takes it. NULL is
 * fine. */
void sg_admin_free(sg_admin_t *a);

/* The address that listener `index` really has ("127.0.0.1:41233", "[::1]:9180", "unix:/run/x"), in the order
 * of the config; NULL past the last. It is also in the log line "admin listening". Valid until the next
 * reload. */
const char *sg_admin_address(const sg_admin_t *a, size_t index);

#endif
