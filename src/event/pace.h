/* pace.h - for a library that asks to be run again at once, again and again, and shows nothing for it: it is
 * let do so for a while, then run only now and then, until something happens. libmicrohttpd 0.9 does it while
 * a line of chunk framing is larger than its buffer, and would keep a core busy until the deadline of the
 * body. */
#ifndef SG_EVENT_PACE_H
#define SG_EVENT_PACE_H

#include <stdint.h>

typedef struct {
    unsigned in_vain; /* runs in a row */
} sg_pace_t;

enum { SG_PACE_RUNS = 256, SG_PACE_PAUSE_US = 10000 };

/* There was an event, or the library called: runs make sense again. */
static inline void sg_pace_reset(sg_pace_t *p)
{
    p->in_vain = 0;
}

/* The library has run and wants to run again at once: how long to wait, 0 for not at all. */
static inline int64_t sg_pace_wait_us(sg_pace_t *p)
{
    if (p->in_vain == SG_PACE_RUNS)
        return SG_PACE_PAUSE_US;
    p->in_vain++;
    return 0;
}

#endif
