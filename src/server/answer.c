/* answer.c - an answer in libmicrohttpd's terms. */
#include "server/server_internal.h"

#include "base/magic.h"

/* How much of a streamed body is asked for at once. */
enum { PULL_BYTES = 32 * 1024 };

static ssize_t on_pull(void *cls, uint64_t pos, char *out, size_t max)
{
    sg_live_t *live;
    SG_MAGIC_CAST(live, cls, SG_LIVE_MAGIC);
    (void)pos;
    sg_pace_reset(&live->server->pace);
    if (live->cut)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    ptrdiff_t n = live->client->server->handler->pull(&live->rq, out, max);
    if (n == SG_PULL_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == SG_PULL_CUT)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (n == 0)
        sg_live_suspend(live);
    return n;
}

/* The body of an answer that has none: never asked for. */
static ssize_t on_pull_nothing(void *cls, uint64_t pos, char *out, size_t max)
{
    (void)cls;
    (void)pos;
    (void)out;
    (void)max;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* HEAD and 304 whose length nobody knows. libmicrohttpd 0.9 would announce chunks and then send some: its
 * HTTP/1.0 mode writes no framing at all, and closes. */
static struct MHD_Response *make_bare(unsigned status)
{
    if (status < 200 || status == 204 || status == 205)
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, on_pull_nothing, NULL, NULL);
#if !SG_MHD_STRICT
    if (r)
        (void)MHD_set_response_options(r, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
#endif
    return r;
}

static struct MHD_Response *make(sg_live_t *live)
{
    const sg_reply_t *reply = &live->reply;
    switch (reply->kind) {
    case SG_ANSWER_BYTES:
        return MHD_create_response_from_buffer(reply->bytes.n, (void *)(uintptr_t)reply->bytes.p,
                                               MHD_RESPMEM_PERSISTENT);
    case SG_ANSWER_LENGTH:
        return MHD_create_response_from_callback(reply->length, PULL_BYTES, on_pull, live, NULL);
    case SG_ANSWER_CHUNKED:
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PULL_BYTES, on_pull, live, NULL);
    case SG_ANSWER_HEAD:
        return MHD_create_response_from_callback(reply->length, 1024, on_pull_nothing, NULL, NULL);
    case SG_ANSWER_UPGRADE: return sg_upgrade_response(live);
    case SG_ANSWER_BARE: return make_bare(reply->status);
    }
    return NULL;
}

static bool add_field(struct MHD_Response *r, sg_arena_t *arena, const sg_field_t *f)
{
    char *name = sg_arena_strndup(arena, f->name);
    /* libmicrohttpd takes no empty value; a blank is the same value to a receiver (RFC 9110 section 5.5). */
    char *value = f->value.n ? sg_arena_strndup(arena, f->value) : sg_arena_strndup(arena, SG_STR(" "));
    return MHD_add_response_header(r, name, value) == MHD_YES;
}

static bool add_fields(sg_live_t *live, struct MHD_Response *r)
{
    if (live->reply.fields)
        SG_FIELDS_EACH(f, live->reply.fields)
    if (!add_field(r, live->rq.arena, f)) {
        sg_log(SG_LOG_WARN, "the HTTP library refused a response field", SG_F_VIEW("field", f->name));
        return false;
    }
    if (live->reply.kind == SG_ANSWER_UPGRADE)
        return true;
    bool close = live->reply.close || live->close || live->client->server->draining;
#if !SG_MHD_STRICT
    /* Bare LF in chunk framing cannot be seen above this library: nothing that follows such a body is
     * believed. */
    close = close || live->rq.upload == SG_UPLOAD_CHUNKED;
#endif
    return !close || MHD_add_response_header(r, "Connection", "close") == MHD_YES;
}

bool sg_answer_queue(sg_live_t *live)
{
    struct MHD_Response *r = make(live);
    if (!r)
        return false;
    bool ok = add_fields(live, r);
    live->phase = SG_PHASE_ANSWER;
    live->queued = ok;
    ok = ok && MHD_queue_response(live->client->mhd, live->reply.status, r) == MHD_YES;
    MHD_destroy_response(r);
    if (!ok)
        live->queued = false;
    return ok;
}

/* The library splits cookies, in a copy of their field. */
static size_t cookie_bytes(const sg_live_t *live)
{
    const sg_field_t *cookie = sg_fields_get(&live->rq.fields, SG_STR("Cookie"));
    if (!cookie)
        return 0;
    int n = MHD_get_connection_values(live->client->mhd, MHD_COOKIE_KIND, NULL, NULL);
    return cookie->value.n + (n > 0 ? (size_t)n * 64 : 0);
}

size_t sg_request_answer_room(const sg_request_t *rq)
{
    enum { LIBRARY_BYTES = 12 * 1024 }; /* its own fields, and the buffer it sends the body from */
    const sg_live_t *live = SG_OWNER(rq, sg_live_t, rq);
    size_t memory = live->client->server->memory_bytes;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(live->client->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    size_t used = LIBRARY_BYTES + (info ? info->header_size : 0) + rq->fields.count * 64 + cookie_bytes(live);
    return used < memory ? memory - used : 0;
}
