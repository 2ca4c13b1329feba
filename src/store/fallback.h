/* fallback.h - what is answered when the store does not. */
#ifndef SG_STORE_FALLBACK_H
#define SG_STORE_FALLBACK_H

#include "store/store.h"

/* SG_FROM_CLOSED: when to come again. The breaker finds a store that is back within this time. */
#define SG_FALLBACK_RETRY_US 1000000

/* By the route's policy, or the store's where it says nothing. `local`: `memory` decides, with
 * local_share of each limit. */
void sg_fallback_answer(const sg_store_conf_t *conf, sg_memory_t *memory, const sg_check_t *check,
                        sg_answer_t *out);

#endif
