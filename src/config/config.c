/* config.c - from a file to a snapshot, and the snapshot's life. */
#include "config/config.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "config/load.h"

static sg_config_t *new_config(const char *path)
{
    sg_config_t *c = SG_NEW(sg_config_t);
    atomic_init(&c->refs, 1);
    c->arena = sg_arena_new(65536);
    c->source = sg_arena_strndup(c->arena, sg_str(path));
    c->own = SG_ARENA_NEW(c->arena, struct sg_config_own);
    c->router = sg_router_new();
    c->loaded_us = sg_clock_wall_us();
    return c;
}

/* The folder of the file; its own name may be a symlink that is swapped. */
static char *folder_of(const char *path, sg_arena_t *arena)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash ? sg_strndup(sg_str_n(path, slash == path ? 1 : (size_t)(slash - path))) : sg_strdup(".");
    char *real = realpath(folder, NULL);
    char *out = sg_arena_strndup(arena, sg_str(real ? real : folder));
    sg_free(folder);
    sg_free(real);
    return out;
}

/* Names are known before they are used: classes and upstreams before routes, routes (their costs) before
 * plans and tenants. */
static void load_sections(sg_load_t *ld, const sg_node_t *root)
{
    size_t errors = ld->diags->errors;
    sg_load_server(ld, sg_node_get(root, "server"));
    sg_load_admin(ld, sg_node_get(root, "admin"));
    sg_load_log(ld, sg_node_get(root, "log"));
    sg_load_metrics(ld, sg_node_get(root, "metrics"));
    sg_load_store(ld, sg_node_get(root, "store"));
    sg_load_identity(ld, sg_node_get(root, "identity"));
    sg_load_classes(ld, sg_node_get(root, "classes"));
    sg_load_upstreams(ld, sg_node_get(root, "upstreams"));
    sg_load_routes(ld, sg_node_get(root, "routes"));
    sg_load_plans(ld, sg_node_get(root, "plans"));
    sg_load_tenants(ld, sg_node_get(root, "tenants"));
    sg_load_tenants_files(ld, sg_node_get(root, "tenants_files"));
    sg_load_tenants_end(ld);
    if (ld->diags->errors == errors)
        sg_check_all(ld);
}

/* Only a config that is good leaves names in the metrics. */
static void intern_names(sg_load_t *ld, sg_metrics_t *m)
{
    sg_config_t *c = ld->c;
    sg_metrics_set_max_tenants(m, c->max_tenants);
    ((sg_tenant_t *)(uintptr_t)c->identity.anonymous)->metric =
        sg_metrics_tenant(m, c->identity.anonymous->name);
    for (size_t i = 0; i < c->tenant_count; i++)
        c->tenants[i]->metric = sg_metrics_tenant(m, c->tenants[i]->name);
    for (size_t i = 0; i < c->limit_count; i++)
        c->limits[i]->metric = sg_metrics_limit(m, c->limits[i]->name);
    for (size_t i = 0; i < ld->made_count; i++)
        ld->made[i].limit->metric = c->limits[ld->made[i].limit->index]->metric;
    c->identity.failures.metric = sg_metrics_limit(m, c->identity.failures.name);
    for (size_t i = 0; i < c->route_count; i++)
        c->routes[i]->metric = sg_metrics_route(m, c->routes[i]->name);
    for (size_t i = 0; i < c->upstream_count; i++) {
        sg_upstream_conf_t *u = &c->upstreams[i];
        u->metric = sg_metrics_upstream(m, u->name);
        for (size_t j = 0; j < u->target_count; j++)
            u->targets[j].metric = sg_metrics_target(m, u->metric, u->targets[j].url);
    }
}

static void end_load(sg_load_t *ld)
{
    sg_diags_sort(ld->diags, ld->files, ld->file_count);
    sg_nameset_deinit(&ld->classes);
    sg_nameset_deinit(&ld->limits);
    sg_nameset_deinit(&ld->plans);
    sg_nameset_deinit(&ld->upstreams);
    sg_nameset_deinit(&ld->routes);
    sg_free(ld->files);
    sg_free(ld->tenants);
    sg_free(ld->key_places);
    sg_free(ld->made);
    sg_arena_free(ld->keep);
}

sg_config_t *sg_config_load(const char *path, sg_metrics_t *metrics, sg_diags_t *diags)
{
    sg_config_t *c = new_config(path);
    sg_load_t ld = {.c = c, .arena = c->arena, .diags = diags};
    size_t errors = diags->errors;
    const sg_node_t *root;
    ld.keep = ld.scratch = sg_arena_new(65536);
    ld.dir = folder_of(path, c->arena);
    root = sg_load_tree(&ld, path, NULL);
    if (root && sg_load_map(&ld, root, &sg_shape_top, NULL, false))
        load_sections(&ld, root);
    sg_hex(ld.digest, 8, c->hash);
    if (diags->errors == errors && metrics)
        intern_names(&ld, metrics);
    end_load(&ld);
    if (diags->errors == errors)
        return c;
    sg_config_unref(c);
    return NULL;
}

sg_config_t *sg_config_ref(sg_config_t *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

static void wipe(sg_str_t s)
{
    if (s.n)
        sg_wipe((void *)(uintptr_t)s.p, s.n);
}

void sg_config_unref(sg_config_t *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    wipe(c->admin.token);
    wipe(c->store.password);
    wipe(c->identity.secret);
    sg_router_free(c->router);
    sg_key_table_free(c->own->keys);
    sg_nameset_deinit(&c->own->tenants);
    sg_arena_free(c->arena);
    sg_free(c);
}

const sg_tenant_t *sg_config_tenant(const sg_config_t *c, sg_str_t name)
{
    const sg_name_t *n = sg_nameset_find(&c->own->tenants, name);
    return n ? c->tenants[n->index] : NULL;
}

int64_t sg_config_max_body(const sg_config_t *c, const sg_route_t *route)
{
    return route && route->max_body_bytes ? route->max_body_bytes : c->server.max_body_bytes;
}
