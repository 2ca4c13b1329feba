/* values.h - the words of the config file: numbers with units, rates, times, ${NAME}. Private to config/. */
#ifndef SG_CONFIG_VALUES_H
#define SG_CONFIG_VALUES_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define SG_SECOND_US INT64_C(1000000)
#define SG_MINUTE_US (60 * SG_SECOND_US)
#define SG_HOUR_US   (3600 * SG_SECOND_US)
#define SG_DAY_US    (86400 * SG_SECOND_US)

/* All: SG_ERR_SYNTAX when the form is wrong, SG_ERR_RANGE when the number does not fit. No signs, spaces,
 * leading zeros, exponents. */
SG_MUST sg_err_t sg_value_int(sg_str_t s, int64_t *out);
SG_MUST sg_err_t sg_value_bool(sg_str_t s, bool *out);       /* true, false */
SG_MUST sg_err_t sg_value_duration(sg_str_t s, int64_t *us); /* 250ms 10s 1m 24h 1d */
SG_MUST sg_err_t sg_value_size(sg_str_t s, int64_t *bytes);  /* 512B 64KiB 10MiB 1GiB */
/* 100/s 0.5/s 1/10m 5/3s, as an exact fraction: *count units per *us, in lowest terms (0/s: 0 per second). */
SG_MUST sg_err_t sg_value_rate(sg_str_t s, int64_t *count, int64_t *us);
SG_MUST sg_err_t sg_value_share(sg_str_t s, int64_t *ppm);     /* 0 to 1, at most 6 decimals, x 10^6 */
SG_MUST sg_err_t sg_value_time(sg_str_t s, int64_t *epoch_us); /* RFC 3339 date-time */

/* Room for any of the texts below. */
#define SG_VALUE_TEXT 64
/* The shortest text that reads back as the same value. */
void sg_value_duration_text(int64_t us, char out[SG_VALUE_TEXT]);
void sg_value_size_text(int64_t bytes, char out[SG_VALUE_TEXT]);
void sg_value_rate_text(int64_t count, int64_t us, char out[SG_VALUE_TEXT]);
void sg_value_share_text(int64_t ppm, char out[SG_VALUE_TEXT]);

/* What stays in the text when the environment is put in. */
typedef enum {
    SG_EXPAND_ALL, /* ${lower} is an error; $$ becomes $ */
    /* ${lower} and $$ stay, for sg_vars_expand; a $ that an environment value brings is doubled */
    SG_EXPAND_KEEP_VARS
} sg_expand_t;
/* Replace ${NAME}. *out is in the arena, or `s` itself. SG_ERR_SYNTAX, SG_ERR_NOT_FOUND with a sentence that
 * never shows a value. */
SG_MUST sg_err_t sg_value_expand(sg_str_t s, sg_expand_t how, sg_arena_t *arena, sg_str_t *out,
                                 sg_why_t *why);

#endif
