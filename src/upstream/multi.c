#include "upstream/multi.h"

#include <stdlib.h>

#include "base/magic.h"
#include "base/mem.h"

enum { MULTI_MAGIC = 0x534d554c, SOCKET_MAGIC = 0x53534f43 };

struct sg_multi {
    uint32_t magic;
    sg_loop_t *loop;
    CURLM *curl;
    sg_multi_done_fn *done;
    sg_timer_t timer;
    sg_task_t kick, freeing;
    sg_link_t sockets;
};

/* One socket that libcurl waits for. */
typedef struct {
    uint32_t magic;
    sg_multi_t *multi;
    CURL *easy;         /* whose it is */
    sg_link_t link;
    sg_watch_t watch;
    sg_task_t freeing;
} socket_t;

static void act(sg_multi_t *m, curl_socket_t fd, int mask)
{
    int running, left;
    (void)curl_multi_socket_action(m->curl, fd, mask, &running);
    CURLMsg *msg;
    while ((msg = curl_multi_info_read(m->curl, &left))) {
        char *owner = NULL;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode result = msg->data.result;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &owner);
        m->done(owner, result);
    }
}

/* --- sockets -------------------------------------------------------------------------------- */

static void on_socket(void *arg, unsigned events)
{
    socket_t *s;
    SG_MAGIC_CAST(s, arg, SOCKET_MAGIC);
    int mask = (events & SG_EV_READ ? CURL_CSELECT_IN : 0) | (events & SG_EV_WRITE ? CURL_CSELECT_OUT : 0) |
               (events & SG_EV_HUP ? CURL_CSELECT_ERR : 0);
    act(s->multi, s->watch.fd, mask);
}

static void free_socket(void *arg)
{
    sg_free(arg);
}

/* libcurl may drop a socket while its event is being delivered: memory goes at the end of the turn. */
static void drop_socket(socket_t *s)
{
    sg_watch_stop(s->multi->loop, &s->watch);
    sg_list_remove(&s->link);
    sg_defer_free(s->multi->loop, &s->freeing, free_socket, s);
}

static socket_t *new_socket(sg_multi_t *m, CURL *easy, curl_socket_t fd)
{
    socket_t *s = SG_NEW(socket_t);
    s->magic = SOCKET_MAGIC;
    s->multi = m;
    s->easy = easy;
    sg_list_push_back(&m->sockets, &s->link);
    sg_watch_start(m->loop, &s->watch, fd, 0, on_socket, s);
    (void)curl_multi_assign(m->curl, fd, s);
    return s;
}

static int on_want_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    sg_multi_t *m;
    SG_MAGIC_CAST(m, arg, MULTI_MAGIC);
    socket_t *s = known;
    if (what == CURL_POLL_REMOVE) {
        if (s)
            drop_socket(s);
        return 0;
    }
    if (!s)
        s = new_socket(m, easy, fd);
    sg_watch_set(m->loop, &s->watch,
                 (what & CURL_POLL_IN ? SG_EV_READ : 0u) | (what & CURL_POLL_OUT ? SG_EV_WRITE : 0u));
    return 0;
}

/* --- time ----------------------------------------------------------------------------------- */

static void on_time(void *arg)
{
    sg_multi_t *m;
    SG_MAGIC_CAST(m, arg, MULTI_MAGIC);
    act(m, CURL_SOCKET_TIMEOUT, 0);
}

static int on_want_timer(CURLM *curl, long timeout_ms, void *arg)
{
    (void)curl;
    sg_multi_t *m;
    SG_MAGIC_CAST(m, arg, MULTI_MAGIC);
    if (timeout_ms < 0)
        sg_timer_stop(m->loop, &m->timer);
    else
        sg_timer_in(m->loop, &m->timer, (int64_t)timeout_ms * 1000, on_time, m);
    return 0;
}

/* --- life ----------------------------------------------------------------------------------- */

sg_multi_t *sg_multi_new(sg_loop_t *loop, sg_multi_done_fn *done)
{
    sg_multi_t *m = SG_NEW(sg_multi_t);
    m->magic = MULTI_MAGIC;
    m->loop = loop;
    m->done = done;
    sg_list_init(&m->sockets);
    m->curl = curl_multi_init();
    if (!m->curl)
        abort();
    (void)curl_multi_setopt(m->curl, CURLMOPT_SOCKETFUNCTION, on_want_socket);
    (void)curl_multi_setopt(m->curl, CURLMOPT_SOCKETDATA, m);
    (void)curl_multi_setopt(m->curl, CURLMOPT_TIMERFUNCTION, on_want_timer);
    (void)curl_multi_setopt(m->curl, CURLMOPT_TIMERDATA, m);
    return m;
}

static void free_multi(void *arg)
{
    sg_multi_t *m;
    SG_MAGIC_CAST(m, arg, MULTI_MAGIC);
    (void)curl_multi_cleanup(m->curl);
    SG_LIST_EACH(l, &m->sockets) {
        drop_socket(SG_OWNER(l, socket_t, link));
    }
    sg_timer_stop(m->loop, &m->timer);
    sg_defer_cancel(&m->kick);
    m->magic = 0;
    sg_free(m);
}

void sg_multi_free(sg_multi_t *m)
{
    if (m)
        sg_defer_free(m->loop, &m->freeing, free_multi, m);
}

bool sg_multi_add(sg_multi_t *m, CURL *easy)
{
    if (curl_multi_add_handle(m->curl, easy) != CURLM_OK)
        return false;
    /* Start connecting in this turn: libcurl's own timer of 0 ms would wait for the next one. */
    sg_defer(m->loop, &m->kick, on_time, m);
    return true;
}

void sg_multi_remove(sg_multi_t *m, CURL *easy)
{
    /* libcurl closes the socket of a connection that is not made yet before it says that it is done with it:
     * by then the number may be another thread's. */
    SG_LIST_EACH(l, &m->sockets) {
        socket_t *s = SG_OWNER(l, socket_t, link);
        if (s->easy == easy)
            sg_watch_stop(m->loop, &s->watch);
    }
    (void)curl_multi_remove_handle(m->curl, easy);
}
