/* clock.h - the two clocks. Any thread. */
#ifndef SG_BASE_CLOCK_H
#define SG_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t sg_clock_mono_us(void);     /* CLOCK_MONOTONIC: for deadlines and durations */
int64_t sg_clock_wall_us(void);     /* CLOCK_REALTIME since the epoch: for logs and windows */

/* "2026-11-30T13:08:47.123456Z" and a NUL. */
#define SG_RFC3339_BYTES 28
void sg_clock_rfc3339(int64_t wall_us, char out[SG_RFC3339_BYTES]);

#endif
