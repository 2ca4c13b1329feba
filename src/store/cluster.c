#include "store/cluster.h"

#include "base/mem.h"
#include "store/place.h"

#define UNKNOWN 0xff

typedef struct {
    sg_cluster_t *cluster;      /* NULL: it is gone, and this node is about to be */
    sg_link_t gone;             /* on sg_cluster_t.gone when it is no longer one of the nodes */
    sg_redis_t *redis;
    char *host;
    unsigned port;
    size_t slots;               /* that are known to be here */
} node_t;

struct sg_cluster {
    sg_loop_t *loop;
    sg_config_t *config;
    sg_metrics_block_t *metrics;
    sg_redis_hooks_t hooks;
    node_t *nodes[SG_CLUSTER_NODES_MAX];        /* NULL: a place that is free again */
    size_t count, seeds;        /* places in use; the first ones are the config's */
    size_t left;                /* nodes that have not ended, those of `gone` included */
    sg_link_t gone;
    bool retired;
    uint8_t at[SG_CLUSTER_SLOTS];       /* index of the node, or UNKNOWN */
};

unsigned sg_cluster_slot(sg_str_t tag)
{
    static const uint16_t nibble[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;
    for (size_t i = 0; i < tag.n; i++) {
        unsigned byte = (uint8_t)tag.p[i];
        crc = (crc << 4 & 0xffff) ^ nibble[(crc >> 12 ^ byte >> 4) & 15];
        crc = (crc << 4 & 0xffff) ^ nibble[(crc >> 12 ^ byte) & 15];
    }
    return crc % SG_CLUSTER_SLOTS;
}

/* --- what is seen from outside ----------------------------------------------------------------- */

static sg_store_status_t node_status(const node_t *n)
{
    sg_store_status_t s = {.up = false};
    sg_redis_status(n->redis, &s);
    return s;
}

/* Up when some node is, and all that are known to have slots are. */
void sg_cluster_status(const sg_cluster_t *c, sg_store_status_t *out)
{
    bool some = false, all = true;
    out->breaker_open = false;
    for (size_t i = 0; i < c->count; i++) {
        if (!c->nodes[i])
            continue;
        sg_store_status_t s = node_status(c->nodes[i]);
        some |= s.up;
        if (c->nodes[i]->slots) {
            all &= s.up;
            out->breaker_open |= s.breaker_open;
        }
        if (!s.up || !out->error[0])
            memcpy(out->error, s.error, sizeof out->error);
    }
    out->up = some && all;
}

static void show(sg_cluster_t *c)
{
    sg_store_status_t s = {.up = false};
    if (c->retired)
        return;
    sg_cluster_status(c, &s);
    sg_set_store_up(c->metrics, s.up);
    sg_set_breaker_open(c->metrics, s.breaker_open);
}

static void on_changed(void *arg)
{
    const node_t *n = arg;
    if (n->redis)               /* NULL while it is being made */
        show(n->cluster);
}

/* --- nodes ------------------------------------------------------------------------------------- */

static void on_failed(void *arg, const sg_check_t *check, sg_answer_t *out)
{
    const sg_cluster_t *c = ((node_t *)arg)->cluster;
    c->hooks.failed(c->hooks.arg, check, out);
}

static void on_answered(void *arg, const sg_check_t *check, const sg_verdict_t *verdict)
{
    const sg_cluster_t *c = ((node_t *)arg)->cluster;
    c->hooks.answered(c->hooks.arg, check, verdict);
}

static sg_redis_t *on_moved(void *arg, sg_str_t error, bool *asking);
static void on_ended(void *arg);

/* UNKNOWN when there are too many. */
static uint8_t find_node(sg_cluster_t *c, sg_str_t host, unsigned port)
{
    size_t place = c->count;
    for (size_t i = 0; i < c->count; i++) {
        if (!c->nodes[i])
            place = i;
        else if (c->nodes[i]->port == port && sg_str_eq(sg_str(c->nodes[i]->host), host))
            return (uint8_t)i;
    }
    if (place == SG_CLUSTER_NODES_MAX)
        return UNKNOWN;
    node_t *n = SG_NEW(node_t);
    const sg_redis_hooks_t hooks = {on_failed, on_answered, on_moved, on_changed, on_ended, n};
    n->cluster = c;
    n->host = sg_strndup(host);
    n->port = port;
    n->redis = sg_redis_new_node(c->loop, c->config, n->host, port, c->metrics, &hooks);
    c->nodes[place] = n;
    c->left++;
    c->count += place == c->count;
    return (uint8_t)place;
}

static void forget_all(sg_cluster_t *c, uint8_t index)
{
    for (size_t i = 0; i < SG_CLUSTER_SLOTS; i++)
        if (c->at[i] == index)
            c->at[i] = UNKNOWN;
    c->nodes[index]->slots = 0;
}

/* Servers come and go with new addresses; one that is lost would be dialled for ever. The config's stay. */
static void drop_node(sg_cluster_t *c, uint8_t index)
{
    node_t *n = c->nodes[index];
    if (index < c->seeds)
        return;
    c->nodes[index] = NULL;
    sg_list_push_back(&c->gone, &n->gone);
    sg_redis_retire(n->redis);
}

/* A node that is down and has lost one slot has lost all of them: another one was promoted. Without that
 * it would count as missing until each caller that it knew has come again. */
static void learn(sg_cluster_t *c, unsigned slot, uint8_t index)
{
    uint8_t old = c->at[slot];
    if (old == index)
        return;
    if (old != UNKNOWN && !sg_redis_is_up(c->nodes[old]->redis)) {
        forget_all(c, old);
        drop_node(c, old);
    } else if (old != UNKNOWN) {
        c->nodes[old]->slots--;
    }
    c->at[slot] = index;
    c->nodes[index]->slots++;
    show(c);
}

/* "MOVED 3999 10.0.0.2:6379": from now on; "ASK 3999 ...": this once. An empty host is the same as ours. */
static sg_redis_t *on_moved(void *arg, sg_str_t error, bool *asking)
{
    node_t *from = arg;
    sg_str_t word, slot_text, place, host;
    uint64_t slot;
    unsigned port;
    if (from->cluster->retired)     /* the other nodes may be gone */
        return NULL;
    if (!sg_str_next(&error, ' ', &word) || !sg_str_next(&error, ' ', &slot_text) ||
        !sg_str_next(&error, ' ', &place))
        return NULL;
    *asking = sg_str_eq(word, SG_STR("ASK"));
    if (!*asking && !sg_str_eq(word, SG_STR("MOVED")))
        return NULL;
    if (sg_str_u64(slot_text, SG_CLUSTER_SLOTS - 1, &slot) != SG_OK || !sg_place_split(place, &host, &port))
        return NULL;
    uint8_t index = find_node(from->cluster, host.n ? host : sg_str(from->host), port);
    if (index == UNKNOWN)
        return NULL;
    if (!*asking)
        learn(from->cluster, (unsigned)slot, index);
    return from->cluster->nodes[index]->redis;
}

/* --- for store.c --------------------------------------------------------------------------------- */

static sg_redis_t *pick(const sg_cluster_t *c, const char *tag)
{
    uint8_t index = c->at[sg_cluster_slot(sg_str(tag))];
    if (index != UNKNOWN && sg_redis_is_up(c->nodes[index]->redis))
        return c->nodes[index]->redis;
    for (size_t i = 0; i < c->count; i++)
        if (c->nodes[i] && sg_redis_is_up(c->nodes[i]->redis))
            return c->nodes[i]->redis;
    return c->nodes[index != UNKNOWN ? index : 0]->redis;
}

sg_ticket_t *sg_cluster_check(sg_cluster_t *c, const sg_check_t *check, sg_answer_fn *fn, void *arg)
{
    return sg_redis_check(pick(c, check->scope.tag), check, fn, arg);
}

sg_redis_t *sg_cluster_node(const sg_cluster_t *c, const char *tag)
{
    return pick(c, tag);
}

void sg_cluster_release(sg_cluster_t *c, const sg_check_t *check)
{
    sg_redis_release(pick(c, check->scope.tag), check);
}

void sg_cluster_settle(sg_cluster_t *c, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost)
{
    sg_redis_settle(pick(c, check->scope.tag), check, verdict, cost);
}

sg_cluster_t *sg_cluster_new(sg_loop_t *loop, sg_config_t *config, sg_metrics_block_t *metrics,
                             const sg_redis_hooks_t *hooks)
{
    sg_cluster_t *c = SG_NEW(sg_cluster_t);
    c->loop = loop;
    c->config = sg_config_ref(config);
    c->metrics = metrics;
    c->hooks = *hooks;
    sg_list_init(&c->gone);
    memset(c->at, UNKNOWN, sizeof c->at);
    for (size_t i = 0; i < config->store.node_count; i++) {
        sg_str_t host;
        unsigned port;
        if (sg_place_split(sg_str(config->store.nodes[i]), &host, &port))
            (void)find_node(c, host, port);
    }
    if (c->count == 0)
        (void)find_node(c, SG_STR("127.0.0.1"), 6379);
    c->seeds = c->count;
    show(c);
    return c;
}

/* All nodes have the same config, so the first one speaks for all. */
bool sg_cluster_reload(sg_cluster_t *c, sg_config_t *config)
{
    sg_config_t *old = c->config;
    if (!sg_place_same_nodes(&old->store, &config->store))
        return false;
    for (size_t i = 0; i < c->count; i++)
        if (c->nodes[i] && !sg_redis_reload(c->nodes[i]->redis, config))
            return false;
    c->config = sg_config_ref(config);
    sg_config_unref(old);
    return true;
}

static void free_node(node_t *n)
{
    sg_free(n->host);
    sg_free(n);
}

static void free_rest(sg_cluster_t *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->nodes[i])
            free_node(c->nodes[i]);
    sg_config_unref(c->config);
    sg_free(c);
}

static void on_ended(void *arg)
{
    node_t *n = arg;
    sg_cluster_t *c = n->cluster;
    if (!c || sg_list_linked(&n->gone)) {
        sg_list_remove(&n->gone);
        free_node(n);
    }
    if (c && --c->left == 0)
        free_rest(c);
}

void sg_cluster_retire(sg_cluster_t *c)
{
    c->retired = true;
    for (size_t i = 0; i < c->count; i++)
        if (c->nodes[i])
            sg_redis_retire(c->nodes[i]->redis);
}

void sg_cluster_free(sg_cluster_t *c)
{
    sg_link_t *l;
    for (size_t i = 0; i < c->count; i++)
        if (c->nodes[i])
            sg_redis_free(c->nodes[i]->redis);
    while ((l = sg_list_pop(&c->gone)))         /* they end by themselves, in this turn */
        SG_OWNER(l, node_t, gone)->cluster = NULL;
    free_rest(c);
}
