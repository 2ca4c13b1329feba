/* load_store.c - the sections store and identity. */
#include "config/load.h"

static const sg_node_t absent = {.kind = SG_NODE_MAP, .place = {"(default)", 0, 0}};

void sg_load_share(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    int64_t *ppm = (void *)((char *)target + row->offset);
    const char *expected = "a number from 0 to 1 with at most 6 decimals";
    sg_str_t text;
    if (!sg_load_text(ld, n, expected, &text))
        return;
    if (sg_load_is_quoted(n, text) || sg_value_share(text, ppm))
        sg_load_bad_value(ld, n, expected);
}

void sg_load_on_failure(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    int *field = (void *)((char *)target + row->offset);
    sg_str_t text;
    if (!sg_load_text(ld, n, row->what, &text))
        return;
    if (sg_str_eq(text, SG_STR("local")))
        *field = SG_FAIL_LOCAL;
    else if (sg_str_eq(text, SG_STR("open")))
        *field = SG_FAIL_OPEN;
    else if (sg_str_eq(text, SG_STR("closed")))
        *field = SG_FAIL_CLOSED;
    else
        sg_load_bad_value(ld, n, row->what);
}

/* Parts of key names are short, so that a key name has its bound. */
void sg_load_key_part(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    sg_str_t *field = (void *)((char *)target + row->offset);
    sg_name_rule_t rule = {.max = (size_t)row->max};
    sg_str_t text;
    if (sg_load_text(ld, n, "a name", &text) && sg_load_check_name(ld, &n->place, text, &rule))
        *field = sg_arena_str(ld->arena, text);
}

/* "host", "host:port", "[v6]:port". */
static bool split_host_port(sg_load_t *ld, sg_str_t s, unsigned port_default, char **host, unsigned *port)
{
    sg_str_t h;
    if (!sg_load_host_port(s, &h, port))
        return false;
    if (*port == 0)
        *port = port_default;
    *host = sg_arena_strndup(ld->arena, h);
    return true;
}

static bool parse_redis_url(sg_load_t *ld, sg_str_t url, sg_store_conf_t *c)
{
    sg_str_t rest, authority;
    int64_t db = 0;
    if (sg_str_starts(url, SG_STR("unix:///"))) {
        c->unix_path = sg_arena_strndup(ld->arena, sg_str_n(url.p + 7, url.n - 7));
        return url.n - 7 > 1 && url.n - 7 < 108;
    }
    c->tls = sg_str_starts(url, SG_STR("rediss://"));
    if (!c->tls && !sg_str_starts(url, SG_STR("redis://")))
        return false;
    rest = sg_str_n(url.p + (c->tls ? 9 : 8), url.n - (c->tls ? 9 : 8));
    if (!sg_str_next(&rest, '/', &authority))
        return false;
    if (rest.n && (sg_value_int(rest, &db) || db > 65535))
        return false;
    c->db = (unsigned)db;
    return split_host_port(ld, authority, 6379, &c->host, &c->port);
}

void sg_load_store_url(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    const char *expected = "redis://host:port/db, rediss://host:port/db or unix:///path, an absolute one";
    sg_store_raw_t *raw = target;
    sg_str_t text;
    (void)row;
    if (!sg_load_text(ld, n, expected, &text))
        return;
    if (text.n && memchr(text.p, '@', text.n)) {
        sg_load_error(
            ld, &n->place,
            "a user or password in the URL (not shown), expected username and password_file for them");
        return;
    }
    if (text.n == 0 || !parse_redis_url(ld, text, &raw->conf))
        sg_load_bad_value(ld, n, expected);
#ifndef HAVE_HIREDIS_SSL
    if (raw->conf.tls)
        sg_load_inactive(ld, &n->place, "store.url rediss://",
                         "built without Redis TLS (it needs hiredis 1.0 or newer): no server is asked");
#endif
    raw->url = sg_arena_strndup(ld->arena, text);
}

static void load_nodes(sg_load_t *ld, const sg_node_t *n, sg_store_conf_t *c)
{
    const char *expected = "host:port";
    sg_str_t text, host;
    unsigned port;
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of host:port"))
        return;
    c->nodes = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *c->nodes);
    SG_NODE_EACH(item, n)
    {
        if (!sg_load_text(ld, item, expected, &text))
            continue;
        if (!sg_load_host_port(text, &host, &port) || port == 0)
            sg_load_bad_value(ld, item, expected);
        else
            c->nodes[c->node_count++] = sg_arena_strndup(ld->arena, text);
    }
}

void sg_load_store(sg_load_t *ld, const sg_node_t *n)
{
    sg_store_raw_t raw = {0};
    const sg_node_t *mode = sg_node_get(n, "mode");
    sg_load_map(ld, n ? n : &absent, &sg_shape_store, &raw, true);
    if (raw.nodes)
        load_nodes(ld, raw.nodes, &raw.conf);
    if (mode && raw.conf.mode != SG_REDIS_STANDALONE && !raw.nodes)
        sg_load_error(ld, &mode->place, "nodes is missing, expected a list of host:port for this mode");
    if (mode && raw.conf.mode == SG_REDIS_SENTINEL && !raw.conf.master)
        sg_load_error(ld, &mode->place,
                      "master is missing, expected the name of the master for mode sentinel");
    if (raw.conf.username && !raw.password.path)
        sg_load_error(ld, &sg_node_get(n, "username")->place,
                      "a username without a password, expected password_file too");
    raw.conf.password = raw.password.text;
    ld->c->store = raw.conf;
    ld->c->own->store_url = raw.url;
    ld->c->own->password_file = raw.password.path;
}

static void add_source(sg_load_t *ld, const sg_node_t *n)
{
    sg_identity_conf_t *c = &ld->c->identity;
    sg_source_raw_t raw = {0};
    sg_key_source_t *s = &c->sources[c->source_count];
    if (!sg_load_map(ld, n, &sg_shape_source, &raw, true))
        return;
    if (!raw.header == !raw.query) {
        sg_load_error(ld, &n->place, "a source with %s, expected exactly one of header and query",
                      raw.header ? "both" : "neither header nor query");
        return;
    }
    if (raw.scheme && !raw.header) {
        sg_load_error(ld, &sg_node_get(n, "scheme")->place,
                      "scheme without header, expected it with a header only");
        return;
    }
    if ((raw.header && !sg_is_token(sg_str(raw.header))) ||
        (raw.scheme && !sg_is_token(sg_str(raw.scheme)))) {
        sg_load_error(ld, &n->place,
                      "a bad header name or scheme, expected letters, digits and - (RFC 9110, token)");
        return;
    }
    s->kind = raw.query ? SG_KEY_FROM_QUERY : raw.scheme ? SG_KEY_FROM_SCHEME : SG_KEY_FROM_HEADER;
    s->name = sg_str(raw.query ? raw.query : raw.header);
    s->scheme = sg_str(raw.scheme);
    for (size_t i = 0; i < c->source_count; i++) {
        const sg_key_source_t *o = &c->sources[i];
        bool same = o->kind == s->kind && sg_str_ieq(o->scheme, s->scheme) &&
                    (raw.query ? sg_str_eq(o->name, s->name) : sg_str_ieq(o->name, s->name));
        if (same) {
            sg_load_error(ld, &n->place, "the same source twice, expected it once");
            return;
        }
    }
    c->source_count++;
}

static void load_sources(sg_load_t *ld, const sg_node_t *n)
{
    if (!sg_load_is(ld, n, SG_NODE_LIST,
                    "a list of sources: {header: X-API-Key}, {header: Authorization, scheme: Bearer}, "
                    "{query: api_key}"))
        return;
    ld->c->identity.sources = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *ld->c->identity.sources);
    SG_NODE_EACH(item, n)
    add_source(ld, item);
}

static void load_failures(sg_load_t *ld, const sg_node_t *n, const sg_identity_raw_t *raw)
{
    sg_limit_t *l = &ld->c->identity.failures;
    sg_why_t why;
    l->name = "identity.failures";
    l->algo = SG_ALGO_FIXED_WINDOW;
    l->per = SG_PER_IP;
    l->unlimited = raw->failures.limit == SG_UNLIMITED;
    l->limit = l->unlimited ? 0 : raw->failures.limit;
    l->window_us = raw->failures.window_us;
    if (!l->unlimited && l->window_us && sg_limit_finish(l, &why))
        sg_load_error(ld, &(n ? n : &absent)->place, "failures: %s", why.text);
}

void sg_load_identity(sg_load_t *ld, const sg_node_t *n)
{
    sg_identity_raw_t raw = {0};
    sg_identity_conf_t *c = &ld->c->identity;
    sg_load_map(ld, n ? n : &absent, &sg_shape_identity, &raw, true);
    if (raw.sources)
        load_sources(ld, raw.sources);
    load_failures(ld, sg_node_get(n, "failures"), &raw);
    c->forward_key = raw.forward_key;
    c->ipv6_prefix = raw.ipv6_prefix;
    c->secret = raw.secret.text;
    ld->c->own->secret_file = raw.secret.path;
}
