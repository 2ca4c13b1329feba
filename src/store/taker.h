/* taker.h - one worker's side of the piles: it asks the ledgers for units, has requests that wait for them,
 * and gives back what was not spent in time.
 *
 * All in the loop's thread. */
#ifndef SG_STORE_TAKER_H
#define SG_STORE_TAKER_H

#include "store/blocks.h"

/* What is asked of the store around it. */
typedef struct {
    /* As sg_store_check, where all keys lie in one slot. SG_FROM_CLOSED when no answer comes. `cached`: a
     * remembered denial will do. */
    bool (*ask)(void *arg, const sg_check_t *check, bool cached, sg_answer_t *now, sg_ticket_t **ticket,
                sg_answer_fn *fn, void *fn_arg);
    void (*release)(void *arg, const sg_check_t *check);
    void (*settle)(void *arg, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost);
    /* No answer came: the policy's. */
    void (*failed)(void *arg, const sg_check_t *check, sg_answer_t *out);
    void *arg;
} sg_store_hooks_t;

typedef struct sg_taker sg_taker_t; /* of one pile */

typedef struct {
    sg_loop_t *loop;
    sg_config_t *config; /* referenced */
    sg_blocks_t *blocks; /* NULL: nothing is taken ahead */
    sg_metrics_block_t *metrics;
    sg_store_hooks_t hooks;
    sg_link_t all;
    sg_taker_t **by_limit; /* by sg_limit_t.index; NULL: no ledger */
} sg_takers_t;

void sg_takers_init(sg_takers_t *t, sg_loop_t *loop, sg_config_t *config, sg_blocks_t *blocks,
                    sg_metrics_block_t *metrics, const sg_store_hooks_t *hooks);
/* Blocks of limits that are no more, or have changed, go back. Call it before the store turns to another
 * server. */
void sg_takers_reload(sg_takers_t *t, sg_config_t *config);
/* All blocks go back. */
void sg_takers_give_back(sg_takers_t *t);
/* Nobody may want anything any more. */
void sg_takers_deinit(sg_takers_t *t);

/* NULL: `l` has no ledger, or is not of the config in use. */
sg_taker_t *sg_takers_find(const sg_takers_t *t, const sg_limit_t *l);

/* Units for one request. */
typedef enum { SG_WANT_OPEN, SG_WANT_GRANTED, SG_WANT_DENIED, SG_WANT_FAILED } sg_want_state_t;
typedef struct sg_want {
    sg_link_t link; /* while it is open */
    int64_t units;
    void (*done)(struct sg_want *w); /* it is open no more; never from inside sg_taker_want */
    sg_want_state_t state;
    bool cached;              /* the denial was remembered */
    sg_limit_result_t result; /* granted, denied */
    sg_block_t *block;        /* granted: a reference */
    int64_t since_us;         /* when it came */
    int64_t now_us;           /* what the ledger's clock says, about */
} sg_want_t;

/* The caller has set units (> 0) and done. */
void sg_taker_want(sg_taker_t *t, sg_want_t *w);
/* Open: nobody waits any more, and it has failed. Else nothing. */
void sg_want_stop(sg_want_t *w);

/* Units of a block that were spent and are not needed; the reference goes. */
void sg_takers_put_back(sg_takers_t *t, sg_block_t *b, int64_t units);
/* What cost `reserved` turned out to cost more; `name` is that request's. */
void sg_takers_charge(sg_takers_t *t, sg_block_t *b, const char *name, int64_t reserved, int64_t cost);

#endif
