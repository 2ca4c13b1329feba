#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/magic.h"
#include "base/random.h"
#include "upstream/pool.h"

enum { CONN_MAGIC = 0x53434f4e, TLS_RECORD_BYTES = 16 * 1024 };

struct sg_conn {
    uint32_t magic;
    sg_pool_t *pool;
    sg_link_t link;                 /* pool->idle while idle */
    int fd;
    bool lent, slot, reused, closed;
    unsigned target_index;
    sg_watch_t watch;               /* stays on from loan to loan, mostly for READ: no system call */
    unsigned events;                /* what the borrower waits for */
    sg_watch_fn *fn;
    void *arg;
    int64_t idle_since_us;
    int64_t renew_at_us;            /* not kept past it, so that a name is looked up again */
    /* TLS only; easy is NULL without. */
    sg_curl_parts_t curl;
    bool pending;                   /* libcurl may hold bytes, with the socket not readable */
    sg_timer_t pending_timer;
    char *out;                      /* what libcurl must get again, from the same place */
    size_t out_len;
    sg_task_t freeing;
};

static sg_loop_t *loop_of(const sg_conn_t *c)
{
    return c->pool->all->loop;
}

/* --- events --------------------------------------------------------------------------------- */

static void on_event(void *arg, unsigned events)
{
    sg_conn_t *c;
    SG_MAGIC_CAST(c, arg, CONN_MAGIC);
    if (!c->lent) {
        /* An event of this turn may be older than the end of the loan: look again. */
        if (!sg_conn_is_clean(c))
            sg_conn_close(c);
        return;
    }
    unsigned wanted = events & (c->events | SG_EV_HUP);
    if (c->fn && wanted)
        c->fn(c->arg, wanted);
    if (c->closed || !c->lent)
        return;
    /* Nobody waits for it: level-triggered events would come each turn. */
    if (!c->fn || c->events == 0) {
        if (events & SG_EV_HUP)
            sg_watch_stop(loop_of(c), &c->watch);
        else
            sg_watch_set(loop_of(c), &c->watch, c->events);
    }
}

static void on_pending(void *arg)
{
    sg_conn_t *c;
    SG_MAGIC_CAST(c, arg, CONN_MAGIC);
    if (c->lent && c->pending && c->fn && (c->events & SG_EV_READ))
        c->fn(c->arg, SG_EV_READ);
}

/* In the next turn, not this one: a fast sender must not keep the loop. */
static void wake_for_pending(sg_conn_t *c)
{
    if (c->pending && c->fn && (c->events & SG_EV_READ) && !sg_timer_is_on(&c->pending_timer))
        sg_timer_in(loop_of(c), &c->pending_timer, 0, on_pending, c);
}

static void watch_for(sg_conn_t *c, unsigned events)
{
    if (c->watch.on)
        sg_watch_set(loop_of(c), &c->watch, events);
    else
        sg_watch_start(loop_of(c), &c->watch, c->fd, events, on_event, c);
}

void sg_conn_watch(sg_conn_t *c, unsigned events, sg_watch_fn *fn, void *arg)
{
    c->events = events;
    c->fn = fn;
    c->arg = arg;
    watch_for(c, events);
    wake_for_pending(c);
}

/* --- bytes ---------------------------------------------------------------------------------- */

static sg_err_t errno_result(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK ? SG_ERR_AGAIN : SG_ERR_RESET;
}

static sg_err_t plain_send(const sg_conn_t *c, const void *data, size_t len, size_t *n)
{
    ssize_t got;
    do
        got = send(c->fd, data, len, MSG_NOSIGNAL);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno_result();
    *n = (size_t)got;
    return SG_OK;
}

static sg_err_t plain_recv(const sg_conn_t *c, void *data, size_t len, size_t *n)
{
    ssize_t got;
    do
        got = recv(c->fd, data, len, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno_result();
    if (got == 0)
        return SG_ERR_EOF;
    *n = (size_t)got;
    return SG_OK;
}

/* A TLS library that could not write a record wants the same bytes from the same place again, while the
 * caller's buffer may have moved: records go out of a buffer of the connection's own. */
static sg_err_t tls_send(sg_conn_t *c, const void *data, size_t len, size_t *n)
{
    if (!c->out)
        c->out = sg_malloc(TLS_RECORD_BYTES);
    if (c->out_len == 0) {
        c->out_len = len < TLS_RECORD_BYTES ? len : TLS_RECORD_BYTES;
        memcpy(c->out, data, c->out_len);
    } else if (len < c->out_len || memcmp(c->out, data, c->out_len) != 0) {
        return SG_ERR_RESET;        /* the caller changed bytes that it was told to send again */
    }
    size_t sent = 0;
    CURLcode rc = curl_easy_send(c->curl.easy, c->out, c->out_len, &sent);
    if (rc == CURLE_AGAIN)
        return SG_ERR_AGAIN;
    c->out_len = 0;
    if (rc != CURLE_OK || sent == 0)
        return SG_ERR_RESET;
    *n = sent;
    return SG_OK;
}

static sg_err_t tls_recv(sg_conn_t *c, void *data, size_t len, size_t *n)
{
    size_t got = 0;
    CURLcode rc = curl_easy_recv(c->curl.easy, data, len, &got);
    c->pending = rc == CURLE_OK && got > 0;
    if (rc == CURLE_AGAIN)
        return SG_ERR_AGAIN;
    if (rc != CURLE_OK)
        return SG_ERR_RESET;
    if (got == 0)
        return SG_ERR_EOF;
    wake_for_pending(c);
    *n = got;
    return SG_OK;
}

sg_err_t sg_conn_send(sg_conn_t *c, const void *data, size_t len, size_t *n)
{
    return c->curl.easy ? tls_send(c, data, len, n) : plain_send(c, data, len, n);
}

sg_err_t sg_conn_recv(sg_conn_t *c, void *data, size_t len, size_t *n)
{
    return c->curl.easy ? tls_recv(c, data, len, n) : plain_recv(c, data, len, n);
}

/* Any byte or an end on a connection that has no request is a reason to close it: the byte would be taken
 * for the next answer. A readable TLS socket may mean no more than a session ticket, so there libcurl is
 * asked. */
bool sg_conn_is_clean(sg_conn_t *c)
{
    char byte;
    size_t n;
    if (c->curl.easy)
        return tls_recv(c, &byte, 1, &n) == SG_ERR_AGAIN;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno_result() == SG_ERR_AGAIN;
}

/* --- life ----------------------------------------------------------------------------------- */

void sg_curl_parts_free(sg_curl_parts_t *parts)
{
    if (parts->easy)
        curl_easy_cleanup(parts->easy);
    if (parts->share)
        (void)curl_share_cleanup(parts->share);
    curl_slist_free_all(parts->connect_to);
    *parts = (sg_curl_parts_t){0};
}

/* Half as much again at random: connections made together are not renewed together. */
static int64_t renewal(const sg_pool_t *p)
{
    sg_addr_t numeric;
    if (!p->target.host || p->resolve_interval_us <= 0 ||
        sg_addr_parse(sg_str(p->target.host), &numeric) == SG_OK)
        return INT64_MAX;
    return sg_loop_now_us(p->all->loop) + p->resolve_interval_us +
           (int64_t)sg_random_below((uint64_t)p->resolve_interval_us / 2);
}

sg_conn_t *sg_conn_new(sg_pool_t *p, unsigned target_index, bool slot, int fd, const sg_curl_parts_t *parts)
{
    sg_conn_t *c = SG_NEW(sg_conn_t);
    c->magic = CONN_MAGIC;
    c->pool = p;
    c->fd = fd;
    c->lent = true;
    c->slot = slot;
    c->target_index = target_index;
    c->renew_at_us = renewal(p);
    if (parts)
        c->curl = *parts;
    p->busy_count++;
    sg_pool_use(p);
    return c;
}

void sg_conn_lend(sg_conn_t *c, unsigned target_index)
{
    sg_list_remove(&c->link);
    c->pool->idle_count--;
    c->pool->busy_count++;
    c->lent = c->slot = c->reused = true;
    c->target_index = target_index;
}

static void end_loan(sg_conn_t *c)
{
    c->fn = NULL;
    c->events = 0;
    c->lent = false;
    c->pool->busy_count--;
    if (c->slot)
        sg_shared_target_leave(c->pool->shared);
    c->slot = false;
    sg_timer_stop(loop_of(c), &c->pending_timer);
}

static bool may_keep(sg_conn_t *c)
{
    const sg_pool_t *p = c->pool;
    return !sg_pool_is_retired(p) && p->idle_count < p->all->idle_max &&
           sg_loop_now_us(p->all->loop) < c->renew_at_us && c->out_len == 0 &&
           (!c->pending || sg_conn_is_clean(c));
}

void sg_conn_give_back(sg_conn_t *c)
{
    if (!may_keep(c)) {
        sg_conn_close(c);
        return;
    }
    end_loan(c);
    c->idle_since_us = sg_loop_now_us(loop_of(c));
    sg_list_push_front(&c->pool->idle, &c->link);
    c->pool->idle_count++;
    watch_for(c, SG_EV_READ);
}

static void free_conn(void *arg)
{
    sg_conn_t *c;
    SG_MAGIC_CAST(c, arg, CONN_MAGIC);
    c->magic = 0;
    sg_free(c->out);
    sg_free(c);
}

void sg_conn_close(sg_conn_t *c)
{
    sg_pool_t *p = c->pool;
    sg_watch_stop(loop_of(c), &c->watch);
    if (c->lent) {
        end_loan(c);
    } else {
        sg_list_remove(&c->link);
        p->idle_count--;
    }
    if (c->curl.easy) {
        sg_multi_remove(p->multi, c->curl.easy);
        sg_curl_parts_free(&c->curl);
    } else {
        (void)close(c->fd);
    }
    c->closed = true;
    sg_defer_free(p->all->loop, &c->freeing, free_conn, c);
    sg_pool_unuse(p);
}

/* --- questions ------------------------------------------------------------------------------ */

sg_conn_t *sg_conn_of_link(sg_link_t *l)
{
    return SG_OWNER(l, sg_conn_t, link);
}

int64_t sg_conn_idle_since_us(const sg_conn_t *c)
{
    return c->idle_since_us;
}

bool sg_conn_reused(const sg_conn_t *c)
{
    return c->reused;
}

const sg_target_conf_t *sg_conn_target(const sg_conn_t *c)
{
    return &c->pool->target;
}

unsigned sg_conn_target_index(const sg_conn_t *c)
{
    return c->target_index;
}
