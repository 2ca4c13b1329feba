/* load_routes.c - the section routes. */
#include "base/list.h"
#include "config/load.h"

static const char methods_expected[] =
    "GET, HEAD, POST, PUT, DELETE, PATCH or OPTIONS, in capitals";

static void load_methods(sg_load_t *ld, const sg_node_t *n, sg_route_t *route)
{
    sg_str_t text;
    route->methods = 0;
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of methods"))
        return;
    if (n->count == 0)
        sg_load_error(ld, &n->place,
                      "an empty list, expected methods, or no methods at all for every method");
    SG_NODE_EACH(item, n)
    {
        sg_method_t m;
        if (!sg_load_text(ld, item, methods_expected, &text))
            continue;
        m = sg_method_parse(text);
        if (m == SG_METHOD_OTHER || m == SG_METHOD_TRACE || m == SG_METHOD_CONNECT) /* never served */
            sg_load_bad_value(ld, item, methods_expected);
        else
            route->methods |= 1u << m;
    }
}

/* Compared with hosts in lower case, without port. */
static void load_host(sg_load_t *ld, const sg_node_t *n, sg_route_t *route)
{
    const char *expected = "a host name or address without a port: api.example.com, [::1]";
    sg_str_t text, host;
    unsigned port;
    if (!sg_load_text(ld, n, expected, &text))
        return;
    if (text.n == 0 || sg_host_parse(ld->arena, text, &host, &port) || port ||
        !sg_load_host_port(host, &text, &port)) {
        sg_load_bad_value(ld, n, expected);
        return;
    }
    route->host = sg_arena_strndup(ld->arena, host);
}

static void load_match(sg_load_t *ld, const sg_node_t *n, sg_route_t *route)
{
    const sg_node_t *ignored, *part;
    sg_str_t text;
    if (!sg_load_map(ld, n, &sg_shape_match, &ignored, true))
        return;
    if ((part = sg_node_get(n, "host")))
        load_host(ld, part, route);
    if ((part = sg_node_get(n, "methods")))
        load_methods(ld, part, route);
    if ((part = sg_node_get(n, "path")) && sg_load_text(ld, part, "a path", &text))
        route->pattern = sg_arena_strndup(ld->arena, text);
}

static void add_class(sg_load_t *ld, const sg_node_t *n, sg_route_entry_t *e)
{
    const sg_name_t *name;
    const sg_class_t *class;
    sg_str_t text;
    if (!sg_load_text(ld, n, "the name of a class", &text))
        return;
    name = sg_nameset_find(&ld->classes, text);
    if (!name) {
        sg_load_error(ld, &n->place, "unknown class %s, expected one of classes%s",
                      sg_load_quote(ld, n->text), sg_load_near(ld, &ld->classes, text));
        return;
    }
    for (size_t i = 0; i < e->class_count; i++) {
        if (e->classes[i] == name->index) {
            sg_load_error(ld, &n->place, "class %s twice, expected it once", sg_load_quote(ld, n->text));
            return;
        }
    }
    e->classes[e->class_count++] = name->index;
    ld->class_used[name->index] = true;
    class = &ld->c->classes[name->index];
    if (class->limit_count > SG_LIMITS_MAX - e->route.limit_count) {
        sg_load_error(ld, &n->place, "more than %d limits on one route, expected at most %d", SG_LIMITS_MAX,
                      SG_LIMITS_MAX);
        return;
    }
    for (size_t i = 0; i < class->limit_count; i++)
        e->route.limits[e->route.limit_count++] = class->limits[i];
}

static void load_route_classes(sg_load_t *ld, const sg_node_t *n, sg_route_entry_t *e)
{
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of class names"))
        return;
    e->classes = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *e->classes);
    e->route.limits = sg_arena_calloc(ld->arena, SG_LIMITS_MAX * sizeof *e->route.limits);
    SG_NODE_EACH(item, n)
    add_class(ld, item, e);
}

static void load_cost_number(sg_load_t *ld, const sg_node_t *n, int64_t least, sg_route_t *route)
{
    const char *expected =
        least ? "an integer from 1 to 9007199254740991" : "an integer from 0 to 9007199254740991";
    int64_t v;
    sg_str_t text;
    if (!sg_load_text(ld, n, expected, &text))
        return;
    if (sg_load_is_quoted(n, text) || sg_value_int(text, &v) || v < least || v > SG_LIMIT_NUMBER_MAX)
        sg_load_bad_value(ld, n, expected);
    else
        route->cost = v;
}

static void load_cost_from(sg_load_t *ld, const sg_node_t *n, sg_route_t *route)
{
    const char *expected = "response_kib, or {response_header: NAME}";
    const sg_node_t *ignored, *header;
    sg_str_t text;
    if (n->kind == SG_NODE_MAP) {
        sg_load_map(ld, n, &sg_shape_cost_from, &ignored, true);
        header = sg_node_get(n, "response_header");
        if (!header)
            sg_load_error(ld, &n->place, "response_header is missing, expected %s", expected);
        else if (sg_load_text(ld, header, "a header name", &text) && !sg_is_token(text))
            sg_load_bad_value(ld, header, "a header name");
        else if (header->kind == SG_NODE_SCALAR)
            route->cost_header = sg_arena_str(ld->arena, text);
        route->cost_from = SG_COST_RESPONSE_HEADER;
        return;
    }
    if (!sg_load_text(ld, n, expected, &text))
        return;
    route->cost_from = SG_COST_RESPONSE_KIB;
    if (!sg_str_eq(text, SG_STR("response_kib")))
        sg_load_bad_value(ld, n, expected);
}

static void load_cost(sg_load_t *ld, const sg_node_t *n, sg_route_t *route)
{
    const sg_node_t *ignored, *part;
    if (n->kind != SG_NODE_MAP) {
        load_cost_number(ld, n, 0, route);
        return;
    }
    sg_load_map(ld, n, &sg_shape_cost, &ignored, true);
    if ((part = sg_node_get(n, "reserve")))
        load_cost_number(ld, part, 1, route);
    if ((part = sg_node_get(n, "from")))
        load_cost_from(ld, part, route);
}

static void load_template(sg_load_t *ld, const sg_node_t *n, sg_str_t *out)
{
    sg_str_t text;
    if (!sg_load_text(ld, n, "a path that begins with /", &text))
        return;
    if (text.n == 0 || text.p[0] != '/')
        sg_load_bad_value(ld, n, "a path that begins with /");
    else
        *out = sg_arena_str(ld->arena, text);
}

static void load_rewrite(sg_load_t *ld, const sg_route_raw_t *raw, sg_route_t *route)
{
    const sg_node_t *ignored, *path = sg_node_get(raw->rewrite, "path"),
                              *strip = sg_node_get(raw->rewrite, "strip_prefix");
    if (raw->rewrite && !sg_load_map(ld, raw->rewrite, &sg_shape_rewrite, &ignored, true))
        return;
    if (raw->rewrite && !path == !strip)
        sg_load_error(ld, &raw->rewrite->place,
                      "rewrite with %s, expected exactly one of path and strip_prefix",
                      path ? "both" : "neither path nor strip_prefix");
    if (raw->rewrite && raw->strip_prefix)
        sg_load_error(ld, &raw->strip_prefix->key_place, "strip_prefix beside rewrite, expected one of them");
    if (path)
        load_template(ld, path, &route->rewrite);
    if (strip || raw->strip_prefix)
        load_template(ld, strip ? strip : raw->strip_prefix, &route->strip_prefix);
}

static void load_destination(sg_load_t *ld, const sg_node_t *n, const sg_route_raw_t *raw, sg_route_t *route)
{
    const sg_name_t *name;
    sg_str_t text;
    if (!raw->upstream == !raw->respond)
        sg_load_error(ld, &n->place, "a route with %s, expected exactly one of upstream and respond",
                      raw->upstream ? "both upstream and respond" : "neither upstream nor respond");
    if (raw->respond)
        sg_load_respond(ld, raw->respond, route);
    if (!raw->upstream || !sg_load_text(ld, raw->upstream, "the name of an upstream", &text))
        return;
    name = sg_nameset_find(&ld->upstreams, text);
    if (name)
        route->upstream = &ld->c->upstreams[name->index];
    else
        sg_load_error(ld, &raw->upstream->place, "unknown upstream %s, expected one of upstreams%s",
                      sg_load_quote(ld, raw->upstream->text), sg_load_near(ld, &ld->upstreams, text));
}

/* The sentence begins with the key that it is about. */
static const sg_node_t *place_of_why(const sg_route_raw_t *raw, const sg_why_t *why)
{
    const sg_node_t *n = NULL;
    sg_str_t text = sg_str(why->text);
    if (sg_str_starts(text, SG_STR("rewrite")))
        n = raw->rewrite;
    else if (sg_str_starts(text, SG_STR("strip_prefix")))
        n = raw->strip_prefix ? raw->strip_prefix : sg_node_get(raw->rewrite, "strip_prefix");
    else if (sg_str_starts(text, SG_STR("host")))
        n = sg_node_get(raw->match, "host");
    return n ? n : sg_node_get(raw->match, "path");
}

static void add_to_router(sg_load_t *ld, const sg_route_raw_t *raw, sg_route_entry_t *e)
{
    const sg_route_t *other = NULL;
    sg_why_t why;
    sg_err_t err;
    if (!e->route.pattern || !e->route.methods)
        return;
    err = sg_router_add(ld->c->router, &e->route, &other, &why);
    if (err == SG_ERR_EXISTS && other) {
        const sg_route_entry_t *o = SG_OWNER(other, sg_route_entry_t, route);
        sg_load_error(
            ld, &e->place,
            "this route matches the same requests as route \"%s\" on line %u, expected different matches",
            other->name ? other->name : "?", o->place.line);
    } else if (err) {
        sg_load_error(ld, &place_of_why(raw, &why)->place, "%s", why.text);
    }
}

static void note_cost(sg_load_t *ld, const sg_route_t *route)
{
    for (size_t i = 0; i < route->limit_count; i++) {
        int64_t *most = &ld->max_cost[route->limits[i]];
        if (route->cost > *most)
            *most = route->cost;
    }
}

static void load_name(sg_load_t *ld, const sg_node_t *n, const sg_route_raw_t *raw, sg_route_t *route)
{
    const sg_node_t *at = sg_node_get(n, "name");
    const sg_name_t *other;
    if (!raw->name || !sg_load_check_name(ld, &at->place, sg_str(raw->name), &sg_rule_name))
        return;
    route->name = raw->name;
    other = sg_nameset_add(&ld->routes, ld->scratch, sg_str(raw->name), 0, &at->place);
    if (other)
        sg_load_error(ld, &at->place,
                      "route name \"%s\" twice, expected each name once; it is on line %u too", raw->name,
                      other->place.line);
}

static void load_route(sg_load_t *ld, const sg_node_t *n)
{
    sg_route_raw_t raw = {.auth = -1};
    sg_route_entry_t *e = SG_ARENA_NEW(ld->arena, sg_route_entry_t);
    sg_route_t *route = &e->route;
    e->place = n->place;
    route->methods = SG_METHODS_ALL;
    route->cost = 1;
    if (!sg_load_map(ld, n, &sg_shape_route, &raw, true))
        return;
    load_name(ld, n, &raw, route);
    if (raw.match) {
        e->place = raw.match->place;
        load_match(ld, raw.match, route);
    }
    if (raw.classes)
        load_route_classes(ld, raw.classes, e);
    if (raw.cost)
        load_cost(ld, raw.cost, route);
    load_destination(ld, n, &raw, route);
    if (route->cost_header.n && raw.respond)
        sg_load_error(ld, &raw.cost->place,
                      "response_header is a field of an upstream's answer, but the route answers by itself");
    load_rewrite(ld, &raw, route);
    if (raw.request_headers)
        sg_load_edit(ld, raw.request_headers, &route->request_fields);
    if (raw.response_headers)
        sg_load_edit(ld, raw.response_headers, &route->response_fields);
    route->auth = raw.auth >= 0 ? (sg_auth_t)raw.auth : e->class_count ? SG_AUTH_REQUIRED : SG_AUTH_OPTIONAL;
    route->odd_paths_pass = raw.odd_paths == 1;
    route->max_body_bytes = raw.max_body_bytes;
    route->timeout_us = raw.timeout_us;
    route->on_failure = (sg_on_failure_t)raw.on_failure;
    note_cost(ld, route);
    ld->c->routes[ld->c->route_count++] = route;
    add_to_router(ld, &raw, e);
}

void sg_load_routes(sg_load_t *ld, const sg_node_t *n)
{
    if (!n || !sg_load_is(ld, n, SG_NODE_LIST, "a list of routes"))
        return;
    ld->c->routes = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *ld->c->routes);
    SG_NODE_EACH(item, n)
    load_route(ld, item);
}
