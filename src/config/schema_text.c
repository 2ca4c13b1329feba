/* schema_text.c - the table of keys in words. */
#include <inttypes.h>

#include "base/buf.h"
#include "config/schema.h"
#include "config/values.h"

#define PATH_BYTES 256

const sg_key_row_t *sg_shape_row(const sg_shape_t *shape, sg_str_t name)
{
    for (size_t i = 0; i < shape->count; i++) {
        if (sg_str_eq(name, sg_str(shape->rows[i].name)))
            return &shape->rows[i];
    }
    return NULL;
}

const char *sg_row_type_text(const sg_key_row_t *row)
{
    static const char *const texts[] = {
        [SG_TYPE_BOOL] = "true or false",
        [SG_TYPE_INT] = "integer",
        [SG_TYPE_UINT] = "integer",
        [SG_TYPE_COUNT] = "integer",
        [SG_TYPE_DURATION] = "duration",
        [SG_TYPE_SIZE] = "size",
        [SG_TYPE_RATE] = "rate",
        [SG_TYPE_WORD] = "word",
        [SG_TYPE_STRING] = "string",
        [SG_TYPE_FILE] = "path of a file",
        [SG_TYPE_SECRET] = "path of a file",
        [SG_TYPE_MAP] = "map",
        [SG_TYPE_OWN] = "value",
    };
    return row->what ? row->what : texts[row->type];
}

static void add_words(sg_buf_t *b, const char *words)
{
    sg_str_t rest = sg_str(words), word;
    const char *comma = "";
    while (sg_str_next(&rest, ' ', &word)) {
        sg_buf_printf(b, "%s%.*s", comma, SG_STR_ARG(word));
        comma = ", ";
    }
}

/* "1 to 5", "draft, legacy", or nothing. */
static void add_range(sg_buf_t *b, const sg_key_row_t *row)
{
    char lo[SG_VALUE_TEXT], hi[SG_VALUE_TEXT];
    if (row->range) {
        sg_buf_z(b, row->range);
    } else if (row->words) {
        add_words(b, row->words);
    } else if (row->type == SG_TYPE_INT || row->type == SG_TYPE_UINT || row->type == SG_TYPE_COUNT) {
        sg_buf_printf(b, "%" PRId64 " to %" PRId64, row->min, row->max);
    } else if (row->type == SG_TYPE_DURATION) {
        sg_value_duration_text(row->min, lo);
        sg_value_duration_text(row->max, hi);
        sg_buf_printf(b, "%s to %s", lo, hi);
    } else if (row->type == SG_TYPE_SIZE) {
        sg_value_size_text(row->min, lo);
        sg_value_size_text(row->max, hi);
        sg_buf_printf(b, "%s to %s", lo, hi);
    }
}

static void add_example(sg_buf_t *b, sg_type_t type)
{
    if (type == SG_TYPE_DURATION)
        sg_buf_z(b, "a duration like 250ms, 10s, 1m, 24h or 1d, ");
    else if (type == SG_TYPE_SIZE)
        sg_buf_z(b, "a size like 64KiB, 10MiB or 1000 (bytes), ");
    else if (type == SG_TYPE_RATE)
        sg_buf_z(b, "a rate like 10/s, 600/m, 0.5/s or 1/10m");
    else if (type == SG_TYPE_WORD)
        sg_buf_z(b, "one of ");
}

const char *sg_row_expected(const sg_key_row_t *row, sg_arena_t *arena)
{
    sg_buf_t b;
    const char *text;
    sg_buf_init(&b, 1024);
    if (row->type == SG_TYPE_DURATION || row->type == SG_TYPE_SIZE || row->type == SG_TYPE_RATE ||
        row->type == SG_TYPE_WORD)
        add_example(&b, row->type);
    else if (row->range)
        sg_buf_printf(&b, "%s: ", sg_row_type_text(row));
    else if (row->type == SG_TYPE_INT || row->type == SG_TYPE_UINT || row->type == SG_TYPE_COUNT)
        sg_buf_z(&b, "an integer from ");
    else
        sg_buf_z(&b, sg_row_type_text(row));
    add_range(&b, row);
    text = sg_arena_strndup(arena, sg_buf_str(&b));
    sg_buf_deinit(&b);
    return text;
}

static void walk(const sg_shape_t *shape, const char *prefix, sg_schema_visit_fn *visit, void *cls)
{
    for (size_t i = 0; i < shape->count; i++) {
        const sg_key_row_t *row = &shape->rows[i];
        char path[PATH_BYTES], below[PATH_BYTES];
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", row->name);
        visit(path, row, cls);
        if (!row->shape)
            continue;
        int n = snprintf(below, sizeof below, "%s%s", path, row->infix);
        if (n > 0 && (size_t)n < sizeof below)
            walk(row->shape, below, visit, cls);
    }
}

void sg_schema_walk(sg_schema_visit_fn *visit, void *cls)
{
    walk(&sg_shape_top, "", visit, cls);
}

typedef struct {
    const sg_key_row_t *row;
    char path[PATH_BYTES];
} path_search_t;

static void match_row(const char *path, const sg_key_row_t *row, void *cls)
{
    path_search_t *s = cls;
    if (row == s->row && !*s->path)
        snprintf(s->path, sizeof s->path, "%s", path);
}

const char *sg_schema_path(const sg_key_row_t *row, sg_arena_t *arena)
{
    path_search_t s = {.row = row};
    sg_schema_walk(match_row, &s);
    return sg_arena_strndup(arena, sg_str(s.path));
}

static void print_row(const char *path, const sg_key_row_t *row, void *cls)
{
    FILE *out = cls;
    sg_buf_t b;
    sg_buf_init(&b, 1024);
    fprintf(out, "%s\n    type: %s\n", path, sg_row_type_text(row));
    if (row->required)
        fprintf(out, "    required\n");
    else if (row->fallback)
        fprintf(out, "    default: %s\n", row->fallback);
    add_range(&b, row);
    if (sg_buf_len(&b))
        fprintf(out, "    range: %.*s\n", SG_STR_ARG(sg_buf_str(&b)));
    fprintf(out, "    %s\n", row->help);
    sg_buf_deinit(&b);
}

void sg_config_schema_print(FILE *out)
{
    sg_schema_walk(print_row, out);
}
