/* tree.c - YAML events to a tree. Events rather than libyaml's documents: aliases are refused before anything
 * is expanded, and depth is checked while reading, so that no file costs more than its own length. */
#include "config/tree.h"

#include <yaml.h>

#include "config/names.h"

#define WALK_MAX 16

typedef struct {
    yaml_parser_t parser;
    sg_arena_t *arena;
    const char *file;
    sg_str_t text;
    sg_diags_t *diags;
    bool failed; /* no use in reading on */
} reader_t;

static sg_node_t *read_node(reader_t *r, yaml_event_t *ev, unsigned depth);

static sg_place_t place_of(const reader_t *r, yaml_mark_t mark)
{
    return (sg_place_t){r->file, (unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

/* Errors of the byte reader carry an offset instead of a mark. */
static sg_place_t place_of_offset(const reader_t *r, size_t offset)
{
    sg_place_t at = {r->file, 1, 1};
    for (size_t i = 0; i < offset && i < r->text.n; i++) {
        at.column++;
        if (r->text.p[i] == '\n') {
            at.line++;
            at.column = 1;
        }
    }
    return at;
}

/* What a person may have meant by the byte that is no YAML. */
static const char *hint_at(const reader_t *r, size_t at)
{
    if (at >= r->text.n)
        return "";
    if (r->text.p[at] == '\t')
        return " (a tab; indent with spaces)";
    if (at > 0 && r->text.p[at] == '{' && r->text.p[at - 1] == '$')
        return " (between { } and [ ], write ${NAME} in quotes)";
    return "";
}

static void report_syntax(reader_t *r)
{
    yaml_parser_t *p = &r->parser;
    sg_place_t at;
    r->failed = true;
    if (p->error == YAML_READER_ERROR) {
        at = place_of_offset(r, p->problem_offset);
        sg_diag_add(r->diags, SG_DIAG_ERROR, &at, "%s, expected UTF-8 text",
                    p->problem ? p->problem : "bad bytes");
        return;
    }
    at = place_of(r, p->problem_mark);
    sg_diag_add(r->diags, SG_DIAG_ERROR, &at, "YAML syntax: %s%s%s%s, expected valid YAML",
                p->problem ? p->problem : "cannot be read", p->context ? " " : "",
                p->context ? p->context : "", hint_at(r, p->problem_mark.index));
}

/* The next event; false after an error, which is reported. */
static bool next_event(reader_t *r, yaml_event_t *ev)
{
    if (yaml_parser_parse(&r->parser, ev))
        return true;
    report_syntax(r);
    return false;
}

static sg_node_t *new_node(reader_t *r, sg_node_kind_t kind, yaml_mark_t mark)
{
    sg_node_t *n = SG_ARENA_NEW(r->arena, sg_node_t);
    n->kind = kind;
    n->place = place_of(r, mark);
    return n;
}

static void refuse(reader_t *r, sg_node_t *n, const char *what)
{
    sg_diag_add(r->diags, SG_DIAG_ERROR, &n->place, "%s", what);
    n->kind = SG_NODE_BAD;
}

static sg_node_t *read_scalar(reader_t *r, const yaml_event_t *ev)
{
    sg_node_t *n = new_node(r, SG_NODE_SCALAR, ev->start_mark);
    sg_str_t s = {(const char *)ev->data.scalar.value, ev->data.scalar.length};
    n->text = sg_arena_str(r->arena, s);
    n->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (memchr(n->text.p, 0, n->text.n))
        refuse(r, n, "a NUL in a text, expected text without NULs");
    return n;
}

static void append(sg_node_t *parent, sg_node_t **last, sg_node_t *child)
{
    if (*last)
        (*last)->next = child;
    else
        parent->first = child;
    *last = child;
    parent->count++;
}

static void read_list(reader_t *r, sg_node_t *list, unsigned depth)
{
    sg_node_t *last = NULL;
    yaml_event_t ev;
    while (!r->failed && next_event(r, &ev)) {
        bool end = ev.type == YAML_SEQUENCE_END_EVENT;
        sg_node_t *item = end ? NULL : read_node(r, &ev, depth);
        yaml_event_delete(&ev);
        if (end)
            return;
        if (item)
            append(list, &last, item);
    }
}

/* Is this node good as a key? */
static bool check_key(reader_t *r, const sg_node_t *key)
{
    if (key->kind == SG_NODE_BAD)
        return false;
    if (key->kind != SG_NODE_SCALAR) {
        sg_diag_add(r->diags, SG_DIAG_ERROR, &key->place, "%s as a key, expected a name",
                    sg_node_kind_text(key));
        return false;
    }
    if (key->text.n == 0) {
        sg_diag_add(r->diags, SG_DIAG_ERROR, &key->place, "an empty key, expected a name");
        return false;
    }
    if (!key->quoted && sg_str_eq(key->text, SG_STR("<<"))) {
        sg_diag_add(r->diags, SG_DIAG_ERROR, &key->place, "a merge key (<<), expected every key written out");
        return false;
    }
    return true;
}

/* The place of an entry of this name, or NULL. Small maps, which most are, are walked; a large one gets a
 * table. */
static const sg_place_t *find_entry(reader_t *r, const sg_node_t *map, sg_str_t key, sg_nameset_t *seen)
{
    const sg_name_t *name;
    if (map->count < WALK_MAX) {
        SG_NODE_EACH(n, map)
        {
            if (sg_str_eq(n->key, key))
                return &n->key_place;
        }
        return NULL;
    }
    if (!seen->count) {
        SG_NODE_EACH(n, map)
        sg_nameset_add(seen, r->arena, n->key, 0, &n->key_place);
    }
    name = sg_nameset_find(seen, key);
    return name ? &name->place : NULL;
}

/* Takes the key's text over into its value's node. Entries with a bad key are dropped. */
static void add_entry(reader_t *r, sg_node_t *map, sg_node_t **last, const sg_node_t *key, sg_node_t *value,
                      sg_nameset_t *seen)
{
    const sg_place_t *other;
    if (!check_key(r, key))
        return;
    other = find_entry(r, map, key->text, seen);
    if (other) {
        sg_diag_add(r->diags, SG_DIAG_ERROR, &key->place,
                    "duplicate key %s, expected it once; it is on line %u too",
                    sg_diag_quote(r->arena, key->text), other->line);
        return;
    }
    if (seen->count)
        sg_nameset_add(seen, r->arena, key->text, 0, &key->place);
    value->key = key->text;
    value->key_place = key->place;
    append(map, last, value);
}

static void read_map(reader_t *r, sg_node_t *map, unsigned depth)
{
    sg_node_t *last = NULL, *key = NULL;
    sg_nameset_t seen = {0};
    yaml_event_t ev;
    while (!r->failed && next_event(r, &ev)) {
        bool end = ev.type == YAML_MAPPING_END_EVENT;
        sg_node_t *n = end ? NULL : read_node(r, &ev, depth);
        yaml_event_delete(&ev);
        if (end)
            break;
        if (!n)
            continue;
        if (key) {
            add_entry(r, map, &last, key, n, &seen);
            key = NULL;
        } else {
            key = n;
        }
    }
    sg_nameset_deinit(&seen);
}

/* Anchors and tags of a node. */
static void check_marks(reader_t *r, sg_node_t *n, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor)
        sg_diag_add(r->diags, SG_DIAG_ERROR, &n->place,
                    "an anchor (&%s), expected plain values without anchors",
                    sg_diag_quote(r->arena, sg_str((const char *)anchor)));
    if (tag)
        sg_diag_add(r->diags, SG_DIAG_ERROR, &n->place, "a tag (!), expected plain values without tags");
}

static sg_node_t *read_collection(reader_t *r, const yaml_event_t *ev, unsigned depth)
{
    bool is_map = ev->type == YAML_MAPPING_START_EVENT;
    sg_node_t *n = new_node(r, is_map ? SG_NODE_MAP : SG_NODE_LIST, ev->start_mark);
    if (depth >= SG_TREE_DEPTH_MAX) {
        sg_diag_add(r->diags, SG_DIAG_ERROR, &n->place, "nested too deep, expected at most %d levels",
                    SG_TREE_DEPTH_MAX);
        r->failed = true;
        return n;
    }
    if (is_map) {
        check_marks(r, n, ev->data.mapping_start.anchor, ev->data.mapping_start.tag);
        read_map(r, n, depth + 1);
    } else {
        check_marks(r, n, ev->data.sequence_start.anchor, ev->data.sequence_start.tag);
        read_list(r, n, depth + 1);
    }
    return n;
}

static sg_node_t *read_node(reader_t *r, yaml_event_t *ev, unsigned depth)
{
    sg_node_t *n;
    if (ev->type == YAML_SCALAR_EVENT) {
        n = read_scalar(r, ev);
        check_marks(r, n, ev->data.scalar.anchor, ev->data.scalar.tag);
        return n;
    }
    if (ev->type == YAML_ALIAS_EVENT) {
        n = new_node(r, SG_NODE_BAD, ev->start_mark);
        refuse(r, n, "an alias (*), expected every value written out");
        return n;
    }
    return read_collection(r, ev, depth);
}

/* Everything from the start of the stream to its end; NULL when there is no document. */
static sg_node_t *read_stream(reader_t *r)
{
    sg_node_t *root = NULL;
    yaml_event_t ev;
    unsigned documents = 0;
    bool end = false;
    while (!end && !r->failed && next_event(r, &ev)) {
        sg_place_t at = place_of(r, ev.start_mark);
        end = ev.type == YAML_STREAM_END_EVENT;
        if (ev.type == YAML_DOCUMENT_START_EVENT && ++documents > 1) {
            sg_diag_add(r->diags, SG_DIAG_ERROR, &at, "a second YAML document, expected one document");
            r->failed = true;
        } else if (ev.type == YAML_SCALAR_EVENT || ev.type == YAML_ALIAS_EVENT ||
                   ev.type == YAML_SEQUENCE_START_EVENT || ev.type == YAML_MAPPING_START_EVENT) {
            root = read_node(r, &ev, 0);
        }
        yaml_event_delete(&ev);
    }
    return root;
}

sg_node_t *sg_tree_parse(sg_arena_t *arena, const char *file, sg_str_t text, sg_diags_t *diags)
{
    reader_t r = {.arena = arena, .file = file, .diags = diags};
    sg_place_t whole = {file, 0, 0};
    sg_node_t *root;
    if (sg_str_starts(text, SG_STR("\xEF\xBB\xBF")))
        text = sg_str_n(text.p + 3, text.n - 3);
    r.text = text;
    if (!yaml_parser_initialize(&r.parser)) {
        sg_diag_add(diags, SG_DIAG_ERROR, &whole, "no memory for the YAML parser");
        return NULL;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.p, text.n);
    root = read_stream(&r);
    yaml_parser_delete(&r.parser);
    return r.failed ? NULL : root;
}

const sg_node_t *sg_node_get(const sg_node_t *map, const char *key)
{
    if (!map || map->kind != SG_NODE_MAP)
        return NULL;
    SG_NODE_EACH(n, map)
    {
        if (sg_str_eq(n->key, sg_str(key)))
            return n;
    }
    return NULL;
}

bool sg_node_is_null(const sg_node_t *n)
{
    return n->kind == SG_NODE_SCALAR && !n->quoted &&
           (n->text.n == 0 || sg_str_eq(n->text, SG_STR("~")) || sg_str_eq(n->text, SG_STR("null")) ||
            sg_str_eq(n->text, SG_STR("Null")) || sg_str_eq(n->text, SG_STR("NULL")));
}

const char *sg_node_kind_text(const sg_node_t *n)
{
    switch (n->kind) {
    case SG_NODE_LIST: return "a list";
    case SG_NODE_MAP: return "a map";
    case SG_NODE_BAD: return "a bad value";
    case SG_NODE_SCALAR: break;
    }
    return sg_node_is_null(n) ? "nothing" : "a single value";
}
