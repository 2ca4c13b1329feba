/* group.h - one upstream of a config in one worker: its targets' pools and how they are balanced. Private
 * to upstream/. */
#ifndef SG_UPSTREAM_GROUP_H
#define SG_UPSTREAM_GROUP_H

#include "upstream/balance.h"
#include "upstream/health.h"
#include "upstream/pool.h"

typedef struct {
    const sg_upstream_conf_t *bound;    /* the config's own; never followed, only compared */
    sg_arena_t *arena;
    char *name;
    sg_balance_t balance;
    int64_t max_requests;
    unsigned eject_failures;
    int64_t eject_us;
    size_t count;
    sg_pool_t **pools;              /* by target index */
    sg_candidate_t *candidates;     /* likewise */
    bool checked;                   /* active checks are configured: without, `down` means nothing */
    sg_health_t **checks;           /* by target index; NULL before sg_group_check */
    sg_link_t link;                 /* of old groups */
} sg_group_t;

/* Copies what it needs of conf; takes references of its pools. */
sg_group_t *sg_group_new(sg_pools_t *all, const sg_upstream_conf_t *conf);
/* Begin active checks, when the conf has them. */
void sg_group_check(sg_group_t *g, const sg_upstream_conf_t *conf, sg_health_fn *changed, void *arg);
void sg_group_free(sg_group_t *g);
/* The group was made from this conf, not from an earlier one at the same address. */
bool sg_group_is_of(const sg_group_t *g, const sg_upstream_conf_t *conf);
/* Choose a target and take a slot there. SG_ERR_FULL: all have max_requests in flight; SG_ERR_NOT_FOUND: no
 * target. */
SG_MUST sg_err_t sg_group_pick(sg_group_t *g, const sg_dial_request_t *req, unsigned *index);
bool sg_group_target_is_up(const sg_group_t *g, size_t index);

#endif
