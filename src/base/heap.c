#include "base/heap.h"

#include "base/mem.h"

void sg_heap_deinit(sg_heap_t *h)
{
    sg_free(h->nodes);
    *h = (sg_heap_t){0};
}

static void place(sg_heap_t *h, size_t at, sg_heap_node_t *n)
{
    h->nodes[at] = n;
    n->index = at + 1;
}

static void sift_up(sg_heap_t *h, size_t at, sg_heap_node_t *n)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (h->nodes[parent]->key <= n->key)
            break;
        place(h, at, h->nodes[parent]);
        at = parent;
    }
    place(h, at, n);
}

static void sift_down(sg_heap_t *h, size_t at, sg_heap_node_t *n)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && h->nodes[child + 1]->key < h->nodes[child]->key)
            child++;
        if (n->key <= h->nodes[child]->key)
            break;
        place(h, at, h->nodes[child]);
        at = child;
    }
    place(h, at, n);
}

void sg_heap_push(sg_heap_t *h, sg_heap_node_t *n, int64_t key)
{
    if (h->count == h->size) {
        h->size = h->size ? h->size * 2 : 16;
        h->nodes = sg_realloc(h->nodes, h->size * sizeof(*h->nodes));
    }
    n->key = key;
    sift_up(h, h->count++, n);
}

void sg_heap_remove(sg_heap_t *h, sg_heap_node_t *n)
{
    if (n->index == 0)
        return;
    size_t at = n->index - 1;
    sg_heap_node_t *last = h->nodes[--h->count];
    n->index = 0;
    if (last == n)
        return;
    if (last->key < n->key)
        sift_up(h, at, last);
    else
        sift_down(h, at, last);
}

sg_heap_node_t *sg_heap_top(const sg_heap_t *h)
{
    return h->count ? h->nodes[0] : NULL;
}
