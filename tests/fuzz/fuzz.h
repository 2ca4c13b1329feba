/* fuzz.h - what the fuzz targets share.
 *
 * A target is one function that takes any bytes and aborts when a promise of the code is broken; libFuzzer
 * calls it with inputs it makes up, standalone.c with those that are kept. */
#ifndef SG_FUZZ_H
#define SG_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(promise)                                                                             \
    do {                                                                                           \
        if (!(promise)) {                                                                          \
            (void)fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #promise);    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A copy of exactly that size on the heap, so that one byte too far is seen. Caller: sg_free. */
static inline char *fuzz_copy(const uint8_t *data, size_t size)
{
    char *copy = sg_malloc(size ? size : 1);
    if (size)
        memcpy(copy, data, size);
    return copy;
}

/* Does the view lie in the other one? Empty views may lie anywhere. */
static inline bool fuzz_within(sg_str_t part, sg_str_t whole)
{
    return part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

#endif
