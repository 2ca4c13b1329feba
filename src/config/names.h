/* names.h - a set of names with a number and a place each, and the nearest of them for "did you mean".
 * Private to config/. */
#ifndef SG_CONFIG_NAMES_H
#define SG_CONFIG_NAMES_H

#define HASH_FUNCTION(p, n, out) ((out) = (unsigned)sg_siphash(sg_str_n((const char *)(p), (n))))
#define uthash_malloc(size)  sg_malloc(size)
#define uthash_free(p, size) sg_free(p)
#include <uthash.h>

#include "base/hash.h"
#include "base/mem.h"
#include "config/tree.h"

typedef struct sg_name {
    sg_str_t text;
    unsigned index;
    sg_place_t place;
    struct sg_name *next; /* in order of adding */
    UT_hash_handle hh;
} sg_name_t;

/* Zeroed memory is an empty set. Few names are kept in a list, many in a hash table too: most maps of a file
 * are tiny, some hold a hundred thousand tenants. */
typedef struct {
    sg_name_t *first, *last, *table;
    size_t count;
} sg_nameset_t;

/* NULL when added; else the entry that has this name already. The entry lives in the arena, the text is not
 * copied. */
const sg_name_t *sg_nameset_add(sg_nameset_t *s, sg_arena_t *arena, sg_str_t text, unsigned index,
                                const sg_place_t *place);
const sg_name_t *sg_nameset_find(const sg_nameset_t *s, sg_str_t text);
/* The table's own memory; entries stay with their arena. */
void sg_nameset_deinit(sg_nameset_t *s);

/* Edits (insert, delete, replace, swap of neighbours) from a to b; at most `limit` + 1. */
unsigned sg_edit_distance(sg_str_t a, sg_str_t b, unsigned limit);
/* Near enough to be a slip of the finger? */
bool sg_is_near(sg_str_t a, sg_str_t b, unsigned *distance);
/* The nearest name, or an empty view. Gives up on sets that are too large to walk for each error. */
sg_str_t sg_nameset_near(const sg_nameset_t *s, sg_str_t text);

#endif
