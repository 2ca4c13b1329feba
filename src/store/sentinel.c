#include "store/sentinel.h"

#include <stdio.h>

#include "base/mem.h"
#include "event/resolver.h"
#include "store/place.h"
#include "store/redis_link.h"
#include "store/resp.h"

struct sg_sentinel {
    sg_loop_t *loop;
    const sg_store_conf_t *conf;
    sg_sentinel_fn *fn;
    void *arg;
    size_t at, left;            /* which node; how many have not been asked */
    char *host;                 /* of the one that is asked */
    unsigned port;
    sg_addr_t addrs[SG_RESOLVE_MAX];
    size_t addr_count, addr_at;
    sg_resolve_t *resolve;
    sg_redis_link_t *link;
    sg_timer_t timer;           /* the next one's turn */
    char why[160];
};

static void next(void *arg);

static void leave_node(sg_sentinel_t *s)
{
    sg_redis_link_t *link = s->link;
    s->link = NULL;
    sg_timer_stop(s->loop, &s->timer);
    sg_resolve_cancel(s->resolve);
    s->resolve = NULL;
    sg_free(s->host);
    s->host = NULL;
    sg_redis_link_close(link);
}

void sg_sentinel_cancel(sg_sentinel_t *s)
{
    if (!s)
        return;
    leave_node(s);
    sg_free(s);
}

static void finish(sg_sentinel_t *s, const char *host, unsigned port)
{
    sg_sentinel_fn *fn = s->fn;
    void *arg = s->arg;
    char why[sizeof s->why];
    memcpy(why, s->why, sizeof why);
    leave_node(s);
    sg_free(s);
    fn(arg, host, port, why);
}

/* This one did not help. The next one is asked from the loop, so that no callback frees its own stack. */
static void give_up(sg_sentinel_t *s, const char *what)
{
    (void)snprintf(s->why, sizeof s->why, "sentinel %.60s: %.80s", s->conf->nodes[s->at], what);
    leave_node(s);
    s->at = (s->at + 1) % s->conf->node_count;
    sg_timer_in(s->loop, &s->timer, 0, next, s);
}

static void on_late(void *arg)
{
    give_up(arg, "no answer in time");
}

static void ask_address(sg_sentinel_t *s);

static void on_broken(void *arg, sg_store_err_t kind, const char *why)
{
    sg_sentinel_t *s = arg;
    if (kind != SG_STORE_ERR_CONNECT || s->addr_at + 1 == s->addr_count) {
        give_up(s, why);
        return;
    }
    sg_redis_link_close(s->link);
    s->addr_at++;
    ask_address(s);
}

static void on_reply(void *arg, const redisReply *reply)
{
    sg_sentinel_t *s = arg;
    uint64_t port;
    if (!reply)
        return;                 /* on_broken has it, or we left */
    if (sg_reply_is_error(reply)) {
        give_up(s, reply->str);
        return;
    }
    bool pair = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->str &&
                reply->element[1]->str;
    if (pair && sg_str_u64(sg_str(reply->element[1]->str), 65535, &port) == SG_OK && port)
        finish(s, reply->element[0]->str, (unsigned)port);
    else
        give_up(s, "does not know the master");
}

static void ask_address(sg_sentinel_t *s)
{
    char host[SG_ADDR_TEXT];
    sg_buf_t b;
    sg_addr_text(&s->addrs[s->addr_at], host);
    sg_buf_init(&b, 4096);
    sg_resp_array(&b, 3);
    sg_resp_bulk(&b, SG_STR("SENTINEL"));
    sg_resp_bulk(&b, SG_STR("GET-MASTER-ADDR-BY-NAME"));
    sg_resp_bulk(&b, sg_str(s->conf->master));
    s->link = sg_redis_link_open(s->loop, host, s->port, NULL, on_broken, s);
    if (s->conf->tls)
        sg_redis_link_use_tls(s->link, s->host);
    (void)sg_redis_link_send(s->link, sg_buf_str(&b), on_reply, s);
    sg_buf_deinit(&b);
}

static void on_resolved(void *arg, sg_err_t err, const sg_addr_t *addr)
{
    sg_sentinel_t *s = arg;
    (void)addr;
    if (err == SG_OK) {
        const sg_addr_t *all = sg_resolve_all(s->resolve, &s->addr_count);
        memcpy(s->addrs, all, s->addr_count * sizeof *all);
    }
    s->resolve = NULL;
    s->addr_at = 0;
    if (err == SG_OK)
        ask_address(s);
    else
        give_up(s, "the name has no address");
}

static void next(void *arg)
{
    sg_sentinel_t *s = arg;
    sg_str_t host;
    if (s->left == 0) {
        finish(s, NULL, 0);
        return;
    }
    s->left--;
    if (!sg_place_split(sg_str(s->conf->nodes[s->at]), &host, &s->port)) {
        give_up(s, "is no host:port");
        return;
    }
    s->host = sg_strndup(host);
    sg_timer_in(s->loop, &s->timer, SG_SENTINEL_US, on_late, s);
    s->resolve = sg_resolve_start(s->loop, s->host, on_resolved, s);
}

sg_sentinel_t *sg_sentinel_ask(sg_loop_t *loop, const sg_store_conf_t *conf, size_t first, sg_sentinel_fn *fn,
                               void *arg)
{
    sg_sentinel_t *s = SG_NEW(sg_sentinel_t);
    s->loop = loop;
    s->conf = conf;
    s->fn = fn;
    s->arg = arg;
    s->left = conf->node_count;
    s->at = conf->node_count ? first % conf->node_count : 0;
    (void)snprintf(s->why, sizeof s->why, "no sentinel is named");
    sg_timer_in(loop, &s->timer, 0, next, s);
    return s;
}
