#include "base/mem.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/magic.h"

static _Noreturn void out_of_memory(void)
{
    static const char text[] = "slotgate: out of memory\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        abort();
    abort();
}

static void *checked(void *p)
{
    if (!p)
        out_of_memory();
    return p;
}

void *sg_malloc(size_t n)
{
    return checked(malloc(n ? n : 1));
}

void *sg_calloc(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1));
}

void *sg_realloc(void *p, size_t n)
{
    return checked(realloc(p, n ? n : 1));
}

char *sg_strdup(const char *z)
{
    return checked(strdup(z));
}

char *sg_strndup(sg_str_t s)
{
    char *z = sg_malloc(s.n + 1);
    if (s.n)
        memcpy(z, s.p, s.n);
    z[s.n] = '\0';
    return z;
}

char *sg_asprintf(const char *fmt, ...)
{
    char *z = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&z, fmt, ap);
    va_end(ap);
    if (n < 0)
        out_of_memory();
    return z;
}

void sg_free(void *p)
{
    free(p);
}

void sg_wipe(void *p, size_t n)
{
    explicit_bzero(p, n);
}

void sg_magic_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "slotgate: %s:%d: an object that is not a %s came back from a library\n", file, line,
            what);
    abort();
}

/* --- arena ------------------------------------------------------------------------------------- */

typedef struct block {
    struct block *next;
    size_t used, size;
    alignas(max_align_t) char data[];
} block_t;

struct sg_arena {
    block_t *first, *current;
};

/* A piece larger than this gets a block of its own size; smaller ones share blocks of this size. */
enum { BLOCK_BYTES = 16 * 1024 };

static block_t *block_new(size_t size)
{
    if (size > SIZE_MAX / 2)
        out_of_memory();
    block_t *b = sg_malloc(sizeof *b + size);
    b->next = NULL;
    b->used = 0;
    b->size = size;
    return b;
}

static void blocks_free(block_t *b)
{
    while (b) {
        block_t *next = b->next;
        sg_free(b);
        b = next;
    }
}

sg_arena_t *sg_arena_new(size_t first_block_bytes)
{
    sg_arena_t *a = SG_NEW(sg_arena_t);
    a->first = a->current = block_new(first_block_bytes);
    return a;
}

void sg_arena_free(sg_arena_t *a)
{
    if (!a)
        return;
    blocks_free(a->first);
    sg_free(a);
}

void sg_arena_reset(sg_arena_t *a)
{
    blocks_free(a->first->next);
    a->first->next = NULL;
    a->first->used = 0;
    a->current = a->first;
}

void *sg_arena_alloc(sg_arena_t *a, size_t n)
{
    const size_t align = alignof(max_align_t);
    block_t *b = a->current;
    size_t at = (b->used + align - 1) & ~(align - 1);
    if (at > b->size || n > b->size - at) {
        block_t *fresh = block_new(n > BLOCK_BYTES ? n : BLOCK_BYTES);
        b->next = fresh;
        a->current = b = fresh;
        at = 0;
    }
    b->used = at + n;
    return b->data + at;
}

void *sg_arena_calloc(sg_arena_t *a, size_t n)
{
    return memset(sg_arena_alloc(a, n), 0, n);
}

char *sg_arena_strndup(sg_arena_t *a, sg_str_t s)
{
    char *z = sg_arena_alloc(a, s.n + 1);
    if (s.n)
        memcpy(z, s.p, s.n);
    z[s.n] = '\0';
    return z;
}

sg_str_t sg_arena_str(sg_arena_t *a, sg_str_t s)
{
    return (sg_str_t){sg_arena_strndup(a, s), s.n};
}

/* Into what the current block still has; only a text that does not fit is made twice. */
sg_str_t sg_arena_printf(sg_arena_t *a, const char *fmt, ...)
{
    block_t *b = a->current;
    size_t room = b->size - b->used;
    char *z = b->data + b->used;
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(z, room, fmt, ap);
    va_end(ap);
    if (n < 0)
        out_of_memory();
    if ((size_t)n < room) {
        b->used += (size_t)n + 1;
    } else {
        z = sg_arena_alloc(a, (size_t)n + 1);
        (void)vsnprintf(z, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    return (sg_str_t){z, (size_t)n};
}

sg_str_t sg_arena_join(sg_arena_t *a, sg_str_t first, sg_str_t between, sg_str_t last)
{
    size_t n = first.n + between.n + last.n;
    char *z = sg_arena_alloc(a, n + 1), *to = z;
    const sg_str_t parts[] = {first, between, last};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].n)
            memcpy(to, parts[i].p, parts[i].n);
        to += parts[i].n;
    }
    *to = '\0';
    return (sg_str_t){z, n};
}
