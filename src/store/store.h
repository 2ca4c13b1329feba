/* store.h - where counters live, behind one small interface.
 *
 * A store belongs to one worker (one loop, one thread). Request code does not know which store answers. */
#ifndef SG_STORE_STORE_H
#define SG_STORE_STORE_H

#include "config/config.h"
#include "event/loop.h"
#include "gate/limit.h"
#include "metrics/metrics.h"

typedef struct sg_store sg_store_t;
typedef struct sg_ticket sg_ticket_t;       /* a decision that is still out */

/* A request's limits and what their keys are made of. All of it stays valid until the answer or the
 * cancel. */
typedef struct {
    const sg_limit_t *const *limits;        /* unlimited ones left out; at most SG_LIMITS_MAX */
    size_t count;
    int64_t cost;                           /* 0 = peek: writes nothing */
    sg_key_scope_t scope;
    const char *lease; /* names this request: concurrency slots, log members; at most 32 characters */
    sg_on_failure_t on_failure;             /* the route's; INHERIT = the store's */
    bool settles;               /* sg_store_settle follows when it is allowed, whatever the cost turns out */
    bool returns;               /* when the answer comes too late, what was taken is given back */
    int64_t began_us;           /* the deadline counts from here (monotonic); 0: from the asking */
} sg_check_t;

/* Units that were taken ahead, and which an allowed check has spent. */
typedef struct sg_spent sg_spent_t;

/* How a decision was made. SG_FROM_CLOSED: the store did not answer and the policy is `closed`:
 * verdict is empty, allowed = false. SG_FROM_OPEN: likewise with allowed = true. */
typedef struct {
    sg_verdict_t verdict;
    sg_source_t source;
    int64_t retry_us;                       /* SG_FROM_CLOSED: when to come again */
    sg_spent_t *spent;                      /* of a check that settles: for sg_store_settle; else NULL */
} sg_answer_t;

typedef void sg_answer_fn(void *arg, const sg_answer_t *answer);

/* Decides at once (returns true, *now filled, fn not called) or later (returns false, *ticket set;
 * fn is called exactly once, never from inside this call, unless the ticket is cancelled). */
bool sg_store_check(sg_store_t *s, const sg_check_t *check, sg_answer_t *now, sg_ticket_t **ticket,
                    sg_answer_fn *fn, void *arg);
/* The callback will not come. The decision may still count in the store; concurrency slots that it
 * takes are released. */
void sg_store_cancel(sg_ticket_t *t);
/* Give the concurrency slots of an allowed check back (those limits of `check` that are of that
 * algorithm). Fire and forget; copies what it needs. `source` as in the answer: a slot is given
 * back where it was taken. */
void sg_store_release(sg_store_t *s, const sg_check_t *check, sg_source_t source);

/* The cost of an allowed check that settles is known now, or never will be (then it is check->cost): charges
 * or gives back the difference to check->cost, once for each limit that took units, where `answer` says that
 * they were taken. Fire and forget; copies what it needs. Call it once. */
void sg_store_settle(sg_store_t *s, const sg_check_t *check, const sg_answer_t *answer, int64_t cost);

typedef struct {
    const char *type;           /* "memory", "redis" */
    bool up;
    bool breaker_open;
    char error[160];            /* last error, "" when none */
    size_t entries;             /* memory store: keys held */
} sg_store_status_t;
void sg_store_status(const sg_store_t *s, sg_store_status_t *out);

/* How a reset ended: `keys` counters are forgotten, or error says why not all of them are. */
typedef void sg_reset_fn(void *arg, size_t keys, const char *error);
/* Forget all counters under this slot tag, in the store that the config asks for. fn comes exactly once:
 * from inside, later, or (with an error) while the store is freed. Denials that other processes and
 * workers remember hold for a second more. */
void sg_store_reset(sg_store_t *s, const char *tag, sg_reset_fn *fn, void *arg);

/* --- making them ------------------------------------------------------------------------------------- */

/* The embedded store: one per process, shared by all workers (its shards are locked inside). */
typedef struct sg_memory sg_memory_t;
sg_memory_t *sg_memory_new(size_t max_entries);
void sg_memory_free(sg_memory_t *m);
/* One decision under one shard's lock; any thread. share_ppm scales every limit (1000000 = whole;
 * never below 1 unit unless the limit is 0). */
void sg_memory_check(sg_memory_t *m, const sg_check_t *check, int64_t share_ppm, int64_t now_us,
                     sg_verdict_t *out);
void sg_memory_release(sg_memory_t *m, const sg_check_t *check, int64_t now_us);
/* `verdict` as sg_memory_check gave it with the same share. */
void sg_memory_settle(sg_memory_t *m, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost,
                      int64_t share_ppm, int64_t now_us);
size_t sg_memory_entries(sg_memory_t *m);
/* Forget what has expired; a bounded amount of work per call (a timer calls it). */
void sg_memory_sweep(sg_memory_t *m, int64_t now_us);
/* All keys with this slot tag go (usage reset); returns how many. */
size_t sg_memory_reset(sg_memory_t *m, const char *tag);

/* Units that the process has taken ahead: one, shared by all workers (locked inside). */
typedef struct sg_blocks sg_blocks_t;
sg_blocks_t *sg_blocks_new(void);
void sg_blocks_free(sg_blocks_t *b);        /* after the stores; NULL is fine */

/* The store that the config asks for: memory, or redis wrapped by breaker and fallback. `memory`
 * also serves as the local fallback. `blocks` NULL: a store that looks only, and takes nothing ahead. The
 * config stays referenced while the store lives. */
sg_store_t *sg_store_new(sg_loop_t *loop, sg_config_t *config, sg_memory_t *memory, sg_blocks_t *blocks,
                         sg_metrics_block_t *metrics);
/* What was taken ahead goes back with the turns of the loop that follow. */
void sg_store_give_back(sg_store_t *s);
/* A reload: takes over the new config; keeps connections where address and credentials are the same. */
void sg_store_reload(sg_store_t *s, sg_config_t *config);
/* Outstanding tickets must have been answered or cancelled. */
void sg_store_free(sg_store_t *s);

#endif
