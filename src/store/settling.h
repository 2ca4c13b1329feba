/* settling.h - a settlement on its way to Redis: a copy of all that its command is made of, since the request
 * that it belongs to is gone by then. */
#ifndef SG_STORE_SETTLING_H
#define SG_STORE_SETTLING_H

#include "base/list.h"
#include "store/script.h"

typedef struct {
    sg_link_t link;             /* while it waits for the connection */
    sg_check_t check;           /* the limits that took units; what it points to lies in this object */
    sg_settlement_t what[SG_LIMITS_MAX];    /* check.count of them */
} sg_settling_t;

/* NULL: there is nothing to settle. Freed with sg_free. */
sg_settling_t *sg_settling_new(const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost);

/* To give back all units that an allowed check takes; its `what` is not known yet. Freed with sg_free. */
sg_settling_t *sg_settling_all(const sg_check_t *check);

/* Those that wait. Zeroed memory is an empty list. */
#define SG_SETTLINGS_MAX 4096
typedef struct {
    sg_link_t head;
    size_t count;
} sg_settlings_t;

/* Takes s. Not NULL: there were too many, and the oldest one is the caller's. */
sg_settling_t *sg_settlings_add(sg_settlings_t *all, sg_settling_t *s);
/* The oldest; there must be one. */
sg_settling_t *sg_settlings_take(sg_settlings_t *all);
void sg_settlings_deinit(sg_settlings_t *all);

#endif
