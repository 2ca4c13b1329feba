#include "metrics/histogram.h"

const sg_bounds_t sg_bounds_request = {
    11,
    {{5000, "0.005"}, {10000, "0.01"}, {25000, "0.025"}, {50000, "0.05"}, {100000, "0.1"}, {250000, "0.25"},
     {500000, "0.5"}, {1000000, "1.0"}, {2500000, "2.5"}, {5000000, "5.0"}, {10000000, "10.0"}}};

const sg_bounds_t sg_bounds_fast = {
    13,
    {{100, "0.0001"}, {250, "0.00025"}, {500, "0.0005"}, {1000, "0.001"}, {2500, "0.0025"}, {5000, "0.005"},
     {10000, "0.01"}, {25000, "0.025"}, {50000, "0.05"}, {100000, "0.1"}, {250000, "0.25"}, {500000, "0.5"},
     {1000000, "1.0"}}};

void sg_histogram_add(sg_histogram_t *h, const sg_bounds_t *b, int64_t duration_us)
{
    size_t i = 0;
    if (duration_us < 0)
        duration_us = 0;
    while (i < b->count && duration_us > b->at[i].us)
        i++;
    sg_counter_add(&h->bucket[i], 1);
    sg_counter_add(&h->sum_us, (uint64_t)duration_us);
}

void sg_histogram_collect(const sg_histogram_t *h, sg_histogram_sum_t *into)
{
    if (!h)
        return;
    for (size_t i = 0; i < SG_BUCKETS_MAX; i++)
        into->bucket[i] += sg_counter_get(&h->bucket[i]);
    into->sum_us += sg_counter_get(&h->sum_us);
}

uint64_t sg_histogram_count(const sg_histogram_sum_t *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < SG_BUCKETS_MAX; i++)
        n += s->bucket[i];
    return n;
}
