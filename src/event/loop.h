/* loop.h - one epoll loop: file events, timers, deferred work, a mailbox from other threads.
 *
 * All functions but sg_loop_post and sg_loop_turns belong to the thread that runs the loop.
 * A turn: wait -> file events -> timers -> mailbox -> `work` hooks and deferred tasks until
 * none is left -> `flush` hooks (write out what piled up) -> free what is dead. */
#ifndef SG_EVENT_LOOP_H
#define SG_EVENT_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"

typedef struct sg_loop sg_loop_t;

sg_loop_t *sg_loop_new(void);       /* aborts when the kernel gives no epoll or eventfd */
void sg_loop_free(sg_loop_t *loop); /* all watches, timers and tasks must be off by then */
void sg_loop_run(sg_loop_t *loop);  /* until sg_loop_stop */
void sg_loop_turn(sg_loop_t *loop, int64_t max_wait_us);     /* one turn; for tests */
void sg_loop_stop(sg_loop_t *loop);

/* Monotonic time in µs, read once per turn. */
int64_t sg_loop_now_us(const sg_loop_t *loop);
/* Number of turns so far; any thread (a watchdog reads it). */
uint64_t sg_loop_turns(const sg_loop_t *loop);

/* --- file events ---------------------------------------------------------------------------- */

enum { SG_EV_READ = 1, SG_EV_WRITE = 2, SG_EV_RDHUP = 4, SG_EV_HUP = 8 /* HUP or ERR, always on */ };

typedef struct sg_watch sg_watch_t;
typedef void sg_watch_fn(void *arg, unsigned events);

/* Lies in its owner. Zeroed memory is a watch that is off. */
struct sg_watch {
    int fd;
    unsigned events;
    bool on;
    sg_watch_fn *fn;
    void *arg;
};

/* Level-triggered. The fd stays the caller's. `events` may be 0: only HUP is reported then. */
void sg_watch_start(sg_loop_t *loop, sg_watch_t *w, int fd, unsigned events, sg_watch_fn *fn, void *arg);
/* Edge-triggered RDHUP only: tells once that the peer closed its side. */
void sg_watch_start_hangup(sg_loop_t *loop, sg_watch_t *w, int fd, sg_watch_fn *fn, void *arg);
void sg_watch_set(sg_loop_t *loop, sg_watch_t *w, unsigned events);     /* no system call when equal */
/* Safe when off; no event of this watch is delivered after it returns, also in this turn. Call it
 * before closing the fd. */
void sg_watch_stop(sg_loop_t *loop, sg_watch_t *w);

/* --- timers ---------------------------------------------------------------------------------- */

typedef void sg_timer_fn(void *arg);

/* Lies in its owner. Zeroed memory is a timer that is off. Fires once. */
typedef struct {
    sg_heap_node_t node;
    sg_timer_fn *fn;
    void *arg;
} sg_timer_t;

/* Starts or moves it. Absolute monotonic µs. */
void sg_timer_at(sg_loop_t *loop, sg_timer_t *t, int64_t at_us, sg_timer_fn *fn, void *arg);
void sg_timer_in(sg_loop_t *loop, sg_timer_t *t, int64_t delay_us, sg_timer_fn *fn, void *arg);
void sg_timer_stop(sg_loop_t *loop, sg_timer_t *t);     /* safe when off */
static inline bool sg_timer_is_on(const sg_timer_t *t)
{
    return t->node.index != 0;
}

/* --- deferred work ---------------------------------------------------------------------------- */

typedef void sg_task_fn(void *arg);

/* Lies in its owner. Runs once, later in this turn, never from inside the call that asked for it. */
typedef struct {
    sg_link_t link;
    sg_task_fn *fn;
    void *arg;
} sg_task_t;

/* no effect when already waiting */
void sg_defer(sg_loop_t *loop, sg_task_t *t, sg_task_fn *fn, void *arg);
void sg_defer_cancel(sg_task_t *t);                                         /* safe when not waiting */
/* Like sg_defer, but at the very end of the turn: for freeing what callbacks above may still touch. */
void sg_defer_free(sg_loop_t *loop, sg_task_t *t, sg_task_fn *fn, void *arg);

/* --- hooks ------------------------------------------------------------------------------------- */

/* Lies in its owner; called each turn, in the order of adding. */
typedef struct {
    sg_link_t link;
    sg_task_fn *fn;
    void *arg;
} sg_hook_t;

/* after events, before and after tasks */
void sg_hook_work(sg_loop_t *loop, sg_hook_t *h, sg_task_fn *fn, void *arg);
void sg_hook_flush(sg_loop_t *loop, sg_hook_t *h, sg_task_fn *fn, void *arg);   /* before sleeping */
void sg_hook_remove(sg_hook_t *h);

/* --- mailbox ------------------------------------------------------------------------------------ */

/* A message from any thread; `fn(arg)` runs in the loop's thread. Ownership of arg moves with it. In order
 * per sender. Messages that wait when the loop is freed are run then. */
void sg_loop_post(sg_loop_t *loop, sg_task_fn *fn, void *arg);

#endif
