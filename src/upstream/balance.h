/* balance.h - which target of an upstream is next. Pure. Private to upstream/. */
#ifndef SG_UPSTREAM_BALANCE_H
#define SG_UPSTREAM_BALANCE_H

#include "config/config.h"

/* One target as the balancer sees it. */
typedef struct {
    unsigned weight;            /* 0: never picked */
    uint64_t seed;              /* a fixed value of this target in every gateway: sg_fnv1a of its URL */
    bool out;                   /* ejected, or down by its active checks */
    bool tried;                 /* this request has failed on it */
    bool full;                  /* has max_requests in flight */
    int64_t in_flight;
    int64_t current;            /* smooth weighted round robin's own; starts at 0 */
} sg_candidate_t;

typedef enum { SG_PICK_NONE = -1 /* nothing with a weight */, SG_PICK_FULL = -2 } sg_pick_t;

/* The index of the target to use, or an sg_pick_t. Those that are in use and not tried come first, then
 * those in use and tried. Only when every target is out are targets that are out used. `key_hash` is for
 * SG_BALANCE_HASH. Changes `current` of the candidates.
 *
 * round_robin: smooth weighted round robin (the largest running credit wins and pays the sum of weights).
 * least_requests: smallest (in_flight + 1) / weight; round robin among equals.
 * hash: weighted rendezvous hashing (Thaler and Ravishankar 1998; weights by -ln(u)/w, Schindelhauer and
 * Schomaker 2005). A target that goes or comes moves only the keys that were or will be its own. */
int sg_balance_pick(sg_balance_t how, sg_candidate_t *c, size_t n, uint64_t key_hash);

#endif
