/* blocks.h - units that this process has taken ahead: for each limit with a ledger (gate/block.h) a pile of
 * blocks, from which all workers spend.
 *
 * Any thread; locked inside, for a few steps. Times are monotonic µs. A block is given back by the worker
 * that took it, its owner. */
#ifndef SG_STORE_BLOCKS_H
#define SG_STORE_BLOCKS_H

#include "base/random.h"
#include "event/loop.h"
#include "store/store.h"

typedef struct sg_pile sg_pile_t;

/* The units that one asking was granted. Counted: everything that was spent of it has a reference until it is
 * certain, and the owner has one. By the pile's lock, but for the owner's part. */
typedef struct {
    sg_pile_t *pile;   /* referenced */
    sg_link_t stacked; /* while it is there to be spent from */
    unsigned refs;
    char name[SG_RANDOM_ID_BYTES]; /* what the units were taken as */
    int64_t taken, left, back;     /* units: of the whole; not spent; given back */
    int64_t until_us;              /* spent before that, or not at all */
    bool over;                     /* closed */
    int64_t decided_us;
    sg_limit_result_t granted; /* the store's answer */
    struct {
        sg_timer_t expiry;
        sg_link_t link;
        void *arg;
    } owner;
} sg_block_t;

/* Units of a block on their way back to the ledger. */
typedef struct {
    int64_t units; /* 0: nothing to do */
    int64_t taken; /* that the ledger still counted for the block */
} sg_give_back_t;

/* The pile of `l`, which must have a ledger; found again by the store's place, and all that the key and the
 * rule are made of. Copies what it needs. Referenced; the reference goes with sg_pile_unref. */
sg_pile_t *sg_pile_open(sg_blocks_t *all, const sg_store_conf_t *store, const sg_limit_t *l);
void sg_pile_unref(sg_pile_t *p);

/* Is its ledger in this store? After a reload it may not be. */
bool sg_pile_is_at(const sg_pile_t *p, const sg_store_conf_t *store);
/* The rule to ask by, and what its key is made of; as long as the pile lives. */
const sg_limit_t *sg_pile_ledger(const sg_pile_t *p);
const sg_key_scope_t *sg_pile_scope(const sg_pile_t *p);

/* Spends `units` (> 0) of one block: a reference to it, or NULL when none has so many. *result, filled then,
 * is what is left for everybody, as far as this process knows. */
sg_block_t *sg_pile_spend(sg_pile_t *p, int64_t units, int64_t now_us, sg_limit_result_t *result);
/* They are spent for good: the reference goes. */
void sg_block_keep(sg_block_t *b);
/* They were not needed. False: they can be spent again, and the reference is gone. True: the block is over,
 * and *out goes back to the ledger; the reference stays until sg_block_keep. */
bool sg_block_put_back(sg_block_t *b, int64_t units, sg_give_back_t *out);

/* How many units are to be fetched ahead now; if more than 0, the caller fetches them, nobody else does until
 * sg_pile_fetched. `wanting`: a request waits for units. The number doubles with each asking that follows the
 * last one within the time that a block may be spent, up to the limit's `block`, and falls to what was spent
 * of it when a block ends with units left: a process that is asked little holds little. */
int64_t sg_pile_fetch(sg_pile_t *p, bool wanting, int64_t now_us);
/* pause_us > 0: there were none; nothing is fetched ahead for so long, and at most a second. */
void sg_pile_fetched(sg_pile_t *p, int64_t pause_us, int64_t now_us);

/* A granted asking that began at asked_us. For nobody but the owner until it is published. */
sg_block_t *sg_block_new(sg_pile_t *p, const char *name, int64_t units, int64_t asked_us, int64_t now_us,
                         const sg_verdict_t *verdict);
/* As sg_pile_spend, from this block, whatever its time: the caller looks to that. */
bool sg_block_spend(sg_block_t *b, int64_t units, int64_t now_us, sg_limit_result_t *result);
void sg_block_publish(sg_block_t *b);
/* Nothing is spent of it any more, and what is left goes back. The owner's reference stays until
 * sg_block_keep. */
void sg_block_close(sg_block_t *b, sg_give_back_t *out);

/* A denial by the ledger is remembered: at most a second, at most for its retry time, for this very cost. */
void sg_pile_deny(sg_pile_t *p, int64_t cost, const sg_limit_result_t *result, int64_t now_us);
bool sg_pile_is_denied(sg_pile_t *p, int64_t cost, int64_t now_us, sg_limit_result_t *result);

/* What the ledger's clock (epoch µs) says at now_us, by its last answer. */
int64_t sg_pile_clock_us(sg_pile_t *p, int64_t now_us);

#endif
