/* config.h - the config file as one immutable, counted snapshot. */
#ifndef SG_CONFIG_CONFIG_H
#define SG_CONFIG_CONFIG_H

#include <stdatomic.h>
#include <stdio.h>

#include "base/addr.h"
#include "base/log.h"
#include "gate/identity.h"
#include "gate/rate_headers.h"
#include "gate/route.h"
#include "metrics/metrics.h"

typedef struct {
    sg_endpoint_t *at;
    size_t count;
} sg_endpoints_t;

typedef struct {
    sg_endpoints_t listen;
    unsigned workers;               /* 0 = auto */
    char *tls_certificate, *tls_key, *tls_client_ca;    /* absolute paths; NULL = plain HTTP */
    int64_t max_connections, max_connections_per_ip;    /* 0 = no bound */
    int64_t max_header_bytes, max_body_bytes;
    int64_t header_timeout_us, idle_timeout_us, drain_timeout_us;
    sg_dialect_t dialect;
    bool watch;
} sg_server_conf_t;

typedef struct {
    sg_endpoints_t listen;
    sg_str_t token;                 /* content of token_file, trimmed; empty = none */
} sg_admin_conf_t;

typedef struct {
    sg_log_level_t level;
    bool json;
    char *access;                   /* "stdout", "off" or an absolute path */
} sg_log_conf_t;

typedef enum { SG_STORE_MEMORY, SG_STORE_REDIS } sg_store_type_t;
typedef enum { SG_REDIS_STANDALONE, SG_REDIS_SENTINEL, SG_REDIS_CLUSTER } sg_redis_mode_t;

typedef struct {
    sg_store_type_t type;
    sg_redis_mode_t mode;
    bool tls;                       /* rediss:// */
    char *host;                     /* NULL with a unix socket */
    unsigned port;
    char *unix_path;
    unsigned db;
    char *username;                 /* NULL = none */
    sg_str_t password;              /* content of password_file; empty = none */
    char **nodes;                   /* host:port seeds */
    size_t node_count;
    char *master;
    int64_t timeout_us;
    sg_on_failure_t on_failure;     /* never INHERIT */
    int64_t local_share_ppm;        /* local_share x 10^6 */
    sg_str_t key_prefix, key_version;
    bool deny_cache;
} sg_store_conf_t;

typedef enum { SG_BALANCE_ROUND_ROBIN, SG_BALANCE_LEAST_REQUESTS, SG_BALANCE_HASH } sg_balance_t;

typedef struct {
    /* as written: the label in metrics; equal URLs are the same target across reloads */
    char *url;
    bool https;
    char *host;                     /* without brackets; NULL with a unix socket */
    unsigned port;
    char *unix_path;                /* http+unix:/path or unix:/path */
    unsigned weight;
    unsigned metric;                /* id from metrics/ */
} sg_target_conf_t;

enum { SG_RETRY_CONNECT = 1, SG_RETRY_RESET = 2, SG_RETRY_502 = 4, SG_RETRY_503 = 8, SG_RETRY_504 = 16 };

typedef struct sg_upstream_conf {
    char *name;
    sg_target_conf_t *targets;
    size_t target_count;
    sg_balance_t balance;
    int64_t connect_timeout_us, timeout_us, idle_timeout_us;
    int64_t max_requests;           /* per target, over all workers; 0 = no bound */
    unsigned retries;
    unsigned retry_on;              /* bits SG_RETRY_... */
    int64_t resolve_interval_us;
    struct {
        char *path;                 /* NULL = no active checks */
        int64_t interval_us, timeout_us;
        unsigned healthy, unhealthy;
        unsigned status_min, status_max;
    } health;
    struct {
        unsigned failures;          /* 0 = off */
        int64_t for_us;
    } eject;
    struct {
        bool verify;
        char *ca, *server_name, *certificate, *key;     /* absolute paths; NULL = default / none */
    } tls;
    bool preserve_host;
    unsigned index;                 /* place in sg_config_t.upstreams */
    unsigned metric;                /* id from metrics/ */
} sg_upstream_conf_t;

typedef struct {
    char *name;
    unsigned *limits;               /* indexes of sg_config_t.limits */
    size_t limit_count;
} sg_class_t;

/* Everything a file said. Immutable after sg_config_load; shared by threads through counted references. */
typedef struct {
    atomic_int refs;
    sg_arena_t *arena;              /* owns all that hangs below */
    char *source;                   /* path of the file */
    char hash[17];                  /* 16 hex digits over all files read, secrets excluded */
    int64_t loaded_us;              /* epoch */

    sg_server_conf_t server;
    sg_admin_conf_t admin;
    sg_log_conf_t log;
    size_t max_tenants;             /* metrics.max_tenants */
    sg_store_conf_t store;
    sg_identity_conf_t identity;

    sg_limit_t **limits;            /* base form of every class.limit, by index */
    size_t limit_count;
    sg_class_t *classes;
    size_t class_count;
    sg_tenant_t **tenants;          /* anonymous included */
    size_t tenant_count;
    sg_upstream_conf_t *upstreams;
    size_t upstream_count;
    sg_route_t **routes;
    size_t route_count;
    sg_router_t *router;
    struct sg_config_own *own;      /* private to config/ */
} sg_config_t;

typedef enum { SG_DIAG_ERROR, SG_DIAG_WARNING, SG_DIAG_INACTIVE /* "not yet active" */ } sg_diag_level_t;

typedef struct {
    sg_diag_level_t level;
    char *file;
    unsigned line, column;          /* from 1; 0 = the file as a whole */
    char *text;                     /* what is wrong, and what was expected */
} sg_diag_t;

/* All findings of one load, in order of file and place. */
typedef struct {
    sg_diag_t *at;
    size_t count, size;
    size_t errors;
} sg_diags_t;

/* An error in what the file names, found by another room: a certificate that cannot be used. */
void sg_diags_add_error(sg_diags_t *d, const char *file, const char *text);
/* "file:line:column: what is wrong, ...", or "file: ..." for the file as a whole; to be freed. */
char *sg_diag_line(const sg_diag_t *d);
void sg_diags_deinit(sg_diags_t *d);
/* "file:line:column: error: text" lines. */
void sg_diags_print(const sg_diags_t *d, FILE *out);

/* Load and check a file and all it names. NULL when there are errors (all are in *diags); warnings may be
 * there either way. Ids of routes, tenants, limits, upstreams are taken from `metrics` (NULL: a check only;
 * ids stay 0). Blocks on file reads; main thread. */
sg_config_t *sg_config_load(const char *path, sg_metrics_t *metrics, sg_diags_t *diags);
/* A number that differs when a file the config was read from has changed, come or gone: the config, what
 * tenants_files matches, secrets, certificates. Blocks on stat; main thread. */
uint64_t sg_config_fingerprint(const sg_config_t *c);
sg_config_t *sg_config_ref(sg_config_t *c); /* any thread; returns c */
void sg_config_unref(sg_config_t *c);       /* any thread; NULL is fine */

const sg_tenant_t *sg_config_tenant(const sg_config_t *c, sg_str_t name);   /* NULL when unknown */
/* Most bytes that a request's body may have; route NULL: of no route. */
int64_t sg_config_max_body(const sg_config_t *c, const sg_route_t *route);
/* The effective config as YAML, secrets left out (check --print); the schema: every key with type, default,
 * range, help (check --schema). */
void sg_config_print(const sg_config_t *c, FILE *out);
void sg_config_text(const sg_config_t *c, sg_buf_t *out);   /* the same; makes `out` */
void sg_config_schema_print(FILE *out);

#endif
