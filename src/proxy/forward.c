/* forward.c - the request's head as the upstream gets it. RFC 9110 section 7.6, RFC 9112 section 3.2. */
#include "proxy/exchange.h"

/* Fields that the gateway says itself. What a client writes under these names, or under their `_` twins,
 * never passes as it came. */
static const sg_str_t own_fields[] = {
    SG_STR("Host"),
    SG_STR("Content-Length"),
    SG_STR("Transfer-Encoding"),
    SG_STR("Expect"),
    SG_STR("X-Forwarded-For"),
    SG_STR("X-Forwarded-Proto"),
    SG_STR("X-Forwarded-Host"),
    SG_STR("X-Request-Id"),
    SG_STR("traceparent"),
    SG_STR("Via"),
};
enum { OWN_FIELDS = sizeof own_fields / sizeof own_fields[0] };

static void add(sg_exchange_t *ex, sg_fields_t *fs, const char *name, sg_str_t value)
{
    sg_fields_add(fs, ex->rq->arena, sg_str(name), value);
}

static bool is_own(sg_str_t name)
{
    for (size_t i = 0; i < OWN_FIELDS; i++)
        if (sg_str_ieq(name, own_fields[i]))
            return true;
    return false;
}

static bool is_or_twin(sg_str_t name, sg_str_t own)
{
    return sg_str_ieq(name, own) || sg_field_is_underscore_twin(name, own);
}

/* What proxies tell of their client, besides: servers believe it. It goes on from a trusted peer only, and
 * under its `_` twins never. */
static bool is_hearsay(const sg_exchange_t *ex, sg_str_t name)
{
    const sg_str_t family = SG_STR("X-Forwarded-");
    bool told = is_or_twin(name, SG_STR("Forwarded")) || is_or_twin(name, SG_STR("X-Real-IP")) ||
                (name.n > family.n && is_or_twin(sg_str_n(name.p, family.n), family));
    return told && (!ex->peer_trusted || memchr(name.p, '_', name.n));
}

static bool is_twin(const sg_exchange_t *ex, sg_str_t name)
{
    if (!memchr(name.p, '_', name.n))
        return false;
    for (size_t i = 0; i < OWN_FIELDS; i++)
        if (sg_field_is_underscore_twin(name, own_fields[i]))
            return true;
    const sg_field_edit_t *edit = &ex->match.route->request_fields;
    for (size_t i = 0; i < edit->set_count; i++)
        if (sg_field_is_underscore_twin(name, edit->set[i].name))
            return true;
    for (size_t i = 0; i < edit->remove_count; i++)
        if (sg_field_is_underscore_twin(name, edit->remove[i]))
            return true;
    const sg_identity_conf_t *conf = &ex->config->identity;
    for (size_t i = 0; i < conf->source_count; i++)
        if (conf->sources[i].kind != SG_KEY_FROM_QUERY &&
            sg_field_is_underscore_twin(name, conf->sources[i].name))
            return true;
    return false;
}

/* All values of a field, joined in order; empty when there is none. */
static sg_str_t joined(sg_exchange_t *ex, const sg_fields_t *fs, const char *name)
{
    sg_str_t all = {NULL, 0};
    SG_FIELDS_EACH(f, fs)
    if (sg_str_ieq(f->name, sg_str(name)))
        all = all.n ? sg_arena_join(ex->rq->arena, all, SG_STR(", "), f->value) : f->value;
    return all;
}

/* "chain, last": what a trusted peer told goes on, anything else begins anew. */
static sg_str_t chained(sg_exchange_t *ex, sg_str_t chain, const char *last)
{
    return chain.n ? sg_arena_join(ex->rq->arena, chain, SG_STR(", "), sg_str(last))
                   : sg_arena_str(ex->rq->arena, sg_str(last));
}

static void add_forwarded(sg_exchange_t *ex, sg_fields_t *fs)
{
    const sg_fields_t *in = &ex->rq->fields;
    sg_str_t none = {NULL, 0}, chain = ex->peer_trusted ? joined(ex, in, "X-Forwarded-For") : none;
    sg_str_t proto = ex->peer_trusted ? joined(ex, in, "X-Forwarded-Proto") : none;
    sg_str_t host = ex->peer_trusted ? joined(ex, in, "X-Forwarded-Host") : none;
    char peer[SG_ADDR_TEXT] = "unix";
    if (!ex->rq->peer_is_unix)
        sg_addr_text(&ex->rq->peer, peer);
    bool known = sg_str_eq(proto, SG_STR("http")) || sg_str_eq(proto, SG_STR("https"));
    add(ex, fs, "X-Forwarded-For", chained(ex, chain, peer));
    add(ex, fs, "X-Forwarded-Proto", known ? proto : ex->rq->tls ? SG_STR("https") : SG_STR("http"));
    if (host.n || ex->authority.n)
        add(ex, fs, "X-Forwarded-Host", host.n ? host : ex->authority);
}

static void add_own(sg_exchange_t *ex, sg_fields_t *fs)
{
    const char *version = ex->rq->version_minor ? "1.1 slotgate" : "1.0 slotgate";
    char trace[SG_TRACEPARENT_BYTES];
    sg_trace_text(&ex->trace, trace);
    add_forwarded(ex, fs);
    if (sg_tunnel_asked(ex->rq)) {
        add(ex, fs, "Connection", SG_STR("Upgrade"));
        add(ex, fs, "Upgrade", SG_STR("websocket"));
    }
    add(ex, fs, "Via", chained(ex, joined(ex, &ex->rq->fields, "Via"), version));
    add(ex, fs, "X-Request-Id", ex->request_id);
    add(ex, fs, "traceparent", sg_arena_str(ex->rq->arena, sg_str(trace)));
    if (!ex->trace.continued)
        sg_fields_remove(fs, SG_STR("tracestate"));
    if (ex->rq->upload == SG_UPLOAD_CHUNKED)
        add(ex, fs, "Transfer-Encoding", SG_STR("chunked"));
    else if (ex->rq->upload == SG_UPLOAD_LENGTH)
        add(ex, fs, "Content-Length",
            sg_arena_printf(ex->rq->arena, "%llu", (unsigned long long)ex->rq->upload_length));
}

void sg_exchange_edit_fields(sg_exchange_t *ex, sg_fields_t *fs, const sg_field_edit_t *e)
{
    for (size_t i = 0; i < e->remove_count; i++)
        sg_fields_remove(fs, e->remove[i]);
    if (e->set_count == 0)
        return;
    sg_vars_t vars;
    sg_exchange_vars(ex, &vars);
    for (size_t i = 0; i < e->set_count; i++) {
        sg_fields_remove(fs, e->set[i].name);
        sg_fields_add(fs, ex->rq->arena, e->set[i].name,
                      sg_vars_expand(&vars, e->set[i].value, ex->rq->arena));
    }
}

static sg_str_t target_host(sg_exchange_t *ex, const sg_target_conf_t *t)
{
    if (ex->match.route->upstream->preserve_host && ex->authority.n)
        return ex->authority;
    if (!t->host)
        return SG_STR("localhost");
    bool v6 = strchr(t->host, ':') != NULL;
    if (t->port == (t->https ? 443 : 80))
        return sg_arena_printf(ex->rq->arena, v6 ? "[%s]" : "%s", t->host);
    return sg_arena_printf(ex->rq->arena, v6 ? "[%s]:%u" : "%s:%u", t->host, t->port);
}

/* The target as it came, but for a rewritten path and a stripped key. */
static sg_str_t target_text(sg_exchange_t *ex, sg_str_t query, bool has_query)
{
    sg_str_t path = sg_route_path(ex->match.route, &ex->match, &ex->target, ex->rq->arena);
    if (!has_query)
        return path;
    return sg_arena_join(ex->rq->arena, path, SG_STR("?"), query);
}

/* A copy of the client's fields, without those that the gateway writes itself. */
static void copy_fields(sg_exchange_t *ex, sg_fields_t *fs)
{
    SG_FIELDS_EACH(f, &ex->rq->fields)
    if (!is_own(f->name) && !is_twin(ex, f->name) && !is_hearsay(ex, f->name))
        sg_fields_add(fs, ex->rq->arena, f->name, f->value);
    sg_fields_strip_hops(fs, NULL);
}

void sg_forward_head(sg_exchange_t *ex, const sg_target_conf_t *target, sg_buf_t *out)
{
    sg_fields_t fs = {0};
    sg_str_t query = ex->target.query;
    bool has_query = ex->target.has_query;
    add(ex, &fs, "Host", target_host(ex, target));
    copy_fields(ex, &fs);
    sg_identity_strip(&ex->config->identity, ex->rq->arena, &fs, &query, &has_query);
    add_own(ex, &fs);
    sg_exchange_edit_fields(ex, &fs, &ex->match.route->request_fields);
    sg_head_write(out, ex->rq->method, target_text(ex, query, has_query), &fs);
}
