/* names.h - label values with ids that stay for the life of the process. Main thread only. */
#ifndef SG_METRICS_NAMES_H
#define SG_METRICS_NAMES_H

#include <stddef.h>

#include "base/hash.h"
#include "base/mem.h"

#define uthash_malloc(bytes) sg_malloc(bytes)
#define uthash_free(p, bytes) sg_free(p)
#define HASH_FUNCTION(key, bytes, out) ((out) = (unsigned)sg_fnv1a(sg_str_n((key), (bytes))))
#include <uthash.h>

typedef struct {
    char *key;          /* what it is found by */
    char *label;        /* escaped: written as it is between the quotes */
    unsigned id;
    unsigned parent;    /* a target's upstream */
    unsigned load;      /* config load that last named it */
    UT_hash_handle hh;
} sg_name_t;

typedef struct {
    sg_name_t **at;     /* by id */
    unsigned count, size;
    sg_name_t *table;
} sg_names_t;

void sg_names_init(sg_names_t *n, const char *first);   /* `first` gets id 0 */
void sg_names_deinit(sg_names_t *n);
sg_name_t *sg_names_find(const sg_names_t *n, const char *key);     /* NULL when it is not there */
/* The entry of `key`, made when it is not there. */
sg_name_t *sg_names_add(sg_names_t *n, const char *key, const char *label);
/* Backslash, double quote and line feed escaped; to be freed. */
char *sg_label_escape(const char *value);

#endif
