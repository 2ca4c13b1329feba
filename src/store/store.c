/* store.c - which store answers: memory, or Redis with its policy for when it does not. */
#include "store/store.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/ahead.h"
#include "store/cluster.h"
#include "store/deny_cache.h"
#include "store/fallback.h"
#include "store/redis.h"
#include "store/ticket.h"

#define WHOLE_PPM 1000000

struct sg_store {
    sg_loop_t *loop;
    sg_config_t *config;
    sg_memory_t *memory;
    sg_metrics_block_t *metrics;
    sg_redis_t *redis;          /* at most one of these two; neither: memory */
    sg_cluster_t *cluster;
    sg_deny_cache_t *denials;   /* NULL: off */
    sg_ahead_t *ahead;
    sg_link_t lookups;          /* resets that look for their node */
};

static void on_failed(void *arg, const sg_check_t *check, sg_answer_t *out)
{
    sg_store_t *s = arg;
    sg_fallback_answer(&s->config->store, s->memory, check, out);
}

static void on_answered(void *arg, const sg_check_t *check, const sg_verdict_t *verdict)
{
    sg_store_t *s = arg;
    if (s->denials && !check->returns) /* units that are taken ahead come in other numbers each time */
        sg_deny_cache_put(s->denials, check, verdict, sg_loop_now_us(s->loop));
}

static bool answer_from_cache(sg_store_t *s, const sg_check_t *check, sg_answer_t *now)
{
    if (!s->denials || !sg_deny_cache_get(s->denials, check, sg_loop_now_us(s->loop), &now->verdict))
        return false;
    now->source = SG_FROM_DENY_CACHE;
    now->retry_us = 0;
    now->spent = NULL;
    return true;
}

static bool is_remote(const sg_store_t *s)
{
    return s->redis || s->cluster;
}

/* By Redis; all keys lie in one slot. */
static bool ask_remote(sg_store_t *s, const sg_check_t *check, sg_answer_t *now, sg_ticket_t **ticket,
                       sg_answer_fn *fn, void *arg)
{
    *ticket =
        s->cluster ? sg_cluster_check(s->cluster, check, fn, arg) : sg_redis_check(s->redis, check, fn, arg);
    if (*ticket)
        return false;
    sg_fallback_answer(&s->config->store, s->memory, check, now);
    return true;
}

bool sg_store_check(sg_store_t *s, const sg_check_t *check, sg_answer_t *now, sg_ticket_t **ticket,
                    sg_answer_fn *fn, void *arg)
{
    if (!is_remote(s)) {
        now->source = SG_FROM_STORE;
        now->retry_us = 0;
        now->spent = NULL;
        sg_memory_check(s->memory, check, WHOLE_PPM, sg_clock_wall_us(), &now->verdict);
        return true;
    }
    if (sg_ahead_is_for(s->ahead, check))
        return sg_ahead_check(s->ahead, check, now, ticket, fn, arg);
    return answer_from_cache(s, check, now) || ask_remote(s, check, now, ticket, fn, arg);
}

void sg_store_cancel(sg_ticket_t *t)
{
    t->cancel(t);
}

static void release_remote(void *arg, const sg_check_t *check)
{
    sg_store_t *s = arg;
    if (s->cluster)
        sg_cluster_release(s->cluster, check);
    else if (s->redis)
        sg_redis_release(s->redis, check);
}

/* Slots that were taken before a reload from one type of store to the other lapse with their leases. */
void sg_store_release(sg_store_t *s, const sg_check_t *check, sg_source_t source)
{
    if (source == SG_FROM_STORE && is_remote(s))
        sg_ahead_release(s->ahead, check);
    else if (source == SG_FROM_LOCAL || source == SG_FROM_STORE)
        sg_memory_release(s->memory, check, sg_clock_wall_us());
}

static void settle_remote(void *arg, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost)
{
    sg_store_t *s = arg;
    if (s->cluster)
        sg_cluster_settle(s->cluster, check, verdict, cost);
    else if (s->redis)
        sg_redis_settle(s->redis, check, verdict, cost);
}

/* What was reserved before such a reload is settled in the new store, as far as units are counted there. */
void sg_store_settle(sg_store_t *s, const sg_check_t *check, const sg_answer_t *answer, int64_t cost)
{
    if (answer->spent || (answer->source == SG_FROM_STORE && is_remote(s)))
        sg_ahead_settle(s->ahead, check, answer, cost);
    else if (answer->source == SG_FROM_STORE)
        sg_memory_settle(s->memory, check, &answer->verdict, cost, WHOLE_PPM, sg_clock_wall_us());
    else if (answer->source == SG_FROM_LOCAL)
        sg_memory_settle(s->memory, check, &answer->verdict, cost, s->config->store.local_share_ppm,
                         sg_clock_wall_us());
}

static bool ask_for_ahead(void *arg, const sg_check_t *check, bool cached, sg_answer_t *now,
                          sg_ticket_t **ticket, sg_answer_fn *fn, void *fn_arg)
{
    sg_store_t *s = arg;
    now->source = SG_FROM_CLOSED;
    if (!is_remote(s) || (cached && answer_from_cache(s, check, now)))
        return true;
    return ask_remote(s, check, now, ticket, fn, fn_arg);
}

void sg_store_status(const sg_store_t *s, sg_store_status_t *out)
{
    *out = (sg_store_status_t){.type = is_remote(s) ? "redis" : "memory", .up = true};
    if (s->cluster)
        sg_cluster_status(s->cluster, out);
    if (s->redis)
        sg_redis_status(s->redis, out);
    out->entries = sg_memory_entries(s->memory);
}

/* --- reset ---------------------------------------------------------------------------------------------- */

/* A cluster tells which node has a slot only when it is asked for a key there. Any limit will do: the
 * question costs nothing. */
typedef struct {
    sg_store_t *store;
    sg_config_t *config;        /* the limit is part of it */
    sg_link_t link;
    sg_ticket_t *ticket;
    const sg_limit_t *limit;
    sg_check_t check;
    char tag[SG_TAG_CHARS + 1];
    sg_reset_fn *fn;
    void *arg;
} lookup_t;

static void lookup_free(lookup_t *u)
{
    sg_list_remove(&u->link);
    sg_config_unref(u->config);
    sg_free(u);
}

static void on_node_known(void *arg, const sg_answer_t *answer)
{
    lookup_t *u = arg;
    sg_cluster_t *cluster = u->store->cluster;
    if (answer->source != SG_FROM_STORE || !cluster)
        u->fn(u->arg, 0, "the store does not answer");
    else
        sg_redis_reset(sg_cluster_node(cluster, u->tag), u->tag, u->fn, u->arg);
    lookup_free(u);
}

static void reset_in_cluster(sg_store_t *s, const char *tag, sg_reset_fn *fn, void *arg)
{
    lookup_t *u = SG_NEW(lookup_t);
    *u = (lookup_t){.store = s, .config = sg_config_ref(s->config), .fn = fn, .arg = arg};
    (void)snprintf(u->tag, sizeof u->tag, "%s", tag);
    u->limit = &u->config->identity.failures;
    u->check = (sg_check_t){.limits = &u->limit, .count = 1, .lease = "reset", .on_failure = SG_FAIL_CLOSED};
    u->check.scope = (sg_key_scope_t){u->config->store.key_prefix, u->config->store.key_version, u->tag, NULL,
                                      u->tag};
    sg_list_push_back(&s->lookups, &u->link);
    u->ticket = sg_cluster_check(s->cluster, &u->check, on_node_known, u);
    if (!u->ticket)
        on_node_known(u, &(sg_answer_t){.source = SG_FROM_CLOSED});
}

void sg_store_reset(sg_store_t *s, const char *tag, sg_reset_fn *fn, void *arg)
{
    if (s->cluster)
        reset_in_cluster(s, tag, fn, arg);
    else if (s->redis)
        sg_redis_reset(s->redis, tag, fn, arg);
    else
        fn(arg, sg_memory_reset(s->memory, tag), NULL);
}

static void end_lookups(sg_store_t *s)
{
    sg_link_t *l;
    while ((l = sg_list_pop(&s->lookups))) {
        lookup_t *u = SG_OWNER(l, lookup_t, link);
        sg_store_cancel(u->ticket);
        u->fn(u->arg, 0, "the gateway stops");
        lookup_free(u);
    }
}

/* --- life ---------------------------------------------------------------------------------------------- */

static void open_remote(sg_store_t *s)
{
    const sg_redis_hooks_t hooks = {.failed = on_failed, .answered = on_answered, .arg = s};
    s->redis = NULL;
    s->cluster = NULL;
    if (s->config->store.type == SG_STORE_MEMORY) {
        sg_set_store_up(s->metrics, true);
        sg_set_breaker_open(s->metrics, false);
    } else if (s->config->store.mode == SG_REDIS_CLUSTER) {
        s->cluster = sg_cluster_new(s->loop, s->config, s->metrics, &hooks);
    } else {
        s->redis = sg_redis_new(s->loop, s->config, s->metrics, &hooks);
    }
}

/* False: another kind of store, or another server. */
static bool keep_remote(sg_store_t *s, sg_config_t *config)
{
    if (config->store.type == SG_STORE_MEMORY)
        return false;
    bool cluster = config->store.mode == SG_REDIS_CLUSTER;
    if (s->cluster)
        return cluster && sg_cluster_reload(s->cluster, config);
    return s->redis && !cluster && sg_redis_reload(s->redis, config);
}

static void retire_remote(sg_store_t *s)
{
    if (s->cluster)
        sg_cluster_retire(s->cluster);
    if (s->redis)
        sg_redis_retire(s->redis);
}

/* Cached denials belong to the limits of one config. */
static void new_cache(sg_store_t *s)
{
    sg_deny_cache_free(s->denials);
    s->denials = is_remote(s) && s->config->store.deny_cache ? sg_deny_cache_new() : NULL;
}

sg_store_t *sg_store_new(sg_loop_t *loop, sg_config_t *config, sg_memory_t *memory, sg_blocks_t *blocks,
                         sg_metrics_block_t *metrics)
{
    sg_store_t *s = SG_NEW(sg_store_t);
    const sg_store_hooks_t hooks = {ask_for_ahead, release_remote, settle_remote, on_failed, s};
    s->loop = loop;
    s->config = sg_config_ref(config);
    s->memory = memory;
    s->metrics = metrics;
    sg_list_init(&s->lookups);
    open_remote(s);
    new_cache(s);
    s->ahead = sg_ahead_new(loop, config, blocks, metrics, &hooks);
    return s;
}

void sg_store_reload(sg_store_t *s, sg_config_t *config)
{
    sg_config_t *old = s->config;
    sg_ahead_reload(s->ahead, config);
    s->config = sg_config_ref(config);
    if (!keep_remote(s, config)) {
        retire_remote(s);
        open_remote(s);
    }
    new_cache(s);
    sg_config_unref(old);
}

void sg_store_give_back(sg_store_t *s)
{
    sg_ahead_give_back(s->ahead);
}

void sg_store_free(sg_store_t *s)
{
    if (!s)
        return;
    end_lookups(s);
    sg_ahead_free(s->ahead);
    if (s->cluster)
        sg_cluster_free(s->cluster);
    if (s->redis)
        sg_redis_free(s->redis);
    sg_deny_cache_free(s->denials);
    sg_config_unref(s->config);
    sg_free(s);
}
