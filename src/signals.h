/* signals.h - signals as events of the main loop. */
#ifndef SG_SIGNALS_H
#define SG_SIGNALS_H

#include "event/loop.h"

typedef struct sg_signals sg_signals_t;
typedef void sg_signal_fn(void *arg, int signal);

/* Block HUP, TERM, INT, QUIT, USR1 and ignore PIPE; to be called before any thread starts, so that all of
 * them inherit it. */
void sg_signals_block(void);
/* Deliver them to fn in the loop's thread. */
sg_signals_t *sg_signals_new(sg_loop_t *loop, sg_signal_fn *fn, void *arg);
void sg_signals_free(sg_signals_t *s);

#endif
