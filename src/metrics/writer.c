#include "metrics/writer.h"

const sg_metric_def_t sg_metric_defs[SG_M_COUNT] = {
#define SG_METRIC(id, name, type, unit, labels, help) {name, SG_TYPE_##type, unit, labels, help},
#include "metrics/metrics.def"
#undef SG_METRIC
};

static const char *type_word(sg_metric_type_t t, sg_expose_t how)
{
    switch (t) {
    case SG_TYPE_COUNTER:
        return "counter";
    case SG_TYPE_HISTOGRAM:
        return "histogram";
    case SG_TYPE_INFO:
        return how == SG_EXPOSE_OPENMETRICS ? "info" : "gauge";
    case SG_TYPE_GAUGE:
        break;
    }
    return "gauge";
}

/* OpenMetrics names a family without the suffix of its samples. */
static sg_str_t family_name(const sg_metric_def_t *d, sg_expose_t how)
{
    sg_str_t name = sg_str(d->name);
    sg_str_t suffix = d->type == SG_TYPE_COUNTER ? SG_STR("_total") : SG_STR("_info");
    bool cut = d->type == SG_TYPE_COUNTER || d->type == SG_TYPE_INFO;
    if (how == SG_EXPOSE_OPENMETRICS && cut && sg_str_ends(name, suffix))
        name.n -= suffix.n;
    return name;
}

static void meta_line(sg_writer_t *w, const char *what, const char *text)
{
    sg_buf_z(w->out, what);
    sg_buf_str_add(w->out, family_name(w->def, w->how));
    sg_buf_char(w->out, ' ');
    sg_buf_z(w->out, text);
    sg_buf_char(w->out, '\n');
}

void sg_write_family(sg_writer_t *w, sg_metric_id_t id)
{
    w->def = &sg_metric_defs[id];
    w->label_count = 0;
    sg_str_t rest = sg_str(w->def->labels), name;
    while (rest.n > 0 && w->label_count < SG_METRIC_LABELS_MAX && sg_str_next(&rest, ',', &name))
        w->labels[w->label_count++] = name;
    meta_line(w, "# HELP ", w->def->help);
    meta_line(w, "# TYPE ", type_word(w->def->type, w->how));
    if (w->how == SG_EXPOSE_OPENMETRICS && w->def->unit[0])
        meta_line(w, "# UNIT ", w->def->unit);
}

static void add_label(sg_writer_t *w, bool first, sg_str_t name, const char *value)
{
    sg_buf_char(w->out, first ? '{' : ',');
    sg_buf_str_add(w->out, name);
    sg_buf_z(w->out, "=\"");
    sg_buf_z(w->out, value);
    sg_buf_char(w->out, '"');
}

/* Name and labels, up to the space before the value. `le` is NULL but for buckets. */
static void sample_head(sg_writer_t *w, const char *suffix, const char *const values[], const char *le)
{
    sg_buf_z(w->out, w->def->name);
    sg_buf_z(w->out, suffix);
    for (size_t i = 0; i < w->label_count; i++)
        add_label(w, i == 0, w->labels[i], values[i]);
    if (le)
        add_label(w, w->label_count == 0, SG_STR("le"), le);
    if (w->label_count > 0 || le)
        sg_buf_char(w->out, '}');
    sg_buf_char(w->out, ' ');
}

static void end_us(sg_writer_t *w, int64_t us)
{
    bool negative = us < 0;
    uint64_t u = negative ? 0 - (uint64_t)us : (uint64_t)us;
    sg_buf_printf(w->out, "%s%llu.%06llu\n", negative ? "-" : "", (unsigned long long)(u / 1000000),
                  (unsigned long long)(u % 1000000));
}

void sg_write_u64(sg_writer_t *w, const char *const values[], uint64_t v)
{
    sample_head(w, "", values, NULL);
    sg_buf_u64(w->out, v);
    sg_buf_char(w->out, '\n');
}

void sg_write_i64(sg_writer_t *w, const char *const values[], int64_t v)
{
    sample_head(w, "", values, NULL);
    sg_buf_i64(w->out, v);
    sg_buf_char(w->out, '\n');
}

void sg_write_us(sg_writer_t *w, const char *const values[], int64_t us)
{
    sample_head(w, "", values, NULL);
    end_us(w, us);
}

/* Four decimals, made of integers: no locale puts a comma in. */
void sg_write_ratio(sg_writer_t *w, const char *const values[], double ratio)
{
    uint64_t parts = ratio <= 0 ? 0 : ratio >= 1e9 ? (uint64_t)1e13 : (uint64_t)(ratio * 10000 + 0.5);
    sample_head(w, "", values, NULL);
    sg_buf_printf(w->out, "%llu.%04llu\n", (unsigned long long)(parts / 10000),
                  (unsigned long long)(parts % 10000));
}

void sg_write_histogram(sg_writer_t *w, const char *const values[], const sg_bounds_t *b,
                        const sg_histogram_sum_t *h)
{
    uint64_t n = 0;
    for (size_t i = 0; i <= b->count; i++) {
        n += h->bucket[i];
        sample_head(w, "_bucket", values, i < b->count ? b->at[i].text : "+Inf");
        sg_buf_u64(w->out, n);
        sg_buf_char(w->out, '\n');
    }
    sample_head(w, "_sum", values, NULL);
    end_us(w, (int64_t)h->sum_us);
    sample_head(w, "_count", values, NULL);
    sg_buf_u64(w->out, n);
    sg_buf_char(w->out, '\n');
}
