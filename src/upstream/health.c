#include "upstream/health.h"

#include "base/magic.h"
#include "http/framing.h"

enum { HEALTH_MAGIC = 0x5348454c, INTERIM_MAX = 10 };

struct sg_health {
    uint32_t magic;
    sg_pool_t *pool;
    unsigned target_index;
    int64_t interval_us, timeout_us;
    unsigned healthy, unhealthy, status_min, status_max;
    sg_health_fn *changed;
    void *arg;
    sg_timer_t next, deadline;
    /* The check that runs. */
    sg_dial_t *dial;
    sg_conn_t *conn;
    sg_buf_t request;               /* made once, sent each time */
    size_t sent;
    sg_buf_t answer;
    unsigned interims;
    sg_arena_t *arena;              /* of one parsed head */
    sg_task_t freeing;
};

static void sleep_until_due(sg_health_t *h);

/* --- the end of a check --------------------------------------------------------------------- */

static void hang_up(sg_health_t *h)
{
    sg_timer_stop(h->pool->all->loop, &h->deadline);
    if (h->dial)
        sg_dial_cancel(h->dial);
    if (h->conn)
        sg_conn_close(h->conn);
    h->dial = NULL;
    h->conn = NULL;
}

static void end(sg_health_t *h, bool passed, const char *reason)
{
    hang_up(h);
    if (sg_shared_target_checked(h->pool->shared, passed, h->healthy, h->unhealthy)) {
        sg_log(passed ? SG_LOG_INFO : SG_LOG_WARN, passed ? "target up" : "target down",
               SG_F_STR("upstream", h->pool->upstream), SG_F_STR("target", h->pool->target.url),
               SG_F_STR("reason", reason));
        h->changed(h->arg);
    }
    sleep_until_due(h);
}

static void on_deadline(void *arg)
{
    sg_health_t *h;
    SG_MAGIC_CAST(h, arg, HEALTH_MAGIC);
    end(h, false, "no answer in time");
}

/* --- question and answer -------------------------------------------------------------------- */

/* True when the check has ended. */
static bool judge(sg_health_t *h)
{
    for (;;) {
        sg_response_head_t head;
        size_t used;
        const char *why = NULL;
        sg_arena_reset(h->arena);
        sg_err_t err = sg_response_head_parse(h->arena, sg_buf_str(&h->answer), false, &head, &used, &why);
        if (err == SG_ERR_AGAIN)
            return false;
        if (err != SG_OK || (head.status < 200 && ++h->interims > INTERIM_MAX)) {
            end(h, false, "the answer is not HTTP/1.1");
            return true;
        }
        if (head.status >= 200) {
            bool passed = head.status >= h->status_min && head.status <= h->status_max;
            end(h, passed, passed ? "status as expected" : "status out of range");
            return true;
        }
        sg_buf_consume(&h->answer, used);
    }
}

static void read_answer(sg_health_t *h)
{
    for (;;) {
        size_t room, n;
        char *to = sg_buf_room(&h->answer, 1, &room);
        if (!to) {
            end(h, false, "the answer's head is too large");
            return;
        }
        sg_err_t err = sg_conn_recv(h->conn, to, room, &n);
        if (err == SG_ERR_AGAIN)
            return;
        if (err != SG_OK) {
            end(h, false, "the connection ended without an answer");
            return;
        }
        sg_buf_added(&h->answer, n);
        if (judge(h))
            return;
    }
}

static void on_ready(void *arg, unsigned events)
{
    sg_health_t *h;
    SG_MAGIC_CAST(h, arg, HEALTH_MAGIC);
    (void)events;
    sg_str_t request = sg_buf_str(&h->request);
    while (h->sent < request.n) {
        size_t n;
        sg_err_t err = sg_conn_send(h->conn, request.p + h->sent, request.n - h->sent, &n);
        if (err == SG_ERR_AGAIN) {
            sg_conn_watch(h->conn, SG_EV_WRITE, on_ready, h);
            return;
        }
        if (err != SG_OK) {
            end(h, false, "the connection was reset");
            return;
        }
        h->sent += n;
    }
    sg_conn_watch(h->conn, SG_EV_READ, on_ready, h);
    read_answer(h);
}

static void on_connected(void *arg, sg_err_t err, sg_conn_t *conn, const char *text)
{
    sg_health_t *h;
    SG_MAGIC_CAST(h, arg, HEALTH_MAGIC);
    h->dial = NULL;
    h->conn = conn;
    if (err != SG_OK)
        end(h, false, text);
    else
        on_ready(h, 0);
}

/* --- when ----------------------------------------------------------------------------------- */

static void start(sg_health_t *h)
{
    h->sent = 0;
    h->interims = 0;
    sg_buf_clear(&h->answer);
    sg_timer_in(h->pool->all->loop, &h->deadline, h->timeout_us, on_deadline, h);
    h->dial = sg_dial_start(h->pool, h->target_index, false, on_connected, h);
}

/* All workers sleep until the same moment; the one that is first makes the check, the others see a later
 * one. */
static void on_due(void *arg)
{
    sg_health_t *h;
    SG_MAGIC_CAST(h, arg, HEALTH_MAGIC);
    if (sg_shared_target_claim_check(h->pool->shared, h->interval_us, sg_loop_now_us(h->pool->all->loop)))
        start(h);
    else
        sleep_until_due(h);
}

static void sleep_until_due(sg_health_t *h)
{
    int64_t due_us = atomic_load_explicit(&h->pool->shared->next_check_us, memory_order_relaxed);
    sg_timer_at(h->pool->all->loop, &h->next, due_us, on_due, h);
}

/* --- life ----------------------------------------------------------------------------------- */

static void write_request(sg_health_t *h, const char *path)
{
    const sg_target_conf_t *t = &h->pool->target;
    sg_fields_t fields = {0};
    sg_str_t host = SG_STR("localhost");
    if (t->host && t->port == (t->https ? 443 : 80))
        host = sg_arena_printf(h->arena, strchr(t->host, ':') ? "[%s]" : "%s", t->host);
    else if (t->host)
        host = sg_arena_printf(h->arena, strchr(t->host, ':') ? "[%s]:%u" : "%s:%u", t->host, t->port);
    sg_fields_add(&fields, h->arena, SG_STR("Host"), host);
    sg_fields_add(&fields, h->arena, SG_STR("User-Agent"), SG_STR("slotgate-health"));
    sg_fields_add(&fields, h->arena, SG_STR("Connection"), SG_STR("close"));
    sg_buf_init(&h->request, 16 * 1024);
    sg_head_write(&h->request, SG_STR("GET"), sg_str(path), &fields);
}

sg_health_t *sg_health_new(sg_pool_t *pool, const sg_upstream_conf_t *conf, unsigned target_index,
                           sg_health_fn *changed, void *arg)
{
    sg_health_t *h = SG_NEW(sg_health_t);
    h->magic = HEALTH_MAGIC;
    h->pool = pool;
    h->target_index = target_index;
    h->interval_us = conf->health.interval_us;
    h->timeout_us = conf->health.timeout_us;
    h->healthy = conf->health.healthy;
    h->unhealthy = conf->health.unhealthy;
    h->status_min = conf->health.status_min;
    h->status_max = conf->health.status_max;
    h->changed = changed;
    h->arg = arg;
    h->arena = sg_arena_new(2048);
    write_request(h, conf->health.path);
    sg_buf_init(&h->answer, SG_RESPONSE_HEAD_MAX + 4096);
    sleep_until_due(h);
    return h;
}

static void free_health(void *arg)
{
    sg_health_t *h;
    SG_MAGIC_CAST(h, arg, HEALTH_MAGIC);
    h->magic = 0;
    sg_buf_deinit(&h->request);
    sg_buf_deinit(&h->answer);
    sg_arena_free(h->arena);
    sg_free(h);
}

void sg_health_free(sg_health_t *h)
{
    if (!h)
        return;
    hang_up(h);
    sg_timer_stop(h->pool->all->loop, &h->next);
    sg_defer_free(h->pool->all->loop, &h->freeing, free_health, h);
}
