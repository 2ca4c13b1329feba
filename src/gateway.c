#include "gateway.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "admin/admin.h"
#include "base/clock.h"
#include "base/mem.h"
#include "listen.h"
#include "notify.h"
#include "signals.h"
#include "worker.h"

enum { EXIT_CONFIG = 78, MEMORY_ENTRIES = 1000000, WORKERS_MAX = 256 };

#define SWEEP_US INT64_C(500000)
#define LOOK_US  INT64_C(500000)

typedef struct {
    const char *path;
    sg_loop_t *loop;
    sg_metrics_t *metrics;
    sg_config_t *config;
    sg_tls_t *tls;    /* what server.tls names, loaded with the config; NULL: plain HTTP */
    char *load_error; /* NULL: the last load went well */
    int64_t loaded_wall_us;
    sg_memory_t *memory;
    sg_blocks_t *blocks;
    sg_upstream_shared_t *upstreams;
    sg_admission_t *admission;
    sg_access_log_t *log;
    sg_listen_t listen;
    sg_worker_t **workers;
    uint64_t *turns; /* at the last watchdog ping */
    size_t worker_count;
    sg_store_t *store; /* the main thread's own, for the admin listener */
    sg_admin_t *admin;
    sg_signals_t *signals;
    sg_timer_t sweep, drain_check, watchdog, look;
    uint64_t files_seen, files_changing; /* fingerprints: of the last load; of the last look that differed */
    int64_t drain_until_us;
    uint64_t lines_dropped; /* of the access log, as last told */
    bool draining;
} gateway_t;

/* --- config ------------------------------------------------------------------------------------------ */

static void log_findings(const sg_diags_t *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const sg_diag_t *f = &d->at[i];
        sg_log(f->level == SG_DIAG_ERROR ? SG_LOG_ERROR : SG_LOG_WARN,
               f->level == SG_DIAG_INACTIVE ? "config: not yet active" : "config", SG_F_STR("file", f->file),
               SG_F_I64("line", f->line), SG_F_I64("column", f->column), SG_F_STR("text", f->text));
    }
}

static char *first_error(const sg_diags_t *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->at[i].level == SG_DIAG_ERROR)
            return sg_diag_line(&d->at[i]);
    return sg_strdup("the config cannot be loaded");
}

static void add_findings(const sg_diags_t *d, sg_buf_t *text)
{
    for (size_t i = 0; text && i < d->count; i++) {
        char *line = sg_diag_line(&d->at[i]);
        sg_buf_printf(text, "%s\n", line);
        sg_free(line);
    }
}

static void tell_config(gateway_t *g)
{
    sg_set_config_info(g->metrics, g->config ? g->config->hash : NULL, g->load_error == NULL,
                       g->loaded_wall_us);
}

static bool same_endpoints(const sg_endpoints_t *a, const sg_endpoints_t *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->at[i].text, b->at[i].text) == 0;
    return same;
}

static const char *text_or_none(const char *text)
{
    return text ? text : "";
}

/* What was set up once stays as it is until the next start; saying so is better than seeming to obey. */
static void warn_fixed(const sg_config_t *old, const sg_config_t *new)
{
    const char *fixed[6];
    size_t n = 0;
    if (!same_endpoints(&old->server.listen, &new->server.listen))
        fixed[n++] = "server.listen";
    if (old->server.workers != new->server.workers)
        fixed[n++] = "server.workers";
    if (old->server.max_header_bytes != new->server.max_header_bytes)
        fixed[n++] = "server.max_header_size";
    if (old->server.idle_timeout_us != new->server.idle_timeout_us)
        fixed[n++] = "server.idle_timeout";
    if (!old->server.tls_certificate != !new->server.tls_certificate)
        fixed[n++] = "server.tls";
    if (strcmp(text_or_none(old->server.tls_client_ca), text_or_none(new->server.tls_client_ca)) != 0)
        fixed[n++] = "server.tls.client_ca";
    for (size_t i = 0; i < n; i++)
        sg_log(SG_LOG_WARN, "config: takes effect at the next start", SG_F_STR("key", fixed[i]));
}

static void use_config(gateway_t *g, sg_config_t *fresh, sg_tls_t *tls)
{
    sg_why_t why;
    warn_fixed(g->config, fresh);
    sg_log_set(fresh->log.level, fresh->log.json);
    if (sg_access_log_reopen(g->log, fresh->log.access, &why))
        sg_log(SG_LOG_ERROR, "the access log stays where it was", SG_F_STR("error", why.text));
    if (sg_admin_reload(g->admin, fresh, &why))
        sg_log(SG_LOG_ERROR, "the admin listener stays as it was", SG_F_STR("error", why.text));
    sg_store_reload(g->store, fresh);
    for (size_t i = 0; i < g->worker_count; i++)
        sg_worker_reload(g->workers[i], fresh, tls);
    sg_config_unref(g->config);
    sg_tls_unref(g->tls);
    g->config = fresh;
    g->tls = tls;
}

static bool reload(gateway_t *g, sg_buf_t *text)
{
    sg_diags_t diags = {0};
    (void)sg_notify_reloading();
    g->files_seen = sg_config_fingerprint(g->config); /* before: what changes meanwhile is seen as new */
    sg_tls_t *tls = NULL;
    sg_config_t *fresh = sg_tls_config_load(g->path, g->metrics, &diags, &tls);
    log_findings(&diags);
    add_findings(&diags, text);
    sg_free(g->load_error);
    g->load_error = fresh ? NULL : first_error(&diags);
    sg_diags_deinit(&diags);
    if (fresh) {
        g->loaded_wall_us = sg_clock_wall_us();
        use_config(g, fresh, tls);
        sg_log(SG_LOG_INFO, "config reloaded", SG_F_STR("hash", g->config->hash));
    } else {
        sg_log(SG_LOG_ERROR, "config not reloaded: the running one stays", SG_F_STR("hash", g->config->hash),
               SG_F_STR("error", g->load_error));
    }
    tell_config(g);
    (void)sg_notify_ready();
    (void)sg_notify_status(fresh ? "Serving." : "Serving with the old config: the new one has errors.");
    return fresh != NULL;
}

/* server.watch. A file may be in the middle of being written: it is read when two looks in a row see the
 * same. */
static void on_look(void *arg)
{
    gateway_t *g = arg;
    uint64_t now = g->config->server.watch ? sg_config_fingerprint(g->config) : g->files_seen;
    if (now != g->files_seen && now == g->files_changing) {
        sg_log_event(SG_LOG_INFO, "config files have changed");
        (void)reload(g, NULL);
    }
    g->files_changing = now;
    sg_timer_in(g->loop, &g->look, LOOK_US, on_look, g);
}

/* --- what the admin listener asks -------------------------------------------------------------------- */

static sg_config_t *admin_config(void *arg)
{
    return ((gateway_t *)arg)->config;
}

static const char *admin_load_error(void *arg)
{
    return ((gateway_t *)arg)->load_error;
}

static bool admin_draining(void *arg)
{
    return ((gateway_t *)arg)->draining;
}

static size_t admin_workers(void *arg)
{
    return ((gateway_t *)arg)->worker_count;
}

static void admin_store_status(void *arg, size_t worker, sg_store_status_t *out)
{
    sg_worker_store_status(((gateway_t *)arg)->workers[worker], out);
}

static void admin_target_status(void *arg, const sg_upstream_conf_t *upstream, unsigned target,
                                sg_target_status_t *out)
{
    gateway_t *g = arg;
    *out = (sg_target_status_t){.up = true};
    for (size_t i = 0; i < g->worker_count; i++) {
        sg_target_status_t one;
        sg_worker_target_status(g->workers[i], upstream, target, &one);
        out->idle += one.idle;
        out->busy += one.busy;
        out->up = out->up && one.up;
        out->ejected = out->ejected || one.ejected;
    }
}

static bool admin_reload(void *arg, sg_buf_t *text)
{
    return reload(arg, text);
}

static void admin_reset(void *arg, const sg_tenant_t *tenant, sg_admin_reset_fn *done, void *done_arg)
{
    sg_store_reset(((gateway_t *)arg)->store, tenant->tag.text, done, done_arg);
}

static void admin_forget(void *arg, unsigned tenant)
{
    gateway_t *g = arg;
    for (size_t i = 0; i < g->worker_count; i++)
        sg_worker_forget_quotas(g->workers[i], tenant);
}

static bool start_admin(gateway_t *g, sg_why_t *why)
{
    sg_admin_host_t host = {
        .arg = g,
        .config = admin_config,
        .load_error = admin_load_error,
        .draining = admin_draining,
        .workers = admin_workers,
        .store_status = admin_store_status,
        .target_status = admin_target_status,
        .reload = admin_reload,
        .store = g->store,
        .check = sg_store_check,
        .cancel = sg_store_cancel,
        .memory = g->memory,
        .memory_reset = sg_memory_reset,
        .reset = admin_reset,
        .forget = admin_forget,
        .metrics = g->metrics,
    };
    g->admin = sg_admin_new(g->loop, &host, g->config, why);
    return g->admin != NULL;
}

/* --- timers ------------------------------------------------------------------------------------------ */

static void tell_dropped_lines(gateway_t *g)
{
    uint64_t dropped = sg_access_log_dropped(g->log);
    if (dropped == g->lines_dropped)
        return;
    sg_log(SG_LOG_WARN, "access-log lines dropped: what reads them is too slow",
           SG_F_I64("lines", (int64_t)(dropped - g->lines_dropped)));
    g->lines_dropped = dropped;
}

static void on_sweep(void *arg)
{
    gateway_t *g = arg;
    tell_dropped_lines(g);
    sg_memory_sweep(g->memory, sg_clock_wall_us());
    sg_timer_in(g->loop, &g->sweep, SWEEP_US, on_sweep, g);
}

/* The service manager is told that all is well only when every worker's loop has turned since the last time.
 */
static void on_watchdog(void *arg)
{
    gateway_t *g = arg;
    bool alive = true;
    for (size_t i = 0; i < g->worker_count; i++) {
        uint64_t turns = sg_worker_turns(g->workers[i]);
        alive = alive && turns != g->turns[i];
        g->turns[i] = turns;
    }
    if (alive)
        (void)sg_notify_watchdog();
    sg_timer_in(g->loop, &g->watchdog, (int64_t)(sg_notify_watchdog_us() / 3), on_watchdog, g);
}

static void on_drain_check(void *arg)
{
    gateway_t *g = arg;
    bool drained = true, deaf = true;
    for (size_t i = 0; i < g->worker_count; i++) {
        drained = drained && sg_worker_is_drained(g->workers[i]);
        deaf = deaf && sg_worker_is_deaf(g->workers[i]);
    }
    if (deaf) /* new connections are refused, rather than kept waiting in the kernel */
        sg_listen_close(&g->listen);
    if (!drained && sg_loop_now_us(g->loop) < g->drain_until_us) {
        sg_timer_in(g->loop, &g->drain_check, 20000, on_drain_check, g);
        return;
    }
    if (!drained)
        sg_log_event(SG_LOG_WARN, "drain time is over: open requests are cut");
    sg_loop_stop(g->loop);
}

static void drain(gateway_t *g)
{
    if (g->draining) { /* asked twice: at once */
        sg_loop_stop(g->loop);
        return;
    }
    g->draining = true;
    (void)sg_notify_stopping();
    sg_log_event(SG_LOG_INFO, "draining");
    for (size_t i = 0; i < g->worker_count; i++)
        sg_worker_drain(g->workers[i]);
    g->drain_until_us = sg_loop_now_us(g->loop) + g->config->server.drain_timeout_us;
    sg_timer_in(g->loop, &g->drain_check, 0, on_drain_check, g);
}

static void reopen_logs(gateway_t *g)
{
    sg_why_t why;
    if (sg_access_log_reopen(g->log, g->config->log.access, &why))
        sg_log(SG_LOG_ERROR, "log not reopened", SG_F_STR("error", why.text));
}

static void on_signal(void *arg, int number)
{
    gateway_t *g = arg;
    switch (number) {
    case SIGHUP: (void)reload(g, NULL); break;
    case SIGUSR1: reopen_logs(g); break;
    case SIGQUIT: sg_loop_stop(g->loop); break;
    default: drain(g); break;
    }
}

/* --- start and end ----------------------------------------------------------------------------------- */

static size_t count_workers(const sg_config_t *c)
{
    cpu_set_t set;
    if (c->server.workers)
        return c->server.workers;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (size_t)n;
}

static bool start_workers(gateway_t *g, sg_why_t *why)
{
    size_t n = count_workers(g->config);
    if (sg_listen_open(&g->listen, &g->config->server.listen, n, why))
        return false;
    g->workers = sg_calloc(n, sizeof *g->workers);
    g->turns = sg_calloc(n, sizeof *g->turns);
    for (size_t i = 0; i < n; i++) {
        g->workers[i] = sg_worker_new(&(sg_worker_setup_t){.index = (unsigned)i,
                                                           .config = g->config,
                                                           .tls = g->tls,
                                                           .metrics = sg_metrics_block(g->metrics),
                                                           .memory = g->memory,
                                                           .blocks = g->blocks,
                                                           .upstreams = g->upstreams,
                                                           .admission = g->admission,
                                                           .log = g->log,
                                                           .fds = g->listen.fds + i * g->listen.per_worker,
                                                           .fd_count = g->listen.per_worker},
                                      why);
        if (!g->workers[i])
            return false;
        g->worker_count++;
    }
    return true;
}

static bool start(gateway_t *g, sg_why_t *why)
{
    g->memory = sg_memory_new(MEMORY_ENTRIES);
    g->blocks = sg_blocks_new();
    g->upstreams = sg_upstream_shared_new();
    g->admission = sg_admission_new();
    g->log = sg_access_log_new(g->config->log.access, why);
    if (!g->log)
        return false;
    g->store = sg_store_new(g->loop, g->config, g->memory, NULL, sg_metrics_block(g->metrics));
    if (!start_admin(g, why) || !start_workers(g, why))
        return false;
    g->signals = sg_signals_new(g->loop, on_signal, g);
    sg_timer_in(g->loop, &g->sweep, SWEEP_US, on_sweep, g);
    g->files_seen = g->files_changing = sg_config_fingerprint(g->config);
    sg_timer_in(g->loop, &g->look, LOOK_US, on_look, g);
    if (sg_notify_watchdog_us())
        sg_timer_in(g->loop, &g->watchdog, 0, on_watchdog, g);
    return true;
}

static void stop(gateway_t *g)
{
    sg_signals_free(g->signals);
    sg_admin_free(g->admin);
    for (size_t i = 0; i < g->worker_count; i++)
        sg_worker_stop(g->workers[i]);
    sg_listen_close(&g->listen);
    sg_store_free(g->store);
    sg_access_log_free(g->log);
    sg_timer_stop(g->loop, &g->sweep);
    sg_timer_stop(g->loop, &g->drain_check);
    sg_timer_stop(g->loop, &g->watchdog);
    sg_timer_stop(g->loop, &g->look);
    sg_loop_free(g->loop);
    sg_admission_free(g->admission);
    sg_upstream_shared_free(g->upstreams);
    sg_memory_free(g->memory);
    sg_blocks_free(g->blocks);
    sg_config_unref(g->config);
    sg_tls_unref(g->tls);
    sg_metrics_free(g->metrics);
    sg_free(g->load_error);
    sg_free(g->workers);
    sg_free(g->turns);
}

static bool load_first(gateway_t *g)
{
    sg_diags_t diags = {0};
    g->config = sg_tls_config_load(g->path, g->metrics, &diags, &g->tls);
    if (g->config) {
        sg_log_set(g->config->log.level, g->config->log.json);
        log_findings(&diags);
    } else {
        sg_diags_print(&diags, stderr);
    }
    sg_diags_deinit(&diags);
    return g->config != NULL;
}

int sg_gateway_run(const char *config_path)
{
    gateway_t g = {.path = config_path};
    sg_why_t why = {""};
    g.metrics = sg_metrics_new();
    if (!load_first(&g)) {
        sg_metrics_free(g.metrics);
        return EXIT_CONFIG;
    }
    sg_signals_block();
    g.loop = sg_loop_new();
    g.loaded_wall_us = sg_clock_wall_us();
    tell_config(&g);
    bool started = start(&g, &why);
    if (started) {
        sg_log(SG_LOG_INFO, "serving", SG_F_I64("workers", (int64_t)g.worker_count),
               SG_F_STR("config", g.config->hash));
        (void)sg_notify_ready();
        (void)sg_notify_status("Serving.");
        sg_loop_run(g.loop);
        sg_log_event(SG_LOG_INFO, "stopping");
    } else {
        sg_log(SG_LOG_ERROR, "cannot start", SG_F_STR("error", why.text));
    }
    stop(&g);
    return started ? 0 : 1;
}
