#include "base/random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"

/* Fill whole, however short the kernel's reads are; without randomness there is no safe way on. */
static void kernel_random(uint8_t *p, size_t n)
{
    while (n) {
        ssize_t got = getrandom(p, n, 0);
        if (got <= 0)
            continue;
        p += got;
        n -= (size_t)got;
    }
}

void sg_random_bytes(void *out, size_t n)
{
    static _Thread_local uint8_t pool[512];
    static _Thread_local size_t left;
    uint8_t *p = out;
    if (n > sizeof pool) {
        kernel_random(p, n);
        return;
    }
    if (left < n) {
        kernel_random(pool, sizeof pool);
        left = sizeof pool;
    }
    left -= n;
    memcpy(p, pool + left, n);
    memset(pool + left, 0, n);      /* what was handed out is not kept */
}

uint64_t sg_random_u64(void)
{
    uint64_t v;
    sg_random_bytes(&v, sizeof v);
    return v;
}

uint64_t sg_random_below(uint64_t bound)
{
    if (bound == 0)
        return 0;
    uint64_t skip = (UINT64_MAX - bound + 1) % bound, v;    /* 2^64 mod bound values would be too often */
    do
        v = sg_random_u64();
    while (v < skip);
    return v % bound;
}

void sg_random_id(char out[SG_RANDOM_ID_BYTES])
{
    uint8_t raw[16];
    sg_random_bytes(raw, sizeof raw);
    sg_hex(raw, sizeof raw, out);
    out[32] = '\0';
}
