/* load.h - what the loaders of the sections share. Private to config/. */
#ifndef SG_CONFIG_LOAD_H
#define SG_CONFIG_LOAD_H

#include "config/names.h"
#include "config/schema.h"
#include "config/snapshot.h"

/* A limit of a plan or tenant that differs from its class. */
typedef struct {
    sg_limit_t *limit;
    sg_place_t place;
} sg_made_limit_t;

/* One load. The arenas keep and scratch hold trees and places, and go when the load is over. */
struct sg_load {
    sg_config_t *c;
    sg_arena_t *arena;          /* the snapshot's */
    sg_arena_t *keep, *scratch; /* scratch is one of its own while a file of tenants is read */
    sg_diags_t *diags;
    char *dir;          /* of the config file, absolute */
    const char **files; /* read so far, in order */
    size_t file_count;
    uint8_t digest[SG_SHA256_BYTES];

    sg_nameset_t classes, limits, plans, upstreams, routes;
    sg_place_t *class_places, *limit_places; /* by index */
    sg_tenant_t **tenants;
    sg_place_t **key_places; /* by tenant and key */
    size_t tenant_size, key_total;
    sg_made_limit_t *made; /* plans' and tenants' own limits */
    size_t made_count, made_size;
    int64_t *max_cost;  /* by limit: highest fixed cost of any route */
    int64_t *max_limit; /* by limit: highest number that any plan or tenant has */
    bool *class_used;
};

/* Findings. The sentence says what is wrong and what was expected. */
void sg_load_error(sg_load_t *ld, const sg_place_t *at, const char *fmt, ...) SG_PRINTF(3, 4);
void sg_load_warn(sg_load_t *ld, const sg_place_t *at, const char *fmt, ...) SG_PRINTF(3, 4);
void sg_load_inactive(sg_load_t *ld, const sg_place_t *at, const char *path, const char *advice);
/* Text of a message that lives as long as the load. */
const char *sg_load_quote(sg_load_t *ld, sg_str_t s);
/* ", did you mean "x"?" or "", for the message about an unknown name. */
const char *sg_load_near(sg_load_t *ld, const sg_nameset_t *names, sg_str_t text);

/* Is the node of this kind? Else an error; silent on nodes that were reported before. `expected` ends the
 * message. */
bool sg_load_is(sg_load_t *ld, const sg_node_t *n, sg_node_kind_t kind, const char *expected);
/* A scalar's text with the environment put in; false (reported) when it is none, null, or names an unset
 * variable. */
bool sg_load_text(sg_load_t *ld, const sg_node_t *n, const char *expected, sg_str_t *out);
bool sg_load_text_how(sg_load_t *ld, const sg_node_t *n, const char *expected, sg_expand_t how,
                      sg_str_t *out);
/* Did the environment put something in? Only then may a number or true and false stand in quotes: between { }
 * and [ ] YAML takes ${NAME} in quotes only. */
bool sg_load_is_quoted(const sg_node_t *n, sg_str_t text);
/* "what is wrong with this value, expected ...". Never shows what came from the environment. */
void sg_load_bad_value(sg_load_t *ld, const sg_node_t *n, const char *expected);

/* Load a map by its shape into *target: unknown and missing keys are reported, defaults filled in unless
 * !defaults. False when the node is no map (reported). */
bool sg_load_map(sg_load_t *ld, const sg_node_t *n, const sg_shape_t *shape, void *target, bool defaults);
/* One value by its row. */
void sg_load_row(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target);

/* A name of [A-Za-z0-9_-] and, if `dots`, '.', at most `max` bytes, not beginning with '_' if `reserve`;
 * false when reported. */
typedef struct {
    size_t max;
    bool dots, reserve;
} sg_name_rule_t;
/* classes and limits; routes, upstreams, plans, key ids */
extern const sg_name_rule_t sg_rule_limit, sg_rule_name;
bool sg_load_check_name(sg_load_t *ld, const sg_place_t *at, sg_str_t s, const sg_name_rule_t *rule);
/* host, host:port, [v6]:port -> host without brackets, port (0: none). Names are letters, digits, '-', '_'
 * and '.'; what looks like an IPv4 address must be one. */
bool sg_load_host_port(sg_str_t s, sg_str_t *host, unsigned *port);
/* Path relative to the config file -> absolute, in the arena. */
char *sg_load_path(sg_load_t *ld, sg_str_t path);
/* Read a file of the config and parse it; NULL when that failed (reported at `at`, or at the file itself). */
sg_node_t *sg_load_tree(sg_load_t *ld, const char *path, const sg_place_t *at);
/* Whole content, in the arena. SG_ERR_IO, SG_ERR_FULL with a sentence. */
SG_MUST sg_err_t sg_load_file(sg_arena_t *arena, const char *path, size_t max_bytes, sg_str_t *out,
                              sg_why_t *why);

/* --- what the sections are read into ------------------------------------------------------------------- */

typedef struct {
    sg_admin_conf_t conf;
    sg_secret_t token;
} sg_admin_raw_t;

typedef struct {
    sg_store_conf_t conf;
    sg_secret_t password;
    char *url;
    const sg_node_t *nodes;
} sg_store_raw_t;

typedef struct {
    const sg_node_t *sources;
    bool forward_key;
    sg_secret_t secret;
    unsigned ipv6_prefix;
    struct {
        int64_t limit, window_us;
    } failures;
} sg_identity_raw_t;

#define SG_UNLIMITED (-1) /* `limit: unlimited` */

typedef struct {
    char *name;
    int algo, per;
    bool dry_run;
    int64_t capacity, burst, limit, window_us, precision, lease_us, block;
    int64_t refill[2], rate[2]; /* count, µs */
} sg_limit_raw_t;

typedef struct {
    const sg_node_t *plan, *keys, *limits;
} sg_tenant_raw_t;

typedef struct {
    char *id;
    const sg_node_t *digest, *expires;
    bool disabled;
} sg_key_raw_t;

typedef struct {
    char *header, *scheme, *query;
} sg_source_raw_t;

typedef struct {
    char *name;
    const sg_node_t *match, *classes, *cost, *upstream, *rewrite, *strip_prefix, *request_headers,
        *response_headers, *respond;
    int auth, odd_paths, on_failure;
    int64_t max_body_bytes, timeout_us;
} sg_route_raw_t;

/* --- loaders named by the table (schema.c) -------------------------------------------------------------- */

sg_load_fn sg_load_node; /* keep the node for later: const sg_node_t * */
sg_load_fn sg_load_endpoints, sg_load_workers, sg_load_trusted, sg_load_format, sg_load_access, sg_load_share,
    sg_load_store_url, sg_load_key_part, sg_load_on_failure;
sg_load_fn sg_load_limit_number, sg_load_targets, sg_load_retry_on, sg_load_status_range,
    sg_load_request_path;

/* Whole sections, by sg_config_load in an order in which names are known before they are used. `n` may be
 * NULL. */
void sg_load_server(sg_load_t *ld, const sg_node_t *n);
void sg_load_admin(sg_load_t *ld, const sg_node_t *n);
void sg_load_log(sg_load_t *ld, const sg_node_t *n);
void sg_load_metrics(sg_load_t *ld, const sg_node_t *n);
void sg_load_store(sg_load_t *ld, const sg_node_t *n);
void sg_load_identity(sg_load_t *ld, const sg_node_t *n);
void sg_load_classes(sg_load_t *ld, const sg_node_t *n);
void sg_load_plans(sg_load_t *ld, const sg_node_t *n);
void sg_load_upstreams(sg_load_t *ld, const sg_node_t *n);
void sg_load_routes(sg_load_t *ld, const sg_node_t *n);
void sg_load_tenants(sg_load_t *ld, const sg_node_t *n);
void sg_load_tenants_files(sg_load_t *ld, const sg_node_t *n);

/* load_limits.c: the array of limits that a plan's or tenant's overrides give, `base` itself when there are
 * none. */
const sg_limit_t *const *sg_load_overrides(sg_load_t *ld, const sg_node_t *n, const sg_limit_t *const *base);
/* load_tenants.c, after all tenants: anonymous is always there, keys go into their table. */
void sg_load_tenants_end(sg_load_t *ld);
/* load_edit.c */
void sg_load_edit(sg_load_t *ld, const sg_node_t *n, sg_field_edit_t *out);
void sg_load_respond(sg_load_t *ld, const sg_node_t *n, sg_route_t *route);

/* check.c: what only shows when all is loaded. */
void sg_check_all(sg_load_t *ld);
void sg_check_log_memory(sg_load_t *ld, const sg_limit_t *l, const sg_place_t *at);

#endif
