/* histogram.h - durations in fixed buckets. One writer; readers add up. */
#ifndef SG_METRICS_HISTOGRAM_H
#define SG_METRICS_HISTOGRAM_H

#include <stddef.h>

#include "metrics/counter.h"

#define SG_BUCKETS_MAX 14       /* bounds of the larger set, and one bucket for all above */

/* Upper bounds, inclusive, ascending. `text` is the bound in seconds in the canonical form of OpenMetrics,
 * so that a series has the same name in both formats. */
typedef struct {
    size_t count;
    struct {
        int64_t us;
        const char *text;
    } at[SG_BUCKETS_MAX - 1];
} sg_bounds_t;

extern const sg_bounds_t sg_bounds_request;     /* 5 ms .. 10 s: requests and upstreams */
extern const sg_bounds_t sg_bounds_fast;        /* 0.1 ms .. 1 s: the gateway's own part, the store */

/* Zeroed memory is an empty histogram. Buckets are not cumulative. */
typedef struct {
    sg_counter_t bucket[SG_BUCKETS_MAX];
    sg_counter_t sum_us;
} sg_histogram_t;

/* A negative duration (a clock's jest) counts as 0. */
void sg_histogram_add(sg_histogram_t *h, const sg_bounds_t *b, int64_t duration_us);

/* Plain numbers: histograms of several blocks added up. */
typedef struct {
    uint64_t bucket[SG_BUCKETS_MAX];
    uint64_t sum_us;
} sg_histogram_sum_t;

void sg_histogram_collect(const sg_histogram_t *h, sg_histogram_sum_t *into);   /* h NULL: nothing */
uint64_t sg_histogram_count(const sg_histogram_sum_t *s);

#endif
