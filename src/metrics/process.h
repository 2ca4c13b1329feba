/* process.h - what the kernel says of this process. Linux: /proc/self. */
#ifndef SG_METRICS_PROCESS_H
#define SG_METRICS_PROCESS_H

#include <stdint.h>

/* What cannot be read stays 0. */
typedef struct {
    uint64_t cpu_us, resident_bytes, virtual_bytes, open_fds, max_fds;
} sg_process_t;

void sg_process_read(sg_process_t *out);
/* When the process started, µs since the epoch. It depends on the wall clock: ask once. */
int64_t sg_process_start_us(void);

#endif
