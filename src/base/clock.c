#include "base/clock.h"

#include <string.h>
#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t sg_clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t sg_clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

static void put_digits(char *at, size_t width, int v)
{
    for (; width > 0; v /= 10)
        at[--width] = (char)('0' + v % 10);
}

void sg_clock_rfc3339(int64_t wall_us, char out[SG_RFC3339_BYTES])
{
    time_t s = (time_t)(wall_us / 1000000);
    struct tm tm;
    if (wall_us < 0 || !gmtime_r(&s, &tm) || tm.tm_year > 9999 - 1900) {
        s = 0;
        (void)gmtime_r(&s, &tm);
        wall_us = 0;
    }
    memcpy(out, "0000-00-00T00:00:00.000000Z", SG_RFC3339_BYTES);
    put_digits(out, 4, tm.tm_year + 1900);
    put_digits(out + 5, 2, tm.tm_mon + 1);
    put_digits(out + 8, 2, tm.tm_mday);
    put_digits(out + 11, 2, tm.tm_hour);
    put_digits(out + 14, 2, tm.tm_min);
    put_digits(out + 17, 2, tm.tm_sec);
    put_digits(out + 20, 6, (int)(wall_us % 1000000));
}
