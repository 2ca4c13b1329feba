/* writer.h - families and samples as text: Prometheus 0.0.4 and OpenMetrics 1.0. Private to metrics/. */
#ifndef SG_METRICS_WRITER_H
#define SG_METRICS_WRITER_H

#include "metrics/histogram.h"
#include "metrics/metrics.h"

typedef enum { SG_TYPE_COUNTER, SG_TYPE_GAUGE, SG_TYPE_HISTOGRAM, SG_TYPE_INFO } sg_metric_type_t;

typedef enum {
#define SG_METRIC(id, name, type, unit, labels, help) SG_M_##id,
#include "metrics/metrics.def"
#undef SG_METRIC
    SG_M_COUNT
} sg_metric_id_t;

typedef struct {
    const char *name;
    sg_metric_type_t type;
    const char *unit, *labels, *help;
} sg_metric_def_t;

extern const sg_metric_def_t sg_metric_defs[SG_M_COUNT];

#define SG_METRIC_LABELS_MAX 4

typedef struct {
    sg_buf_t *out;
    sg_expose_t how;
    const sg_metric_def_t *def;             /* the family that is being written */
    sg_str_t labels[SG_METRIC_LABELS_MAX];  /* its label names */
    size_t label_count;
} sg_writer_t;

/* HELP, TYPE and UNIT lines; what follows are samples of this family. */
void sg_write_family(sg_writer_t *w, sg_metric_id_t id);

/* One sample. `values` are escaped and as many as the family has labels; NULL when it has none. */
void sg_write_u64(sg_writer_t *w, const char *const values[], uint64_t v);
void sg_write_i64(sg_writer_t *w, const char *const values[], int64_t v);
void sg_write_us(sg_writer_t *w, const char *const values[], int64_t us);      /* as seconds */
void sg_write_ratio(sg_writer_t *w, const char *const values[], double ratio);
void sg_write_histogram(sg_writer_t *w, const char *const values[], const sg_bounds_t *b,
                        const sg_histogram_sum_t *h);

#endif
