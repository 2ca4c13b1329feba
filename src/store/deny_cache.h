/* deny_cache.h - repeat denials without a question to the store.
 *
 * A denied request changes nothing, and the same request stays denied until the retry time of its
 * violated limits: asking again says nothing new. An entry lives for the shortest retry time of the
 * violated limits, and at most SG_DENY_CACHE_MAX_US, so that a reset or a raised limit elsewhere is
 * seen soon. Just before such an entry would end by its age one request goes to the store, and the others
 * are still denied: else all that are under way would go at the moment when it ends. Concurrency limits
 * are never cached: a slot may come back at any time.
 *
 * A fixed number of places; when there are more denials, one takes the place of another. One thread. */
#ifndef SG_STORE_DENY_CACHE_H
#define SG_STORE_DENY_CACHE_H

#include "store/store.h"

#define SG_DENY_CACHE_MAX_US   1000000
#define SG_DENY_CACHE_AHEAD_US 20000

typedef struct sg_deny_cache sg_deny_cache_t;

sg_deny_cache_t *sg_deny_cache_new(void);
void sg_deny_cache_free(sg_deny_cache_t *c);    /* NULL is fine */

/* Any answer of the store; keeps what can be kept. The limits that `check` points to must outlive
 * the cache: make a new one when the config changes. now_us: monotonic. */
void sg_deny_cache_put(sg_deny_cache_t *c, const sg_check_t *check, const sg_verdict_t *verdict,
                       int64_t now_us);
/* False: ask the store. True: denied; *out is the stored verdict, its clock and times moved on to now_us. */
bool sg_deny_cache_get(sg_deny_cache_t *c, const sg_check_t *check, int64_t now_us, sg_verdict_t *out);

#endif
