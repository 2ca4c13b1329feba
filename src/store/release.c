#include "store/release.h"

#include "base/mem.h"
#include "store/reply.h"
#include "store/resp.h"

/* Redirections that are followed. */
#define HOPS_MAX 5

typedef struct {
    sg_link_t link;
    sg_releases_t *owner; /* once it is sent */
    bool asking;
    int hops;
    size_t n;
    char command[];
} release_t;

void sg_releases_init(sg_releases_t *r, sg_redis_conn_t *conn, const sg_redis_hooks_t *hooks)
{
    sg_list_init(&r->head);
    r->count = 0;
    r->conn = conn;
    r->hooks = hooks;
}

static release_t *first(sg_releases_t *r)
{
    return r->count ? SG_OWNER(r->head.next, release_t, link) : NULL;
}

static void drop_first(sg_releases_t *r)
{
    sg_link_t *l = sg_list_pop(&r->head);
    r->count--;
    sg_free(SG_OWNER(l, release_t, link));
}

void sg_releases_deinit(sg_releases_t *r)
{
    while (r->count)
        drop_first(r);
}

static void push(sg_releases_t *r, release_t *one)
{
    if (r->count == 0)
        sg_list_init(&r->head);
    if (r->count == SG_REDIS_RELEASES_MAX)
        drop_first(r);
    sg_list_push_back(&r->head, &one->link);
    r->count++;
}

sg_str_t sg_resp_call(sg_buf_t *wire, const sg_script_call_t *call)
{
    sg_buf_clear(wire);
    sg_resp_array(wire, (size_t)call->argc);
    for (int i = 0; i < call->argc; i++)
        sg_resp_bulk(wire, sg_str_n(call->argv[i], call->len[i]));
    return sg_buf_str(wire);
}

void sg_releases_add(sg_releases_t *r, const sg_check_t *check, sg_script_call_t *call, sg_buf_t *wire)
{
    for (size_t i = 0; i < check->count; i++) {
        if (!sg_script_release(check, i, call))
            continue;
        sg_str_t command = sg_resp_call(wire, call);
        release_t *one = sg_malloc(sizeof *one + command.n);
        one->link = (sg_link_t){NULL, NULL};
        one->owner = NULL;
        one->asking = false;
        one->hops = 0;
        one->n = command.n;
        memcpy(one->command, command.p, command.n);
        push(r, one);
    }
}

void sg_releases_move(sg_releases_t *to, sg_releases_t *from)
{
    while (from->count) {
        sg_link_t *l = sg_list_pop(&from->head);
        from->count--;
        push(to, SG_OWNER(l, release_t, link));
    }
}

static bool hand_on(release_t *one, const redisReply *reply)
{
    const sg_redis_hooks_t *hooks = one->owner->hooks;
    if (!sg_reply_is_error(reply) || !hooks->moved || one->hops == HOPS_MAX)
        return false;
    sg_redis_t *to = hooks->moved(hooks->arg, sg_reply_error_text(reply), &one->asking);
    if (!to)
        return false;
    one->hops++;
    push(sg_redis_releases(to), one);
    sg_releases_send(sg_redis_releases(to));
    return true;
}

/* Without a reply nobody knows whether the server has seen it. Giving a slot back twice does no harm: it is
 * sent again with the next connection. */
static void on_reply(void *arg, const redisReply *reply)
{
    release_t *one = arg;
    if (!reply)
        push(one->owner, one);
    else if (!hand_on(one, reply))
        sg_free(one);
}

void sg_releases_send(sg_releases_t *r)
{
    release_t *one;
    while ((one = first(r))) {
        if (one->asking && !sg_redis_conn_send(r->conn, SG_STR("*1\r\n$6\r\nASKING\r\n"), NULL, NULL))
            return;
        if (!sg_redis_conn_send(r->conn, sg_str_n(one->command, one->n), on_reply, one))
            return;
        (void)sg_list_pop(&r->head);
        r->count--;
        one->owner = r;
    }
}
