/* chunks.h - an array that grows while another thread reads it.
 *
 * Elements never move: part k holds 32 << k of them and is made, zeroed, when the writer first touches one.
 * One writer. A reader sees a part wholly zeroed or not at all (release/acquire on its pointer). */
#ifndef SG_METRICS_CHUNKS_H
#define SG_METRICS_CHUNKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SG_CHUNKS_PARTS 28      /* enough for any 32-bit index */

/* Zeroed memory is an empty array. */
typedef struct {
    _Atomic(void *) part[SG_CHUNKS_PARTS];
} sg_chunks_t;

/* For the writer; never NULL. The same size in every call on one array. */
void *sg_chunks_at(sg_chunks_t *c, size_t element_bytes, unsigned index);
/* For readers: NULL when the writer has touched nothing near it, which means zero. */
void *sg_chunks_peek(sg_chunks_t *c, size_t element_bytes, unsigned index);
/* Frees the parts. When elements own memory, free that first: sg_chunks_each visits all that exist. */
void sg_chunks_deinit(sg_chunks_t *c);
void sg_chunks_each(sg_chunks_t *c, size_t element_bytes, void (*fn)(void *element));

#endif
