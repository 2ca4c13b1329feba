/* request.c - from libmicrohttpd's callbacks to an endpoint, and its answer back. */
#include "admin/internal.h"
#include "base/magic.h"
#include "http/problem.h"
#include "http/target.h"

#define REQUEST_MAGIC 0x53676172u
#define URI_MAX       4096u
#define BODY_MAX      65536u /* of POST; nothing in it is used */

typedef struct {
    const char *path; /* may hold {name} as one segment */
    unsigned methods;
    bool open; /* also without the token */
    void (*handle)(sg_admin_request_t *r);
} endpoint_t;

#define READ (SG_ADMIN_GET | SG_ADMIN_HEAD)

/* Open ones tell nothing of tenants or configuration: probes cannot send a token, and the page asks for it.
 */
static const endpoint_t endpoints[] = {
    {"/", READ, true, sg_admin_page},
    {"/healthz", READ, true, sg_admin_healthz},
    {"/readyz", READ, true, sg_admin_readyz},
    {"/metrics", READ, false, sg_admin_metrics},
    {"/status", READ, false, sg_admin_status},
    {"/tenants", READ, false, sg_admin_tenants},
    {"/tenants/{name}/usage", READ, false, sg_admin_usage},
    {"/tenants/{name}/reset", SG_ADMIN_POST, false, sg_admin_reset},
    {"/reload", SG_ADMIN_POST, false, sg_admin_reload_now},
};

static sg_admin_request_t *request_of(void *arg)
{
    sg_admin_request_t *r;
    SG_MAGIC_CAST(r, arg, REQUEST_MAGIC);
    return r;
}

/* --- what was asked ------------------------------------------------------------------------------------ */

/* Percent-encoding undone. NULL for a bad one, a NUL, or nothing. */
static char *decode(sg_str_t s)
{
    char *out = sg_malloc(s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        int high = 0, low = 0;
        bool escape = s.p[i] == '%';
        if (escape &&
            (i + 2 >= s.n || (high = sg_hex_digit(s.p[i + 1])) < 0 || (low = sg_hex_digit(s.p[i + 2])) < 0)) {
            sg_free(out);
            return NULL;
        }
        out[n++] = escape ? (char)(high << 4 | low) : s.p[i];
        i += escape ? 2 : 0;
    }
    out[n] = '\0';
    if (n > 0 && strlen(out) == n)
        return out;
    sg_free(out);
    return NULL;
}

/* Does `path` have the form of `pattern`? *name gets the segment that stands for {name}. */
static bool path_matches(const char *pattern, const char *path, sg_str_t *name)
{
    const char *hole = strstr(pattern, "{name}");
    *name = (sg_str_t){NULL, 0};
    if (!hole)
        return strcmp(pattern, path) == 0;
    size_t before = (size_t)(hole - pattern), segment;
    if (strncmp(pattern, path, before) != 0)
        return false;
    segment = strcspn(path + before, "/");
    *name = sg_str_n(path + before, segment);
    return segment > 0 && strcmp(path + before + segment, hole + strlen("{name}")) == 0;
}

static sg_admin_method_t method_of(const char *method)
{
    if (strcmp(method, "GET") == 0)
        return SG_ADMIN_GET;
    if (strcmp(method, "HEAD") == 0)
        return SG_ADMIN_HEAD;
    return strcmp(method, "POST") == 0 ? SG_ADMIN_POST : SG_ADMIN_OTHER;
}

/* The value of a query parameter; false when it is absent. A bare name has an empty value. */
static bool query_value(const sg_admin_request_t *r, const char *name, sg_str_t *value)
{
    sg_str_t rest = sg_str(r->query), item, key;
    while (r->query && sg_str_next(&rest, '&', &item)) {
        *value = item;
        if (sg_str_next(value, '=', &key) && sg_str_eq(key, sg_str(name)))
            return true;
    }
    return false;
}

bool sg_admin_query_flag(const sg_admin_request_t *r, const char *name)
{
    sg_str_t v;
    return query_value(r, name, &v) &&
           (v.n == 0 || sg_str_eq(v, SG_STR("1")) || sg_str_eq(v, SG_STR("true")));
}

bool sg_admin_query_u64(const sg_admin_request_t *r, const char *name, uint64_t max, uint64_t *value)
{
    sg_str_t v;
    return !query_value(r, name, &v) || sg_str_u64(v, max, value) == SG_OK;
}

static sg_str_t header(const sg_admin_request_t *r, const char *name)
{
    const char *value = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
    return sg_str_trim(sg_str(value));
}

/* --- who may ------------------------------------------------------------------------------------------- */

static bool has_token(const sg_admin_request_t *r)
{
    uint8_t digest[SG_SHA256_BYTES];
    sg_str_t rest = header(r, MHD_HTTP_HEADER_AUTHORIZATION), scheme;
    if (!r->admin->has_token)
        return true;
    if (!sg_str_next(&rest, ' ', &scheme) || !sg_str_ieq(scheme, SG_STR("Bearer")))
        return false;
    sg_sha256(sg_str_trim(rest), digest);
    return sg_ct_equal(digest, r->admin->token_digest, sizeof digest);
}

/* An address or "localhost", with or without a port: what no page of somebody else's can have for a name. */
static bool is_local_name(sg_str_t host)
{
    sg_addr_t addr;
    if (host.n && host.p[0] == '[')
        return true;
    const char *colon = host.n ? memchr(host.p, ':', host.n) : NULL;
    if (colon)
        host.n = (size_t)(colon - host.p);
    return sg_str_ieq(host, SG_STR("localhost")) || sg_addr_parse(host, &addr) == SG_OK;
}

/* A web page that somebody looks at on this machine may make the browser send a POST to loopback. Browsers
 * say where it comes from; tools say nothing. Without a token a page's own name counts for nothing: its owner
 * may let that name point here (DNS rebinding). */
static bool is_cross_site(const sg_admin_request_t *r)
{
    sg_str_t origin = header(r, MHD_HTTP_HEADER_ORIGIN), host = header(r, MHD_HTTP_HEADER_HOST);
    if (origin.n == 0)
        return false;
    const char *slashes = memmem(origin.p, origin.n, "://", 3);
    if (!slashes)
        return true; /* "null" */
    sg_str_t authority = sg_str_n(slashes + 3, (size_t)(origin.p + origin.n - slashes) - 3);
    return !sg_str_ieq(authority, host) || (!r->admin->has_token && !is_local_name(host));
}

/* --- the answer ---------------------------------------------------------------------------------------- */

void sg_admin_reply(sg_admin_request_t *r, unsigned status, const char *type)
{
    r->status = status;
    r->type = type;
}

void sg_admin_problem(sg_admin_request_t *r, unsigned status, const char *detail)
{
    sg_buf_clear(&r->body);
    sg_problem_write(&r->body, &(sg_problem_t){.status = status, .detail = detail});
    sg_admin_reply(r, status, "application/problem+json");
}

static const char *allow_text(unsigned methods)
{
    return methods == SG_ADMIN_POST ? "POST" : "GET, HEAD";
}

static bool add_headers(const sg_admin_request_t *r, struct MHD_Response *resp)
{
    bool ok = MHD_add_response_header(resp, MHD_HTTP_HEADER_CONTENT_TYPE, r->type) == MHD_YES &&
              MHD_add_response_header(resp, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
              MHD_add_response_header(resp, "X-Content-Type-Options", "nosniff") == MHD_YES;
    if (r->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        ok = ok && MHD_add_response_header(resp, MHD_HTTP_HEADER_ALLOW, allow_text(r->allow)) == MHD_YES;
    if (r->status == MHD_HTTP_UNAUTHORIZED)
        ok = ok && MHD_add_response_header(resp, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                           "Bearer realm=\"slotgate admin\"") == MHD_YES;
    if (strncmp(r->type, "text/html", 9) == 0)
        ok = ok && MHD_add_response_header(
                       resp, "Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'") == MHD_YES;
    if (r->listener->retired || r->admin->closing)
        ok = ok && MHD_add_response_header(resp, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES;
    return ok;
}

static enum MHD_Result send_answer(sg_admin_request_t *r)
{
    if (r->body.failed)
        sg_admin_problem(r, 500, "the answer is larger than the gateway allows");
    sg_str_t body = sg_buf_str(&r->body);
    struct MHD_Response *resp =
        MHD_create_response_from_buffer(body.n, (void *)(uintptr_t)body.p, MHD_RESPMEM_MUST_COPY);
    if (!resp)
        return MHD_NO;
    enum MHD_Result queued =
        add_headers(r, resp) ? MHD_queue_response(r->connection, r->status, resp) : MHD_NO;
    MHD_destroy_response(resp);
    return queued;
}

/* --- waiting ------------------------------------------------------------------------------------------- */

void sg_admin_wait(sg_admin_request_t *r, void (*abandon)(void *arg), void *arg)
{
    r->job = (sg_admin_job_t){abandon, arg};
    r->waiting = true;
    sg_list_push_back(&r->admin->waiting, &r->link);
    MHD_suspend_connection(r->connection);
}

void sg_admin_done(sg_admin_request_t *r)
{
    r->done = true;
    if (!r->waiting)
        return;
    r->waiting = false;
    sg_list_remove(&r->link);
    sg_admin_run_soon(r->listener);
    MHD_resume_connection(r->connection);
}

/* --- the way through ----------------------------------------------------------------------------------- */

bool sg_admin_authorized(sg_admin_request_t *r)
{
    if (has_token(r))
        return true;
    sg_admin_problem(r, 401, "the admin token is needed: Authorization: Bearer TOKEN");
    return false;
}

static void call(sg_admin_request_t *r, const endpoint_t *e, sg_str_t name)
{
    r->allow = e->methods;
    if (!e->open && !sg_admin_authorized(r))
        return;
    if (!(e->methods & r->method)) {
        sg_admin_problem(
            r, 405, e->methods == SG_ADMIN_POST ? "this endpoint takes POST" : "this endpoint takes GET");
    } else if (r->method == SG_ADMIN_POST && is_cross_site(r)) {
        sg_admin_problem(r, 403, "a page of another origin may not do this");
    } else if (name.n > 0 && !(r->name = decode(name))) {
        sg_admin_problem(r, 400, "the name in the path is not properly percent-encoded");
    } else {
        e->handle(r);
    }
}

static void dispatch(sg_admin_request_t *r)
{
    sg_str_t name;
    if (r->needs_host && header(r, MHD_HTTP_HEADER_HOST).n == 0) {
        sg_admin_problem(r, 400, "a Host is needed");
        return;
    }
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        if (path_matches(endpoints[i].path, r->path, &name)) {
            call(r, &endpoints[i], name);
            return;
        }
    }
    /* Without the token nobody learns what is here and what is not. */
    if (sg_admin_authorized(r))
        sg_admin_problem(r, r->path[0] ? 404 : 414,
                         r->path[0] ? "no such endpoint; the page at / lists them" : NULL);
}

/* --- libmicrohttpd's calls ----------------------------------------------------------------------------- */

/* What is kept of a connection: the target of the request whose head is coming. The library does not say that
 * a request has ended when it refuses its head, so nothing may be made for a request before on_request. */
typedef struct {
    char *target;
} peer_t;

void sg_admin_on_connection(void *cls, struct MHD_Connection *c, void **peer,
                            enum MHD_ConnectionNotificationCode code)
{
    (void)cls;
    (void)c;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *peer = SG_NEW(peer_t);
        return;
    }
    sg_free(((peer_t *)*peer)->target);
    sg_free(*peer);
    *peer = NULL;
}

static peer_t *peer_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void *sg_admin_on_uri(void *cls, const char *uri, struct MHD_Connection *c)
{
    (void)cls;
    peer_t *peer = peer_of(c);
    size_t n = strlen(uri);
    sg_free(peer->target);
    peer->target = n > URI_MAX ? NULL : sg_strndup(sg_str_n(uri, n));
    /* A query that looks empty is not split into arguments: many of them would exhaust the connection's
     * memory (server.c does the same). */
    char *query = strchr(uri, '?');
    if (query)
        query[1] = '\0';
    return NULL;
}

static sg_admin_request_t *request_new(sg_admin_listener_t *l, struct MHD_Connection *c, const char *method,
                                       const char *version)
{
    sg_admin_request_t *r = SG_NEW(sg_admin_request_t);
    const char *target = peer_of(c)->target;
    size_t path = target ? strcspn(target, "?") : 0;
    r->magic = REQUEST_MAGIC;
    r->admin = l->admin;
    r->listener = l;
    r->connection = c;
    r->method = method_of(method);
    r->needs_host = strcmp(version, MHD_HTTP_VERSION_1_0) != 0;
    sg_buf_init(&r->body, SG_ADMIN_REPLY_MAX);
    r->path = sg_strndup(sg_str_n(target ? target : "", path));
    r->query = path && target[path] == '?' ? sg_strdup(target + path + 1) : NULL;
    return r;
}

void sg_admin_on_end(void *cls, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode how)
{
    (void)cls;
    (void)c;
    (void)how;
    if (!*state)
        return;
    sg_admin_request_t *r = request_of(*state);
    *state = NULL;
    sg_buf_deinit(&r->body);
    sg_free(r->path);
    sg_free(r->query);
    sg_free(r->name);
    r->magic = 0;
    sg_free(r);
}

enum MHD_Result sg_admin_on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                    const char *version, const char *data, size_t *data_bytes, void **state)
{
    (void)url;
    (void)data;
    if (!*state) { /* the head */
        *state = request_new(cls, c, method, version);
        return MHD_YES;
    }
    sg_admin_request_t *r = request_of(*state);
    sg_pace_reset(&r->listener->pace);
    if (*data_bytes > 0) {
        r->body_bytes += *data_bytes;
        *data_bytes = 0;
        return r->body_bytes > BODY_MAX ? MHD_NO : MHD_YES;
    }
    if (!r->started) {
        r->started = true;
        dispatch(r);
    }
    return r->waiting ? MHD_YES : send_answer(r);
}
