/* check.c - what only shows when everything is loaded: warnings about things that can hardly be meant. */
#include <inttypes.h>

#include "config/load.h"

/* A member of a sorted set in Redis: 33 bytes of text, a score, pointers of the skip list and the table. */
#define LOG_ENTRY_BYTES 110
#define LOG_WARN_BYTES  (INT64_C(1) << 20)

void sg_check_log_memory(sg_load_t *ld, const sg_limit_t *l, const sg_place_t *at)
{
    if (l->algo != SG_ALGO_SLIDING_LOG || l->unlimited || l->limit <= LOG_WARN_BYTES / LOG_ENTRY_BYTES)
        return;
    sg_load_warn(ld, at,
                 "%s: a sliding log of %" PRId64 " units takes about %" PRId64
                 " KiB for each caller; sliding_window needs "
                 "little and is nearly as exact",
                 l->name, l->limit, l->limit / 1024 * LOG_ENTRY_BYTES);
}

static void check_classes(sg_load_t *ld)
{
    for (size_t i = 0; i < ld->c->class_count; i++) {
        if (!ld->class_used[i])
            sg_load_warn(ld, &ld->class_places[i], "class \"%s\" is used by no route",
                         ld->c->classes[i].name);
    }
}

static bool is_window(const sg_limit_t *l)
{
    return (l->algo == SG_ALGO_FIXED_WINDOW || l->algo == SG_ALGO_SLIDING_WINDOW ||
            l->algo == SG_ALGO_SLIDING_LOG) &&
           !l->unlimited && !l->dry_run && l->limit > 0;
}

/* Does the longer window never let the shorter one come to its limit? */
static bool makes_pointless(const sg_limit_t *longer, const sg_limit_t *shorter)
{
    return is_window(longer) && is_window(shorter) && longer->per == shorter->per &&
           longer->window_us > shorter->window_us && longer->limit <= shorter->limit;
}

static void check_order(sg_load_t *ld, const sg_class_t *class)
{
    for (size_t i = 0; i < class->limit_count; i++) {
        const sg_limit_t *shorter = ld->c->limits[class->limits[i]];
        for (size_t j = 0; j < class->limit_count; j++) {
            const sg_limit_t *longer = ld->c->limits[class->limits[j]];
            if (!makes_pointless(longer, shorter))
                continue;
            sg_load_warn(ld, &ld->limit_places[shorter->index],
                         "%s admits %" PRId64 " units, but %s admits only %" PRId64
                         " in a longer window: %s can never deny",
                         shorter->name, shorter->limit, longer->name, longer->limit, shorter->name);
            break;
        }
    }
}

/* Base limits; those of plans and tenants are checked where they stand. */
static void check_costs(sg_load_t *ld)
{
    for (size_t i = 0; i < ld->c->limit_count; i++) {
        const sg_limit_t *l = ld->c->limits[i];
        if (l->dry_run || l->limit <= 0 || ld->max_cost[i] <= ld->max_limit[i])
            continue;
        sg_load_warn(ld, &ld->limit_places[i],
                     "%s admits %" PRId64 " units at most, but a route costs %" PRId64
                     ": its requests can never pass",
                     l->name, ld->max_limit[i], ld->max_cost[i]);
    }
}

/* Keys of one request lie in one slot, by the caller's tag; a budget for everybody lies in another one. */
static void check_cluster(sg_load_t *ld)
{
    const sg_store_conf_t *store = &ld->c->store;
    for (size_t i = 0; i < ld->c->limit_count; i++) {
        if (store->type == SG_STORE_REDIS && store->mode == SG_REDIS_CLUSTER &&
            ld->c->limits[i]->per == SG_PER_ALL)
            sg_load_error(ld, &ld->limit_places[i],
                          "%s is per: all, expected tenant, key or ip with store.mode cluster: all keys of a "
                          "request must lie in one slot",
                          ld->c->limits[i]->name);
    }
}

void sg_check_all(sg_load_t *ld)
{
    sg_place_t whole = {ld->c->source, 0, 0};
    check_cluster(ld);
    check_classes(ld);
    for (size_t i = 0; i < ld->c->class_count; i++)
        check_order(ld, &ld->c->classes[i]);
    check_costs(ld);
    if (ld->c->route_count == 0)
        sg_load_warn(ld, &whole, "no routes: every request is answered with 404");
}
