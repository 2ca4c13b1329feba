/* block.h - one budget for everybody (per: all) in blocks: a process takes units ahead, and spends them on
 * requests without asking anew. Pure.
 *
 * A unit that is taken at the time t is spent some time later, at most spend_us later. The rule that it is
 * taken by, the ledger, is stricter than the limit by just that, so that what is *spent* keeps to the limit:
 *
 *   fixed window    the same; a block ends with its window
 *   sliding window  one more sub-window; a block is spent within the length of one
 *   sliding log     a window that is longer by spend_us
 *   token bucket,   a capacity that is smaller by what comes back in spend_us
 *   gcra
 *
 * For units that are spent within a span S were taken within S + spend_us. docs/limits.md has the argument in
 * full. */
#ifndef SG_GATE_BLOCK_H
#define SG_GATE_BLOCK_H

#include "gate/limit.h"

/* No unit is kept for longer. */
#define SG_BLOCK_SPEND_MAX_US 1000000

/* Where `block` is not given and units must be taken ahead: a hundredth of the limit. */
int64_t sg_block_default(const sg_limit_t *l);

/* The ledger of `l`, which is finished and has a block and a limit above 0, and how long its units may be
 * spent. SG_ERR_RANGE with a sentence where the block does not fit the limit; SG_ERR_UNSUPPORTED for
 * concurrency, whose slots are no units that are spent. */
SG_MUST sg_err_t sg_block_ledger(const sg_limit_t *l, sg_limit_t *ledger, int64_t *spend_us, sg_why_t *why);

/* How long after the asking began a block that was granted at decided_us (the store's clock) may be spent,
 * in the asker's own monotonic time: no clocks are compared. Less than spend_us by as much as two clocks may
 * differ in pace (0.1 %), and for a fixed window no longer than to its end. */
int64_t sg_block_life_us(const sg_limit_t *ledger, int64_t spend_us, int64_t decided_us);

#endif
