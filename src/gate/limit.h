/* limit.h - what a limit is, what is kept of it, and how a decision is made: the pure part that the memory
 * store uses and that the Redis script mirrors.
 *
 * All arithmetic is in integers (µs; whole units; exact fractions), so that C and Lua give the same
 * answers. */
#ifndef SG_GATE_LIMIT_H
#define SG_GATE_LIMIT_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/str.h"

/* Most limits that one request may have to pass; the config check holds it. */
#define SG_LIMITS_MAX 32
/* 2^53 - 1: what a Redis script can hold in a number. */
#define SG_LIMIT_NUMBER_MAX INT64_C(9007199254740991)
#define SG_WINDOW_MAX_US (INT64_C(366) * 86400 * 1000000)

typedef enum {
    SG_ALGO_TOKEN_BUCKET,
    SG_ALGO_GCRA,
    SG_ALGO_FIXED_WINDOW,
    SG_ALGO_SLIDING_WINDOW,
    SG_ALGO_SLIDING_LOG,
    SG_ALGO_CONCURRENCY,
    SG_ALGO_COUNT
} sg_algo_t;

typedef enum { SG_PER_TENANT, SG_PER_KEY, SG_PER_IP, SG_PER_ALL } sg_scope_t;

/* One rule, with plan and overrides applied. Owned by the config snapshot; immutable. */
typedef struct sg_limit {
    const char *name;           /* class.limit: "search.burst" */
    sg_algo_t algo;
    sg_scope_t per;
    bool dry_run;
    bool unlimited;             /* switched off for this tenant or plan */
    int64_t limit;              /* units: capacity, burst, or limit */
    int64_t rate_count;         /* token bucket, gcra: rate_count units per rate_us, in lowest terms */
    int64_t rate_us;
    int64_t window_us;          /* windows and log; token bucket, gcra: time to fill, rounded up */
    int64_t lease_us;           /* concurrency */
    uint32_t precision;         /* sliding window: sub-windows per window */
    int64_t block;              /* per: all: most units that a process takes ahead; 0: none */
    /* What units are taken ahead by, in a Redis that counts for several processes (gate/block.h); NULL: each
     * request's units are taken when it comes. */
    const struct sg_limit *ledger;
    int64_t spend_us;           /* ... and for how long they may be spent */
    unsigned index;             /* place in the config's table of limits */
    unsigned metric;            /* id from metrics/, stable across reloads */
} sg_limit_t;

/* The rule that its key in Redis is of. */
static inline const sg_limit_t *sg_limit_kept(const sg_limit_t *l)
{
    return l->ledger ? l->ledger : l;
}

/* "token_bucket" and so on; two letters of the key name: "tb". */
const char *sg_algo_name(sg_algo_t a);
const char *sg_scope_name(sg_scope_t per);
const char *sg_algo_code(sg_algo_t a);

/* Reduce rate, compute window_us of a bucket, and check the bounds that the arithmetic needs (every product
 * below 2^53, or exact by other means). SG_ERR_RANGE with a sentence that names the greatest value
 * allowed. */
SG_MUST sg_err_t sg_limit_finish(sg_limit_t *l, sg_why_t *why);

/* A share of a finished limit, `ppm` of 10^6, rate included: rounded down, but never below 1 unit unless
 * the limit is 0. For the C algorithms only: numbers may be too fine for the script. */
void sg_limit_scale(const sg_limit_t *l, int64_t ppm, sg_limit_t *out);

/* --- key names ----------------------------------------------------------------------------------- */

/* No key name is longer; config caps prefix, version and names so that this holds. */
#define SG_KEY_BYTES 200

/* What a request's keys are made of. */
typedef struct {
    sg_str_t prefix, version;   /* store.key_prefix, store.key_version */
    const char *tag;            /* slot tag */
    const char *key;            /* hash of the API key; NULL for anonymous callers */
    const char *ip;             /* hash of the client IP */
} sg_key_scope_t;

/* The one function that builds key names (schema in docs/limits.md). now_us picks a fixed window's bucket,
 * and *bucket gets it (0 for the other algorithms). Returns a view of `out`. */
sg_str_t sg_limit_key(const sg_key_scope_t *scope, const sg_limit_t *l, int64_t now_us,
                      char out[SG_KEY_BYTES], int64_t *bucket);

/* --- results --------------------------------------------------------------------------------------- */

typedef struct {
    bool allowed;               /* by this limit alone */
    bool never;                 /* cost > limit (or limit 0): no waiting helps */
    int64_t remaining;          /* whole units left after the decision; as it was, if that is denied */
    int64_t reset_us;           /* until the state is as if unused: full, window over, newest entry out */
    int64_t more_us;            /* until one more unit than `remaining` is there; 0 when none is used */
    int64_t retry_us;           /* denied: until `cost` passes if nobody else uses the quota; else 0 */
    int64_t given;              /* token bucket, gcra: the state's, for a settlement */
} sg_limit_result_t;

/* What the store answers for a request. */
typedef struct {
    bool allowed;               /* every enforced limit allowed it */
    int64_t now_us;             /* the store's clock at the decision, exact */
    size_t count;
    sg_limit_result_t at[SG_LIMITS_MAX];    /* in the order asked */
} sg_verdict_t;

/* --- state, as the memory store keeps it -------------------------------------------------------------- */

/* Zeroed memory is the state of a key that does not exist. Owned by one memory-store entry. */
typedef struct {
    bool exists;
    int64_t a, b, c;            /* by algorithm: tokens, ts, frac | TAT, frac | count | sub-window width */
    /* Token bucket, gcra: the capacity (gcra: what is owed, if that is more than the capacity) and rate that
     * it was written under. */
    int64_t rule[3];
    /* Token bucket, gcra: units that settlements have given back since it was last full; and when it was used
     * again, after it had been full in spite of them. */
    int64_t given, since_us;
    void *more;                 /* sub-windows, log, leases: sg_malloc'd, freed by sg_limit_state_free */
} sg_limit_state_t;

void sg_limit_state_free(sg_limit_state_t *s);

/* Two steps, so that all limits of a request decide before any of them writes:
 * `look` computes the result and changes nothing that matters; `take` records `cost` units after every
 * enforced limit said yes, `lease` names a concurrency slot. Cost 0 is a peek: take is not called. `now_us`
 * is epoch time; one that runs backwards never refills and never blocks longer than one window. */
void sg_limit_look(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                   sg_limit_result_t *out);
/* Updates *out (remaining, reset, more) to what holds after the taking. */
void sg_limit_take(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                   sg_limit_result_t *out);
/* One decision over all limits of a request, states[i] belonging to limits[i]: all look, and where every
 * enforced one allows, all that allow take; a dry-run limit never denies. Times in results are whole ms
 * rounded up, as in the script's reply. */
void sg_limit_decide(const sg_limit_t *const *limits, sg_limit_state_t *const *states, size_t count,
                     int64_t cost, int64_t now_us, const char *lease, sg_verdict_t *out);
/* Concurrency: give a slot back. Unknown leases are ignored. */
void sg_limit_release(sg_limit_state_t *s, const char *lease);

/* --- a cost that is known afterwards
 * ------------------------------------------------------------------------------ */

/* What a decision took, and what it should have. */
typedef struct {
    int64_t reserve;            /* units that were taken */
    int64_t delta;              /* the real cost less the reserve */
    int64_t decided_us;         /* the verdict's now_us */
    int64_t level;              /* token bucket, gcra: units that were owed right after it, at least */
    int64_t given;              /* likewise: the verdict's */
} sg_settlement_t;

/* What limit i of an allowed decision has to settle, when `reserve` units turn out to be `cost`. `l` is the
 * limit as it was decided by. False: nothing; it took no units, or as many. */
bool sg_limit_settlement(const sg_limit_t *l, const sg_verdict_t *v, size_t i, int64_t reserve, int64_t cost,
                         sg_settlement_t *out);
/* Which time's state a settlement is for: a fixed window's refund goes to the window of the decision, all
 * else to the present. */
int64_t sg_limit_settle_at_us(const sg_settlement_t *what, int64_t now_us);
/* Once, where the decision took: more is charged as of now, also beyond the limit, so that the next requests
 * wait; less goes back where it was taken, as far as it still counts there. Concurrency limits are left
 * alone. `lease` is the decision's. */
void sg_limit_settle(const sg_limit_t *l, sg_limit_state_t *s, const sg_settlement_t *what, int64_t now_us,
                     const char *lease);

/* How long the key must live from now_us on, µs: algorithm's own time + 1 s grace + the key's jitter (up to
 * 10 % of the window, at most 300 s, from the key name). Never 0. A token bucket or gcra that owes more
 * than its capacity must live longer: to its reset. */
int64_t sg_limit_ttl_us(const sg_limit_t *l, sg_str_t key, int64_t now_us);
int64_t sg_limit_jitter_us(const sg_limit_t *l, sg_str_t key);

#endif
