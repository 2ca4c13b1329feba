#include "store/redis_link.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "store/redis_tls.h"

typedef struct {
    sg_redis_reply_fn *fn;
    void *arg;
    bool large;                 /* its reply does not fit the arena */
} waiter_t;

struct sg_redis_link {
    sg_loop_t *loop;
    redisContext *c;            /* NULL: hiredis had no memory, or closed */
    sg_watch_t watch;
    sg_hook_t flush;
    sg_task_t task;             /* reports a failure of _open; later frees the link */
    bool connected, dirty, broken, closed;
    bool unwritten;             /* TLS: what is to go on when the peer has sent something */
    char *tls_host;             /* NULL: in clear */
    sg_redis_tls_t *tls;        /* the context's; NULL before the connection stands */
    sg_redis_broken_fn *on_broken;
    void *arg;
    waiter_t *out;              /* a ring of 2^n places, oldest first */
    size_t head, count, size;
    sg_reply_arena_t replies;
    redisReplyObjectFunctions *allocating;      /* hiredis' own */
};

/* --- the queue of what is out -------------------------------------------------------------------------- */

static void out_push(sg_redis_link_t *l, const waiter_t *w)
{
    if (l->count == l->size) {
        size_t size = l->size ? l->size * 2 : 64;
        waiter_t *ring = sg_malloc(size * sizeof *ring);
        for (size_t i = 0; i < l->count; i++)
            ring[i] = l->out[(l->head + i) & (l->size - 1)];
        sg_free(l->out);
        l->out = ring;
        l->size = size;
        l->head = 0;
    }
    l->out[(l->head + l->count++) & (l->size - 1)] = *w;
}

static bool out_pop(sg_redis_link_t *l, waiter_t *w)
{
    if (l->count == 0)
        return false;
    *w = l->out[l->head];
    l->head = (l->head + 1) & (l->size - 1);
    l->count--;
    return true;
}

static void answer_all_with_nothing(sg_redis_link_t *l)
{
    waiter_t w;
    while (out_pop(l, &w))
        if (w.fn)
            w.fn(w.arg, NULL);
}

/* --- its end ------------------------------------------------------------------------------------------- */

static void shut(sg_redis_link_t *l)
{
    l->broken = true;
    sg_watch_stop(l->loop, &l->watch);
    sg_hook_remove(&l->flush);
    if (l->c)
        redisFree(l->c);
    l->c = NULL;
    l->tls = NULL;
}

static void break_link(sg_redis_link_t *l, sg_store_err_t kind, const char *why)
{
    if (l->broken)
        return;
    char text[160];
    (void)snprintf(text, sizeof text, "%s", why);   /* `why` may lie in the context that goes now */
    shut(l);
    l->on_broken(l->arg, kind, text);
    answer_all_with_nothing(l);
}

static void free_link(void *arg)
{
    sg_redis_link_t *l = arg;
    sg_free(l->out);
    sg_free(l->tls_host);
    sg_free(l);
}

void sg_redis_link_close(sg_redis_link_t *l)
{
    if (!l || l->closed)
        return;
    l->closed = true;
    shut(l);
    answer_all_with_nothing(l);
    sg_defer_cancel(&l->task);
    sg_defer_free(l->loop, &l->task, free_link, l);
}

/* --- in and out ------------------------------------------------------------------------------- */

static void watch_for(sg_redis_link_t *l, unsigned events)
{
    sg_watch_set(l->loop, &l->watch, events);
}

/* A handshake that fails is a connection that was never made. */
static void break_io(sg_redis_link_t *l)
{
    char why[160];
    bool greeting = sg_redis_tls_shakes_hands(l->tls);
    sg_redis_tls_why(l->tls, l->c->errstr, why, sizeof why);
    break_link(l, greeting ? SG_STORE_ERR_CONNECT : SG_STORE_ERR_RESET, why);
}

static void write_out(sg_redis_link_t *l)
{
    int done = 0;
    l->dirty = false;
    sg_redis_tls_begin(l->tls);
    if (redisBufferWrite(l->c, &done) == REDIS_ERR) {
        break_io(l);
        return;
    }
    l->unwritten = !done && l->tls;
    bool waits = l->unwritten && sg_redis_tls_wants_read(l->tls);
    watch_for(l, done || waits ? SG_EV_READ : SG_EV_READ | SG_EV_WRITE);
}

static void flush_hook(void *arg)
{
    sg_redis_link_t *l = arg;
    if (l->dirty && l->connected && !l->broken)
        write_out(l);
}

/* An error that nobody asked for says why the server is about to close: "max number of clients reached". */
static void unasked(sg_redis_link_t *l, const redisReply *reply)
{
    sg_str_t text = sg_reply_error_text(reply);
    if (sg_reply_is_error(reply))
        break_link(l, sg_reply_error_kind(text), text.p);
    else
        break_link(l, SG_STORE_ERR_PROTOCOL, "a reply that nobody asked for");
}

/* The oldest command says how the next reply is kept; it stays the oldest while a part of that is here. */
static void choose_memory(sg_redis_link_t *l)
{
    if (l->count && l->out[l->head].large) {
        l->c->reader->fn = l->allocating;
        l->c->reader->privdata = NULL;
    } else {
        sg_reply_use_arena(l->c->reader, &l->replies);
    }
}

static void handle_replies(sg_redis_link_t *l)
{
    while (!l->broken) {
        void *reply = NULL;
        choose_memory(l);
        if (redisReaderGetReply(l->c->reader, &reply) != REDIS_OK) {
            break_link(l, SG_STORE_ERR_PROTOCOL, "not a reply that Redis gives");
            return;
        }
        if (!reply)
            break;
        waiter_t w = {0};
        if (!out_pop(l, &w))
            unasked(l, reply);
        else if (w.fn)
            w.fn(w.arg, reply);
        if (w.large)
            freeReplyObject(reply);
    }
    if (!l->broken && l->c->reader->len > SG_REPLY_BUFFER_BYTES)
        break_link(l, SG_STORE_ERR_PROTOCOL, "a reply that is too long");
}

static void read_in(sg_redis_link_t *l)
{
    do {
        sg_redis_tls_begin(l->tls);
        if (redisBufferRead(l->c) == REDIS_ERR)
            break_io(l);
        else
            handle_replies(l);
    } while (!l->broken && sg_redis_tls_has_more(l->tls));
}

static bool start_tls(sg_redis_link_t *l)
{
    char why[160];
    if (!l->tls_host || sg_redis_tls_start(l->c, l->tls_host, &l->tls, why, sizeof why))
        return true;
    break_link(l, SG_STORE_ERR_CONNECT, why);
    return false;
}

static bool finish_connect(sg_redis_link_t *l)
{
    int err = 0;
    socklen_t len = sizeof err;
    if (getsockopt(l->c->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
        err = errno;
    if (err) {
        break_link(l, SG_STORE_ERR_CONNECT, sg_errno_text(err));
        return false;
    }
    l->connected = start_tls(l);
    return l->connected;
}

static void on_events(void *arg, unsigned events)
{
    sg_redis_link_t *l = arg;
    if (!l->connected && !finish_connect(l))
        return;
    if (events & (SG_EV_READ | SG_EV_HUP))
        read_in(l);
    if (!l->broken && (l->unwritten || (events & SG_EV_WRITE)))
        write_out(l);
}

/* --- open and send ---------------------------------------------------------------------------- */

static void report_failed_open(void *arg)
{
    sg_redis_link_t *l = arg;
    break_link(l, SG_STORE_ERR_CONNECT, l->c ? l->c->errstr : "out of memory");
}

sg_redis_link_t *sg_redis_link_open(sg_loop_t *loop, const char *host, unsigned port, const char *unix_path,
                                    sg_redis_broken_fn *broken, void *arg)
{
    sg_redis_link_t *l = SG_NEW(sg_redis_link_t);
    l->loop = loop;
    l->on_broken = broken;
    l->arg = arg;
    l->c = host ? redisConnectNonBlock(host, (int)port) : redisConnectUnixNonBlock(unix_path);
    if (!l->c || l->c->err) {
        sg_defer(loop, &l->task, report_failed_open, l);
        return l;
    }
    l->allocating = l->c->reader->fn;
    if (host)
        (void)redisEnableKeepAlive(l->c);
    sg_watch_start(loop, &l->watch, l->c->fd, SG_EV_READ | SG_EV_WRITE, on_events, l);
    sg_hook_flush(loop, &l->flush, flush_hook, l);
    return l;
}

void sg_redis_link_use_tls(sg_redis_link_t *l, const char *host)
{
    l->tls_host = sg_strdup(host);
}

static bool send_command(sg_redis_link_t *l, sg_str_t command, const waiter_t *w)
{
    if (l->broken || l->c == NULL || l->c->err || l->count == SG_REDIS_OUT_MAX)
        return false;
    if (redisAppendFormattedCommand(l->c, command.p, command.n) != REDIS_OK)
        return false;
    out_push(l, w);
    l->dirty = true;
    return true;
}

bool sg_redis_link_send(sg_redis_link_t *l, sg_str_t command, sg_redis_reply_fn *fn, void *arg)
{
    return send_command(l, command, &(waiter_t){fn, arg, false});
}

bool sg_redis_link_send_large(sg_redis_link_t *l, sg_str_t command, sg_redis_reply_fn *fn, void *arg)
{
    return send_command(l, command, &(waiter_t){fn, arg, true});
}

void sg_redis_link_flush(sg_redis_link_t *l)
{
    int done = 0;
    sg_redis_tls_begin(l->tls);
    if (l->connected && !l->broken)
        (void)redisBufferWrite(l->c, &done);
}
