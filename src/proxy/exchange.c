/* exchange.c - the life of an exchange: from the server's `begin` to its `done`. */
#include "proxy/exchange.h"

#include "base/magic.h"

enum { LOG_LINES_BYTES = 1024 * 1024 };

/* From (row) to (bit): what moves are possible. */
static const unsigned moves[] = {
    [SG_EX_NEW] = 1u << SG_EX_LIMITING | 1u << SG_EX_SENDING | 1u << SG_EX_REFUSING | 1u << SG_EX_RELAYING |
                  1u << SG_EX_DONE,
    [SG_EX_LIMITING] = 1u << SG_EX_SENDING | 1u << SG_EX_REFUSING | 1u << SG_EX_RELAYING | 1u << SG_EX_DONE,
    [SG_EX_SENDING] = 1u << SG_EX_SENDING | 1u << SG_EX_WAITING | 1u << SG_EX_RELAYING |
                      1u << SG_EX_REFUSING | 1u << SG_EX_DONE,
    [SG_EX_WAITING] = 1u << SG_EX_SENDING | 1u << SG_EX_RELAYING | 1u << SG_EX_REFUSING | 1u << SG_EX_DONE,
    [SG_EX_RELAYING] = 1u << SG_EX_DONE,
    [SG_EX_REFUSING] = 1u << SG_EX_DONE,
    [SG_EX_DONE] = 0,
};

void sg_exchange_go(sg_exchange_t *ex, sg_ex_state_t to)
{
    if (!(moves[ex->state] & 1u << to)) {
        sg_log(SG_LOG_ERROR, "impossible move of an exchange", SG_F_I64("from", ex->state),
               SG_F_I64("to", to));
        sg_magic_failed(__FILE__, __LINE__, "move of an exchange");
    }
    ex->state = to;
}

void sg_exchange_vars(const sg_exchange_t *ex, sg_vars_t *out)
{
    char ip[SG_ADDR_TEXT];
    const sg_tenant_t *t = ex->identity.tenant;
    sg_addr_text(&ex->client, ip);
    *out = (sg_vars_t){
        .tenant = sg_str(t ? t->name : ""),
        .key_id = sg_str(ex->identity.key ? ex->identity.key->id : ""),
        .plan = sg_str(t && t->plan ? t->plan : ""),
        .route = sg_str(ex->match.route ? ex->match.route->name : ""),
        .request_id = ex->request_id,
        .client_ip = sg_arena_str(ex->rq->arena, sg_str(ip)),
        .host = ex->host,
    };
}

/* --- what the server calls --------------------------------------------------------------------------- */

static sg_exchange_t *exchange_of(sg_request_t *rq)
{
    sg_exchange_t *ex;
    SG_MAGIC_CAST(ex, rq->user, SG_EXCHANGE_MAGIC);
    return ex;
}

static void begin(void *arg, sg_request_t *rq)
{
    sg_proxy_t *p = arg;
    sg_exchange_t *ex = SG_ARENA_NEW(rq->arena, sg_exchange_t);
    ex->magic = SG_EXCHANGE_MAGIC;
    ex->proxy = p;
    ex->rq = rq;
    ex->config = sg_config_ref(p->config);
    ex->upstream_us = -1;
    rq->user = ex;
    p->in_flight++;
    sg_add_in_flight(p->metrics, 1);
    sg_exchange_admit(ex);
}

static size_t body(sg_request_t *rq, sg_str_t data)
{
    return sg_relay_body(exchange_of(rq), data);
}

static void body_end(sg_request_t *rq)
{
    sg_relay_body_end(exchange_of(rq));
}

static ptrdiff_t pull(sg_request_t *rq, char *out, size_t max)
{
    return sg_relay_pull(exchange_of(rq), out, max);
}

static void cancel_ticket(sg_exchange_t *ex)
{
    if (!ex->ticket)
        return;
    sg_store_cancel(ex->ticket);
    ex->ticket = NULL;
}

static void gone(sg_request_t *rq)
{
    sg_exchange_t *ex = exchange_of(rq);
    cancel_ticket(ex);
    sg_relay_abandon(ex);
    sg_exchange_release_slots(ex);
}

static void upgraded(sg_request_t *rq, sg_str_t early)
{
    sg_tunnel_begin(exchange_of(rq), early);
}

static void done(sg_request_t *rq, bool complete)
{
    sg_exchange_t *ex = exchange_of(rq);
    sg_proxy_t *p = ex->proxy;
    cancel_ticket(ex);
    sg_cost_settle(ex);
    sg_relay_abandon(ex);
    sg_account_done(ex, complete);
    sg_exchange_release_slots(ex);
    sg_exchange_go(ex, SG_EX_DONE);
    sg_buf_deinit(&ex->out);
    sg_buf_deinit(&ex->down);
    sg_buf_deinit(&ex->head_in);
    sg_buf_deinit(&ex->problem);
    sg_config_unref(ex->config);
    ex->magic = 0;
    rq->user = NULL;
    p->in_flight--;
    sg_add_in_flight(p->metrics, -1);
}

const sg_handler_t sg_proxy_handler = {begin, body, body_end, pull, gone, upgraded, done};

/* --- the proxy --------------------------------------------------------------------------------------- */

static void flush_log(void *arg)
{
    sg_proxy_t *p = arg;
    sg_access_log_write(p->log, sg_buf_str(&p->log_lines));
    sg_buf_clear(&p->log_lines);
}

sg_proxy_t *sg_proxy_new(const sg_proxy_setup_t *setup)
{
    sg_proxy_t *p = SG_NEW(sg_proxy_t);
    p->loop = setup->loop;
    p->config = sg_config_ref(setup->config);
    p->store = setup->store;
    p->upstreams = setup->upstreams;
    p->metrics = setup->metrics;
    p->log = setup->log;
    sg_buf_init(&p->log_lines, LOG_LINES_BYTES);
    sg_hook_flush(p->loop, &p->log_hook, flush_log, p);
    return p;
}

void sg_proxy_reload(sg_proxy_t *p, sg_config_t *config)
{
    sg_config_ref(config);
    sg_config_unref(p->config);
    p->config = config;
}

void sg_proxy_free(sg_proxy_t *p)
{
    if (!p)
        return;
    flush_log(p);
    sg_hook_remove(&p->log_hook);
    sg_buf_deinit(&p->log_lines);
    sg_config_unref(p->config);
    sg_free(p);
}

size_t sg_proxy_in_flight(const sg_proxy_t *p)
{
    return p->in_flight;
}
