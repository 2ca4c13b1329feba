/* breaker.h - keeps a dead or hung store from costing each request its deadline.
 * Pure: no clock, no I/O.
 *
 *     CLOSED --SG_BREAKER_FAILURES in a row--> OPEN --probe answered--> TRIAL --decision answered--> CLOSED
 *                                                      ^------- decision failed -------'
 * Probing is the connection's part: while OPEN it is rebuilt, and ends with a PING. A TRIAL that nobody
 * makes use of ends by itself: without traffic the store must not look away for ever. */
#ifndef SG_STORE_BREAKER_H
#define SG_STORE_BREAKER_H

#include <stdbool.h>

#define SG_BREAKER_FAILURES 3

typedef enum { SG_BREAKER_CLOSED, SG_BREAKER_OPEN, SG_BREAKER_TRIAL } sg_breaker_state_t;

/* Zeroed memory is a closed breaker. */
typedef struct {
    sg_breaker_state_t state;
    unsigned failures;          /* in a row, while CLOSED */
    bool trial_out;
} sg_breaker_t;

typedef enum { SG_ADMIT_NO, SG_ADMIT_YES, SG_ADMIT_TRIAL } sg_admit_t;

/* May a decision be sent? After SG_ADMIT_TRIAL one of _succeeded, _failed or _trial_gone must follow. */
sg_admit_t sg_breaker_admit(sg_breaker_t *b);
/* The store answered a decision; true when that closed the breaker, or ended a row of failures. */
bool sg_breaker_succeeded(sg_breaker_t *b);
/* No answer, or a lost connection; true when that opened the breaker. */
bool sg_breaker_failed(sg_breaker_t *b);
void sg_breaker_trial_gone(sg_breaker_t *b);    /* cancelled: nothing was learned */
void sg_breaker_probed(sg_breaker_t *b);        /* the probe was answered */
/* A new connection has lasted for a while, and nobody asked: as _succeeded. */
bool sg_breaker_rested(sg_breaker_t *b);

#endif
