#include "event/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { EVENTS_PER_TURN = 256 };

typedef struct letter {
    struct letter *next;
    sg_task_fn *fn;
    void *arg;
} letter_t;

struct sg_loop {
    int epoll_fd, wake_fd;
    atomic_bool stopping;
    int64_t now_us;
    atomic_uint_fast64_t turns;
    sg_heap_t timers;
    sg_link_t tasks, dead, work_hooks, flush_hooks;
    /* The events of this turn that are still to be delivered: sg_watch_stop takes its own out. */
    struct epoll_event events[EVENTS_PER_TURN];
    int event_count, event_at;
    pthread_mutex_t mail_lock;
    letter_t *mail_first, **mail_last;
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "slotgate: %s: %s\n", what, sg_errno_text(errno));
    abort();
}

sg_loop_t *sg_loop_new(void)
{
    sg_loop_t *l = SG_NEW(sg_loop_t);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->epoll_fd < 0 || l->wake_fd < 0)
        die("cannot make an event loop");
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &ev) < 0)
        die("cannot watch the mailbox");
    sg_list_init(&l->tasks);
    sg_list_init(&l->dead);
    sg_list_init(&l->work_hooks);
    sg_list_init(&l->flush_hooks);
    (void)pthread_mutex_init(&l->mail_lock, NULL);
    l->mail_last = &l->mail_first;
    l->now_us = sg_clock_mono_us();
    return l;
}

int64_t sg_loop_now_us(const sg_loop_t *loop)
{
    return loop->now_us;
}

uint64_t sg_loop_turns(const sg_loop_t *loop)
{
    return atomic_load_explicit(&loop->turns, memory_order_relaxed);
}

void sg_loop_stop(sg_loop_t *loop)
{
    atomic_store(&loop->stopping, true);
}

/* --- file events -------------------------------------------------------------------------------------- */

static uint32_t to_epoll(unsigned events)
{
    return (events & SG_EV_READ ? (uint32_t)EPOLLIN : 0) | (events & SG_EV_WRITE ? (uint32_t)EPOLLOUT : 0) |
           (events & SG_EV_RDHUP ? (uint32_t)EPOLLRDHUP : 0);
}

static unsigned from_epoll(uint32_t e)
{
    return (e & EPOLLIN ? SG_EV_READ : 0u) | (e & EPOLLOUT ? SG_EV_WRITE : 0u) |
           (e & EPOLLRDHUP ? SG_EV_RDHUP : 0u) |
           (e & (EPOLLHUP | EPOLLERR) ? SG_EV_HUP : 0u);
}

static void watch_add(sg_loop_t *loop, sg_watch_t *w, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, w->fd, &ev) < 0)
        die("cannot watch a file");
    w->on = true;
}

void sg_watch_start(sg_loop_t *loop, sg_watch_t *w, int fd, unsigned events, sg_watch_fn *fn, void *arg)
{
    sg_watch_stop(loop, w);
    *w = (sg_watch_t){.fd = fd, .events = events, .fn = fn, .arg = arg};
    watch_add(loop, w, to_epoll(events));
}

void sg_watch_start_hangup(sg_loop_t *loop, sg_watch_t *w, int fd, sg_watch_fn *fn, void *arg)
{
    sg_watch_stop(loop, w);
    *w = (sg_watch_t){.fd = fd, .events = SG_EV_RDHUP, .fn = fn, .arg = arg};
    watch_add(loop, w, EPOLLRDHUP | EPOLLET);
}

void sg_watch_set(sg_loop_t *loop, sg_watch_t *w, unsigned events)
{
    if (!w->on || w->events == events)
        return;
    struct epoll_event ev = {.events = to_epoll(events), .data.ptr = w};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev) < 0)
        die("cannot change a watch");
    w->events = events;
}

void sg_watch_stop(sg_loop_t *loop, sg_watch_t *w)
{
    if (!w->on)
        return;
    w->on = false;
    /* libcurl closes the socket of a cancelled connection before it says so: meanwhile another thread may
     * have opened a file under its number, also one that cannot be watched (EPERM). */
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL) < 0 && errno != EBADF && errno != ENOENT &&
        errno != EPERM)
        die("cannot end a watch");
    for (int i = loop->event_at; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == w)
            loop->events[i].events = 0;
}

static void drain_wake(sg_loop_t *loop)
{
    uint64_t n;
    if (read(loop->wake_fd, &n, sizeof n) < 0 && errno != EAGAIN)
        die("cannot read the mailbox");
}

static void deliver_events(sg_loop_t *loop)
{
    while (loop->event_at < loop->event_count) {
        struct epoll_event *e = &loop->events[loop->event_at++];
        sg_watch_t *w = e->data.ptr;
        if (e->events == 0)
            continue;
        if (w)
            w->fn(w->arg, from_epoll(e->events));
        else
            drain_wake(loop);
    }
}

/* --- timers ------------------------------------------------------------------------------------------- */

void sg_timer_at(sg_loop_t *loop, sg_timer_t *t, int64_t at_us, sg_timer_fn *fn, void *arg)
{
    sg_heap_remove(&loop->timers, &t->node);
    t->fn = fn;
    t->arg = arg;
    sg_heap_push(&loop->timers, &t->node, at_us);
}

void sg_timer_in(sg_loop_t *loop, sg_timer_t *t, int64_t delay_us, sg_timer_fn *fn, void *arg)
{
    sg_timer_at(loop, t, loop->now_us + delay_us, fn, arg);
}

void sg_timer_stop(sg_loop_t *loop, sg_timer_t *t)
{
    sg_heap_remove(&loop->timers, &t->node);
}

/* Timers that a callback starts for now or earlier wait for the next turn, so that this one ends. */
static void run_timers(sg_loop_t *loop)
{
    for (size_t bound = loop->timers.count; bound > 0; bound--) {
        sg_heap_node_t *top = sg_heap_top(&loop->timers);
        if (!top || top->key > loop->now_us)
            return;
        sg_timer_t *t = SG_OWNER(top, sg_timer_t, node);
        sg_heap_remove(&loop->timers, top);
        t->fn(t->arg);
    }
}

static int wait_ms(const sg_loop_t *loop, int64_t max_wait_us)
{
    int64_t wait_us = max_wait_us;
    sg_heap_node_t *top = sg_heap_top(&loop->timers);
    if (top) {
        int64_t due_us = top->key - sg_clock_mono_us();
        if (due_us < 0)
            due_us = 0;
        if (wait_us < 0 || due_us < wait_us)
            wait_us = due_us;
    }
    if (wait_us < 0)
        return -1;
    int64_t ms = (wait_us + 999) / 1000;
    return ms > 60000 ? 60000 : (int)ms;
}

/* --- deferred work and hooks -------------------------------------------------------------------------- */

static void put_task(sg_link_t *list, sg_task_t *t, sg_task_fn *fn, void *arg)
{
    if (sg_list_linked(&t->link))
        return;
    t->fn = fn;
    t->arg = arg;
    sg_list_push_back(list, &t->link);
}

void sg_defer(sg_loop_t *loop, sg_task_t *t, sg_task_fn *fn, void *arg)
{
    put_task(&loop->tasks, t, fn, arg);
}

void sg_defer_free(sg_loop_t *loop, sg_task_t *t, sg_task_fn *fn, void *arg)
{
    put_task(&loop->dead, t, fn, arg);
}

void sg_defer_cancel(sg_task_t *t)
{
    sg_list_remove(&t->link);
}

static void run_tasks(sg_link_t *list)
{
    sg_link_t *l;
    while ((l = sg_list_pop(list))) {
        sg_task_t *t = SG_OWNER(l, sg_task_t, link);
        t->fn(t->arg);
    }
}

static void add_hook(sg_link_t *list, sg_hook_t *h, sg_task_fn *fn, void *arg)
{
    h->fn = fn;
    h->arg = arg;
    sg_list_push_back(list, &h->link);
}

void sg_hook_work(sg_loop_t *loop, sg_hook_t *h, sg_task_fn *fn, void *arg)
{
    add_hook(&loop->work_hooks, h, fn, arg);
}

void sg_hook_flush(sg_loop_t *loop, sg_hook_t *h, sg_task_fn *fn, void *arg)
{
    add_hook(&loop->flush_hooks, h, fn, arg);
}

void sg_hook_remove(sg_hook_t *h)
{
    sg_list_remove(&h->link);
}

static void run_hooks(sg_link_t *list)
{
    SG_LIST_EACH(l, list) {
        sg_hook_t *h = SG_OWNER(l, sg_hook_t, link);
        h->fn(h->arg);
    }
}

/* Hooks may leave tasks, and tasks may leave work for the hooks (an MHD connection resumed): both run
 * until no task is left. A bound keeps a turn finite; what is left then runs in the next one. */
static void run_work(sg_loop_t *loop)
{
    run_hooks(&loop->work_hooks);
    for (int round = 0; round < 16 && !sg_list_empty(&loop->tasks); round++) {
        run_tasks(&loop->tasks);
        run_hooks(&loop->work_hooks);
    }
}

/* --- mailbox ------------------------------------------------------------------------------------------ */

void sg_loop_post(sg_loop_t *loop, sg_task_fn *fn, void *arg)
{
    letter_t *l = SG_NEW(letter_t);
    l->fn = fn;
    l->arg = arg;
    (void)pthread_mutex_lock(&loop->mail_lock);
    *loop->mail_last = l;
    loop->mail_last = &l->next;
    (void)pthread_mutex_unlock(&loop->mail_lock);
    uint64_t one = 1;
    if (write(loop->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        die("cannot wake a loop");
}

static void read_mail(sg_loop_t *loop)
{
    (void)pthread_mutex_lock(&loop->mail_lock);
    letter_t *l = loop->mail_first;
    loop->mail_first = NULL;
    loop->mail_last = &loop->mail_first;
    (void)pthread_mutex_unlock(&loop->mail_lock);
    while (l) {
        letter_t *next = l->next;
        l->fn(l->arg);
        sg_free(l);
        l = next;
    }
}

/* --- the turn ----------------------------------------------------------------------------------------- */

void sg_loop_turn(sg_loop_t *loop, int64_t max_wait_us)
{
    int wait = sg_list_empty(&loop->tasks) ? wait_ms(loop, max_wait_us) : 0;
    int n = epoll_wait(loop->epoll_fd, loop->events, EVENTS_PER_TURN, wait);
    if (n < 0 && errno != EINTR)
        die("cannot wait for events");
    loop->event_count = n < 0 ? 0 : n;
    loop->event_at = 0;
    loop->now_us = sg_clock_mono_us();
    atomic_fetch_add_explicit(&loop->turns, 1, memory_order_relaxed);
    deliver_events(loop);
    loop->event_count = 0;
    run_timers(loop);
    read_mail(loop);
    run_work(loop);
    run_hooks(&loop->flush_hooks);
    run_tasks(&loop->dead);
}

void sg_loop_run(sg_loop_t *loop)
{
    while (!atomic_load(&loop->stopping))
        sg_loop_turn(loop, -1);
}

void sg_loop_free(sg_loop_t *loop)
{
    read_mail(loop);
    run_tasks(&loop->tasks);
    run_tasks(&loop->dead);
    sg_heap_deinit(&loop->timers);
    (void)pthread_mutex_destroy(&loop->mail_lock);
    (void)close(loop->epoll_fd);
    (void)close(loop->wake_fd);
    sg_free(loop);
}
