/* expose.c - the exposition as a whole, and the sums over blocks. */
#include "metrics/expose.h"

#include "base/clock.h"

static const void *at_offset(const void *base, size_t offset)
{
    return (const char *)base + offset;
}

uint64_t sg_sum_member(const sg_metrics_t *m, size_t offset)
{
    uint64_t n = 0;
    SG_BLOCKS_EACH(b, m)
        n += sg_counter_get(at_offset(b, offset));
    return n;
}

static const void *element_of(sg_metrics_block_t *b, size_t array_offset, size_t element_bytes,
                              unsigned index)
{
    sg_chunks_t *array = (sg_chunks_t *)(void *)((char *)b + array_offset);
    return sg_chunks_peek(array, element_bytes, index);
}

uint64_t sg_sum_element(const sg_metrics_t *m, size_t array_offset, size_t element_bytes, unsigned index,
                        size_t offset)
{
    uint64_t n = 0;
    SG_BLOCKS_EACH(b, m) {
        const void *e = element_of(b, array_offset, element_bytes, index);
        n += e ? sg_counter_get(at_offset(e, offset)) : 0;
    }
    return n;
}

void sg_sum_histogram(const sg_metrics_t *m, size_t offset, sg_histogram_sum_t *out)
{
    *out = (sg_histogram_sum_t){0};
    SG_BLOCKS_EACH(b, m)
        sg_histogram_collect(at_offset(b, offset), out);
}

void sg_sum_histogram_element(const sg_metrics_t *m, size_t array_offset, size_t element_bytes,
                              unsigned index, size_t offset, sg_histogram_sum_t *out)
{
    *out = (sg_histogram_sum_t){0};
    SG_BLOCKS_EACH(b, m) {
        const void *e = element_of(b, array_offset, element_bytes, index);
        if (e)
            sg_histogram_collect(at_offset(e, offset), out);
    }
}

static void write_all(sg_expose_job_t *x)
{
#define SG_METRIC(id, name, type, unit, labels, help)                                              \
    sg_write_family(&x->w, SG_M_##id);                                                             \
    sg_write_##id(x);
#include "metrics/metrics.def"
#undef SG_METRIC
}

void sg_metrics_write_at(sg_metrics_t *m, sg_expose_t how, int64_t wall_us, const sg_process_t *process,
                         sg_buf_t *out)
{
    sg_expose_job_t x = {.w = {.out = out, .how = how}, .m = m, .wall_us = wall_us, .process = process};
    write_all(&x);
    if (how == SG_EXPOSE_OPENMETRICS)
        sg_buf_z(out, "# EOF\n");
}

void sg_metrics_write(sg_metrics_t *m, sg_expose_t how, sg_buf_t *out)
{
    sg_process_t process;
    sg_process_read(&process);
    sg_metrics_write_at(m, how, sg_clock_wall_us(), &process, out);
}
