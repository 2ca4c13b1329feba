/* heap.h - a binary min-heap of nodes that lie in the objects (timers, leases). */
#ifndef SG_BASE_HEAP_H
#define SG_BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory is a node that is on no heap. */
typedef struct {
    int64_t key;
    size_t index;               /* place in the heap + 1; 0 = on no heap */
} sg_heap_node_t;

/* Zeroed memory is an empty heap. */
typedef struct {
    sg_heap_node_t **nodes;
    size_t count, size;
} sg_heap_t;

void sg_heap_deinit(sg_heap_t *h);          /* nodes are left alone */
void sg_heap_push(sg_heap_t *h, sg_heap_node_t *n, int64_t key);    /* n must be on no heap */
void sg_heap_remove(sg_heap_t *h, sg_heap_node_t *n);               /* safe when on no heap */
sg_heap_node_t *sg_heap_top(const sg_heap_t *h);                    /* smallest key; NULL when empty */

#endif
