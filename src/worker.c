#include "worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/mem.h"
#include "proxy/proxy.h"
#include "server/server.h"

/* How often a worker tells how it is, and sweeps. */
#define TICK_US INT64_C(250000)

typedef struct {
    sg_store_status_t store;
    const sg_config_t *config;   /* whose upstreams `targets` are about; never followed */
    sg_target_status_t *targets; /* upstream by upstream, target by target */
    size_t target_count;
} report_t;

struct sg_worker {
    unsigned index;
    pthread_t thread;
    sg_loop_t *loop;
    sg_config_t *config;
    sg_metrics_block_t *metrics;
    sg_memory_t *memory;
    sg_store_t *store;
    sg_upstreams_t *upstreams;
    sg_proxy_t *proxy;
    sg_server_t *server;
    sg_timer_t tick;
    bool draining;
    atomic_bool deaf, drained;
    pthread_mutex_t report_lock;
    report_t report;
};

/* --- what it tells the main thread ------------------------------------------------------------------- */

static size_t count_targets(const sg_config_t *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->upstream_count; i++)
        n += c->upstreams[i].target_count;
    return n;
}

static void write_report(sg_worker_t *w)
{
    report_t *r = &w->report;
    size_t n = count_targets(w->config), at = 0;
    (void)pthread_mutex_lock(&w->report_lock);
    sg_store_status(w->store, &r->store);
    r->config = w->config;
    if (n != r->target_count) {
        r->targets = sg_realloc(r->targets, n * sizeof *r->targets);
        r->target_count = n;
    }
    for (size_t i = 0; i < w->config->upstream_count; i++)
        for (unsigned t = 0; t < w->config->upstreams[i].target_count; t++)
            sg_upstream_status(w->upstreams, &w->config->upstreams[i], t, &r->targets[at++]);
    (void)pthread_mutex_unlock(&w->report_lock);
}

void sg_worker_store_status(sg_worker_t *w, sg_store_status_t *out)
{
    (void)pthread_mutex_lock(&w->report_lock);
    *out = w->report.store;
    (void)pthread_mutex_unlock(&w->report_lock);
}

void sg_worker_target_status(sg_worker_t *w, const sg_upstream_conf_t *upstream, unsigned target,
                             sg_target_status_t *out)
{
    *out = (sg_target_status_t){.up = true};
    (void)pthread_mutex_lock(&w->report_lock);
    const sg_config_t *c = w->report.config;
    size_t at = target;
    bool ours = false;
    for (size_t i = 0; c && i < c->upstream_count && !ours; i++) {
        ours = &c->upstreams[i] == upstream;
        if (!ours)
            at += c->upstreams[i].target_count;
    }
    if (ours && at < w->report.target_count)
        *out = w->report.targets[at];
    (void)pthread_mutex_unlock(&w->report_lock);
}

uint64_t sg_worker_turns(const sg_worker_t *w)
{
    return sg_loop_turns(w->loop);
}

/* --- in the thread ----------------------------------------------------------------------------------- */

static void on_tick(void *arg)
{
    sg_worker_t *w = arg;
    write_report(w);
    if (w->draining && sg_server_connections(w->server) == 0)
        atomic_store(&w->drained, true);
    sg_timer_in(w->loop, &w->tick, w->draining ? TICK_US / 10 : TICK_US, on_tick, w);
}

static void *run(void *arg)
{
    sg_worker_t *w = arg;
    char name[16];
    (void)snprintf(name, sizeof name, "worker-%u", w->index);
    (void)pthread_setname_np(pthread_self(), name);
    sg_loop_run(w->loop);
    return NULL;
}

typedef struct {
    sg_worker_t *worker;
    sg_config_t *config;
    sg_tls_t *tls;
} reload_t;

static void on_reload(void *arg)
{
    reload_t *m = arg;
    sg_worker_t *w = m->worker;
    (void)pthread_mutex_lock(&w->report_lock);
    w->report.config = NULL;
    (void)pthread_mutex_unlock(&w->report_lock);
    sg_config_unref(w->config);
    w->config = m->config; /* the message's reference */
    sg_store_reload(w->store, w->config);
    sg_upstreams_reload(w->upstreams, w->config);
    sg_proxy_reload(w->proxy, w->config);
    sg_server_reload(w->server, w->config, m->tls);
    sg_tls_unref(m->tls);
    write_report(w);
    sg_free(m);
}

void sg_worker_reload(sg_worker_t *w, sg_config_t *config, sg_tls_t *tls)
{
    reload_t *m = SG_NEW(reload_t);
    m->worker = w;
    m->config = sg_config_ref(config);
    m->tls = sg_tls_ref(tls);
    sg_loop_post(w->loop, on_reload, m);
}

typedef struct {
    sg_worker_t *worker;
    unsigned tenant;
} forget_t;

static void on_forget(void *arg)
{
    forget_t *m = arg;
    sg_forget_quotas(m->worker->metrics, m->tenant);
    sg_free(m);
}

/* Posted, for a block of metrics is written by its worker only. */
void sg_worker_forget_quotas(sg_worker_t *w, unsigned tenant)
{
    forget_t *m = SG_NEW(forget_t);
    *m = (forget_t){w, tenant};
    sg_loop_post(w->loop, on_forget, m);
}

static void on_drain(void *arg)
{
    sg_worker_t *w = arg;
    w->draining = true;
    sg_server_drain(w->server);
    atomic_store(&w->deaf, true);
    sg_timer_in(w->loop, &w->tick, 0, on_tick, w);
}

void sg_worker_drain(sg_worker_t *w)
{
    sg_loop_post(w->loop, on_drain, w);
}

bool sg_worker_is_deaf(const sg_worker_t *w)
{
    return atomic_load(&w->deaf);
}

bool sg_worker_is_drained(const sg_worker_t *w)
{
    return atomic_load(&w->drained);
}

/* --- life -------------------------------------------------------------------------------------------- */

static void parts_free(sg_worker_t *w)
{
    sg_timer_stop(w->loop, &w->tick); /* it looks at the server */
    sg_server_free(w->server);
    sg_store_give_back(w->store);
    for (int i = 0; i < 3; i++) /* what the ended requests gave back goes out, and blocks */
        sg_loop_turn(w->loop, 0);
    sg_proxy_free(w->proxy);
    sg_upstreams_free(w->upstreams);
    sg_store_free(w->store);
    sg_loop_free(w->loop);
    sg_config_unref(w->config);
    (void)pthread_mutex_destroy(&w->report_lock);
    sg_free(w->report.targets);
    sg_free(w);
}

static bool parts_new(sg_worker_t *w, const sg_worker_setup_t *setup, sg_why_t *why)
{
    w->store = sg_store_new(w->loop, w->config, setup->memory, setup->blocks, setup->metrics);
    w->upstreams = sg_upstreams_new(w->loop, w->config, setup->upstreams, setup->metrics);
    w->proxy = sg_proxy_new(&(sg_proxy_setup_t){.loop = w->loop,
                                                .config = w->config,
                                                .store = w->store,
                                                .upstreams = w->upstreams,
                                                .metrics = setup->metrics,
                                                .log = setup->log});
    w->server = sg_server_new(&(sg_server_setup_t){.loop = w->loop,
                                                   .config = w->config,
                                                   .tls = setup->tls,
                                                   .metrics = setup->metrics,
                                                   .admission = setup->admission,
                                                   .fds = setup->fds,
                                                   .fd_count = setup->fd_count,
                                                   .handler = &sg_proxy_handler,
                                                   .handler_arg = w->proxy},
                              why);
    return w->server != NULL;
}

sg_worker_t *sg_worker_new(const sg_worker_setup_t *setup, sg_why_t *why)
{
    sg_worker_t *w = SG_NEW(sg_worker_t);
    w->index = setup->index;
    w->loop = sg_loop_new();
    w->config = sg_config_ref(setup->config);
    w->metrics = setup->metrics;
    w->memory = setup->memory;
    (void)pthread_mutex_init(&w->report_lock, NULL);
    if (!parts_new(w, setup, why)) {
        parts_free(w);
        return NULL;
    }
    write_report(w);
    sg_timer_in(w->loop, &w->tick, TICK_US, on_tick, w);
    if (pthread_create(&w->thread, NULL, run, w) != 0) {
        sg_why_set(why, "cannot start a worker's thread");
        parts_free(w);
        return NULL;
    }
    return w;
}

static void on_stop(void *arg)
{
    sg_worker_t *w = arg;
    sg_loop_stop(w->loop);
}

void sg_worker_stop(sg_worker_t *w)
{
    if (!w)
        return;
    sg_loop_post(w->loop, on_stop, w);
    (void)pthread_join(w->thread, NULL);
    parts_free(w);
}
