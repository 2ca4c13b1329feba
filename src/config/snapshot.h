/* snapshot.h - what a snapshot keeps beside its public part: for look-ups and for printing. Private to
 * config/. */
#ifndef SG_CONFIG_SNAPSHOT_H
#define SG_CONFIG_SNAPSHOT_H

#include "config/names.h"
#include "config/schema.h"
#include "config/values.h"

typedef struct {
    const char *name;
    const sg_limit_t *const *limits; /* by sg_limit_t.index */
} sg_plan_t;

/* A route with what only printing needs. sg_config_t.routes points at the first member. */
typedef struct {
    sg_route_t route;
    unsigned *classes;
    size_t class_count;
    sg_place_t place; /* of its match; valid while loading */
} sg_route_entry_t;

/* A text as it was written, for one that the environment has changed: printing shows no value from there. */
typedef struct sg_written {
    struct sg_written *next;
    sg_str_t text, written;
    bool vars; /* text holds request variables */
} sg_written_t;

struct sg_config_own {
    sg_written_t *written;
    sg_nameset_t tenants; /* name -> index */
    sg_key_table_t *keys;
    sg_plan_t *plans;
    size_t plan_count;
    const char *store_url;
    const char *admin_token_file, *password_file, *secret_file;
    const char **patterns; /* tenants_files, absolute */
    size_t pattern_count;
};

/* The text as it was written; NULL when nothing was put in. */
const sg_written_t *sg_config_written(const struct sg_config_own *own, sg_str_t text, bool vars);

#endif
