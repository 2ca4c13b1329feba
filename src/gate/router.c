/* router.c - the match tree.
 *
 * * One tree of path segments per host, and one for any host. A node's children are its literals (a hash
 * table) and at most one parameter; names of parameters belong to the routes, so routes that name one
 * place differently share a node. */
#include "gate/router.h"

#include "base/hash.h"
#include "gate/pattern.h"
#include "gate/route_check.h"

typedef struct node node_t;

typedef struct {
    uint64_t hash;
    sg_str_t text;
    node_t *node;               /* NULL: free slot */
} slot_t;

/* Open addressing, at most half full. */
typedef struct {
    slot_t *slots;
    size_t size, count;         /* size is 0 or a power of two */
} table_t;

typedef struct {
    sg_str_t name;
    size_t at;                  /* segment */
} place_t;

/* A route as it stands in the tree. */
typedef struct {
    const sg_route_t *route;
    place_t *params;
    size_t param_count;
    size_t rest;                /* segments before slash-star; SIZE_MAX without one */
} entry_t;

/* The routes of one pattern. */
typedef struct {
    const entry_t *by_method[SG_METHOD_COUNT];
    const entry_t *all;         /* without `methods` */
    unsigned allow;
} leaf_t;

struct node {
    table_t literals;
    node_t *param;
    leaf_t *end;                /* "/login" */
    leaf_t *slash;              /* "/login/" */
    leaf_t *star;               /* "/login" and slash-star */
};

struct sg_router {
    sg_arena_t *arena;          /* owns everything in the tree */
    table_t hosts;
    node_t any_host;
    size_t depth;               /* segments of the longest pattern */
};

/* --- table --------------------------------------------------------------------------------------- */

static slot_t *slot_for(const table_t *t, uint64_t hash, sg_str_t text)
{
    size_t i = hash & (t->size - 1);
    while (t->slots[i].node && (t->slots[i].hash != hash || !sg_str_eq(t->slots[i].text, text)))
        i = (i + 1) & (t->size - 1);
    return &t->slots[i];
}

static node_t *table_find(const table_t *t, uint64_t hash, sg_str_t text)
{
    return t->size ? slot_for(t, hash, text)->node : NULL;
}

static void table_grow(sg_arena_t *arena, table_t *t)
{
    table_t wider = {.size = t->size ? 2 * t->size : 4, .count = t->count};
    wider.slots = sg_arena_calloc(arena, wider.size * sizeof *wider.slots);
    for (size_t i = 0; i < t->size; i++) {
        if (t->slots[i].node)
            *slot_for(&wider, t->slots[i].hash, t->slots[i].text) = t->slots[i];
    }
    *t = wider;
}

static node_t *table_need(sg_arena_t *arena, table_t *t, sg_str_t text)
{
    if (2 * (t->count + 1) > t->size)
        table_grow(arena, t);
    uint64_t hash = sg_siphash(text);
    slot_t *s = slot_for(t, hash, text);
    if (!s->node) {
        *s = (slot_t){hash, sg_arena_str(arena, text), SG_ARENA_NEW(arena, node_t)};
        t->count++;
    }
    return s->node;
}

/* --- building ------------------------------------------------------------------------------------ */

sg_router_t *sg_router_new(void)
{
    sg_router_t *r = SG_NEW(sg_router_t);
    r->arena = sg_arena_new(4096);
    return r;
}

void sg_router_free(sg_router_t *r)
{
    if (!r)
        return;
    sg_arena_free(r->arena);
    sg_free(r);
}

static leaf_t *leaf_need(sg_router_t *r, const sg_route_t *route, const sg_pattern_t *p)
{
    node_t *n = route->host ? table_need(r->arena, &r->hosts, sg_str(route->host)) : &r->any_host;
    for (size_t i = 0; i < p->count; i++) {
        if (!p->segments[i].param) {
            n = table_need(r->arena, &n->literals, p->segments[i].text);
            continue;
        }
        if (!n->param)
            n->param = SG_ARENA_NEW(r->arena, node_t);
        n = n->param;
    }
    leaf_t **leaf = p->star ? &n->star : p->slash ? &n->slash : &n->end;
    if (!*leaf)
        *leaf = SG_ARENA_NEW(r->arena, leaf_t);
    return *leaf;
}

static const entry_t *entry_new(sg_router_t *r, const sg_route_t *route, const sg_pattern_t *p)
{
    entry_t *e = SG_ARENA_NEW(r->arena, entry_t);
    e->route = route;
    e->rest = p->star ? p->count : SIZE_MAX;
    e->params = sg_arena_calloc(r->arena, (p->param_count + 1) * sizeof *e->params);
    for (size_t i = 0; i < p->count; i++) {
        if (p->segments[i].param)
            e->params[e->param_count++] = (place_t){p->segments[i].text, i};
    }
    return e;
}

/* A route that names its methods is more specific than one that serves all: only two of a kind are a
 * tie. */
static const entry_t *leaf_conflict(const leaf_t *l, unsigned methods)
{
    if (methods == SG_METHODS_ALL)
        return l->all;
    for (unsigned m = 0; m < SG_METHOD_COUNT; m++) {
        if ((methods & (1u << m)) && l->by_method[m])
            return l->by_method[m];
    }
    return NULL;
}

static void leaf_put(leaf_t *l, unsigned methods, const entry_t *e)
{
    if (methods == SG_METHODS_ALL) {
        l->all = e;
        return;
    }
    l->allow |= methods;
    for (unsigned m = 0; m < SG_METHOD_COUNT; m++) {
        if (methods & (1u << m))
            l->by_method[m] = e;
    }
}

sg_err_t sg_router_add(sg_router_t *r, const sg_route_t *route, const sg_route_t **other, sg_why_t *why)
{
    sg_pattern_t p;
    sg_err_t err = sg_route_check(r->arena, route, &p, why);
    if (err)
        return err;
    leaf_t *leaf = leaf_need(r, route, &p);
    const entry_t *taken = leaf_conflict(leaf, route->methods);
    if (taken) {
        *other = taken->route;
        sg_why_set(why, "path: \"%s\" matches the same requests as route \"%s\"", route->pattern,
                   taken->route->name ? taken->route->name : taken->route->pattern);
        return SG_ERR_EXISTS;
    }
    leaf_put(leaf, route->methods, entry_new(r, route, &p));
    if (p.count > r->depth)
        r->depth = p.count;
    return SG_OK;
}

/* --- matching ------------------------------------------------------------------------------------ */

typedef struct {
    const sg_target_t *target;
    sg_method_t method;
    const entry_t *found;
    unsigned allow;             /* methods of routes that match all but the method */
    size_t steps;
    uint64_t hashes[SG_TARGET_SEGMENTS_MAX];
} walk_t;

static bool take(walk_t *w, const leaf_t *l)
{
    if (!l)
        return false;
    w->found = l->by_method[w->method];
    if (!w->found && w->method == SG_METHOD_HEAD)
        w->found = l->by_method[SG_METHOD_GET];
    if (!w->found)
        w->found = l->all;
    w->allow |= l->allow;
    return w->found != NULL;
}

/* Depth first, the most specific way first; the first whole match is the answer. Recursion ends with the
 * longest pattern. */
static bool walk(walk_t *w, const node_t *n, size_t depth)
{
    w->steps++;
    if (depth == w->target->segment_count) {
        if ((w->target->trailing_slash && take(w, n->slash)) || take(w, n->end))
            return true;
    } else {
        sg_str_t segment = w->target->segments[depth];
        const node_t *child = n->literals.size ? table_find(&n->literals, w->hashes[depth], segment) : NULL;
        if (child && walk(w, child, depth + 1))
            return true;
        if (n->param && segment.n > 0 && walk(w, n->param, depth + 1))
            return true;
    }
    return take(w, n->star);
}

static void fill_match(const entry_t *e, const sg_target_t *t, sg_match_t *out)
{
    out->route = e->route;
    out->param_count = e->param_count;
    for (size_t i = 0; i < e->param_count; i++)
        out->params[i] = (sg_param_t){e->params[i].name, t->raw_segments[e->params[i].at]};
    if (e->rest != SIZE_MAX)
        out->rest = e->rest;
}

void sg_router_match_counted(const sg_router_t *r, sg_str_t host, sg_method_t method,
                             const sg_target_t *target, sg_match_t *out, size_t *steps)
{
    walk_t w;
    w.target = target;
    w.method = method;
    w.found = NULL;
    w.allow = 0;
    w.steps = 0;
    out->route = NULL;
    out->allow = 0;
    out->param_count = 0;
    out->rest = target->segment_count;
    if (target->form != SG_TARGET_ASTERISK) {
        for (size_t i = 0; i < target->segment_count && i < r->depth; i++)
            w.hashes[i] = sg_siphash(target->segments[i]);
        const node_t *own = r->hosts.size ? table_find(&r->hosts, sg_siphash(host), host) : NULL;
        if ((own && walk(&w, own, 0)) || walk(&w, &r->any_host, 0))
            fill_match(w.found, target, out);
        else
            out->allow = w.allow;
    }
    if (out->allow & (1u << SG_METHOD_GET))
        out->allow |= 1u << SG_METHOD_HEAD;
    *steps = w.steps;
}

void sg_router_match(const sg_router_t *r, sg_str_t host, sg_method_t method, const sg_target_t *target,
                     sg_match_t *out)
{
    size_t steps;
    sg_router_match_counted(r, host, method, target, out, &steps);
}
