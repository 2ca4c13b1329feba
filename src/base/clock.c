#include "base/clock.h"

#include <stdio.h>
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

void sg_clock_rfc3339(int64_t wall_us, char out[SG_RFC3339_BYTES])
{
    time_t s = (time_t)(wall_us / 1000000);
    struct tm tm;
    if (wall_us < 0 || !gmtime_r(&s, &tm) || tm.tm_year > 9999 - 1900) {
        s = 0;
        (void)gmtime_r(&s, &tm);
        wall_us = 0;
    }
    char text[64];
    (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900, tm.tm_mon + 1,
                   tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(wall_us % 1000000));
    (void)snprintf(out, SG_RFC3339_BYTES, "%.*s", SG_RFC3339_BYTES - 1, text);
}
