/* random.h - random bytes. Any thread. */
#ifndef SG_BASE_RANDOM_H
#define SG_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void sg_random_bytes(void *out, size_t n);      /* from the kernel, buffered per thread; for ids and keys */
uint64_t sg_random_u64(void);
/* Uniform in [0, bound); 0 when bound is 0. For jitter. */
uint64_t sg_random_below(uint64_t bound);
/* 32 lower-case hex digits and a NUL: request ids, lease ids. */
#define SG_RANDOM_ID_BYTES 33
void sg_random_id(char out[SG_RANDOM_ID_BYTES]);

#endif
