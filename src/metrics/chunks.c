#include "metrics/chunks.h"

#include "base/mem.h"

#define FIRST_PART 32u

/* Where an index lies: part k begins at index (FIRST_PART << k) - FIRST_PART. */
static unsigned part_of(unsigned index, size_t *offset)
{
    uint64_t n = (uint64_t)index + FIRST_PART;
    unsigned k = 63u - (unsigned)__builtin_clzll(n) - 5u;
    *offset = (size_t)(n - ((uint64_t)FIRST_PART << k));
    return k;
}

void *sg_chunks_at(sg_chunks_t *c, size_t element_bytes, unsigned index)
{
    size_t offset;
    unsigned k = part_of(index, &offset);
    char *part = atomic_load_explicit(&c->part[k], memory_order_relaxed);
    if (!part) {
        part = sg_calloc((size_t)FIRST_PART << k, element_bytes);
        atomic_store_explicit(&c->part[k], part, memory_order_release);
    }
    return part + offset * element_bytes;
}

void *sg_chunks_peek(sg_chunks_t *c, size_t element_bytes, unsigned index)
{
    size_t offset;
    unsigned k = part_of(index, &offset);
    char *part = atomic_load_explicit(&c->part[k], memory_order_acquire);
    return part ? part + offset * element_bytes : NULL;
}

void sg_chunks_each(sg_chunks_t *c, size_t element_bytes, void (*fn)(void *element))
{
    for (unsigned k = 0; k < SG_CHUNKS_PARTS; k++) {
        char *part = atomic_load_explicit(&c->part[k], memory_order_acquire);
        for (size_t i = 0; part && i < (size_t)FIRST_PART << k; i++)
            fn(part + i * element_bytes);
    }
}

void sg_chunks_deinit(sg_chunks_t *c)
{
    for (unsigned k = 0; k < SG_CHUNKS_PARTS; k++) {
        sg_free(atomic_load_explicit(&c->part[k], memory_order_relaxed));
        atomic_store_explicit(&c->part[k], NULL, memory_order_relaxed);
    }
}
