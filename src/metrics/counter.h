/* counter.h - numbers with one writer and any number of readers.
 *
 * The writer loads and stores, both relaxed: no locked instruction, and no torn value for a reader. */
#ifndef SG_METRICS_COUNTER_H
#define SG_METRICS_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t sg_counter_t;
typedef _Atomic int64_t sg_gauge_t;

static inline uint64_t sg_counter_get(const sg_counter_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static inline void sg_counter_set(sg_counter_t *c, uint64_t v)
{
    atomic_store_explicit(c, v, memory_order_relaxed);
}

static inline void sg_counter_add(sg_counter_t *c, uint64_t n)
{
    sg_counter_set(c, sg_counter_get(c) + n);
}

static inline int64_t sg_gauge_get(const sg_gauge_t *g)
{
    return atomic_load_explicit(g, memory_order_relaxed);
}

static inline void sg_gauge_add(sg_gauge_t *g, int64_t n)
{
    atomic_store_explicit(g, sg_gauge_get(g) + n, memory_order_relaxed);
}

#endif
