/* load.c - maps by the table of keys, and the single values in them. */
#include "config/load.h"

#include <errno.h>
#include <unistd.h>

void sg_load_error(sg_load_t *ld, const sg_place_t *at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sg_diag_addv(ld->diags, SG_DIAG_ERROR, at, fmt, args);
    va_end(args);
}

void sg_load_warn(sg_load_t *ld, const sg_place_t *at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sg_diag_addv(ld->diags, SG_DIAG_WARNING, at, fmt, args);
    va_end(args);
}

void sg_load_inactive(sg_load_t *ld, const sg_place_t *at, const char *path, const char *advice)
{
    sg_diag_add(ld->diags, SG_DIAG_INACTIVE, at, "%s: not yet active%s%s", path, *advice ? ": " : "", advice);
}

const char *sg_load_quote(sg_load_t *ld, sg_str_t s)
{
    return sg_diag_quote(ld->scratch, s);
}

const char *sg_load_near(sg_load_t *ld, const sg_nameset_t *names, sg_str_t text)
{
    sg_str_t near = sg_nameset_near(names, text);
    if (!near.n)
        return "";
    return sg_arena_printf(ld->scratch, "; did you mean %s?", sg_load_quote(ld, near)).p;
}

void sg_load_bad_value(sg_load_t *ld, const sg_node_t *n, const char *expected)
{
    if (n->kind == SG_NODE_BAD)
        return;
    if (n->kind == SG_NODE_SCALAR && !sg_node_is_null(n))
        sg_load_error(ld, &n->place, "bad value %s, expected %s", sg_load_quote(ld, n->text), expected);
    else
        sg_load_error(ld, &n->place, "%s, expected %s", sg_node_kind_text(n), expected);
}

bool sg_load_is(sg_load_t *ld, const sg_node_t *n, sg_node_kind_t kind, const char *expected)
{
    if (n->kind == kind)
        return true;
    sg_load_bad_value(ld, n, expected);
    return false;
}

static void remember_written(sg_load_t *ld, sg_str_t text, sg_str_t written, bool vars)
{
    sg_written_t *w = SG_ARENA_NEW(ld->arena, sg_written_t);
    *w = (sg_written_t){ld->c->own->written, sg_arena_str(ld->arena, text), sg_arena_str(ld->arena, written),
                        vars};
    ld->c->own->written = w;
}

bool sg_load_text_how(sg_load_t *ld, const sg_node_t *n, const char *expected, sg_expand_t how, sg_str_t *out)
{
    sg_why_t why;
    if (n->kind != SG_NODE_SCALAR || sg_node_is_null(n)) {
        sg_load_bad_value(ld, n, expected);
        return false;
    }
    if (sg_value_expand(n->text, how, ld->scratch, out, &why)) {
        sg_load_error(ld, &n->place, "%s", why.text);
        return false;
    }
    if (!sg_str_eq(*out, n->text))
        remember_written(ld, *out, n->text, how == SG_EXPAND_KEEP_VARS);
    return true;
}

bool sg_load_is_quoted(const sg_node_t *n, sg_str_t text)
{
    return n->quoted && sg_str_eq(n->text, text);
}

bool sg_load_text(sg_load_t *ld, const sg_node_t *n, const char *expected, sg_str_t *out)
{
    return sg_load_text_how(ld, n, expected, SG_EXPAND_ALL, out);
}

void sg_load_node(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    (void)ld;
    *(const sg_node_t **)(void *)((char *)target + row->offset) = n;
}

static int word_index(const char *words, sg_str_t text)
{
    sg_str_t rest = sg_str(words), word;
    for (int i = 0; sg_str_next(&rest, ' ', &word); i++) {
        if (sg_str_eq(word, text))
            return i;
    }
    return -1;
}

/* Text of a number: quotes make it a string, which it must not be. Durations, sizes, rates and words may be
 * quoted. */
static sg_err_t parse_number(const sg_key_row_t *row, sg_str_t text, bool quoted, int64_t v[2])
{
    bool yes = false;
    sg_err_t err;
    v[1] = 0;
    switch (row->type) {
    case SG_TYPE_BOOL:
        err = quoted ? SG_ERR_SYNTAX : sg_value_bool(text, &yes);
        v[0] = yes;
        return err;
    case SG_TYPE_INT:
    case SG_TYPE_UINT:
    case SG_TYPE_COUNT: err = quoted ? SG_ERR_SYNTAX : sg_value_int(text, &v[0]); break;
    case SG_TYPE_DURATION: err = sg_value_duration(text, &v[0]); break;
    case SG_TYPE_SIZE: err = sg_value_size(text, &v[0]); break;
    case SG_TYPE_RATE: return sg_value_rate(text, &v[0], &v[1]);
    case SG_TYPE_WORD: v[0] = word_index(row->words, text); return v[0] < 0 ? SG_ERR_SYNTAX : SG_OK;
    case SG_TYPE_STRING:
    case SG_TYPE_FILE:
    case SG_TYPE_SECRET:
    case SG_TYPE_MAP:
    case SG_TYPE_OWN:
    default: return SG_ERR_SYNTAX;
    }
    return err ? err : v[0] < row->min || v[0] > row->max ? SG_ERR_RANGE : SG_OK;
}

static void store_number(const sg_key_row_t *row, void *field, const int64_t v[2])
{
    switch (row->type) {
    case SG_TYPE_BOOL: *(bool *)field = v[0] != 0; break;
    case SG_TYPE_INT:
    case SG_TYPE_DURATION:
    case SG_TYPE_SIZE: *(int64_t *)field = v[0]; break;
    case SG_TYPE_RATE: memcpy(field, v, 2 * sizeof v[0]); break;
    case SG_TYPE_UINT: *(unsigned *)field = (unsigned)v[0]; break;
    case SG_TYPE_COUNT: *(size_t *)field = (size_t)v[0]; break;
    case SG_TYPE_WORD: *(int *)field = (int)v[0]; break;
    case SG_TYPE_STRING:
    case SG_TYPE_FILE:
    case SG_TYPE_SECRET:
    case SG_TYPE_MAP:
    case SG_TYPE_OWN:
    default: break;
    }
}

static void load_number(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *field)
{
    const char *expected = NULL;
    int64_t v[2];
    sg_str_t text;
    if (n->kind == SG_NODE_SCALAR && !sg_node_is_null(n)) {
        if (!sg_load_text(ld, n, "", &text))
            return;
        if (!parse_number(row, text, sg_load_is_quoted(n, text), v)) {
            store_number(row, field, v);
            return;
        }
    }
    expected = sg_row_expected(row, ld->scratch);
    if (n->quoted && n->kind == SG_NODE_SCALAR && !parse_number(row, n->text, false, v))
        expected = sg_arena_printf(ld->scratch, "%s, without quotes", expected).p;
    sg_load_bad_value(ld, n, expected);
}

static void load_string(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, char **field)
{
    sg_str_t text;
    if (!sg_load_text(ld, n, sg_row_type_text(row), &text))
        return;
    if (text.n == 0 || memchr(text.p, 0, text.n)) {
        sg_load_error(ld, &n->place, "an empty %s, expected %s", row->name,
                      sg_row_expected(row, ld->scratch));
        return;
    }
    *field = sg_arena_strndup(ld->arena, text);
}

char *sg_load_path(sg_load_t *ld, sg_str_t path)
{
    if (path.n && path.p[0] == '/')
        return sg_arena_strndup(ld->arena, path);
    char *full =
        sg_arena_strndup(ld->arena, sg_arena_printf(ld->scratch, "%s/%.*s", ld->dir, SG_STR_ARG(path)));
    const sg_written_t *w = sg_config_written(ld->c->own, path, false);
    if (w)
        remember_written(ld, sg_str(full),
                         sg_arena_printf(ld->scratch, "%s/%.*s", ld->dir, SG_STR_ARG(w->written)), false);
    return full;
}

static void load_readable(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, char **field)
{
    char *name = NULL;
    load_string(ld, row, n, &name);
    if (!name)
        return;
    *field = sg_load_path(ld, sg_str(name));
    if (access(*field, R_OK) != 0)
        sg_load_error(ld, &n->place, "%s: %s, expected a file that can be read", *field,
                      sg_errno_text(errno));
}

#define SECRET_BYTES_MAX 65536

/* One newline at the end belongs to the editor, not to the secret. */
static void load_secret(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, sg_secret_t *field)
{
    char *name = NULL;
    sg_str_t text;
    sg_why_t why;
    load_string(ld, row, n, &name);
    if (!name)
        return;
    field->path = sg_load_path(ld, sg_str(name));
    if (sg_load_file(ld->arena, field->path, SECRET_BYTES_MAX, &text, &why)) {
        sg_load_error(ld, &n->place, "%s, expected a file with the secret", why.text);
        return;
    }
    if (text.n && text.p[text.n - 1] == '\n')
        text.n--;
    if (text.n && text.p[text.n - 1] == '\r')
        text.n--;
    if (text.n == 0)
        sg_load_error(ld, &n->place, "%s is empty, expected a file with the secret", field->path);
    field->text = text;
}

void sg_load_row(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    void *field = target ? (char *)target + row->offset : NULL; /* shapes that keep nothing have no target */
    switch (row->type) {
    case SG_TYPE_STRING: load_string(ld, row, n, field); break;
    case SG_TYPE_FILE: load_readable(ld, row, n, field); break;
    case SG_TYPE_SECRET: load_secret(ld, row, n, field); break;
    case SG_TYPE_MAP: sg_load_map(ld, n, row->shape, target, true); break;
    case SG_TYPE_OWN:
        if (row->load)
            row->load(ld, row, n, target);
        break;
    case SG_TYPE_BOOL:
    case SG_TYPE_INT:
    case SG_TYPE_UINT:
    case SG_TYPE_COUNT:
    case SG_TYPE_DURATION:
    case SG_TYPE_SIZE:
    case SG_TYPE_RATE:
    case SG_TYPE_WORD:
    default: load_number(ld, row, n, field); break;
    }
}

/* The default goes through the same loader as a value of the file. */
static void load_default(sg_load_t *ld, const sg_key_row_t *row, void *target)
{
    static const sg_node_t empty = {.kind = SG_NODE_MAP, .place = {"(default)", 0, 0}};
    if (row->type == SG_TYPE_MAP && !row->optional_map) {
        sg_load_map(ld, &empty, row->shape, target, true);
    } else if (row->fallback) {
        sg_node_t *n = sg_tree_parse(ld->scratch, "(default)", sg_str(row->fallback), ld->diags);
        if (n)
            sg_load_row(ld, row, n, target);
    }
}

static void report_unknown(sg_load_t *ld, const sg_shape_t *shape, const sg_node_t *n)
{
    sg_nameset_t names = {0};
    sg_buf_t all;
    const char *near;
    if (sg_diags_full(ld->diags)) {
        sg_load_error(ld, &n->key_place, "unknown key");
        return;
    }
    for (size_t i = 0; i < shape->count; i++)
        sg_nameset_add(&names, ld->scratch, sg_str(shape->rows[i].name), (unsigned)i, &n->place);
    near = sg_load_near(ld, &names, n->key);
    sg_buf_init(&all, 1024);
    for (size_t i = 0; i < shape->count; i++)
        sg_buf_printf(&all, "%s%s", i ? ", " : "", shape->rows[i].name);
    sg_load_error(ld, &n->key_place, "unknown key %s in %s, expected one of: %.*s%s",
                  sg_load_quote(ld, n->key), shape->what, SG_STR_ARG(sg_buf_str(&all)), near);
    sg_buf_deinit(&all);
    sg_nameset_deinit(&names);
}

bool sg_load_map(sg_load_t *ld, const sg_node_t *n, const sg_shape_t *shape, void *target, bool defaults)
{
    uint64_t seen = 0;
    if (n->kind != SG_NODE_MAP) {
        sg_load_bad_value(ld, n, sg_arena_printf(ld->scratch, "a map: %s", shape->what).p);
        return false;
    }
    SG_NODE_EACH(child, n)
    {
        const sg_key_row_t *row = sg_shape_row(shape, child->key);
        if (!row) {
            report_unknown(ld, shape, child);
            continue;
        }
        seen |= UINT64_C(1) << (row - shape->rows);
        sg_load_row(ld, row, child, target);
    }
    for (size_t i = 0; i < shape->count && defaults; i++) {
        const sg_key_row_t *row = &shape->rows[i];
        if (seen & (UINT64_C(1) << i))
            continue;
        if (row->required)
            sg_load_error(ld, &n->place, "%s is missing in %s, expected %s", row->name, shape->what,
                          sg_row_expected(row, ld->scratch));
        else
            load_default(ld, row, target);
    }
    return true;
}
