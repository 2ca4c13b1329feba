#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/magic.h"
#include "upstream/pool.h"

enum { DIAL_MAGIC = 0x53444941 };

struct sg_dial {
    uint32_t magic;
    sg_pool_t *pool;
    unsigned target_index;
    bool slot;
    sg_dial_fn *fn;
    void *arg;
    sg_curl_parts_t curl;
    sg_multi_t *multi;
    bool refused;                   /* libcurl refused an option */
    sg_timer_t deadline;
    char error[CURL_ERROR_SIZE];
    sg_task_t freeing;
};

/* --- options -------------------------------------------------------------------------------- */

#define SET(d, option, value)                                                                      \
    do {                                                                                           \
        if (curl_easy_setopt((d)->curl.easy, (option), (value)) != CURLE_OK)                       \
            (d)->refused = true;                                                                   \
    } while (0)

static int on_close_socket(void *arg, curl_socket_t fd)
{
    sg_pools_t *all = arg;
    if (fd != all->keep_fd)
        return close(fd);
    all->keep_fd = -1;
    return 0;
}

/* "host:port" as a URL and CURLOPT_CONNECT_TO want it. */
static char *authority(const char *host, unsigned port)
{
    return sg_asprintf(strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

static void set_protocol(sg_dial_t *d)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(d, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(d, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(d, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(d, CURLOPT_CONNECT_ONLY, 1L);
    SET(d, CURLOPT_PROXY, "");              /* whatever the environment says */
    SET(d, CURLOPT_NOSIGNAL, 1L);
    SET(d, CURLOPT_TCP_NODELAY, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    SET(d, CURLOPT_QUICK_EXIT, 1L);         /* a cancel during a look-up does not wait for its thread */
#endif
}

/* Where to connect, and under which name the server must answer for itself. */
static void set_place(sg_dial_t *d)
{
    const sg_target_conf_t *t = &d->pool->target;
    const char *name = t->https ? d->pool->tls.server_name : NULL;
    const char *host = t->host ? t->host : "localhost";
    char *at = authority(name ? name : host, t->port ? t->port : t->https ? 443 : 80);
    char *url = sg_asprintf("%s://%s/", t->https ? "https" : "http", at);
    SET(d, CURLOPT_URL, url);
    if (t->unix_path) {
        SET(d, CURLOPT_UNIX_SOCKET_PATH, t->unix_path);
    } else if (name) {
        char *real = authority(host, t->port);
        char *to = sg_asprintf("%s:%s", at, real);
        d->curl.connect_to = curl_slist_append(NULL, to);
        SET(d, CURLOPT_CONNECT_TO, d->curl.connect_to);
        sg_free(to);
        sg_free(real);
    }
    sg_free(url);
    sg_free(at);
}

static long whole(int64_t us, int64_t unit_us)
{
    int64_t n = (us + unit_us - 1) / unit_us;
    return n < 1 ? 1L : n > INT32_MAX ? (long)INT32_MAX : (long)n;
}

static void set_times(sg_dial_t *d)
{
    SET(d, CURLOPT_CONNECTTIMEOUT_MS, whole(d->pool->connect_timeout_us, 1000));
    SET(d, CURLOPT_DNS_CACHE_TIMEOUT, whole(d->pool->resolve_interval_us, 1000000));
}

/* A connection cache of its own for each TLS connection: libcurl finds the connection of curl_easy_send and
 * _recv by walking its cache, and closes what looks dead or old in the cache of a new connection, also
 * connections that are in use this way. */
static void set_tls(sg_dial_t *d)
{
    const sg_pool_t *p = d->pool;
    CURLSH *share = d->curl.share = curl_share_init();
    if (!share || curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT) != CURLSHE_OK)
        d->refused = true;
    else
        SET(d, CURLOPT_SHARE, share);
    SET(d, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(d, CURLOPT_SSL_VERIFYPEER, p->tls.verify ? 1L : 0L);
    SET(d, CURLOPT_SSL_VERIFYHOST, p->tls.verify ? 2L : 0L);
    if (p->tls.ca)
        SET(d, CURLOPT_CAINFO, p->tls.ca);
    SET(d, CURLOPT_CAPATH, NULL);           /* only a file alone is parsed once and kept */
    if (p->tls.certificate)
        SET(d, CURLOPT_SSLCERT, p->tls.certificate);
    if (p->tls.key)
        SET(d, CURLOPT_SSLKEY, p->tls.key);
}

static void set_up(sg_dial_t *d)
{
    d->curl.easy = curl_easy_init();
    if (!d->curl.easy)
        abort();
    SET(d, CURLOPT_PRIVATE, d);
    SET(d, CURLOPT_ERRORBUFFER, d->error);
    set_protocol(d);
    set_place(d);
    set_times(d);
    if (d->pool->target.https) {
        set_tls(d);
    } else {
        SET(d, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
        SET(d, CURLOPT_CLOSESOCKETDATA, d->pool->all);
    }
}

/* --- the end of a dial ---------------------------------------------------------------------- */

static void free_dial(void *arg)
{
    sg_dial_t *d;
    SG_MAGIC_CAST(d, arg, DIAL_MAGIC);
    d->magic = 0;
    sg_free(d);
}

static void drop_curl(sg_dial_t *d)
{
    if (!d->curl.easy)
        return;
    sg_multi_remove(d->multi, d->curl.easy);
    sg_curl_parts_free(&d->curl);
}

static void end(sg_dial_t *d)
{
    sg_loop_t *loop = d->pool->all->loop;
    sg_timer_stop(loop, &d->deadline);
    drop_curl(d);
    if (d->slot)
        sg_shared_target_leave(d->pool->shared);
    sg_defer_free(loop, &d->freeing, free_dial, d);
    sg_pool_unuse(d->pool);
}

static void fail(sg_dial_t *d, sg_err_t err, const char *text)
{
    /* First the end: a next attempt from inside the callback may need this one's slot. */
    sg_dial_fn *fn = d->fn;
    void *arg = d->arg;
    end(d);
    fn(arg, err, NULL, text);
}

static sg_err_t err_of(CURLcode rc)
{
    switch ((int)rc) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return SG_ERR_RESOLVE;
    case CURLE_OPERATION_TIMEDOUT:
        return SG_ERR_TIMEOUT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ENGINE_SETFAILED:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_CLIENTCERT:
        return SG_ERR_TLS;
    default:
        return SG_ERR_CONNECT;
    }
}

/* Without TLS libcurl's work ends with the connected socket: it is taken out of its hands by not closing it
 * with the handle, so that an idle or busy connection is a socket and no more. Should libcurl keep it for
 * later, a second descriptor does. */
static int take_socket(sg_dial_t *d, curl_socket_t fd)
{
    sg_pools_t *all = d->pool->all;
    all->keep_fd = fd;
    drop_curl(d);
    if (all->keep_fd == -1)
        return fd;
    all->keep_fd = -1;
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* The connection takes over the slot, and with TLS libcurl's handle. NULL: no descriptor is left. */
static sg_conn_t *connection(sg_dial_t *d, curl_socket_t fd)
{
    bool slot = d->slot;
    if (!d->pool->target.https) {
        int own = take_socket(d, fd);
        if (own < 0)
            return NULL;
        d->slot = false;
        return sg_conn_new(d->pool, d->target_index, slot, own, NULL);
    }
    d->slot = false;
    SET(d, CURLOPT_PRIVATE, NULL);
    SET(d, CURLOPT_ERRORBUFFER, NULL);
    sg_curl_parts_t parts = d->curl;
    d->curl = (sg_curl_parts_t){0};
    return sg_conn_new(d->pool, d->target_index, slot, fd, &parts);
}

void sg_dial_done(void *owner, CURLcode result)
{
    sg_dial_t *d;
    SG_MAGIC_CAST(d, owner, DIAL_MAGIC);
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (result == CURLE_OK)
        (void)curl_easy_getinfo(d->curl.easy, CURLINFO_ACTIVESOCKET, &fd);
    if (fd == CURL_SOCKET_BAD) {
        fail(d, err_of(result), d->error[0] ? d->error : curl_easy_strerror(result));
        return;
    }
    sg_conn_t *c = connection(d, fd);
    if (!c) {
        fail(d, SG_ERR_CONNECT, "too many open files");
        return;
    }
    sg_dial_fn *fn = d->fn;
    void *arg = d->arg;
    end(d);
    fn(arg, SG_OK, c, "connected");
}

static void on_deadline(void *arg)
{
    sg_dial_t *d;
    SG_MAGIC_CAST(d, arg, DIAL_MAGIC);
    if (d->refused)
        fail(d, SG_ERR_UNSUPPORTED, "libcurl refused an option of this connection");
    else
        fail(d, SG_ERR_TIMEOUT, "connect_timeout passed");
}

/* --- the start ------------------------------------------------------------------------------ */

static sg_multi_t *multi_of(sg_pool_t *p)
{
    if (!p->target.https)
        return p->all->plain;
    if (!p->multi)
        p->multi = sg_multi_new(p->all->loop, sg_dial_done);
    return p->multi;
}

sg_dial_t *sg_dial_start(sg_pool_t *p, unsigned target_index, bool slot, sg_dial_fn *fn, void *arg)
{
    sg_dial_t *d = SG_NEW(sg_dial_t);
    d->magic = DIAL_MAGIC;
    d->pool = p;
    d->target_index = target_index;
    d->slot = slot;
    d->fn = fn;
    d->arg = arg;
    d->multi = multi_of(p);
    sg_pool_use(p);
    set_up(d);
    if (!d->refused && !sg_multi_add(d->multi, d->curl.easy))
        d->refused = true;
    /* libcurl has the same deadline and shares it out among addresses; this one holds whatever it does. */
    sg_timer_in(p->all->loop, &d->deadline, d->refused ? 0 : p->connect_timeout_us, on_deadline, d);
    return d;
}

void sg_dial_cancel(sg_dial_t *d)
{
    end(d);
}

unsigned sg_dial_target_index(const sg_dial_t *d)
{
    return d->target_index;
}

const sg_target_conf_t *sg_dial_target(const sg_dial_t *d)
{
    return &d->pool->target;
}
