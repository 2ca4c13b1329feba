/* load_server.c - the sections server, admin, log and metrics. */
#include "config/load.h"

static const sg_node_t absent = {.kind = SG_NODE_MAP, .place = {"(default)", 0, 0}};

static void add_endpoint(sg_load_t *ld, sg_endpoints_t *list, const sg_node_t *n)
{
    sg_endpoint_t e;
    sg_str_t text;
    sg_why_t why;
    if (!sg_load_text(ld, n, "an address: host:port, [v6]:port or unix:/path", &text))
        return;
    if (sg_endpoint_parse(text, &e, &why)) {
        sg_load_error(ld, &n->place, "bad address %s: %s", sg_load_quote(ld, n->text), why.text);
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i].len == e.len && memcmp(&list->at[i].sa, &e.sa, e.len) == 0) {
            sg_load_error(ld, &n->place, "address %s twice, expected it once", sg_load_quote(ld, n->text));
            return;
        }
    }
    list->at[list->count++] = e;
}

void sg_load_endpoints(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    sg_endpoints_t *list = (void *)((char *)target + row->offset);
    size_t most = n->kind == SG_NODE_LIST ? n->count : 1;
    if (most == 0) {
        sg_load_error(ld, &n->place, "an empty list, expected at least one address");
        return;
    }
    list->at = sg_arena_calloc(ld->arena, most * sizeof *list->at);
    if (n->kind != SG_NODE_LIST) {
        add_endpoint(ld, list, n);
        return;
    }
    SG_NODE_EACH(item, n)
    add_endpoint(ld, list, item);
}

void sg_load_workers(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    unsigned *field = (void *)((char *)target + row->offset);
    const char *expected = "an integer from 1 to 1024, or auto";
    int64_t v;
    sg_str_t text;
    if (!sg_load_text(ld, n, expected, &text))
        return;
    if (sg_str_eq(text, SG_STR("auto")))
        *field = 0;
    else if (sg_load_is_quoted(n, text) || sg_value_int(text, &v) || v < 1 || v > row->max)
        sg_load_bad_value(ld, n, expected);
    else
        *field = (unsigned)v;
}

void sg_load_trusted(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    const char *expected = "an address or a prefix: 10.0.0.0/8, ::1, with no bit set beyond the prefix";
    sg_cidr_t *list;
    size_t count = 0;
    sg_str_t text;
    (void)row;
    (void)target;
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of addresses and prefixes"))
        return;
    list = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *list);
    SG_NODE_EACH(item, n)
    {
        if (!sg_load_text(ld, item, expected, &text))
            continue;
        if (sg_cidr_parse(text, &list[count]))
            sg_load_bad_value(ld, item, expected);
        else
            count++;
    }
    ld->c->identity.trusted = list;
    ld->c->identity.trusted_count = count;
}

void sg_load_format(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    bool *json = (void *)((char *)target + row->offset);
    sg_str_t text;
    if (!sg_load_text(ld, n, row->what, &text))
        return;
    if (!sg_str_eq(text, SG_STR("json")) && !sg_str_eq(text, SG_STR("text")))
        sg_load_bad_value(ld, n, row->what);
    *json = sg_str_eq(text, SG_STR("json"));
}

void sg_load_access(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    char **access = (void *)((char *)target + row->offset);
    sg_str_t text;
    if (!sg_load_text(ld, n, row->what, &text))
        return;
    if (text.n == 0)
        sg_load_bad_value(ld, n, row->what);
    else if (sg_str_eq(text, SG_STR("stdout")) || sg_str_eq(text, SG_STR("off")))
        *access = sg_arena_strndup(ld->arena, text);
    else
        *access = sg_load_path(ld, text);
}

void sg_load_server(sg_load_t *ld, const sg_node_t *n)
{
    sg_load_map(ld, n ? n : &absent, &sg_shape_server, &ld->c->server, true);
}

void sg_load_log(sg_load_t *ld, const sg_node_t *n)
{
    sg_load_map(ld, n ? n : &absent, &sg_shape_log, &ld->c->log, true);
}

void sg_load_metrics(sg_load_t *ld, const sg_node_t *n)
{
    sg_load_map(ld, n ? n : &absent, &sg_shape_metrics, ld->c, true);
}

static bool is_public(const sg_endpoints_t *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!sg_endpoint_is_loopback(&list->at[i]))
            return true;
    }
    return false;
}

/* A bearer token is what can stand in a field value without spaces (RFC 6750 section 2.1 is narrower
 * still). */
static bool is_token_text(sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    }
    return true;
}

void sg_load_admin(sg_load_t *ld, const sg_node_t *n)
{
    sg_admin_raw_t raw = {0};
    const sg_node_t *token, *listen = sg_node_get(n, "listen");
    sg_load_map(ld, n ? n : &absent, &sg_shape_admin, &raw, true);
    token = sg_node_get(n, "token_file");
    if (listen && !token && is_public(&raw.conf.listen))
        sg_load_error(ld, &listen->place,
                      "admin listens on more than loopback without a token, expected token_file, or a "
                      "loopback address, or unix:/path");
    if (token && !is_token_text(raw.token.text))
        sg_load_error(ld, &token->place,
                      "a token with spaces or unprintable bytes, expected printable ASCII in one line");
    raw.conf.token = raw.token.text;
    ld->c->admin = raw.conf;
    ld->c->own->admin_token_file = raw.token.path;
}
