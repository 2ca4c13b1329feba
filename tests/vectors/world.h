/* world.h - for tests of the limiter: named states that never expire, and traces read from tests/vectors. */
#ifndef SG_TESTS_WORLD_H
#define SG_TESTS_WORLD_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/script.h"

#define WORLD_KEYS 256

typedef struct {
    size_t count;
    char *names[WORLD_KEYS];
    sg_limit_state_t states[WORLD_KEYS];
} world_t;

static const sg_key_scope_t world_scope = {
    .prefix = {"rl", 2}, .version = {"v1", 2}, .tag = "tenanttenanttenanttena", .key = "key", .ip = "ip"};

static inline void world_clear(world_t *w)
{
    for (size_t i = 0; i < w->count; i++) {
        sg_free(w->names[i]);
        sg_limit_state_free(&w->states[i]);
    }
    w->count = 0;
}

static inline sg_limit_state_t *world_state(world_t *w, const sg_limit_t *l, int64_t now_us)
{
    char room[SG_KEY_BYTES];
    int64_t bucket;
    sg_str_t key = sg_limit_key(&world_scope, l, now_us, room, &bucket);

    for (size_t i = 0; i < w->count; i++)
        if (sg_str_eq(sg_str(w->names[i]), key))
            return &w->states[i];
    if (w->count == WORLD_KEYS)
        abort();
    w->names[w->count] = sg_strndup(key);
    w->states[w->count] = (sg_limit_state_t){0};
    return &w->states[w->count++];
}

static inline void world_check(world_t *w, const sg_check_t *c, int64_t now_us, sg_verdict_t *out)
{
    sg_limit_state_t *states[SG_LIMITS_MAX];

    for (size_t i = 0; i < c->count; i++)
        states[i] = world_state(w, c->limits[i], now_us);
    sg_limit_decide(c->limits, states, c->count, c->cost, now_us, c->lease, out);
}

/* Settles a decision: limits that took nothing are left out of *c. False: nothing to do. */
static inline bool world_settle(world_t *w, sg_check_t *c, const sg_limit_t **at, const sg_verdict_t *v,
                                int64_t cost, int64_t now_us, sg_settlement_t *what)
{
    sg_check_t only = *c;

    only.limits = at;
    only.count = 0;
    for (size_t i = 0; i < c->count; i++) {
        const sg_limit_t *l = c->limits[i];
        if (!sg_limit_settlement(l, v, i, c->cost, cost, &what[only.count]))
            continue;
        sg_limit_settle(l, world_state(w, l, sg_limit_settle_at_us(&what[only.count], now_us)),
                        &what[only.count], now_us, c->lease);
        at[only.count++] = l;
    }
    *c = only;
    return only.count > 0;
}

static inline void world_release(world_t *w, const sg_check_t *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->limits[i]->algo == SG_ALGO_CONCURRENCY)
            sg_limit_release(world_state(w, c->limits[i], 0), c->lease);
}

/* --- traces
 * ------------------------------------------------------------------------------------------------- */

#define TRACE_LIMITS 4

static inline int64_t number_of(const json_t *object, const char *name)
{
    return (int64_t)json_integer_value(json_object_get(object, name));
}

static inline sg_algo_t algo_of(const char *name)
{
    for (int a = 0; a < SG_ALGO_COUNT; a++)
        if (name && strcmp(sg_algo_name((sg_algo_t)a), name) == 0)
            return (sg_algo_t)a;
    fprintf(stderr, "no such algorithm: %s\n", name ? name : "(none)");
    abort();
}

/* The names stay owned by the JSON. */
static inline size_t limits_of(const json_t *array, sg_limit_t out[TRACE_LIMITS])
{
    sg_why_t why;
    size_t n = json_array_size(array);

    for (size_t i = 0; i < n && i < TRACE_LIMITS; i++) {
        const json_t *j = json_array_get(array, i);
        out[i] = (sg_limit_t){
            .name = json_string_value(json_object_get(j, "name")),
            .algo = algo_of(json_string_value(json_object_get(j, "algorithm"))),
            .dry_run = json_is_true(json_object_get(j, "dry_run")),
            .limit = number_of(j, "limit"),
            .rate_count = number_of(j, "rate_count"),
            .rate_us = number_of(j, "rate_us"),
            .window_us = number_of(j, "window_us"),
            .lease_us = number_of(j, "lease_us"),
            .precision = (uint32_t)number_of(j, "precision"),
        };
        if (sg_limit_finish(&out[i], &why) != SG_OK) {
            fprintf(stderr, "%s: %s\n", out[i].name, why.text);
            abort();
        }
    }
    return n;
}

/* A step's lease: named, to be released, or one of its own. */
static inline const char *lease_of(const json_t *step, size_t number, char room[33])
{
    const char *name = json_string_value(json_object_get(step, "lease"));
    const char *release = json_string_value(json_object_get(step, "release"));

    snprintf(room, 33, "lease%zu", number);
    return release ? release : name ? name : room;
}

/* A decision that may be settled later, with the limits as they were. */
typedef struct {
    sg_limit_t limits[TRACE_LIMITS];
    const sg_limit_t *at[TRACE_LIMITS];
    char lease[33];
    sg_check_t check;
    sg_verdict_t verdict;
} decided_t;

static inline void decided_keep(decided_t *d, const sg_check_t *c, const sg_verdict_t *v)
{
    d->check = *c;
    d->verdict = *v;
    for (size_t i = 0; i < c->count; i++) {
        d->limits[i] = *c->limits[i];
        d->at[i] = &d->limits[i];
    }
    snprintf(d->lease, sizeof(d->lease), "%s", c->lease);
    d->check.lease = d->lease;
    d->check.limits = d->at;
}

/* A check of the limits, whose pointers must be in `at`. */
static inline sg_check_t check_of(const sg_limit_t *const *at, size_t count, int64_t cost, const char *lease)
{
    return (sg_check_t){.limits = at, .count = count, .cost = cost, .scope = world_scope, .lease = lease};
}

#endif
