/* values.c - numbers with units, rates and times. */
#include "config/values.h"

#include <inttypes.h>
#include <stdio.h>

sg_err_t sg_value_int(sg_str_t s, int64_t *out)
{
    int64_t v = 0;
    if (s.n == 0 || (s.n > 1 && s.p[0] == '0'))
        return SG_ERR_SYNTAX;
    for (size_t i = 0; i < s.n; i++) {
        if (!sg_ascii_digit(s.p[i]))
            return SG_ERR_SYNTAX;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.p[i] - '0', &v))
            return SG_ERR_RANGE;
    }
    *out = v;
    return SG_OK;
}

sg_err_t sg_value_bool(sg_str_t s, bool *out)
{
    bool yes = sg_str_eq(s, SG_STR("true"));
    if (!yes && !sg_str_eq(s, SG_STR("false")))
        return SG_ERR_SYNTAX;
    *out = yes;
    return SG_OK;
}

typedef struct {
    const char *name;
    int64_t value;
} unit_t;

static const unit_t time_units[] = {
    {"d", SG_DAY_US}, {"h", SG_HOUR_US}, {"m", SG_MINUTE_US}, {"s", SG_SECOND_US}, {"ms", 1000}, {NULL, 0},
};
static const unit_t size_units[] = {
    {"GiB", INT64_C(1) << 30},
    {"MiB", INT64_C(1) << 20},
    {"KiB", INT64_C(1) << 10},
    {"B", 1},
    {"", 1},
    {NULL, 0},
};

static int64_t unit_value(const unit_t *units, sg_str_t name)
{
    for (; units->name; units++) {
        if (sg_str_eq(name, sg_str(units->name)))
            return units->value;
    }
    return 0;
}

static size_t count_digits(sg_str_t s)
{
    size_t n = 0;
    while (n < s.n && sg_ascii_digit(s.p[n]))
        n++;
    return n;
}

/* An integer and a unit, nothing between. */
static sg_err_t with_unit(sg_str_t s, const unit_t *units, int64_t *out)
{
    size_t digits = count_digits(s);
    int64_t unit = unit_value(units, sg_str_n(s.p + digits, s.n - digits));
    int64_t number, product;
    sg_err_t err;
    if (!unit)
        return SG_ERR_SYNTAX;
    err = sg_value_int(sg_str_n(s.p, digits), &number);
    if (err)
        return err;
    if (__builtin_mul_overflow(number, unit, &product))
        return SG_ERR_RANGE;
    *out = product;
    return SG_OK;
}

sg_err_t sg_value_duration(sg_str_t s, int64_t *us)
{
    return with_unit(s, time_units, us);
}

sg_err_t sg_value_size(sg_str_t s, int64_t *bytes)
{
    return with_unit(s, size_units, bytes);
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* "12" or "0.5": digits without the point, and 10 to the number of decimals (at most 6). */
static sg_err_t decimal(sg_str_t s, int64_t *digits, int64_t *scale)
{
    size_t whole = count_digits(s), decimals = 0;
    int64_t value;
    sg_err_t err = sg_value_int(sg_str_n(s.p, whole), &value);
    if (err)
        return err;
    *scale = 1;
    if (whole < s.n) {
        decimals = s.n - whole - 1;
        if (s.p[whole] != '.' || decimals == 0 || decimals > 6)
            return SG_ERR_SYNTAX;
    }
    for (size_t i = s.n - decimals; i < s.n; i++) {
        if (!sg_ascii_digit(s.p[i]))
            return SG_ERR_SYNTAX;
        *scale *= 10;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, s.p[i] - '0', &value))
            return SG_ERR_RANGE;
    }
    *digits = value;
    return SG_OK;
}

/* The time after the slash: "s", "10m". */
static sg_err_t rate_time(sg_str_t s, int64_t *us)
{
    int64_t unit = unit_value(time_units, s);
    if (unit) {
        *us = unit;
        return SG_OK;
    }
    sg_err_t err = sg_value_duration(s, us);
    return err ? err : *us == 0 ? SG_ERR_SYNTAX : SG_OK;
}

sg_err_t sg_value_rate(sg_str_t s, int64_t *count, int64_t *us)
{
    sg_str_t rest = s, number;
    int64_t n, scale, time, g;
    sg_err_t err;
    if (!memchr(s.p ? s.p : "", '/', s.n) || !sg_str_next(&rest, '/', &number))
        return SG_ERR_SYNTAX;
    if ((err = decimal(number, &n, &scale)) || (err = rate_time(rest, &time)))
        return err;
    if (n == 0) {
        *count = 0;
        *us = SG_SECOND_US;
        return SG_OK;
    }
    g = gcd(n, scale);
    n /= g;
    scale /= g;
    g = gcd(n, time);
    n /= g;
    time /= g;
    if (__builtin_mul_overflow(time, scale, &time))
        return SG_ERR_RANGE;
    *count = n;
    *us = time;
    return SG_OK;
}

sg_err_t sg_value_share(sg_str_t s, int64_t *ppm)
{
    int64_t n, scale;
    sg_err_t err = decimal(s, &n, &scale);
    if (err)
        return err;
    if (n > scale)
        return SG_ERR_RANGE;
    *ppm = n * (1000000 / scale);
    return SG_OK;
}

/* Days from 1970-01-01 in the Gregorian calendar: years are counted from March, so that the leap day is the
 * last one. */
static int64_t days_from_civil(int64_t y, int64_t m, int64_t d)
{
    if (m <= 2)
        y--;
    int64_t month = (m + 9) % 12;
    return y * 365 + y / 4 - y / 100 + y / 400 + (month * 153 + 2) / 5 + d - 1 - 719468;
}

static int64_t days_in_month(int64_t y, int64_t m)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    return days[m - 1] + (m == 2 && leap);
}

/* Fixed places of "2027-01-01T00:00:00": digits where the pattern has 0, anything else as it stands. */
static bool has_form(sg_str_t s, const char *pattern)
{
    if (s.n < strlen(pattern))
        return false;
    for (size_t i = 0; pattern[i]; i++) {
        bool good = pattern[i] == '0' ? sg_ascii_digit(s.p[i]) : s.p[i] == pattern[i];
        if (!good)
            return false;
    }
    return true;
}

static int64_t digits_at(sg_str_t s, size_t at, size_t n)
{
    int64_t v = 0;
    for (size_t i = at; i < at + n; i++)
        v = v * 10 + (s.p[i] - '0');
    return v;
}

/* "Z", "+02:00": µs east of UTC. */
static sg_err_t zone(sg_str_t s, int64_t *offset_us)
{
    int64_t hours, minutes;
    if (sg_str_eq(s, SG_STR("Z"))) {
        *offset_us = 0;
        return SG_OK;
    }
    if (s.n != 6 || (!has_form(s, "+00:00") && !has_form(s, "-00:00")))
        return SG_ERR_SYNTAX;
    hours = digits_at(s, 1, 2);
    minutes = digits_at(s, 4, 2);
    if (hours > 23 || minutes > 59)
        return SG_ERR_RANGE;
    *offset_us = (hours * SG_HOUR_US + minutes * SG_MINUTE_US) * (s.p[0] == '-' ? -1 : 1);
    return SG_OK;
}

sg_err_t sg_value_time(sg_str_t s, int64_t *epoch_us)
{
    int64_t y, mo, d, h, mi, sec, offset, fraction = 0, unit = 100000;
    size_t at = 19;
    sg_err_t err;
    if (!has_form(s, "0000-00-00T00:00:00"))
        return SG_ERR_SYNTAX;
    y = digits_at(s, 0, 4);
    mo = digits_at(s, 5, 2);
    d = digits_at(s, 8, 2);
    h = digits_at(s, 11, 2);
    mi = digits_at(s, 14, 2);
    sec = digits_at(s, 17, 2);
    if (mo < 1 || mo > 12 || d < 1 || d > days_in_month(y, mo) || h > 23 || mi > 59 || sec > 59 || y < 1970)
        return SG_ERR_RANGE;
    if (at < s.n && s.p[at] == '.') {
        size_t first = ++at;
        for (; at < s.n && sg_ascii_digit(s.p[at]); at++, unit /= 10)
            fraction += (s.p[at] - '0') * unit;
        if (at == first)
            return SG_ERR_SYNTAX;
    }
    err = zone(sg_str_n(s.p + at, s.n - at), &offset);
    if (err)
        return err;
    *epoch_us = days_from_civil(y, mo, d) * SG_DAY_US + h * SG_HOUR_US + mi * SG_MINUTE_US +
                sec * SG_SECOND_US + fraction - offset;
    return SG_OK;
}

static void unit_text(int64_t v, const unit_t *units, const char *zero, char out[SG_VALUE_TEXT])
{
    snprintf(out, SG_VALUE_TEXT, "%s", zero);
    for (; v && units->name; units++) {
        if (v % units->value == 0) {
            snprintf(out, SG_VALUE_TEXT, "%" PRId64 "%s", v / units->value, units->name);
            return;
        }
    }
}

void sg_value_duration_text(int64_t us, char out[SG_VALUE_TEXT])
{
    unit_text(us, time_units, "0s", out);
}

void sg_value_size_text(int64_t bytes, char out[SG_VALUE_TEXT])
{
    unit_text(bytes, size_units, "0B", out);
}

/* Whole units per the smallest of s, m, h, d that has them; else per so many milliseconds. */
void sg_value_rate_text(int64_t count, int64_t us, char out[SG_VALUE_TEXT])
{
    static const unit_t by[] = {
        {"s", SG_SECOND_US}, {"m", SG_MINUTE_US}, {"h", SG_HOUR_US}, {"d", SG_DAY_US}};
    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
        int64_t product;
        if (__builtin_mul_overflow(count, by[i].value, &product) || product % us != 0)
            continue;
        snprintf(out, SG_VALUE_TEXT, "%" PRId64 "/%s", product / us, by[i].name);
        return;
    }
    char time[SG_VALUE_TEXT];
    int64_t up = us % 1000 ? 1000 / gcd(us, 1000) : 1;
    sg_value_duration_text(us * up, time);
    snprintf(out, SG_VALUE_TEXT, "%" PRId64 "/%.40s", count * up, time);
}

void sg_value_share_text(int64_t ppm, char out[SG_VALUE_TEXT])
{
    int n = snprintf(out, SG_VALUE_TEXT, "%" PRId64 ".%06" PRId64, ppm / 1000000, ppm % 1000000);
    while (n > 3 && out[n - 1] == '0' && out[n - 2] != '.')
        out[--n] = '\0';
}
