/* mem.h - memory that cannot fail, and arenas.
 *
 * When memory is out the process aborts: everything that a client can grow has
 * a cap first. Bare malloc, calloc, realloc, free and strdup appear in mem.c only. */
#ifndef SG_BASE_MEM_H
#define SG_BASE_MEM_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

void *sg_malloc(size_t n);
void *sg_calloc(size_t count, size_t size); /* zeroed; aborts on overflow of the product */
void *sg_realloc(void *p, size_t n);
char *sg_strdup(const char *z);
char *sg_strndup(sg_str_t s);               /* NUL-terminated copy */
char *sg_asprintf(const char *fmt, ...) SG_PRINTF(1, 2);
void sg_free(void *p);                      /* NULL is fine */
/* For secrets: wiped in a way that the compiler keeps. */
void sg_wipe(void *p, size_t n);

#define SG_NEW(type) ((type *)sg_calloc(1, sizeof(type)))

/* Is this a build that watches every piece of memory? Then none is kept for reuse. */
#if defined(__SANITIZE_ADDRESS__)
#define SG_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SG_SANITIZED 1
#endif
#endif
#ifndef SG_SANITIZED
#define SG_SANITIZED 0
#endif

/* An arena: many small pieces, freed at once. One thread. Pieces are aligned for any type. */
typedef struct sg_arena sg_arena_t;

sg_arena_t *sg_arena_new(size_t first_block_bytes);
void sg_arena_free(sg_arena_t *a);          /* and every piece of it; NULL is fine */
void sg_arena_reset(sg_arena_t *a);         /* drop all pieces, keep the first block */
void *sg_arena_alloc(sg_arena_t *a, size_t n);   /* not zeroed */
void *sg_arena_calloc(sg_arena_t *a, size_t n);
char *sg_arena_strndup(sg_arena_t *a, sg_str_t s);       /* NUL-terminated */
sg_str_t sg_arena_str(sg_arena_t *a, sg_str_t s);        /* copy as a view (also NUL-terminated) */
sg_str_t sg_arena_printf(sg_arena_t *a, const char *fmt, ...) SG_PRINTF(2, 3);
sg_str_t sg_arena_join(sg_arena_t *a, sg_str_t first, sg_str_t between, sg_str_t last);

#define SG_ARENA_NEW(arena, type) ((type *)sg_arena_calloc((arena), sizeof(type)))

#endif
