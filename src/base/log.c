#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

static atomic_int log_level = SG_LOG_INFO;
static atomic_bool log_json = true;

void sg_log_set(sg_log_level_t level, bool json)
{
    atomic_store(&log_level, (int)level);
    atomic_store(&log_json, json);
}

bool sg_log_on(sg_log_level_t level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

static const char *level_name(sg_log_level_t level)
{
    switch (level) {
    case SG_LOG_ERROR: return "error";
    case SG_LOG_WARN: return "warn";
    case SG_LOG_INFO: return "info";
    case SG_LOG_DEBUG: return "debug";
    }
    return "?";
}

static void add_value(sg_buf_t *out, const sg_log_value_t *v)
{
    switch (v->kind) {
    case SG_LOG_STR: sg_buf_json(out, v->str); break;
    case SG_LOG_I64: sg_buf_i64(out, v->i64); break;
    case SG_LOG_F64: sg_buf_printf(out, "%.6f", v->f64); break;
    case SG_LOG_BOOL: sg_buf_z(out, v->i64 ? "true" : "false"); break;
    }
}

static void line_json(sg_buf_t *out, const char *when, sg_log_level_t level, const char *event,
                      const sg_log_field_t *f, size_t n)
{
    sg_buf_printf(out, "{\"timestamp\":\"%s\",\"level\":\"%s\",\"message\":", when, level_name(level));
    sg_buf_json(out, sg_str(event));
    for (size_t i = 0; i < n; i++) {
        sg_buf_char(out, ',');
        sg_buf_json(out, sg_str(f[i].name));
        sg_buf_char(out, ':');
        add_value(out, &f[i].value);
    }
    sg_buf_z(out, "}\n");
}

static void line_text(sg_buf_t *out, const char *when, sg_log_level_t level, const char *event,
                      const sg_log_field_t *f, size_t n)
{
    sg_buf_printf(out, "%s %s %s", when, level_name(level), event);
    for (size_t i = 0; i < n; i++) {
        sg_buf_printf(out, " %s=", f[i].name);
        add_value(out, &f[i].value);
    }
    sg_buf_char(out, '\n');
}

void sg_log_fields(sg_log_level_t level, const char *event, const sg_log_field_t *fields, size_t n)
{
    if (!sg_log_on(level))
        return;
    char when[SG_RFC3339_BYTES];
    sg_clock_rfc3339(sg_clock_wall_us(), when);
    sg_buf_t out;
    sg_buf_init(&out, 64 * 1024);
    if (atomic_load_explicit(&log_json, memory_order_relaxed))
        line_json(&out, when, level, event, fields, n);
    else
        line_text(&out, when, level, event, fields, n);
    sg_str_t s = sg_buf_str(&out);
    if (write(STDERR_FILENO, s.p, s.n) < 0)     /* nowhere left to say it */
        (void)0;
    sg_buf_deinit(&out);
}
