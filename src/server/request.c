/* request.c - one request on its way through libmicrohttpd: head, body, answer; and the client's going. */
#include "server/server_internal.h"

#include "base/clock.h"
#include "base/magic.h"

/* A body that nobody wants any more is taken and dropped so that the answer arrives and the connection lives
 * on: this much of one that has not begun to come, and this much of one that is on its way. */
enum {
    DROP_UNSENT_BYTES = 64 * 1024,
    DROP_RAW_BYTES = 1024 * 1024,
    DROP_COMING_BYTES = 64 * 1024 * 1024,
    ARENA_BYTES = 8 * 1024
};

/* A body may take idle_timeout and, besides, the time of its bytes at this rate: one that drips is ended. */
enum { BODY_BYTES_PER_S = 1024 };

/* Ended requests whose memory waits for the next ones. A sanitizer shall see each of them freed. */
enum { SPARES_MAX = SG_SANITIZED ? 0 : 128 };

void sg_live_suspend(sg_live_t *live)
{
    MHD_suspend_connection(live->client->mhd);
    live->suspended = true;
    live->body_paused_us = sg_loop_now_us(live->client->server->loop);
}

void sg_live_resume(sg_live_t *live)
{
    if (!live->suspended)
        return;
    live->suspended = false;
    live->body_begun_us += sg_loop_now_us(live->client->server->loop) - live->body_paused_us;
    MHD_resume_connection(live->client->mhd);
    sg_server_run_soon(live->client->server);
}

static sg_live_t *live_of(sg_request_t *rq)
{
    sg_live_t *live;
    SG_MAGIC_CAST(rq, rq, SG_REQUEST_MAGIC);
    live = SG_OWNER(rq, sg_live_t, rq);
    return live;
}

/* --- what the handler asks for ----------------------------------------------------------------------- */

void sg_request_admit(sg_request_t *rq)
{
    sg_live_t *live = live_of(rq);
    live->admitted = true;
    if (live->phase == SG_PHASE_HEAD) /* else no body is to come, and the library would look for nothing */
        sg_live_resume(live);
}

void sg_request_want_body(sg_request_t *rq)
{
    sg_live_resume(live_of(rq));
}

void sg_request_have_answer(sg_request_t *rq)
{
    sg_live_resume(live_of(rq));
}

void sg_request_reply(sg_request_t *rq, const sg_reply_t *reply)
{
    sg_live_t *live = live_of(rq);
    if (live->replied || live->cut)
        return;
    live->reply = *reply;
    live->replied = true;
    if (live->phase == SG_PHASE_BODY)
        live->drop_body = !reply->keep_body;
    sg_live_resume(live);
}

void sg_request_cut(sg_request_t *rq)
{
    sg_live_t *live = live_of(rq);
    live->cut = true;
    sg_tunnel_close(live);
    /* The library may be waiting for the client, or have missed that it went. */
    if (live->suspended)
        sg_live_resume(live);
    else if (!live->calling && live->phase != SG_PHASE_TUNNEL)
        sg_client_shut(live->client);
}

void sg_request_cut_with(sg_request_t *rq, const sg_refusal_t *why)
{
    sg_live_t *live = live_of(rq);
    if (!live->queued && !rq->tls) {
        sg_client_write_raw(live->client, why);
        live->client->linger = true;
    }
    sg_request_cut(rq);
}

/* --- the client goes --------------------------------------------------------------------------------- */

void sg_request_client_gone(sg_live_t *live)
{
    bool all_handed_over =
        live->queued && live->reply.kind != SG_ANSWER_LENGTH && live->reply.kind != SG_ANSWER_CHUNKED;
    if (live->cut || all_handed_over)
        return;
    live->client->server->handler->gone(&live->rq);
    sg_request_cut(&live->rq);
}

static void live_dead(void *arg)
{
    sg_live_t *live = arg;
    sg_server_t *s = live->server;
    live->magic = live->rq.magic = 0;
    sg_buf_deinit(&live->tunnel_head);
    if (s->spare_count != SPARES_MAX) {
        s->spare_count++;
        sg_list_push_front(&s->spares, &live->spare); /* still in the cache */
        return;
    }
    sg_arena_free(live->rq.arena);
    sg_free(live);
}

/* The library answers malformed chunks by itself, in the middle of the body. */
static void note_library_refusal(sg_live_t *live)
{
    const union MHD_ConnectionInfo *info =
        live->queued ? NULL : MHD_get_connection_info(live->client->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    if (info && !live->rq.refusal)
        live->rq.refusal =
            sg_refusal(info->http_status == MHD_HTTP_CONTENT_TOO_LARGE ? SG_REFUSE_BODY_TOO_LARGE
                                                                       : SG_REFUSE_BAD_FRAMING);
}

void sg_spares_free(sg_server_t *s)
{
    sg_link_t *l;
    while ((l = sg_list_pop(&s->spares))) {
        sg_live_t *live = SG_OWNER(l, sg_live_t, spare);
        sg_arena_free(live->rq.arena);
        sg_free(live);
    }
}

/* Zeroed, with an empty arena: one that was used before, or a new one. */
static sg_live_t *live_blank(sg_server_t *s)
{
    sg_link_t *l = sg_list_pop(&s->spares);
    sg_live_t *live = l ? SG_OWNER(l, sg_live_t, spare) : SG_NEW(sg_live_t);
    sg_arena_t *arena = l ? live->rq.arena : sg_arena_new(ARENA_BYTES);
    if (l) {
        s->spare_count--;
        sg_arena_reset(arena);
        *live = (sg_live_t){0};
    }
    live->server = s;
    live->rq.arena = arena;
    return live;
}

void sg_request_completed(sg_live_t *live, enum MHD_RequestTerminationCode how)
{
    sg_client_t *c = live->client;
    sg_server_t *s = c->server;
    SG_MAGIC_CAST(live, live, SG_LIVE_MAGIC);
    c->live = NULL;
    c->requests++;
    sg_timer_stop(s->loop, &live->body_timer);
    sg_add_connections(s->metrics, live->phase == SG_PHASE_TUNNEL ? SG_CONN_UPGRADED : SG_CONN_ACTIVE, -1);
    sg_add_connections(s->metrics, SG_CONN_IDLE, 1);
    note_library_refusal(live);
    /* The library takes every end of a tunnel for a good one. */
    bool cut_tunnel = live->phase == SG_PHASE_TUNNEL && live->rq.drained;
    bool ok = (how == MHD_REQUEST_TERMINATED_COMPLETED_OK && !cut_tunnel) || live->tunnel_ended;
    s->handler->done(&live->rq, live->written_raw || (live->queued && ok));
    sg_defer_free(s->loop, &live->dead, live_dead, live);
    if (s->draining)
        sg_client_shut(c);
    else
        sg_client_expect_head(c);
}

/* --- libmicrohttpd's calls --------------------------------------------------------------------------- */

static sg_live_t *live_new(sg_server_t *s, struct MHD_Connection *mhd, const char *method,
                           const char *version)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    sg_client_t *c;
    SG_MAGIC_CAST(c, info ? info->socket_context : NULL, SG_CLIENT_MAGIC);
    sg_live_t *live = live_blank(s);
    live->magic = SG_LIVE_MAGIC;
    live->rq.magic = SG_REQUEST_MAGIC;
    live->rq.begun_us = sg_clock_mono_us();
    live->rq.tls = c->tls != NULL;
    live->client = c;
    c->live = live;
    if (!c->hung_up)
        sg_timer_stop(s->loop, &c->deadline);
    sg_add_connections(s->metrics, SG_CONN_IDLE, -1);
    sg_add_connections(s->metrics, SG_CONN_ACTIVE, 1);
    sg_head_read(c, method, version, &live->rq);
    return live;
}

static bool has_body(const sg_request_t *rq)
{
    return rq->upload == SG_UPLOAD_CHUNKED || (rq->upload == SG_UPLOAD_LENGTH && rq->upload_length > 0);
}

static enum MHD_Result queue(sg_live_t *live)
{
    if (live->reply.kind == SG_ANSWER_UPGRADE && live->rq.tls) {
        sg_upgrade_tls(live);
        return MHD_YES;
    }
    return sg_answer_queue(live) ? MHD_YES : MHD_NO;
}

static enum MHD_Result wait(sg_live_t *live)
{
    if (live->client->hung_up) { /* together with its request, or before */
        sg_request_client_gone(live);
        return MHD_NO;
    }
    sg_live_suspend(live);
    return MHD_YES;
}

/* The library can answer only behind the body. Much of it is not waited for: a small answer goes out past the
 * library then, and the connection ends. */
static void answer_past_library(sg_live_t *live)
{
    bool small =
        live->reply.kind == SG_ANSWER_BYTES && !live->rq.tls && !sg_str_eq(live->rq.method, SG_STR("HEAD"));
    if (!small || live->tried_raw)
        return;
    live->tried_raw = true;
    live->written_raw = sg_client_write_reply(live->client, &live->reply);
    live->client->linger = live->written_raw;
}

static void body_late(void *arg)
{
    sg_live_t *live = arg;
    SG_MAGIC_CAST(live, arg, SG_LIVE_MAGIC);
    if (live->cut)
        return;
    sg_loop_t *loop = live->server->loop;
    int64_t idle_us = live->server->config->server.idle_timeout_us, now_us = sg_loop_now_us(loop);
    int64_t due_us = live->body_begun_us + idle_us + (int64_t)live->body_bytes * 1000000 / BODY_BYTES_PER_S;
    if (live->suspended || now_us < due_us) {
        sg_timer_at(loop, &live->body_timer, live->suspended ? now_us + idle_us : due_us, body_late, live);
        return;
    }
    if (live->replied) {
        answer_past_library(live);
        sg_request_cut(&live->rq);
        return;
    }
    live->rq.refusal = sg_refusal(SG_REFUSE_BODY_TIMEOUT);
    sg_request_cut_with(&live->rq, live->rq.refusal);
}

static void expect_body(sg_live_t *live)
{
    sg_server_t *s = live->server;
    live->phase = SG_PHASE_BODY;
    live->body_begun_us = sg_loop_now_us(s->loop);
    sg_timer_in(s->loop, &live->body_timer, s->config->server.idle_timeout_us, body_late, live);
}

/* The head is here and the library has read nothing behind it. An answer that is queued now closes the
 * connection after it. */
static enum MHD_Result at_head(sg_live_t *live)
{
    sg_request_t *rq = &live->rq;
    if (live->replied && rq->refusal && rq->refusal->close) {
        live->client->linger = true;
        return queue(live);
    }
    if (!has_body(rq)) {
        live->phase = SG_PHASE_END; /* the library calls again at once */
        return MHD_YES;
    }
    if (!live->replied && !live->admitted)
        return wait(live);
    if (live->replied) {
        bool small = rq->upload == SG_UPLOAD_LENGTH && rq->upload_length <= DROP_UNSENT_BYTES;
        if (!small || rq->expects_continue) {
            live->client->linger = true;
            return queue(live);
        }
        live->drop_body = true;
    }
    expect_body(live);
    return MHD_YES;
}

static bool enough_dropped(sg_live_t *live)
{
    if (live->dropped_bytes > DROP_RAW_BYTES)
        answer_past_library(live);
    return live->written_raw || live->dropped_bytes > DROP_COMING_BYTES;
}

static enum MHD_Result take_body(sg_live_t *live, const char *data, size_t *size)
{
    if (live->drop_body) {
        live->dropped_bytes += *size;
        live->body_bytes += *size;
        *size = 0;
        return enough_dropped(live) ? MHD_NO : MHD_YES;
    }
    size_t taken = live->client->server->handler->body(&live->rq, sg_str_n(data, *size));
    *size -= taken;
    live->body_bytes += taken;
    if (live->cut)
        return MHD_NO;
    if (*size > 0 && !live->drop_body)
        return wait(live);
    return MHD_YES;
}

static enum MHD_Result at_end(sg_live_t *live)
{
    return live->replied ? queue(live) : wait(live);
}

static enum MHD_Result go_on(sg_server_t *s, sg_live_t *live, const char *data, size_t *size)
{
    if (live->cut)
        return MHD_NO;
    if (live->phase == SG_PHASE_HEAD)
        return at_head(live);
    if (live->phase == SG_PHASE_BODY && *size > 0)
        return take_body(live, data, size);
    if (live->phase == SG_PHASE_BODY) {
        live->phase = SG_PHASE_END;
        sg_timer_stop(s->loop, &live->body_timer);
        if (!live->drop_body)
            s->handler->body_end(&live->rq);
        if (live->cut)
            return MHD_NO;
    }
    return at_end(live);
}

enum MHD_Result sg_request_handle(sg_server_t *s, struct MHD_Connection *mhd, const char *method,
                                  const char *version, const char *data, size_t *size, void **state)
{
    sg_live_t *live = *state;
    bool begins = !live;
    if (begins)
        *state = live = live_new(s, mhd, method, version);
    SG_MAGIC_CAST(live, live, SG_LIVE_MAGIC);
    live->calling = true;
    if (begins)
        s->handler->begin(s->handler_arg, &live->rq);
    enum MHD_Result r = go_on(s, live, data, size);
    live->calling = false;
    return r;
}
