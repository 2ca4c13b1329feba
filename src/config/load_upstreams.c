/* load_upstreams.c - the section upstreams. */
#include "config/load.h"

#define UNIX_PATH_MAX 107 /* sun_path with its NUL */

static const char url_expected[] =
    "http://host[:port] or https://host[:port], with nothing after the port, or unix:/path, an absolute one";

static bool parse_unix(sg_load_t *ld, sg_str_t url, sg_target_conf_t *t)
{
    sg_str_t path = sg_str_n(url.p + 5, url.n - 5);
    if (sg_str_starts(path, SG_STR("///")))
        path = sg_str_n(path.p + 2, path.n - 2);
    if (path.n < 2 || path.p[0] != '/' || path.p[1] == '/' || path.n > UNIX_PATH_MAX)
        return false;
    t->unix_path = sg_arena_strndup(ld->arena, path);
    return true;
}

static bool parse_url(sg_load_t *ld, sg_str_t url, sg_target_conf_t *t)
{
    size_t skip;
    sg_str_t host;
    if (sg_str_starts(url, SG_STR("unix:")))
        return parse_unix(ld, url, t);
    t->https = sg_str_starts(url, SG_STR("https://"));
    if (!t->https && !sg_str_starts(url, SG_STR("http://")))
        return false;
    skip = t->https ? 8 : 7;
    if (!sg_load_host_port(sg_str_n(url.p + skip, url.n - skip), &host, &t->port))
        return false;
    if (t->port == 0)
        t->port = t->https ? 443 : 80;
    t->host = sg_arena_strndup(ld->arena, host);
    return true;
}

static void load_target(sg_load_t *ld, const sg_node_t *n, sg_upstream_conf_t *u, sg_nameset_t *urls)
{
    sg_target_conf_t t = {0};
    const sg_node_t *url = sg_node_get(n, "url");
    sg_str_t text;
    if (!sg_load_map(ld, n, &sg_shape_target, &t, true) || !url ||
        !sg_load_text(ld, url, url_expected, &text))
        return;
    t.url = sg_arena_strndup(ld->arena, text);
    if (memchr(t.url, '@', text.n)) {
        sg_load_error(ld, &url->place, "a user or password in a URL (not shown), expected %s", url_expected);
    } else if (!parse_url(ld, text, &t)) {
        sg_load_bad_value(ld, url, url_expected);
    } else if (sg_nameset_add(urls, ld->scratch, sg_str(t.url), 0, &url->place)) {
        sg_load_error(ld, &url->place, "target %s twice in one upstream, expected it once, with a weight",
                      sg_load_quote(ld, url->text));
    } else {
        u->targets[u->target_count++] = t;
    }
}

void sg_load_targets(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    sg_upstream_conf_t *u = target;
    sg_nameset_t urls = {0};
    (void)row;
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of targets: {url: http://host:port}"))
        return;
    if (n->count == 0)
        sg_load_error(ld, &n->place, "an empty list, expected at least one target");
    u->targets = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *u->targets);
    SG_NODE_EACH(item, n)
    load_target(ld, item, u, &urls);
    sg_nameset_deinit(&urls);
}

void sg_load_retry_on(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    unsigned *bits = (void *)((char *)target + row->offset);
    const char *expected = "one of connect, reset, 502, 503, 504";
    sg_str_t text;
    *bits = 0;
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of connect, reset, 502, 503, 504"))
        return;
    SG_NODE_EACH(item, n)
    {
        sg_str_t rest = sg_str(row->words), word;
        unsigned bit = 1, found = 0;
        if (!sg_load_text(ld, item, expected, &text))
            continue;
        for (; sg_str_next(&rest, ' ', &word); bit <<= 1)
            found |= sg_str_eq(word, text) ? bit : 0;
        if (!found)
            sg_load_bad_value(ld, item, expected);
        *bits |= found;
    }
}

void sg_load_status_range(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    sg_upstream_conf_t *u = target;
    const char *expected = "a status or a range from 100 to 599, like 200 or 200-399";
    sg_str_t text, low;
    int64_t lo, hi;
    (void)row;
    if (!sg_load_text(ld, n, expected, &text))
        return;
    low = text;
    if (text.n == 7 && text.p[3] == '-') {
        low = sg_str_n(text.p, 3);
        text = sg_str_n(text.p + 4, 3);
    }
    if (sg_value_int(low, &lo) || sg_value_int(text, &hi) || lo < 100 || hi > 599 || lo > hi) {
        sg_load_bad_value(ld, n, expected);
        return;
    }
    u->health.status_min = (unsigned)lo;
    u->health.status_max = (unsigned)hi;
}

/* A path that goes into a request line as it stands. */
void sg_load_request_path(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    char **field = (void *)((char *)target + row->offset);
    const char *expected = "a path that begins with /, printable ASCII without spaces and #";
    sg_str_t text;
    bool good;
    if (!sg_load_text(ld, n, expected, &text))
        return;
    good = text.n > 0 && text.n <= 1024 && text.p[0] == '/';
    for (size_t i = 0; i < text.n && good; i++)
        good = text.p[i] > ' ' && text.p[i] <= '~' && text.p[i] != '#';
    if (good)
        *field = sg_arena_strndup(ld->arena, text);
    else
        sg_load_bad_value(ld, n, expected);
}

static void check_pair(sg_load_t *ld, const sg_node_t *tls, const char *one, const char *two)
{
    const sg_node_t *n = sg_node_get(tls, one);
    if (n && !sg_node_get(tls, two))
        sg_load_error(ld, &n->key_place, "%s without %s, expected both", one, two);
}

void sg_load_upstreams(sg_load_t *ld, const sg_node_t *n)
{
    sg_config_t *c = ld->c;
    if (!n || !sg_load_is(ld, n, SG_NODE_MAP, "a map of names to upstreams"))
        return;
    c->upstreams = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *c->upstreams);
    SG_NODE_EACH(item, n)
    {
        sg_upstream_conf_t *u = &c->upstreams[c->upstream_count];
        if (!sg_load_check_name(ld, &item->key_place, item->key, &sg_rule_name))
            continue;
        u->name = sg_arena_strndup(ld->arena, item->key);
        u->index = (unsigned)c->upstream_count++;
        sg_nameset_add(&ld->upstreams, ld->scratch, item->key, u->index, &item->key_place);
        sg_load_map(ld, item, &sg_shape_upstream, u, true);
        check_pair(ld, sg_node_get(item, "tls"), "certificate", "key");
        check_pair(ld, sg_node_get(item, "tls"), "key", "certificate");
    }
}
