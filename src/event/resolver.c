/* resolver.c - one detached thread per look-up. The thread and the loop share the handle: under its lock
 * the thread either sees that it was cancelled and frees it, or posts it to the loop, which frees it. */
#include "event/resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>

#include "base/mem.h"

struct sg_resolve {
    pthread_mutex_t lock;       /* guards `cancelled` */
    bool cancelled;
    sg_loop_t *loop;
    sg_task_t task;             /* numeric hosts and threads that did not start */
    sg_resolve_fn *fn;
    void *arg;
    char *host;
    sg_addr_t addrs[SG_RESOLVE_MAX];
    size_t count;
};

static void resolve_free(sg_resolve_t *r)
{
    pthread_mutex_destroy(&r->lock);
    sg_free(r->host);
    sg_free(r);
}

const sg_addr_t *sg_resolve_all(const sg_resolve_t *r, size_t *count)
{
    *count = r->count;
    return r->addrs;
}

/* In the loop's thread. */
static void deliver(void *arg)
{
    sg_resolve_t *r = arg;
    pthread_mutex_lock(&r->lock);       /* the thread that posted it has let go */
    bool cancelled = r->cancelled;
    pthread_mutex_unlock(&r->lock);
    if (!cancelled)
        r->fn(r->arg, r->count ? SG_OK : SG_ERR_RESOLVE, r->addrs);
    resolve_free(r);
}

static void keep_address(sg_resolve_t *r, const struct sockaddr *sa)
{
    sg_addr_t a;
    if (r->count == SG_RESOLVE_MAX || sg_addr_from_sockaddr(sa, &a) != SG_OK)
        return;
    for (size_t i = 0; i < r->count; i++)
        if (sg_addr_eq(&r->addrs[i], &a))
            return;
    r->addrs[r->count++] = a;
}

static void look_up(sg_resolve_t *r)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    if (getaddrinfo(r->host, NULL, &hints, &list) != 0)
        return;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        keep_address(r, a->ai_addr);
    freeaddrinfo(list);
}

static void *resolve_thread(void *arg)
{
    sg_resolve_t *r = arg;
    look_up(r);
    pthread_mutex_lock(&r->lock);
    bool cancelled = r->cancelled;
    if (!cancelled)
        sg_loop_post(r->loop, deliver, r);
    pthread_mutex_unlock(&r->lock);
    if (cancelled)
        resolve_free(r);
    return NULL;
}

/* Signals stay with the threads that expect them. */
static bool start_thread(sg_resolve_t *r)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    if (pthread_attr_init(&attr) != 0)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0 &&
              pthread_create(&thread, &attr, resolve_thread, r) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return ok;
}

sg_resolve_t *sg_resolve_start(sg_loop_t *loop, const char *host, sg_resolve_fn *fn, void *arg)
{
    sg_resolve_t *r = SG_NEW(sg_resolve_t);
    pthread_mutex_init(&r->lock, NULL);
    r->loop = loop;
    r->fn = fn;
    r->arg = arg;
    r->host = sg_strdup(host);
    bool numeric = sg_addr_parse(sg_str(host), &r->addrs[0]) == SG_OK;
    if (numeric)
        r->count = 1;
    if (numeric || !start_thread(r))
        sg_defer(loop, &r->task, deliver, r);
    return r;
}

void sg_resolve_cancel(sg_resolve_t *r)
{
    if (!r)
        return;
    if (sg_list_linked(&r->task.link)) {
        sg_defer_cancel(&r->task);
        resolve_free(r);
        return;
    }
    /* Either the thread or the message in the mailbox frees it. */
    pthread_mutex_lock(&r->lock);
    r->cancelled = true;
    pthread_mutex_unlock(&r->lock);
}
