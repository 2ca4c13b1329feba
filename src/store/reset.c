#include "store/reset.h"

#include <stdio.h>

#include "base/mem.h"
#include "store/resp.h"

/* Keys that one SCAN looks at. */
#define BATCH "500"
#define WIRE_MAX ((size_t)4 << 20)

typedef struct {
    sg_redis_conn_t *conn;      /* followed only while it answers */
    sg_reset_fn *fn;
    void *arg;
    sg_buf_t pattern, wire;
    char cursor[24];
    size_t keys;
} reset_t;

static void end(reset_t *x, const char *error)
{
    sg_reset_fn *fn = x->fn;
    void *arg = x->arg;
    size_t keys = x->keys;
    sg_buf_deinit(&x->pattern);
    sg_buf_deinit(&x->wire);
    sg_free(x);
    fn(arg, keys, error);
}

static void end_by_reply(reset_t *x, const redisReply *reply)
{
    char error[200];
    sg_str_t text = sg_reply_error_text(reply);
    if (!reply)
        end(x, "the connection to the store was lost");
    else if (!text.n)
        end(x, "the store's answer cannot be read");
    else {
        (void)snprintf(error, sizeof error, "the store refuses: %.*s", (int)(text.n < 150 ? text.n : 150),
                       text.p);
        end(x, error);
    }
}

/* What would mean something in a pattern of Redis stands for itself. */
static void add_literally(sg_buf_t *b, sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (strchr("*?[]^\\", s.p[i]))
            sg_buf_char(b, '\\');
        sg_buf_char(b, s.p[i]);
    }
}

/* --- one batch ------------------------------------------------------------------------------------------ */

static void scan(reset_t *x);

static void scan_on(reset_t *x)
{
    if (strcmp(x->cursor, "0") == 0)
        end(x, NULL);
    else
        scan(x);
}

static void on_unlinked(void *arg, const redisReply *reply)
{
    reset_t *x = arg;
    if (!reply || reply->type != REDIS_REPLY_INTEGER) {
        end_by_reply(x, reply);
        return;
    }
    x->keys += (size_t)reply->integer;
    scan_on(x);
}

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

/* False when it is not a list of names. */
static bool write_unlink(reset_t *x, const redisReply *names)
{
    sg_buf_clear(&x->wire);
    sg_resp_array(&x->wire, names->elements + 1);
    sg_resp_bulk(&x->wire, SG_STR("UNLINK"));
    for (size_t i = 0; i < names->elements; i++) {
        if (!is_text(names->element[i]))
            return false;
        sg_resp_bulk(&x->wire, sg_str_n(names->element[i]->str, (size_t)names->element[i]->len));
    }
    return !x->wire.failed;
}

static void on_scanned(void *arg, const redisReply *reply)
{
    reset_t *x = arg;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_text(reply->element[0]) ||
        reply->element[1]->type != REDIS_REPLY_ARRAY ||
        (size_t)reply->element[0]->len >= sizeof x->cursor) {
        end_by_reply(x, reply);
        return;
    }
    const redisReply *names = reply->element[1];
    (void)snprintf(x->cursor, sizeof x->cursor, "%s", reply->element[0]->str);
    if (names->elements == 0)
        scan_on(x);
    else if (!write_unlink(x, names))
        end(x, "the store's answer cannot be read");
    else if (!sg_redis_conn_send(x->conn, sg_buf_str(&x->wire), on_unlinked, x))
        end(x, "the store is not connected");
}

static void scan(reset_t *x)
{
    sg_buf_clear(&x->wire);
    sg_resp_array(&x->wire, 6);
    sg_resp_bulk(&x->wire, SG_STR("SCAN"));
    sg_resp_bulk(&x->wire, sg_str(x->cursor));
    sg_resp_bulk(&x->wire, SG_STR("MATCH"));
    sg_resp_bulk(&x->wire, sg_buf_str(&x->pattern));
    sg_resp_bulk(&x->wire, SG_STR("COUNT"));
    sg_resp_bulk(&x->wire, SG_STR(BATCH));
    if (!sg_redis_conn_send_large(x->conn, sg_buf_str(&x->wire), on_scanned, x))
        end(x, "the store is not connected");
}

void sg_reset_start(sg_redis_conn_t *conn, const sg_store_conf_t *conf, const char *tag, sg_reset_fn *fn,
                    void *arg)
{
    reset_t *x = SG_NEW(reset_t);
    *x = (reset_t){.conn = conn, .fn = fn, .arg = arg, .cursor = "0"};
    sg_buf_init(&x->pattern, 1024);
    sg_buf_init(&x->wire, WIRE_MAX);
    add_literally(&x->pattern, conf->key_prefix);
    sg_buf_z(&x->pattern, ":??:"); /* two letters name the algorithm */
    add_literally(&x->pattern, conf->key_version);
    sg_buf_printf(&x->pattern, ":{%s}:*", tag);
    scan(x);
}
