/* load_tenants.c - the sections tenants and tenants_files. A hundred thousand tenants are normal: nothing
 * here walks all of them for one of them, and tenants without overrides share the limits of their plan. */
#include <errno.h>
#include <glob.h>

#include "config/load.h"

#define TENANT_NAME_MAX 64

/* Names go to metrics, logs and header values: no control bytes, neither C0 nor C1 (U+0080 to U+009F), no
 * spaces at the ends. */
static bool check_tenant_name(sg_load_t *ld, const sg_node_t *n)
{
    sg_str_t s = n->key;
    bool good = s.n <= TENANT_NAME_MAX && sg_str_trim(s).n == s.n;
    for (size_t i = 0; i < s.n && good; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool c1 = c == 0xC2 && i + 1 < s.n && (unsigned char)s.p[i + 1] < 0xA0;
        good = c >= 0x20 && c != 0x7f && !c1;
    }
    if (!good) {
        sg_load_error(ld, &n->key_place, "bad tenant name %s, expected 1 to %d printable bytes",
                      sg_load_quote(ld, s), TENANT_NAME_MAX);
        return false;
    }
    if (s.p[0] == '_') {
        sg_load_error(
            ld, &n->key_place,
            "bad tenant name %s, expected one that does not begin with _ (these are the gateway's own)",
            sg_load_quote(ld, s));
        return false;
    }
    return true;
}

/* What stands in place of a digest may be a clear key: it is never shown. */
static bool load_digest(sg_load_t *ld, const sg_node_t *n, sg_api_key_t *key)
{
    char text[4 + SG_SHA256_HEX] = "key:";
    sg_str_t hex;
    if (n->kind != SG_NODE_SCALAR || sg_node_is_null(n)) {
        sg_load_bad_value(ld, n, "64 hexadecimal digits");
        return false;
    }
    if (!sg_load_text(ld, n, "64 hexadecimal digits", &hex))
        return false;
    if (sg_unhex(hex, key->digest, SG_SHA256_BYTES)) {
        sg_load_error(ld, &n->place,
                      "no SHA-256 (not shown), expected 64 hexadecimal digits; slotgate key hash makes them "
                      "from a key");
        return false;
    }
    sg_hex(key->digest, SG_SHA256_BYTES, text + 4);
    sg_tag(ld->c->identity.secret, sg_str_n(text, sizeof text), &key->hash);
    return true;
}

static bool load_key(sg_load_t *ld, const sg_node_t *n, sg_api_key_t *key)
{
    const char *expected = "a time like 2027-01-01T00:00:00Z";
    sg_key_raw_t raw = {0};
    sg_str_t text;
    bool good;
    if (!sg_load_map(ld, n, &sg_shape_key, &raw, true) || !raw.id || !raw.digest)
        return false;
    good = sg_load_check_name(ld, &sg_node_get(n, "id")->place, sg_str(raw.id), &sg_rule_name);
    good = load_digest(ld, raw.digest, key) && good;
    key->id = raw.id;
    key->disabled = raw.disabled;
    if (raw.expires && sg_load_text(ld, raw.expires, expected, &text) &&
        sg_value_time(text, &key->expires_us)) {
        sg_load_bad_value(ld, raw.expires, expected);
        good = false;
    }
    return good;
}

static void load_keys(sg_load_t *ld, const sg_node_t *n, sg_tenant_t *t, sg_place_t **places)
{
    sg_nameset_t ids = {0};
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of keys: {id: NAME, sha256: DIGEST}") || n->count == 0)
        return;
    if (t->anonymous) {
        sg_load_error(ld, &n->key_place,
                      "keys of anonymous, expected none: it stands for callers without a key");
        return;
    }
    t->keys = sg_arena_calloc(ld->arena, n->count * sizeof *t->keys);
    *places = sg_arena_calloc(ld->keep, n->count * sizeof **places);
    SG_NODE_EACH(item, n)
    {
        sg_api_key_t *key = &t->keys[t->key_count];
        if (!load_key(ld, item, key))
            continue;
        key->tenant = t;
        (*places)[t->key_count++] = sg_node_get(item, "sha256")->place;
        if (sg_nameset_add(&ids, ld->scratch, sg_str(key->id), 0, &item->place))
            sg_load_error(ld, &sg_node_get(item, "id")->place,
                          "key id \"%s\" twice in one tenant, expected it once", key->id);
    }
    ld->key_total += t->key_count;
    sg_nameset_deinit(&ids);
}

static const sg_limit_t *const *base_limits(sg_load_t *ld)
{
    return (const sg_limit_t *const *)ld->c->limits;
}

/* Gives the plan's limits, and its name to the tenant. */
static const sg_limit_t *const *load_plan(sg_load_t *ld, const sg_node_t *n, sg_tenant_t *t)
{
    const sg_name_t *name;
    sg_str_t text;
    if (!n || !sg_load_text(ld, n, "the name of a plan", &text))
        return base_limits(ld);
    name = sg_nameset_find(&ld->plans, text);
    if (!name) {
        sg_load_error(ld, &n->place, "unknown plan %s, expected one of plans%s", sg_load_quote(ld, n->text),
                      sg_load_near(ld, &ld->plans, text));
        return base_limits(ld);
    }
    t->plan = ld->c->own->plans[name->index].name;
    return ld->c->own->plans[name->index].limits;
}

/* Arrays by tenant grow together. */
static void grow(sg_load_t *ld)
{
    if (ld->c->tenant_count < ld->tenant_size)
        return;
    ld->tenant_size = ld->tenant_size ? ld->tenant_size * 2 : 64;
    ld->tenants = sg_realloc(ld->tenants, ld->tenant_size * sizeof *ld->tenants);
    ld->key_places = sg_realloc(ld->key_places, ld->tenant_size * sizeof *ld->key_places);
}

static sg_tenant_t *add_tenant(sg_load_t *ld, sg_str_t name, const sg_place_t *at)
{
    unsigned index = (unsigned)ld->c->tenant_count;
    sg_tenant_t *t = SG_ARENA_NEW(ld->arena, sg_tenant_t);
    sg_str_t copy = sg_arena_str(ld->arena, name);
    const sg_name_t *other = sg_nameset_add(&ld->c->own->tenants, ld->arena, copy, index, at);
    sg_str_t tagged = sg_arena_printf(ld->scratch, "tenant:%.*s", SG_STR_ARG(name));
    if (other) {
        sg_load_error(ld, at, "tenant %s twice, expected it once; it is in %s on line %u too",
                      sg_load_quote(ld, name), other->place.file, other->place.line);
        return NULL;
    }
    t->name = copy.p;
    t->anonymous = sg_str_eq(name, SG_STR("anonymous"));
    t->limits = base_limits(ld);
    sg_tag(ld->c->identity.secret, tagged, &t->tag);
    if (t->anonymous)
        ld->c->identity.anonymous = t;
    grow(ld);
    ld->key_places[index] = NULL;
    ld->tenants[ld->c->tenant_count++] = t;
    return t;
}

static void load_tenant(sg_load_t *ld, const sg_node_t *n)
{
    sg_tenant_raw_t raw = {0};
    sg_tenant_t *t;
    unsigned index = (unsigned)ld->c->tenant_count;
    if (!check_tenant_name(ld, n) || !(t = add_tenant(ld, n->key, &n->key_place)))
        return;
    if (!sg_load_map(ld, n, &sg_shape_tenant, &raw, false))
        return;
    t->limits = sg_load_overrides(ld, raw.limits, load_plan(ld, raw.plan, t));
    if (raw.keys)
        load_keys(ld, raw.keys, t, &ld->key_places[index]);
}

void sg_load_tenants(sg_load_t *ld, const sg_node_t *n)
{
    if (!n || !sg_load_is(ld, n, SG_NODE_MAP, "a map of tenant names to tenants"))
        return;
    SG_NODE_EACH(item, n)
    load_tenant(ld, item);
}

/* The tree of a file goes before the next one is read. */
static void load_tenants_file(sg_load_t *ld, const char *path, const sg_place_t *at)
{
    sg_node_t *root;
    for (size_t i = 0; i < ld->file_count; i++) {
        if (strcmp(ld->files[i], path) == 0)
            return;
    }
    ld->scratch = sg_arena_new(65536);
    root = sg_load_tree(ld, path, at);
    if (root)
        sg_load_tenants(ld, root);
    sg_arena_free(ld->scratch);
    ld->scratch = ld->keep;
}

/* A folder that is not there matches nothing; one that cannot be read is an error. */
static int on_glob_error(const char *path, int errnum)
{
    (void)path;
    return errnum != ENOENT && errnum != ENOTDIR;
}

static void remember_pattern(sg_config_t *c, const char *pattern)
{
    struct sg_config_own *own = c->own;
    const char **more = sg_arena_alloc(c->arena, (own->pattern_count + 1) * sizeof *more);
    if (own->pattern_count)
        memcpy(more, own->patterns, own->pattern_count * sizeof *more);
    more[own->pattern_count++] = pattern;
    own->patterns = more;
}

static void load_pattern(sg_load_t *ld, const sg_node_t *n)
{
    glob_t g = {0};
    sg_str_t text;
    const char *pattern;
    int rc;
    if (!sg_load_text(ld, n, "a path", &text))
        return;
    if (text.n == 0) {
        sg_load_bad_value(ld, n, "a path, with * and ?");
        return;
    }
    pattern = sg_load_path(ld, text);
    remember_pattern(ld->c, pattern);
    rc = glob(pattern, 0, on_glob_error, &g);
    if (rc == GLOB_NOMATCH)
        sg_load_warn(ld, &n->place, "no file matches %s, expected at least one", sg_load_quote(ld, n->text));
    else if (rc != 0)
        sg_load_error(ld, &n->place, "%s: cannot be read, expected a folder that can",
                      sg_load_quote(ld, n->text));
    for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
        load_tenants_file(ld, g.gl_pathv[i], &n->place);
    globfree(&g);
}

void sg_load_tenants_files(sg_load_t *ld, const sg_node_t *n)
{
    if (!n || !sg_load_is(ld, n, SG_NODE_LIST, "a list of paths"))
        return;
    SG_NODE_EACH(item, n)
    load_pattern(ld, item);
}

static void add_keys(sg_load_t *ld, const sg_tenant_t *t, const sg_place_t *places)
{
    const sg_api_key_t *other;
    for (size_t i = 0; i < t->key_count; i++) {
        if (sg_key_table_add(ld->c->own->keys, &t->keys[i], &other) != SG_ERR_EXISTS)
            continue;
        const sg_name_t *owner = sg_nameset_find(&ld->c->own->tenants, sg_str(other->tenant->name));
        const sg_place_t *first = &ld->key_places[owner->index][other - other->tenant->keys];
        sg_load_error(
            ld, &places[i],
            "the same key digest as key \"%s\" of tenant %s in %s on line %u, expected each key once",
            other->id, sg_load_quote(ld, sg_str(other->tenant->name)), first->file, first->line);
    }
}

void sg_load_tenants_end(sg_load_t *ld)
{
    sg_config_t *c = ld->c;
    sg_place_t whole = {c->source, 0, 0};
    if (!c->identity.anonymous)
        add_tenant(ld, SG_STR("anonymous"), &whole);
    c->own->keys = sg_key_table_new(ld->key_total);
    for (size_t i = 0; i < c->tenant_count; i++)
        add_keys(ld, ld->tenants[i], ld->key_places[i]);
    c->identity.keys = c->own->keys;
    c->tenants = sg_arena_alloc(ld->arena, c->tenant_count * sizeof *c->tenants);
    memcpy(c->tenants, ld->tenants, c->tenant_count * sizeof *c->tenants);
}
