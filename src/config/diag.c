/* diag.c - the findings of a load. */
#include <stdlib.h>

#include "base/buf.h"
#include "config/tree.h"

/* A hostile file must not turn into a report without end. */
#define DIAGS_MAX 5000

static char *format_text(const char *fmt, va_list args) SG_PRINTF(1, 0);
static char *format_text(const char *fmt, va_list args)
{
    char text[1024];
    int n = vsnprintf(text, sizeof text, fmt, args);
    for (char *c = text; n >= 0 && *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?'; /* a finding is one line */
    }
    return sg_strdup(n < 0 ? "(a message that cannot be written)" : text);
}

static void push(sg_diags_t *d, sg_diag_t item)
{
    if (d->count == d->size) {
        d->size = d->size ? d->size * 2 : 16;
        d->at = sg_realloc(d->at, d->size * sizeof *d->at);
    }
    d->at[d->count++] = item;
}

void sg_diag_addv(sg_diags_t *d, sg_diag_level_t level, const sg_place_t *at, const char *fmt, va_list args)
{
    if (level == SG_DIAG_ERROR)
        d->errors++;
    if (d->count > DIAGS_MAX)
        return;
    if (d->count == DIAGS_MAX) {
        push(d, (sg_diag_t){level, sg_strdup(at->file), at->line, at->column,
                            sg_strdup("too many findings; the rest is not shown")});
        return;
    }
    push(d, (sg_diag_t){level, sg_strdup(at->file), at->line, at->column, format_text(fmt, args)});
}

void sg_diag_add(sg_diags_t *d, sg_diag_level_t level, const sg_place_t *at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sg_diag_addv(d, level, at, fmt, args);
    va_end(args);
}

void sg_diags_add_error(sg_diags_t *d, const char *file, const char *text)
{
    sg_diag_add(d, SG_DIAG_ERROR, &(sg_place_t){.file = file}, "%s", text);
}

bool sg_diags_full(const sg_diags_t *d)
{
    return d->count > DIAGS_MAX;
}

static size_t file_rank(const char *file, const char *const *files, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(file, files[i]) != 0)
        i++;
    return i;
}

typedef struct {
    sg_diag_t diag;
    size_t rank, order; /* equal places keep the order in which they were found */
} sortable_t;

static int compare(const void *x, const void *y)
{
    const sortable_t *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->diag.line != b->diag.line)
        return a->diag.line < b->diag.line ? -1 : 1;
    if (a->diag.column != b->diag.column)
        return a->diag.column < b->diag.column ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

void sg_diags_sort(sg_diags_t *d, const char *const *files, size_t file_count)
{
    sortable_t *s;
    if (d->count < 2)
        return;
    s = sg_calloc(d->count, sizeof *s);
    for (size_t i = 0; i < d->count; i++)
        s[i] = (sortable_t){d->at[i], file_rank(d->at[i].file, files, file_count), i};
    qsort(s, d->count, sizeof *s, compare);
    for (size_t i = 0; i < d->count; i++)
        d->at[i] = s[i].diag;
    sg_free(s);
}

void sg_diags_deinit(sg_diags_t *d)
{
    for (size_t i = 0; i < d->count; i++) {
        sg_free(d->at[i].file);
        sg_free(d->at[i].text);
    }
    sg_free(d->at);
    *d = (sg_diags_t){0};
}

char *sg_diag_line(const sg_diag_t *d)
{
    if (!d->line)
        return sg_asprintf("%s: %s", d->file, d->text);
    return sg_asprintf("%s:%u:%u: %s", d->file, d->line, d->column, d->text);
}

void sg_diags_print(const sg_diags_t *d, FILE *out)
{
    for (size_t i = 0; i < d->count; i++) {
        const sg_diag_t *g = &d->at[i];
        const char *level = g->level == SG_DIAG_ERROR ? "error" : "warning";
        if (g->line)
            fprintf(out, "%s:%u:%u: %s: %s\n", g->file, g->line, g->column, level, g->text);
        else
            fprintf(out, "%s: %s: %s\n", g->file, level, g->text);
    }
}

const char *sg_diag_quote(sg_arena_t *arena, sg_str_t s)
{
    const size_t most = 64;
    size_t n = s.n > most ? most : s.n;
    char *out = sg_arena_alloc(arena, n + 6), *w = out;
    while (n < s.n && n && ((unsigned char)s.p[n] & 0xC0) == 0x80)
        n--; /* not through a UTF-8 character */
    *w++ = '"';
    for (size_t i = 0; i < n; i++)
        *w++ = (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? '?' : s.p[i];
    *w++ = '"';
    if (n < s.n) {
        memcpy(w, "...", 3);
        w += 3;
    }
    *w = '\0';
    return out;
}
