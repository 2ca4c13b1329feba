#include "store/redis_conn.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"
#include "event/resolver.h"
#include "store/redis_tls.h"
#include "store/resp.h"
#include "store/sentinel.h"

typedef enum { RESTING, RESOLVING, GREETING, UP } conn_state_t;

struct sg_redis_conn {
    sg_loop_t *loop;
    const sg_store_conf_t *conf;
    sg_redis_conn_events_t events;
    void *arg;
    conn_state_t state;
    sg_redis_link_t *link;      /* GREETING and UP */
    sg_resolve_t *resolve;      /* a look-up that is out; it may outlast the attempt that asked for it */
    sg_sentinel_t *sentinel;    /* RESOLVING: the question where the master is */
    char *master;               /* with sentinels: its host, as the last one said */
    unsigned port;
    sg_addr_t addrs[SG_RESOLVE_MAX];
    size_t addr_count, addr_at;
    unsigned failures;          /* since the connection last lasted for a heartbeat */
    bool ping_out;
    sg_timer_t timer;           /* RESTING: next attempt; RESOLVING, GREETING: its end; UP: heartbeat */
    char place[160];
};

static void attempt(void *arg);
static void try_address(sg_redis_conn_t *c);

/* --- leaving ------------------------------------------------------------------------------------------- */

static int64_t backoff_us(unsigned failures)
{
    int64_t us = SG_REDIS_BACKOFF_MIN_US;
    for (unsigned i = 1; i < failures && us < SG_REDIS_BACKOFF_MAX_US; i++)
        us *= 2;
    if (us > SG_REDIS_BACKOFF_MAX_US)
        us = SG_REDIS_BACKOFF_MAX_US;
    return us / 2 + (int64_t)sg_random_below((uint64_t)us / 2 + 1);
}

static void rest(sg_redis_conn_t *c)
{
    c->state = RESTING;
    c->failures++;
    sg_timer_in(c->loop, &c->timer, backoff_us(c->failures), attempt, c);
}

/* The state is RESTING before anybody is told: whoever is told may ask for new decisions. */
static void give_up(sg_redis_conn_t *c, sg_store_err_t kind, const char *why)
{
    sg_redis_link_t *link = c->link;
    char text[256];
    (void)snprintf(text, sizeof text, "%s: %s", c->place, why);
    c->link = NULL;
    sg_sentinel_cancel(c->sentinel);
    c->sentinel = NULL;
    rest(c);
    c->events.down(c->arg, kind, text);
    sg_redis_link_close(link);
}

static void on_broken(void *arg, sg_store_err_t kind, const char *why)
{
    sg_redis_conn_t *c = arg;
    bool more = c->state == GREETING && kind == SG_STORE_ERR_CONNECT && c->addr_at + 1 < c->addr_count;
    if (!more) {
        give_up(c, kind, why);
        return;
    }
    sg_redis_link_close(c->link);
    c->addr_at++;
    try_address(c);
}

static void attempt_late(void *arg)
{
    give_up(arg, SG_STORE_ERR_TIMEOUT, "no answer to a connection attempt");
}

/* --- heartbeat -------------------------------------------------------------------------------- */

static void heartbeat(void *arg);

static void on_pong(void *arg, const redisReply *reply)
{
    sg_redis_conn_t *c = arg;
    if (!reply)
        return;
    c->ping_out = false;
    c->failures = 0;
    sg_str_t text = sg_reply_error_text(reply);
    if (text.n && sg_reply_error_closes(text))
        sg_redis_conn_drop(c, sg_reply_error_kind(text), text.p);
}

static void heartbeat(void *arg)
{
    sg_redis_conn_t *c = arg;
    if (c->ping_out) {
        give_up(c, SG_STORE_ERR_TIMEOUT, "no answer to a PING");
        return;
    }
    c->ping_out = sg_redis_link_send(c->link, SG_STR("*1\r\n$4\r\nPING\r\n"), on_pong, c);
    sg_timer_in(c->loop, &c->timer, SG_REDIS_HEARTBEAT_US, heartbeat, c);
}

/* --- handshake -------------------------------------------------------------------------------- */

/* A server that takes no more connections says so at once, which looks like the answer to the first
 * command. */
static bool is_turned_away(sg_str_t text)
{
    return sg_str_starts(text, SG_STR("ERR max number of clients")) || sg_str_starts(text, SG_STR("DENIED "));
}

static void on_setname(void *arg, const redisReply *reply)
{
    sg_str_t text = sg_reply_error_text(reply);
    if (is_turned_away(text))
        give_up(arg, SG_STORE_ERR_OTHER, text.p);
}

/* What the server says to AUTH may repeat it (a server that does not know the command), so only the
 * first word is shown. */
static void on_auth(void *arg, const redisReply *reply)
{
    sg_redis_conn_t *c = arg;
    sg_str_t word = sg_reply_error_word(reply);
    if (!sg_reply_is_error(reply))
        return;
    if (is_turned_away(sg_reply_error_text(reply))) {
        on_setname(c, reply);
        return;
    }
    char why[80];
    (void)snprintf(why, sizeof why, "AUTH refused: %.*s", SG_STR_ARG(word));
    bool loading = sg_reply_error_kind(word) == SG_STORE_ERR_LOADING;
    give_up(c, loading ? SG_STORE_ERR_LOADING : SG_STORE_ERR_AUTH, why);
}

static void on_select(void *arg, const redisReply *reply)
{
    sg_str_t text = sg_reply_error_text(reply);
    if (sg_reply_is_error(reply))
        give_up(arg, sg_reply_error_kind(text), text.p);
}

/* NOPERM is an answer too: the server is alive, and the ACL forbids only the PING. */
static void on_greeted(void *arg, const redisReply *reply)
{
    sg_redis_conn_t *c = arg;
    if (!reply)
        return;
    sg_str_t text = sg_reply_error_text(reply);
    if (sg_reply_is_error(reply) && !sg_str_starts(text, SG_STR("NOPERM"))) {
        give_up(c, sg_reply_error_kind(text), text.p);
        return;
    }
    c->state = UP;
    c->ping_out = false;
    sg_timer_in(c->loop, &c->timer, SG_REDIS_HEARTBEAT_US, heartbeat, c);
    c->events.up(c->arg);
}

static void send_auth(sg_redis_conn_t *c, sg_buf_t *b)
{
    if (!c->conf->password.n)
        return;
    sg_buf_clear(b);
    sg_resp_array(b, c->conf->username ? 3 : 2);
    sg_resp_bulk(b, SG_STR("AUTH"));
    if (c->conf->username)
        sg_resp_bulk(b, sg_str(c->conf->username));
    sg_resp_bulk(b, c->conf->password);
    (void)sg_redis_link_send(c->link, sg_buf_str(b), on_auth, c);
    sg_wipe(b->data, b->size);
}

static void send_select(sg_redis_conn_t *c, sg_buf_t *b)
{
    if (!c->conf->db)
        return;
    char number[16];
    int n = snprintf(number, sizeof number, "%u", c->conf->db);
    sg_buf_clear(b);
    sg_resp_array(b, 2);
    sg_resp_bulk(b, SG_STR("SELECT"));
    sg_resp_bulk(b, sg_str_n(number, (size_t)n));
    (void)sg_redis_link_send(c->link, sg_buf_str(b), on_select, c);
}

/* All in one write; Redis answers in order, so the PING is answered when the rest went well. */
static void greet(sg_redis_conn_t *c)
{
    sg_buf_t b;
    sg_buf_init(&b, 65536);
    send_auth(c, &b);
    send_select(c, &b);
    (void)sg_redis_link_send(c->link, SG_STR("*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$8\r\nslotgate\r\n"),
                             on_setname, c);
    (void)sg_redis_link_send(c->link, SG_STR("*1\r\n$4\r\nPING\r\n"), on_greeted, c);
    sg_buf_deinit(&b);
}

/* --- attempts --------------------------------------------------------------------------------- */

static void open_link(sg_redis_conn_t *c, const char *host)
{
    c->state = GREETING;
    c->link = sg_redis_link_open(c->loop, host, c->port, c->conf->unix_path, on_broken, c);
    if (c->conf->tls)
        sg_redis_link_use_tls(c->link, c->master ? c->master : c->conf->host);
    greet(c);
}

static void try_address(sg_redis_conn_t *c)
{
    char host[SG_ADDR_TEXT];
    sg_addr_text(&c->addrs[c->addr_at], host);
    open_link(c, host);
}

/* When the look-up fails the addresses of the last one are as good as any. */
static void on_resolved(void *arg, sg_err_t err, const sg_addr_t *addr)
{
    sg_redis_conn_t *c = arg;
    (void)addr;
    if (err == SG_OK) {
        const sg_addr_t *all = sg_resolve_all(c->resolve, &c->addr_count);
        memcpy(c->addrs, all, c->addr_count * sizeof *all);
    }
    c->resolve = NULL;
    c->addr_at = 0;
    if (c->state != RESOLVING)      /* late; the next attempt looks again */
        return;
    if (c->addr_count)
        try_address(c);
    else
        give_up(c, SG_STORE_ERR_CONNECT, "the name has no address");
}

static void look_up(sg_redis_conn_t *c, const char *host)
{
    if (!c->resolve)                /* one thread at a time, however long the name servers take */
        c->resolve = sg_resolve_start(c->loop, host, on_resolved, c);
}

/* A master elsewhere makes the addresses of the old one worthless. */
static void on_master(void *arg, const char *host, unsigned port, const char *why)
{
    sg_redis_conn_t *c = arg;
    c->sentinel = NULL;
    if (!host) {
        give_up(c, SG_STORE_ERR_CONNECT, why);
        return;
    }
    if (!c->master || !sg_str_eq(sg_str(c->master), sg_str(host))) {
        sg_resolve_cancel(c->resolve);
        c->resolve = NULL;
        c->addr_count = 0;
        sg_free(c->master);
        c->master = sg_strdup(host);
    }
    c->port = port;
    (void)snprintf(c->place, sizeof c->place, "%s at %s:%u", c->conf->master, host, port);
    look_up(c, c->master);
}

static void attempt(void *arg)
{
    sg_redis_conn_t *c = arg;
    if (c->conf->tls && !sg_redis_tls_is_built()) {     /* never in clear where the config asked for more */
        give_up(c, SG_STORE_ERR_OTHER, SG_REDIS_TLS_MISSING);
        return;
    }
    int64_t limit_us = c->conf->timeout_us > SG_REDIS_ATTEMPT_US ? c->conf->timeout_us : SG_REDIS_ATTEMPT_US;
    sg_timer_in(c->loop, &c->timer, limit_us, attempt_late, c);
    if (c->conf->mode == SG_REDIS_SENTINEL) {
        c->state = RESOLVING;
        c->sentinel = sg_sentinel_ask(c->loop, c->conf, c->failures, on_master, c);
        return;
    }
    if (!c->conf->host) {
        open_link(c, NULL);
        return;
    }
    c->state = RESOLVING;
    look_up(c, c->conf->host);
}

/* --- for redis.c ------------------------------------------------------------------------------ */

sg_redis_conn_t *sg_redis_conn_new(sg_loop_t *loop, const sg_store_conf_t *conf,
                                   const sg_redis_conn_events_t *events, void *arg)
{
    sg_redis_conn_t *c = SG_NEW(sg_redis_conn_t);
    c->loop = loop;
    c->conf = conf;
    c->events = *events;
    c->arg = arg;
    c->port = conf->port;
    if (conf->mode == SG_REDIS_SENTINEL)
        (void)snprintf(c->place, sizeof c->place, "%s", conf->master);
    else if (conf->host)
        (void)snprintf(c->place, sizeof c->place, "%s:%u", conf->host, conf->port);
    else
        (void)snprintf(c->place, sizeof c->place, "unix:%s", conf->unix_path);
    sg_timer_in(loop, &c->timer, 0, attempt, c);
    return c;
}

void sg_redis_conn_reload(sg_redis_conn_t *c, const sg_store_conf_t *conf)
{
    c->conf = conf;
    if (!c->sentinel)
        return;
    sg_sentinel_cancel(c->sentinel);        /* it reads the old one */
    c->sentinel = NULL;
    sg_timer_in(c->loop, &c->timer, 0, attempt, c);
}

void sg_redis_conn_free(sg_redis_conn_t *c)
{
    sg_redis_link_t *link = c->link;
    c->link = NULL;
    c->state = RESTING;
    sg_timer_stop(c->loop, &c->timer);
    sg_resolve_cancel(c->resolve);
    sg_sentinel_cancel(c->sentinel);
    sg_free(c->master);
    if (link)
        sg_redis_link_flush(link);      /* the last slots that were given back */
    sg_redis_link_close(link);
    sg_free(c);
}

bool sg_redis_conn_is_up(const sg_redis_conn_t *c)
{
    return c->state == UP;
}

bool sg_redis_conn_send(sg_redis_conn_t *c, sg_str_t command, sg_redis_reply_fn *fn, void *arg)
{
    return c->state == UP && sg_redis_link_send(c->link, command, fn, arg);
}

bool sg_redis_conn_send_large(sg_redis_conn_t *c, sg_str_t command, sg_redis_reply_fn *fn, void *arg)
{
    return c->state == UP && sg_redis_link_send_large(c->link, command, fn, arg);
}

void sg_redis_conn_drop(sg_redis_conn_t *c, sg_store_err_t kind, const char *why)
{
    if (c->state == UP)
        give_up(c, kind, why);
}

const char *sg_redis_conn_place(const sg_redis_conn_t *c)
{
    return c->place;
}
