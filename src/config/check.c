/* check.c - what only shows when everything is loaded: warnings about things that can hardly be meant. */
#include <inttypes.h>
#include <netinet/in.h>

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

static bool is_any_address(const sg_endpoint_t *e)
{
    if (e->sa.ss_family == AF_INET)
        return ((const struct sockaddr_in *)&e->sa)->sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&e->sa)->sin6_addr);
}

static bool is_same_address(const sg_endpoint_t *a, const sg_endpoint_t *b)
{
    return a->len == b->len && memcmp(&a->sa, &b->sa, a->len) == 0;
}

/* Can only one of the two be listened on? IPv6 listeners leave IPv4 alone; with port 0 the kernel chooses. */
static bool clash(const sg_endpoint_t *a, const sg_endpoint_t *b)
{
    if (a->sa.ss_family != b->sa.ss_family)
        return false;
    if (a->is_unix)
        return is_same_address(a, b);
    in_port_t port = ((const struct sockaddr_in *)&a->sa)->sin_port; /* at the same place in sockaddr_in6 */
    return port != 0 && port == ((const struct sockaddr_in *)&b->sa)->sin_port &&
           (is_any_address(a) || is_any_address(b) || is_same_address(a, b));
}

static const sg_endpoint_t *listener_at(const sg_config_t *c, size_t i)
{
    size_t served = c->server.listen.count;
    if (i < served)
        return &c->server.listen.at[i];
    return i - served < c->admin.listen.count ? &c->admin.listen.at[i - served] : NULL;
}

/* A warning only: sockets of systemd take the place of server.listen. */
static void check_listeners(sg_load_t *ld, const sg_place_t *whole)
{
    const sg_endpoint_t *a, *b;
    for (size_t i = 0; (a = listener_at(ld->c, i)); i++) {
        for (size_t j = i + 1; (b = listener_at(ld->c, j)); j++) {
            if (clash(a, b))
                sg_load_warn(ld, whole,
                             "%s and %s (server.listen, admin.listen) cannot both be listened on: a start "
                             "fails, unless systemd hands over the sockets of the server",
                             a->text, b->text);
        }
    }
}

void sg_check_all(sg_load_t *ld)
{
    sg_place_t whole = {ld->c->source, 0, 0};
    check_listeners(ld, &whole);
    check_classes(ld);
    for (size_t i = 0; i < ld->c->class_count; i++)
        check_order(ld, &ld->c->classes[i]);
    check_costs(ld);
    if (ld->c->route_count == 0)
        sg_load_warn(ld, &whole, "no routes: every request is answered with 404");
}
