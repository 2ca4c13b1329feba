/* schema.h - one row for every key of the config file: what it is, its default, its range, its help text, who
 * loads it. The loader, `check --schema`, `check --print` and the test of the documentation all read this
 * table. Private to config/. */
#ifndef SG_CONFIG_SCHEMA_H
#define SG_CONFIG_SCHEMA_H

#include "config/tree.h"

typedef struct sg_load sg_load_t;
typedef struct sg_key_row sg_key_row_t;
typedef struct sg_shape sg_shape_t;

typedef enum {
    SG_TYPE_BOOL,     /* bool */
    SG_TYPE_INT,      /* int64_t */
    SG_TYPE_UINT,     /* unsigned */
    SG_TYPE_COUNT,    /* size_t */
    SG_TYPE_DURATION, /* int64_t, µs */
    SG_TYPE_SIZE,     /* int64_t, bytes */
    SG_TYPE_RATE,     /* int64_t[2]: count, µs */
    SG_TYPE_WORD,     /* an enum (as int): place in `words` */
    SG_TYPE_STRING,   /* char *, not empty */
    SG_TYPE_FILE,     /* char *, absolute; must be readable */
    SG_TYPE_SECRET,   /* sg_secret_t: path and content */
    SG_TYPE_MAP,      /* keys of `shape`, into the same struct */
    SG_TYPE_OWN       /* `load` does it; `what` names the type */
} sg_type_t;

typedef void sg_load_fn(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target);

struct sg_key_row {
    const char *name;
    sg_type_t type;
    const char *help;
    size_t offset; /* of the field in the section's struct */
    int64_t min, max;
    const char *words;    /* SG_TYPE_WORD: "one two three", in the order of the enum */
    const char *what;     /* type, for people; NULL: from `type` */
    const char *range;    /* for people; NULL: from min and max */
    const char *fallback; /* default, as it would stand in the file; NULL: none */
    bool required;
    bool optional_map;    /* SG_TYPE_MAP: absent means all of it is off, not its defaults */
    sg_load_fn *load;        /* SG_TYPE_OWN */
    const sg_shape_t *shape; /* keys below: SG_TYPE_MAP, and documentation of SG_TYPE_OWN */
    const char *infix;       /* how the path of the keys below goes on: "[]", ".NAME", "" */
};

struct sg_shape {
    const char *what; /* for messages: "a route" */
    const sg_key_row_t *rows;
    size_t count;
};

/* A secret read from a file; the content is never printed. */
typedef struct {
    char *path; /* absolute; NULL = none */
    sg_str_t text;
} sg_secret_t;

extern const sg_shape_t sg_shape_top, sg_shape_server, sg_shape_admin, sg_shape_log, sg_shape_metrics,
    sg_shape_store, sg_shape_identity, sg_shape_source, sg_shape_limit, sg_shape_override, sg_shape_tenant,
    sg_shape_key, sg_shape_upstream, sg_shape_target, sg_shape_route, sg_shape_match, sg_shape_cost,
    sg_shape_cost_from, sg_shape_rewrite, sg_shape_fields, sg_shape_respond;

/* Row of a key; NULL when there is none. */
const sg_key_row_t *sg_shape_row(const sg_shape_t *shape, sg_str_t name);
/* "a duration", "one of: draft, legacy", "an integer from 1 to 5": for messages and documentation. In the
 * arena. */
const char *sg_row_expected(const sg_key_row_t *row, sg_arena_t *arena);
const char *sg_row_type_text(const sg_key_row_t *row);
/* Every key in the order of the table, with its full path ("upstreams.NAME.targets[].url"). */
typedef void sg_schema_visit_fn(const char *path, const sg_key_row_t *row, void *cls);
/* Path of one row, in the arena. */
const char *sg_schema_path(const sg_key_row_t *row, sg_arena_t *arena);
void sg_schema_walk(sg_schema_visit_fn *visit, void *cls);

#endif
