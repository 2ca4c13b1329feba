#include "store/redis_sync.h"

#include <errno.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>

#include "base/mem.h"
#include "store/place.h"
#include "store/redis_tls.h"
#include "store/reply.h"

/* Words of a command line, with its arguments. */
#define WORDS_MAX 24

struct sg_sync {
    redisContext *c;
    redisReply *reply;
    char place[300];
    char error[200];
};

const char *sg_sync_place(const sg_sync_t *s)
{
    return s->place;
}

const char *sg_sync_error(const sg_sync_t *s)
{
    return s->error;
}

/* --- values --------------------------------------------------------------------------------------- */

sg_str_t sg_sync_text(const sg_sync_value_t *v)
{
    bool text = v && (v->type == REDIS_REPLY_STRING || v->type == REDIS_REPLY_STATUS || sg_reply_is_error(v));
    return text ? sg_str_n(v->str, (size_t)v->len) : (sg_str_t){NULL, 0};
}

bool sg_sync_is_error(const sg_sync_value_t *v)
{
    return sg_reply_is_error(v);
}

bool sg_sync_integer(const sg_sync_value_t *v, int64_t *out)
{
    uint64_t number;
    if (v && v->type == REDIS_REPLY_INTEGER) {
        *out = v->integer;
        return true;
    }
    if (sg_str_u64(sg_sync_text(v), INT64_MAX, &number) != SG_OK)
        return false;
    *out = (int64_t)number;
    return true;
}

size_t sg_sync_count(const sg_sync_value_t *v)
{
    return v && v->type == REDIS_REPLY_ARRAY ? v->elements : 0;
}

const sg_sync_value_t *sg_sync_at(const sg_sync_value_t *v, size_t i)
{
    return i < sg_sync_count(v) ? v->element[i] : NULL;
}

/* --- commands ------------------------------------------------------------------------------------- */

static void lost(sg_sync_t *s, const char *why)
{
    if (!s->error[0])
        (void)snprintf(s->error, sizeof s->error, "%s", why);
    if (s->c)
        redisFree(s->c);
    s->c = NULL;
}

bool sg_sync_send(sg_sync_t *s, const char *line, const sg_str_t *args, size_t count)
{
    const char *argv[WORDS_MAX];
    size_t len[WORDS_MAX];
    int n = 0;
    sg_str_t rest = sg_str(line), word;
    while (n < WORDS_MAX - SG_SYNC_ARGS_MAX && sg_str_next(&rest, ' ', &word)) {
        argv[n] = word.p;
        len[n++] = word.n;
    }
    for (size_t i = 0; i < count && i < SG_SYNC_ARGS_MAX; i++) {
        argv[n] = args[i].n ? args[i].p : "";
        len[n++] = args[i].n;
    }
    if (s->c && redisAppendCommandArgv(s->c, n, argv, len) != REDIS_OK)
        lost(s, s->c->errstr);
    return s->c != NULL;
}

const sg_sync_value_t *sg_sync_read(sg_sync_t *s)
{
    void *reply = NULL;
    if (s->reply)
        freeReplyObject(s->reply);
    s->reply = NULL;
    if (!s->c)
        return NULL;
    errno = 0;
    if (redisGetReply(s->c, &reply) != REDIS_OK) /* EAGAIN: SO_RCVTIMEO is over */
        lost(s, s->c->err == REDIS_ERR_IO && (errno == EAGAIN || !s->c->errstr[0]) ? "no answer in time"
                                                                                   : s->c->errstr);
    s->reply = reply;
    return s->reply;
}

const sg_sync_value_t *sg_sync_ask(sg_sync_t *s, const char *line)
{
    return sg_sync_send(s, line, NULL, 0) ? sg_sync_read(s) : NULL;
}

/* --- one connection ------------------------------------------------------------------------------- */

static void close_one(sg_sync_t *s)
{
    if (s->reply)
        freeReplyObject(s->reply);
    if (s->c)
        redisFree(s->c);
    sg_free(s);
}

/* It can be looked at: what it may not or cannot do now, others find out. */
static bool is_there(const sg_sync_value_t *v)
{
    static const char *const words[] = {"NOPERM", "LOADING", "MISCONF", "MASTERDOWN"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (sg_str_starts(sg_sync_text(v), sg_str(words[i])))
            return true;
    return !sg_sync_is_error(v);
}

/* What the server says to AUTH may repeat it, so only the first word is shown. */
static bool greet(sg_sync_t *s, const sg_store_conf_t *conf, sg_why_t *why)
{
    const sg_str_t auth[] = {sg_str(conf->username), conf->password};
    const sg_sync_value_t *v = NULL;
    if (conf->password.n) {
        size_t skip = conf->username ? 0 : 1;
        v = sg_sync_send(s, "AUTH", auth + skip, 2 - skip) ? sg_sync_read(s) : NULL;
        if (sg_sync_is_error(v)) {
            sg_str_t word = sg_reply_error_word(v);
            sg_why_set(why, "%s: AUTH refused: %.*s", s->place, SG_STR_ARG(word));
            return false;
        }
    }
    char line[32];
    (void)snprintf(line, sizeof line, "SELECT %u", conf->db);
    v = sg_sync_ask(s, conf->db ? line : "PING");
    sg_str_t text = sg_sync_text(v);
    if (v && is_there(v))
        return true;
    sg_why_set(why, "%s: %.*s", s->place, v ? (int)text.n : (int)strlen(s->error), v ? text.p : s->error);
    return false;
}

/* host NULL: the unix socket. NULL with a sentence when it fails. */
static sg_sync_t *open_one(const char *host, unsigned port, const sg_store_conf_t *conf, bool greeting,
                           sg_why_t *why)
{
    struct timeval limit = {SG_SYNC_TIMEOUT_US / 1000000, SG_SYNC_TIMEOUT_US % 1000000};
    sg_sync_t *s = SG_NEW(sg_sync_t);
    if (host)
        (void)snprintf(s->place, sizeof s->place, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    else
        (void)snprintf(s->place, sizeof s->place, "unix:%s", conf->unix_path);
    s->c = host ? redisConnectWithTimeout(host, (int)port, limit)
                : redisConnectUnixWithTimeout(conf->unix_path, limit);
    if (!s->c || s->c->err) {
        sg_why_set(why, "%s: %s", s->place, s->c ? s->c->errstr : "out of memory");
        close_one(s);
        return NULL;
    }
    (void)redisSetTimeout(s->c, limit);
    sg_redis_tls_t *tls;
    char error[160];
    if (host && conf->tls && !sg_redis_tls_start(s->c, host, &tls, error, sizeof error)) {
        sg_why_set(why, "%s: %s", s->place, error);
        close_one(s);
        return NULL;
    }
    if (greeting && !greet(s, conf, why)) {
        close_one(s);
        return NULL;
    }
    return s;
}

static sg_sync_t *open_place(sg_str_t place, const sg_store_conf_t *conf, bool greeting, sg_why_t *why)
{
    sg_str_t host;
    unsigned port;
    if (!sg_place_split(place, &host, &port)) {
        sg_why_set(why, "%.*s: expected host:port", SG_STR_ARG(place));
        return NULL;
    }
    char *name = sg_strndup(host);
    sg_sync_t *s = open_one(name, port, conf, greeting, why);
    sg_free(name);
    return s;
}

/* --- all servers ---------------------------------------------------------------------------------- */

/* The sentinels are asked in turn; they have no password. */
static sg_sync_t *open_master(const sg_store_conf_t *conf, sg_why_t *why)
{
    const sg_str_t master = sg_str(conf->master);
    for (size_t i = 0; i < conf->node_count; i++) {
        sg_sync_t *sentinel = open_place(sg_str(conf->nodes[i]), conf, false, why);
        if (!sentinel)
            continue;
        const sg_sync_value_t *v = sg_sync_send(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME", &master, 1)
                                       ? sg_sync_read(sentinel)
                                       : NULL;
        int64_t port = 0;
        char *host = NULL;
        if (sg_sync_count(v) == 2 && sg_sync_integer(sg_sync_at(v, 1), &port) && port < 65536)
            host = sg_strndup(sg_sync_text(sg_sync_at(v, 0)));
        else
            sg_why_set(why, "%s: names no master for \"%s\"", sentinel->place, conf->master);
        close_one(sentinel);
        if (!host)
            continue;
        sg_sync_t *s = open_one(host, (unsigned)port, conf, true, why);
        sg_free(host);
        return s;
    }
    return NULL;
}

/* Takes s, which may be NULL: then `why` says it already. */
static bool add(sg_sync_servers_t *out, sg_sync_t *s, unsigned slots, sg_why_t *why)
{
    if (s && out->count == SG_SYNC_SERVERS_MAX) {
        sg_why_set(why, "more than %d servers", SG_SYNC_SERVERS_MAX);
        close_one(s);
        return false;
    }
    if (!s)
        return false;
    out->slots[out->count] = slots;
    out->at[out->count++] = s;
    return true;
}

/* One entry of CLUSTER SLOTS: first slot, last slot, [host, port, ...] of the master. An empty host is that
 * of the server that was asked. */
static bool add_range(sg_sync_servers_t *out, const sg_sync_value_t *range, const char *asked,
                      const sg_store_conf_t *conf, sg_why_t *why)
{
    const sg_sync_value_t *master = sg_sync_at(range, 2);
    sg_str_t host = sg_sync_text(sg_sync_at(master, 0));
    int64_t first = 0, last = 0, port = 0;
    if (!sg_sync_integer(sg_sync_at(range, 0), &first) || !sg_sync_integer(sg_sync_at(range, 1), &last) ||
        !sg_sync_integer(sg_sync_at(master, 1), &port) || port < 1 || port > 65535) {
        sg_why_set(why, "CLUSTER SLOTS cannot be read");
        return false;
    }
    char *name = host.n ? sg_strndup(host) : sg_strdup(asked);
    char place[300];
    (void)snprintf(place, sizeof place, strchr(name, ':') ? "[%s]:%u" : "%s:%u", name, (unsigned)port);
    unsigned slots = (unsigned)(last - first + 1);
    size_t i = 0;
    while (i < out->count && strcmp(out->at[i]->place, place) != 0)
        i++;
    bool ok = true;
    if (i < out->count)
        out->slots[i] += slots;
    else
        ok = add(out, open_one(name, (unsigned)port, conf, true, why), slots, why);
    sg_free(name);
    return ok;
}

static bool open_cluster(const sg_store_conf_t *conf, sg_sync_servers_t *out, sg_why_t *why)
{
    sg_sync_t *seed = NULL;
    sg_str_t host = {NULL, 0};
    unsigned port;
    for (size_t i = 0; i < conf->node_count && !seed; i++) {
        seed = open_place(sg_str(conf->nodes[i]), conf, true, why);
        (void)sg_place_split(sg_str(conf->nodes[i]), &host, &port);
    }
    if (!seed)
        return false;
    const sg_sync_value_t *ranges = sg_sync_ask(seed, "CLUSTER SLOTS");
    char *asked = sg_strndup(host);
    bool ok = sg_sync_count(ranges) > 0;
    if (!ok)
        sg_why_set(why, "%s: no cluster: %.*s", seed->place, SG_STR_ARG(sg_sync_text(ranges)));
    for (size_t i = 0; ok && i < sg_sync_count(ranges); i++)
        ok = add_range(out, sg_sync_at(ranges, i), asked, conf, why);
    sg_free(asked);
    close_one(seed);
    return ok;
}

sg_err_t sg_sync_open(const sg_store_conf_t *conf, sg_sync_servers_t *out, sg_why_t *why)
{
    bool ok;
    out->count = 0;
    if (conf->tls && !sg_redis_tls_is_built()) { /* never in clear where the config asked for more */
        sg_why_set(why, "%s", SG_REDIS_TLS_MISSING);
        return SG_ERR_UNSUPPORTED;
    }
    if (conf->mode == SG_REDIS_CLUSTER)
        ok = open_cluster(conf, out, why);
    else if (conf->mode == SG_REDIS_SENTINEL)
        ok = add(out, open_master(conf, why), 0, why);
    else
        ok = add(out, open_one(conf->host, conf->port, conf, true, why), 0, why);
    if (!ok)
        sg_sync_close(out);
    return ok ? SG_OK : SG_ERR_CONNECT;
}

void sg_sync_close(sg_sync_servers_t *servers)
{
    for (size_t i = 0; i < servers->count; i++)
        close_one(servers->at[i]);
    servers->count = 0;
}
