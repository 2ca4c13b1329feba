/* log.h - the process log: one line per event on stderr, as JSON or text.
 *
 * Any thread; a line is one write. A call names the event in a few constant words and adds
 * fields, so that lines can be searched by machine:
 *
 *     sg_log(SG_LOG_WARN, "store lost", SG_F_STR("error", "timeout"), SG_F_I64("retry_in_ms", 250));
 *
 * Secrets, API keys and client-chosen text of unbounded length never go in. */
#ifndef SG_BASE_LOG_H
#define SG_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef enum { SG_LOG_ERROR, SG_LOG_WARN, SG_LOG_INFO, SG_LOG_DEBUG } sg_log_level_t;

/* A field's value. */
typedef struct {
    enum { SG_LOG_STR, SG_LOG_I64, SG_LOG_F64, SG_LOG_BOOL } kind;
    sg_str_t str;
    int64_t i64;
    double f64;
} sg_log_value_t;

typedef struct {
    const char *name;
    sg_log_value_t value;
} sg_log_field_t;

#define SG_F_STR(name_, z) {(name_), {.kind = SG_LOG_STR, .str = sg_str(z)}}
#define SG_F_VIEW(name_, s) {(name_), {.kind = SG_LOG_STR, .str = (s)}}
#define SG_F_I64(name_, v) {(name_), {.kind = SG_LOG_I64, .i64 = (v)}}
#define SG_F_F64(name_, v) {(name_), {.kind = SG_LOG_F64, .f64 = (v)}}
#define SG_F_BOOL(name_, v) {(name_), {.kind = SG_LOG_BOOL, .i64 = (v)}}

void sg_log_set(sg_log_level_t level, bool json);
bool sg_log_on(sg_log_level_t level);
void sg_log_fields(sg_log_level_t level, const char *event, const sg_log_field_t *fields, size_t n);

/* sg_log(SG_LOG_INFO, "listening", SG_F_STR("address", text), SG_F_I64("workers", 2)) */
#define sg_log(level, event, ...)                                                                  \
    do {                                                                                           \
        if (sg_log_on(level)) {                                                                    \
            const sg_log_field_t sg_log_f_[] = {__VA_ARGS__};                                      \
            sg_log_fields((level), (event), sg_log_f_, sizeof sg_log_f_ / sizeof sg_log_f_[0]);    \
        }                                                                                          \
    } while (0)
/* An event without fields. */
#define sg_log_event(level, event) sg_log_fields((level), (event), NULL, 0)

#endif
