/* tree.h - a YAML file as a tree whose every node knows its place. Private to config/. */
#ifndef SG_CONFIG_TREE_H
#define SG_CONFIG_TREE_H

#include "base/mem.h"
#include "base/str.h"
#include "config/config.h"

#define SG_TREE_FILE_BYTES_MAX ((size_t)10 << 20)
#define SG_TREE_DEPTH_MAX      32

/* Where something stands. The file name lives as long as the loader. */
typedef struct {
    const char *file;
    unsigned line, column; /* from 1; 0 = the file as a whole */
} sg_place_t;

typedef enum {
    SG_NODE_SCALAR,
    SG_NODE_LIST,
    SG_NODE_MAP,
    SG_NODE_BAD /* reported already; loaders pass over it */
} sg_node_kind_t;

/* Owned by the tree's arena. */
typedef struct sg_node {
    sg_node_kind_t kind;
    bool quoted; /* scalar in quotes or as a block: a string, never a number, bool or null */
    sg_place_t place;
    sg_place_t key_place;  /* in a map: where the key stands */
    sg_str_t key;          /* in a map: the key */
    sg_str_t text;         /* scalar, as written: ${NAME} not yet replaced */
    struct sg_node *first; /* children, in order */
    struct sg_node *next;  /* sibling */
    size_t count;          /* children */
} sg_node_t;

#define SG_NODE_EACH(it, parent) for (const sg_node_t *it = (parent)->first; it; it = it->next)

/* Child of a map by key; NULL when absent. */
const sg_node_t *sg_node_get(const sg_node_t *map, const char *key);
/* "a map", "a list", "a string", "nothing": for messages. */
const char *sg_node_kind_text(const sg_node_t *n);
bool sg_node_is_null(const sg_node_t *n);

/* Findings go to *diags; NULL after a syntax error, or when there is no document. Anchors, aliases, tags,
 * merge keys, duplicate keys, keys that are no text, NULs, a second document and too deep nesting are errors.
 * The text is copied. */
sg_node_t *sg_tree_parse(sg_arena_t *arena, const char *file, sg_str_t text, sg_diags_t *diags);

/* --- findings ------------------------------------------------------------------------------------------ */

void sg_diag_add(sg_diags_t *d, sg_diag_level_t level, const sg_place_t *at, const char *fmt, ...)
    SG_PRINTF(4, 5);
void sg_diag_addv(sg_diags_t *d, sg_diag_level_t level, const sg_place_t *at, const char *fmt, va_list args)
    SG_PRINTF(4, 0);
/* Further findings are counted, not kept: no need to make up their texts. */
bool sg_diags_full(const sg_diags_t *d);
/* By file (in order of first appearance in `files`), then place. */
void sg_diags_sort(sg_diags_t *d, const char *const *files, size_t file_count);
/* Text in quotes, shortened, control bytes as '?': safe in a message. In the arena. */
const char *sg_diag_quote(sg_arena_t *arena, sg_str_t s);

#endif
