/* num.h - whole numbers. Pure. */
#ifndef SG_BASE_NUM_H
#define SG_BASE_NUM_H

#include <stdint.h>

static inline int64_t sg_i64_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a - b, but never below 0. */
static inline int64_t sg_i64_less(int64_t a, int64_t b)
{
    return a > b ? a - b : 0;
}

#endif
