#include "store/redis.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/magic.h"
#include "base/mem.h"
#include "store/place.h"
#include "store/redis_conn.h"
#include "store/redis_news.h"
#include "store/redis_script.h"
#include "store/release.h"
#include "store/reset.h"
#include "store/resp.h"
#include "store/script.h"
#include "store/settling.h"
#include "store/ticket.h"

#define TICKET_MAGIC 0x7469636bu
/* EVALSHA, EVALSHA behind another one's EVAL, EVAL, and a bucket missed at its boundary: none of
 * them wrote anything. */
#define ASKS_MAX 6
#define SPARE_TICKETS 256

typedef struct {
    uint32_t magic;
    sg_ticket_t base;
    bool out;                   /* sent, and no reply yet */
    bool trial, with_text, asking;
    uint8_t asks;
    sg_link_t live;             /* on sg_redis_t.live until answered or cancelled; spare: on .spare */
    sg_link_t queued;           /* on sg_redis_t.waiting while there is no connection */
    sg_redis_t *r;
    sg_check_t check;           /* its pointers hold while fn is set */
    sg_answer_fn *fn;           /* NULL: cancelled or late; only the reply is waited for */
    void *arg;
    int64_t started_us, deadline_us;
    sg_settling_t *settling;    /* NULL: a decision. Owned; fn is never called */
    /* Of a cancelled or late decision, for when it turns out to be made. */
    sg_releases_t slots;
    sg_settling_t *returning;   /* owned; all of it goes back */
} ticket_t;

typedef enum { SEEN_NOTHING, SEEN_UP, SEEN_DOWN } seen_t;

struct sg_redis {
    sg_loop_t *loop;
    sg_config_t *config;
    const sg_store_conf_t *conf;        /* the config's, or `node` */
    sg_store_conf_t node;
    char *node_host;                    /* NULL outside a cluster */
    sg_metrics_block_t *metrics;
    sg_redis_hooks_t hooks;
    sg_redis_conn_t *conn;
    sg_breaker_t breaker;
    sg_link_t live, waiting, spare;     /* live: by deadline */
    size_t spare_count;
    unsigned texts_out;                 /* EVALs without a reply: the script comes with them */
    sg_releases_t releases;             /* wait for the connection */
    sg_settlings_t unsettled;           /* likewise */
    sg_timer_t deadline;
    sg_timer_t rest;                    /* since the connection is up */
    sg_task_t end;
    bool retired, dropping;
    bool clock_known;
    int64_t clock_us;                   /* the store's clock less the loop's */
    seen_t seen;
    sg_store_err_t down_kind;
    char error[160];
    sg_redis_news_t news;
    char digest[2 * SG_SHA1_BYTES];
    sg_buf_t wire;
    sg_script_call_t call;
};

/* --- what is seen from outside -------------------------------------------------------------------------- */

/* After a failure a new connection alone is not "up": a server that answers PING and no decision would
 * be away and back many times a second. */
static void show(sg_redis_t *r)
{
    bool sure = r->breaker.state == SG_BREAKER_CLOSED && (r->seen != SEEN_DOWN || r->breaker.failures == 0);
    bool up = sure && sg_redis_conn_is_up(r->conn);
    if (up && r->seen != SEEN_UP)
        sg_redis_news_back(&r->news, sg_redis_conn_place(r->conn), sg_loop_now_us(r->loop));
    if (!up)
        sg_redis_news_away(&r->news, r->down_kind, r->error, sg_loop_now_us(r->loop));
    r->seen = up ? SEEN_UP : SEEN_DOWN;
    if (r->hooks.changed) {
        r->hooks.changed(r->hooks.arg);
    } else if (!r->retired) {
        sg_set_store_up(r->metrics, up);
        sg_set_breaker_open(r->metrics, r->breaker.state != SG_BREAKER_CLOSED);
    }
}

/* --- tickets ---------------------------------------------------------------------------------- */

static void cancel(sg_ticket_t *base);

static ticket_t *ticket_new(sg_redis_t *r)
{
    sg_link_t *l = sg_list_pop(&r->spare);
    ticket_t *t = l ? SG_OWNER(l, ticket_t, live) : SG_NEW(ticket_t);
    r->spare_count -= l != NULL;
    t->magic = TICKET_MAGIC;
    t->base.cancel = cancel;
    t->r = r;
    t->out = t->trial = t->with_text = t->asking = false;
    t->asks = 0;
    t->settling = t->returning = NULL;
    return t;
}

static void ticket_free(ticket_t *t)
{
    sg_redis_t *r = t->r;
    t->magic = 0;
    sg_releases_deinit(&t->slots);
    sg_free(t->settling);
    sg_free(t->returning);
    if (r->spare_count == SPARE_TICKETS) {
        sg_free(t);
        return;
    }
    r->spare_count++;
    sg_list_push_back(&r->spare, &t->live);
}

static void end_when_idle(sg_redis_t *r);

/* Off the lists; freed now, or when its reply comes. */
static void ticket_leave(ticket_t *t)
{
    sg_redis_t *r = t->r;
    sg_list_remove(&t->live);
    sg_list_remove(&t->queued);
    if (t->out) {
        if (t->check.cost > 0)
            sg_releases_add(&t->slots, &t->check, &r->call, &r->wire);
        if (t->check.returns)
            t->returning = sg_settling_all(&t->check);
        t->fn = NULL;
    } else {
        ticket_free(t);
    }
    end_when_idle(r);
}

static void cancel(sg_ticket_t *base)
{
    ticket_t *t = SG_OWNER(base, ticket_t, base);
    if (t->trial)
        sg_breaker_trial_gone(&t->r->breaker);
    ticket_leave(t);
}

static void answer(ticket_t *t, const sg_answer_t *a)
{
    sg_answer_fn *fn = t->fn;
    void *arg = t->arg;
    ticket_leave(t);
    fn(arg, a);
}

static void count_lost(sg_redis_t *r, const sg_settling_t *s)
{
    if (s->check.returns)
        sg_count_block_units(r->metrics, SG_BLOCK_LOST, -s->what[0].delta);
    else
        sg_count_settlement(r->metrics, SG_SETTLED_LOST);
}

static void answer_by_policy(ticket_t *t)
{
    sg_answer_t a;
    if (t->settling) {
        count_lost(t->r, t->settling);
        ticket_leave(t);
        return;
    }
    t->r->hooks.failed(t->r->hooks.arg, &t->check, &a);
    answer(t, &a);
}

/* Those that have not been sent: there is nothing to wait for. */
static void answer_waiting(sg_redis_t *r)
{
    sg_link_t now, *l;
    sg_list_init(&now);
    while ((l = sg_list_pop(&r->waiting)))
        sg_list_push_back(&now, l);
    while ((l = sg_list_pop(&now)))
        answer_by_policy(SG_OWNER(l, ticket_t, queued));
}

/* --- failures --------------------------------------------------------------------------------- */

/* Our own reason to close; the failure itself has been counted. */
static void drop(sg_redis_t *r, sg_store_err_t kind, const char *why)
{
    r->dropping = true;
    sg_redis_conn_drop(r->conn, kind, why);
    r->dropping = false;
}

/* A failure that says something about the store as a whole. When it opens the breaker, what is out
 * is given up: the connection is made anew, and its handshake is the probe. */
static void failed(sg_redis_t *r, sg_store_err_t kind, const char *why)
{
    if (!sg_breaker_failed(&r->breaker))
        return;
    r->down_kind = kind;
    drop(r, kind, why);
    show(r);
    answer_waiting(r);
}

static void on_down(void *arg, sg_store_err_t kind, const char *why)
{
    sg_redis_t *r = arg;
    r->down_kind = kind;
    r->texts_out = 0;
    sg_timer_stop(r->loop, &r->rest);
    (void)snprintf(r->error, sizeof r->error, "%s", why);
    if (!r->dropping) {
        sg_count_store_error(r->metrics, kind);
        (void)sg_breaker_failed(&r->breaker);
    }
    show(r);
    answer_waiting(r);
}

static void expire(ticket_t *t)
{
    sg_redis_t *r = t->r;
    sg_count_store_error(r->metrics, SG_STORE_ERR_TIMEOUT);
    answer_by_policy(t);
    failed(r, SG_STORE_ERR_TIMEOUT, "no answer in time");
}

static void on_deadline(void *arg)
{
    sg_redis_t *r = arg;
    int64_t now_us = sg_loop_now_us(r->loop);
    while (!sg_list_empty(&r->live)) {
        ticket_t *t = SG_OWNER(r->live.next, ticket_t, live);
        if (t->deadline_us > now_us) {
            sg_timer_at(r->loop, &r->deadline, t->deadline_us, on_deadline, r);
            return;
        }
        expire(t);
    }
}

/* By deadline; a reload may have shortened the time, so the place is looked for from the back. */
static void live_insert(sg_redis_t *r, ticket_t *t)
{
    sg_link_t *before = r->live.prev;
    while (before != &r->live && SG_OWNER(before, ticket_t, live)->deadline_us > t->deadline_us)
        before = before->prev;
    sg_list_push_front(before, &t->live);
    if (before == &r->live && (!sg_timer_is_on(&r->deadline) || r->deadline.node.key > t->deadline_us))
        sg_timer_at(r->loop, &r->deadline, t->deadline_us, on_deadline, r);
}

/* --- asking ----------------------------------------------------------------------------------- */

static int64_t predict_now_us(const sg_redis_t *r)
{
    return r->clock_known ? sg_loop_now_us(r->loop) + r->clock_us : sg_clock_wall_us();
}

void sg_redis_assume_clock(sg_redis_t *r, int64_t now_us)
{
    r->clock_known = true;
    r->clock_us = now_us - sg_loop_now_us(r->loop);
}

static void on_reply(void *arg, const redisReply *reply);

static bool ask(ticket_t *t, bool with_text)
{
    sg_redis_t *r = t->r;
    if (t->settling)
        sg_script_settle_args(&t->check, t->settling->what, predict_now_us(r), &r->call);
    else
        sg_script_args(&t->check, predict_now_us(r), &r->call);
    if (with_text)
        sg_script_command(&r->call, SG_STR("EVAL"), sg_str_n(sg_redis_script, sg_redis_script_len));
    else
        sg_script_command(&r->call, SG_STR("EVALSHA"), sg_str_n(r->digest, sizeof r->digest));
    if (t->asking && !sg_redis_conn_send(r->conn, SG_STR("*1\r\n$6\r\nASKING\r\n"), NULL, NULL))
        return false;
    sg_str_t command = sg_resp_call(&r->wire, &r->call);
    if (!sg_redis_conn_send(r->conn, command, on_reply, t))
        return false;
    t->out = true;
    t->with_text = with_text;
    t->asks++;
    r->texts_out += with_text;
    return true;
}

static void ask_again(ticket_t *t, bool with_text)
{
    sg_redis_t *r = t->r;
    if (t->asks < ASKS_MAX && ask(t, with_text))
        return;
    if (t->trial)
        sg_breaker_trial_gone(&r->breaker);
    sg_count_store_error(r->metrics, SG_STORE_ERR_OTHER);
    answer_by_policy(t);
}

static void on_rest(void *arg)
{
    sg_redis_t *r = arg;
    if (sg_redis_conn_is_up(r->conn) && sg_breaker_rested(&r->breaker))
        show(r);
}

static void send_unsettled(sg_redis_t *r);

static void on_up(void *arg)
{
    sg_redis_t *r = arg;
    sg_breaker_probed(&r->breaker);
    sg_timer_in(r->loop, &r->rest, SG_REDIS_HEARTBEAT_US, on_rest, r);
    show(r);
    sg_releases_send(&r->releases);
    send_unsettled(r);
    sg_link_t *l;
    while (sg_redis_conn_is_up(r->conn) && (l = sg_list_pop(&r->waiting))) {
        ticket_t *t = SG_OWNER(l, ticket_t, queued);
        if (!ask(t, false))
            answer_by_policy(t);
    }
}

/* --- replies ---------------------------------------------------------------------------------- */

/* Nobody waits for the decision any more. */
static void late_reply(ticket_t *t, const redisReply *reply)
{
    sg_redis_t *r = t->r;
    sg_verdict_t v;
    if (!sg_reply_is_error(reply)) {
        sg_releases_move(&r->releases, &t->slots);
        sg_releases_send(&r->releases);
    }
    if (t->returning && sg_reply_verdict(&t->returning->check, reply, &v))
        sg_redis_settle(r, &t->returning->check, &v, 0);
    ticket_free(t);
}

/* Within its deadline. */
static void take(sg_redis_t *to, ticket_t *t, bool asking)
{
    sg_list_remove(&t->live);
    t->r = to;
    t->asking = asking;
    live_insert(to, t);
    sg_admit_t admit = sg_breaker_admit(&to->breaker);
    t->trial = admit == SG_ADMIT_TRIAL;
    if (admit == SG_ADMIT_NO)
        answer_by_policy(t);
    else if (!sg_redis_conn_is_up(to->conn))
        sg_list_push_back(&to->waiting, &t->queued);
    else
        ask_again(t, false);
}

/* This server answered, and did nothing: another one of the cluster has the slot. */
static bool hand_on(ticket_t *t, sg_str_t error)
{
    sg_redis_t *r = t->r;
    bool asking;
    sg_redis_t *to = r->hooks.moved(r->hooks.arg, error, &asking);
    if (!to)
        return false;
    take(to, t, asking);
    if (sg_breaker_succeeded(&r->breaker))
        show(r);
    end_when_idle(r);
    return true;
}

/* NOSCRIPT: one EVAL brings the text; those behind it on the same connection find the script there. */
static void on_error(ticket_t *t, const redisReply *reply)
{
    sg_redis_t *r = t->r;
    if (sg_reply_is_noscript(reply)) {
        ask_again(t, r->texts_out == 0 || t->asks > 1);
        return;
    }
    sg_str_t text = sg_reply_error_text(reply);
    sg_store_err_t kind = sg_reply_error_kind(text);
    if (kind == SG_STORE_ERR_MOVED && r->hooks.moved && t->asks < ASKS_MAX && hand_on(t, text))
        return;
    bool closes = sg_reply_error_closes(text);
    sg_count_store_error(r->metrics, kind);
    sg_redis_news_refused(&r->news, kind, text, sg_loop_now_us(r->loop));
    (void)snprintf(r->error, sizeof r->error, "%s", text.p);
    if (!closes && sg_breaker_succeeded(&r->breaker))   /* it answers, so asking costs no deadline */
        show(r);
    answer_by_policy(t);
    if (closes) {
        (void)sg_breaker_failed(&r->breaker);
        drop(r, kind, text.p);
    }
}

static void on_nonsense(ticket_t *t)
{
    sg_redis_t *r = t->r;
    sg_count_store_error(r->metrics, SG_STORE_ERR_PROTOCOL);
    answer_by_policy(t);
    (void)sg_breaker_failed(&r->breaker);
    drop(r, SG_STORE_ERR_PROTOCOL, "not a reply of slotgate's script");
}

static void on_verdict(ticket_t *t, const sg_answer_t *a)
{
    sg_redis_t *r = t->r;
    sg_count_store_request(r->metrics, sg_loop_now_us(r->loop) - t->started_us);
    if (sg_breaker_succeeded(&r->breaker))
        show(r);
    r->hooks.answered(r->hooks.arg, &t->check, &a->verdict);
    answer(t, a);
}

static void on_settled(ticket_t *t)
{
    sg_redis_t *r = t->r;
    if (sg_breaker_succeeded(&r->breaker))
        show(r);
    ticket_leave(t);
}

/* Without a reply the decision may have been made or not; giving a slot back that was never taken
 * does no harm. */
static void on_reply(void *arg, const redisReply *reply)
{
    ticket_t *t;
    SG_MAGIC_CAST(t, arg, TICKET_MAGIC);
    sg_redis_t *r = t->r;
    t->out = false;
    if (t->with_text && reply && r->texts_out)
        r->texts_out--;
    if (!t->fn) {
        late_reply(t, reply);
    } else if (!reply) {
        if (t->check.cost > 0)
            sg_releases_add(&r->releases, &t->check, &r->call, &r->wire);
        answer_by_policy(t);
    } else if (sg_reply_is_error(reply)) {
        on_error(t, reply);
    } else {
        int64_t numbers[SG_SCRIPT_REPLY_MAX];
        size_t count;
        sg_answer_t a;
        a.source = SG_FROM_STORE;
        a.retry_us = 0;
        a.spent = NULL;
        sg_script_reply_t what = SG_SCRIPT_BAD;
        if (sg_reply_integers(reply, numbers, SG_SCRIPT_REPLY_MAX, &count))
            what = t->settling ? sg_script_decode_settled(numbers, count, &a.verdict.now_us)
                               : sg_script_decode(&t->check, numbers, count, &a.verdict);
        if (what == SG_SCRIPT_BAD) {
            on_nonsense(t);
            return;
        }
        sg_redis_assume_clock(r, a.verdict.now_us);
        if (what == SG_SCRIPT_WRONG_BUCKET)
            ask_again(t, false);
        else if (t->settling)
            on_settled(t);
        else
            on_verdict(t, &a);
    }
}

/* --- for store.c ------------------------------------------------------------------------------ */

sg_ticket_t *sg_redis_check(sg_redis_t *r, const sg_check_t *check, sg_answer_fn *fn, void *arg)
{
    sg_admit_t admit = sg_breaker_admit(&r->breaker);
    if (admit == SG_ADMIT_NO)
        return NULL;
    ticket_t *t = ticket_new(r);
    t->check = *check;
    t->trial = admit == SG_ADMIT_TRIAL;
    t->started_us = sg_loop_now_us(r->loop);
    t->deadline_us = (check->began_us ? check->began_us : t->started_us) + r->conf->timeout_us;
    if (!sg_redis_conn_is_up(r->conn)) {
        sg_list_push_back(&r->waiting, &t->queued);
    } else if (!ask(t, false)) {
        if (t->trial)
            sg_breaker_trial_gone(&r->breaker);
        sg_count_store_error(r->metrics, SG_STORE_ERR_OTHER);
        ticket_free(t);
        return NULL;
    }
    t->fn = fn;
    t->arg = arg;
    live_insert(r, t);
    return &t->base;
}

sg_releases_t *sg_redis_releases(sg_redis_t *r)
{
    return &r->releases;
}

void sg_redis_release(sg_redis_t *r, const sg_check_t *check)
{
    sg_releases_add(&r->releases, check, &r->call, &r->wire);
    sg_releases_send(&r->releases);
}

void sg_redis_reset(sg_redis_t *r, const char *tag, sg_reset_fn *fn, void *arg)
{
    sg_reset_start(r->conn, r->conf, tag, fn, arg);
}

static void no_answer(void *arg, const sg_answer_t *answer)
{
    (void)arg;
    (void)answer;
}

/* The breaker is not asked: it is open only when there is no connection. False: *s is still the caller's. */
static bool send_settlement(sg_redis_t *r, sg_settling_t *s)
{
    if (!sg_redis_conn_is_up(r->conn))
        return false;
    ticket_t *t = ticket_new(r);
    t->check = s->check;
    t->settling = s;
    if (!ask(t, false)) {
        t->settling = NULL;
        ticket_free(t);
        return false;
    }
    t->fn = no_answer;
    t->started_us = sg_loop_now_us(r->loop);
    t->deadline_us = t->started_us + r->conf->timeout_us;
    live_insert(r, t);
    return true;
}

static void lose(sg_redis_t *r, sg_settling_t *s)
{
    count_lost(r, s);
    sg_free(s);
}

static void send_unsettled(sg_redis_t *r)
{
    while (sg_redis_conn_is_up(r->conn) && r->unsettled.count) {
        sg_settling_t *s = sg_settlings_take(&r->unsettled);
        if (send_settlement(r, s))
            continue;
        lose(r, s);
    }
}

void sg_redis_settle(sg_redis_t *r, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost)
{
    sg_settling_t *s = sg_settling_new(check, verdict, cost);
    if (!s || send_settlement(r, s))
        return;
    s = sg_settlings_add(&r->unsettled, s);
    if (s)
        lose(r, s);
}

bool sg_redis_is_up(const sg_redis_t *r)
{
    return sg_redis_conn_is_up(r->conn) && r->breaker.state != SG_BREAKER_OPEN;
}

void sg_redis_status(const sg_redis_t *r, sg_store_status_t *out)
{
    out->up = r->seen == SEEN_UP;
    out->breaker_open = r->breaker.state != SG_BREAKER_CLOSED;
    (void)snprintf(out->error, sizeof out->error, "%s", r->error);
}

/* --- life ------------------------------------------------------------------------------------- */

static void use_config(sg_redis_t *r, sg_config_t *config)
{
    r->config = sg_config_ref(config);
    r->conf = &config->store;
    if (!r->node_host)
        return;
    unsigned port = r->node.port;
    r->node = config->store;
    r->node.mode = SG_REDIS_STANDALONE;
    r->node.host = r->node_host;
    r->node.port = port;
    r->node.unix_path = NULL;
    r->node.db = 0;
    r->conf = &r->node;
}

static sg_redis_t *new_server(sg_loop_t *loop, sg_config_t *config, const char *host, unsigned port,
                              sg_metrics_block_t *metrics, const sg_redis_hooks_t *hooks)
{
    static const sg_redis_conn_events_t events = {on_up, on_down};
    sg_redis_t *r = SG_NEW(sg_redis_t);
    uint8_t digest[SG_SHA1_BYTES];
    r->loop = loop;
    r->node_host = host ? sg_strdup(host) : NULL;
    r->node.port = port;
    use_config(r, config);
    r->metrics = metrics;
    r->hooks = *hooks;
    sg_list_init(&r->live);
    sg_list_init(&r->waiting);
    sg_list_init(&r->spare);
    sg_buf_init(&r->wire, (size_t)1 << 20);
    sg_sha1(sg_str_n(sg_redis_script, sg_redis_script_len), digest);
    sg_hex(digest, sizeof digest, r->digest);
    r->conn = sg_redis_conn_new(loop, r->conf, &events, r);
    sg_releases_init(&r->releases, r->conn, &r->hooks);
    if (!hooks->changed) {
        sg_set_store_up(metrics, false);
        sg_set_breaker_open(metrics, false);
    }
    return r;
}

sg_redis_t *sg_redis_new(sg_loop_t *loop, sg_config_t *config, sg_metrics_block_t *metrics,
                         const sg_redis_hooks_t *hooks)
{
    return new_server(loop, config, NULL, 0, metrics, hooks);
}

sg_redis_t *sg_redis_new_node(sg_loop_t *loop, sg_config_t *config, const char *host, unsigned port,
                              sg_metrics_block_t *metrics, const sg_redis_hooks_t *hooks)
{
    return new_server(loop, config, host, port, metrics, hooks);
}

bool sg_redis_reload(sg_redis_t *r, sg_config_t *config)
{
    if (!sg_place_same_server(&r->config->store, &config->store))
        return false;
    sg_config_t *old = r->config;
    use_config(r, config);
    sg_redis_conn_reload(r->conn, r->conf);
    sg_config_unref(old);
    return true;
}

void sg_redis_free(sg_redis_t *r)
{
    sg_link_t *l;
    sg_timer_stop(r->loop, &r->deadline);
    sg_timer_stop(r->loop, &r->rest);
    r->retired = false;
    sg_redis_conn_free(r->conn);
    while (!sg_list_empty(&r->live))        /* settlements that another node of the cluster sent here */
        answer_by_policy(SG_OWNER(r->live.next, ticket_t, live));
    sg_settlings_deinit(&r->unsettled);
    while ((l = sg_list_pop(&r->spare)))
        sg_free(SG_OWNER(l, ticket_t, live));
    sg_releases_deinit(&r->releases);
    sg_buf_deinit(&r->wire);
    sg_config_unref(r->config);
    sg_free(r->node_host);
    sg_free(r);
}

static void end(void *arg)
{
    sg_redis_t *r = arg;
    sg_redis_hooks_t hooks = r->hooks;
    sg_redis_free(r);
    if (hooks.ended)
        hooks.ended(hooks.arg);
}

static void end_when_idle(sg_redis_t *r)
{
    if (r->retired && sg_list_empty(&r->live))
        sg_defer_free(r->loop, &r->end, end, r);
}

void sg_redis_retire(sg_redis_t *r)
{
    r->retired = true;
    end_when_idle(r);
}
