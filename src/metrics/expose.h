/* expose.h - what the family writers share. Private to metrics/. */
#ifndef SG_METRICS_EXPOSE_H
#define SG_METRICS_EXPOSE_H

#include "metrics/block.h"
#include "metrics/writer.h"

typedef struct {
    sg_writer_t w;
    sg_metrics_t *m;
    int64_t wall_us;
    const sg_process_t *process;
} sg_expose_job_t;

/* One for each line of metrics.def: all samples of that family. */
#define SG_METRIC(id, name, type, unit, labels, help) void sg_write_##id(sg_expose_job_t *x);
#include "metrics/metrics.def"
#undef SG_METRIC

/* The sum over all blocks of one counter, which lies `offset` bytes into the block. */
uint64_t sg_sum_member(const sg_metrics_t *m, size_t offset);
/* The same of an element of one of its arrays. */
uint64_t sg_sum_element(const sg_metrics_t *m, size_t array_offset, size_t element_bytes, unsigned index,
                        size_t offset);
/* And of histograms. */
void sg_sum_histogram(const sg_metrics_t *m, size_t offset, sg_histogram_sum_t *out);
void sg_sum_histogram_element(const sg_metrics_t *m, size_t array_offset, size_t element_bytes,
                              unsigned index, size_t offset, sg_histogram_sum_t *out);

/* Highest use of each limit in a window that still runs, for the tenants from `first` to before `end`; 0 when
 * its last window is over. Limits that no block has seen for a tenant are left out. */
typedef void sg_quota_each_fn(void *arg, unsigned tenant, unsigned limit, double ratio);
void sg_quotas_each(sg_metrics_t *m, unsigned first, unsigned end, int64_t wall_us, sg_quota_each_fn *fn,
                    void *arg);

#endif
