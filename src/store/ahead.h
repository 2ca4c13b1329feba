/* ahead.h - decisions in which a limit counts that lies in another slot than the request's own keys: budgets
 * for everybody (per: all) in blocks that are taken ahead, and in a cluster all other limits per: all.
 *
 * The request's own limits are still one script, and all or nothing: what the others need is spent first, and
 * put back when the script denies. When one of the others denies, the script is asked all the same, with one
 * more limit that denies everything: it writes nothing, and says what is left.
 *
 * One worker's; all in the loop's thread. */
#ifndef SG_STORE_AHEAD_H
#define SG_STORE_AHEAD_H

#include "store/taker.h"

typedef struct sg_ahead sg_ahead_t;

/* `blocks` NULL: nothing is taken ahead, other limits are asked one by one. */
sg_ahead_t *sg_ahead_new(sg_loop_t *loop, sg_config_t *config, sg_blocks_t *blocks,
                         sg_metrics_block_t *metrics, const sg_store_hooks_t *hooks);
/* As sg_takers_reload and sg_takers_give_back. */
void sg_ahead_reload(sg_ahead_t *a, sg_config_t *config);
void sg_ahead_give_back(sg_ahead_t *a);
/* Tickets must have been answered or cancelled. */
void sg_ahead_free(sg_ahead_t *a);

/* Is there such a limit in the check? */
bool sg_ahead_is_for(const sg_ahead_t *a, const sg_check_t *check);
/* As sg_store_check. */
bool sg_ahead_check(sg_ahead_t *a, const sg_check_t *check, sg_answer_t *now, sg_ticket_t **ticket,
                    sg_answer_fn *fn, void *arg);
/* As sg_store_release and sg_store_settle, for decisions that the store made. */
void sg_ahead_release(sg_ahead_t *a, const sg_check_t *check);
void sg_ahead_settle(sg_ahead_t *a, const sg_check_t *check, const sg_answer_t *answer, int64_t cost);

#endif
