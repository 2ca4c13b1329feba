/* shared.h - what all workers know together of one target: requests in flight, failures in a row, health.
 * Private to upstream/. */
#ifndef SG_UPSTREAM_SHARED_H
#define SG_UPSTREAM_SHARED_H

#include <stdatomic.h>

#include "upstream/upstream.h"

/* Found by upstream name and URL, so it outlives reloads that keep both. All fields but `key`, `refs` and
 * `next` may be touched by any thread that holds a reference. Times are monotonic µs, one clock for all
 * threads. */
typedef struct sg_shared_target {
    atomic_int_least64_t in_flight;
    atomic_uint failures;                   /* in a row; a success sets it to 0 */
    atomic_int_least64_t ejected_until_us;
    atomic_int_least64_t next_check_us;     /* the worker that moves it on makes this active check */
    atomic_uint checks_passed, checks_failed;   /* in a row */
    atomic_bool down;                       /* active checks say so */
    char pad[64];                           /* the next object's counters lie on another cache line */
    char *key;
    unsigned refs;                          /* under the lock */
    struct sg_shared_target *next;
} sg_shared_target_t;

sg_shared_target_t *sg_shared_target_get(sg_upstream_shared_t *s, const char *upstream, const char *url);
void sg_shared_target_put(sg_upstream_shared_t *s, sg_shared_target_t *t);

/* A slot for one request; false when `max` (0 = no bound) are in flight. */
bool sg_shared_target_enter(sg_shared_target_t *t, int64_t max);
void sg_shared_target_leave(sg_shared_target_t *t);

/* One finished attempt. Past `limit` failures in a row (0 = never) the target is out for `for_us`. The
 * count goes on while it is out: the first failure after its return ejects it again, a success starts over.
 * True when this call ejected it. */
bool sg_shared_target_report(sg_shared_target_t *t, bool ok, unsigned limit, int64_t for_us, int64_t now_us);
bool sg_shared_target_is_ejected(const sg_shared_target_t *t, int64_t now_us);

/* True for one caller per interval over all workers. */
bool sg_shared_target_claim_check(sg_shared_target_t *t, int64_t interval_us, int64_t now_us);
/* The result of an active check; true when it changed `down`. */
bool sg_shared_target_checked(sg_shared_target_t *t, bool passed, unsigned healthy, unsigned unhealthy);

#endif
