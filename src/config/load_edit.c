/* load_edit.c - header fields in the file: edits of a route, and the gateway's own answer. */
#include "config/load.h"

/* Fields that frame or route a message are the gateway's own. */
static bool is_framing_field(sg_str_t name)
{
    return sg_field_is_hop_by_hop(name) || sg_str_ieq(name, SG_STR("Content-Length")) ||
           sg_str_ieq(name, SG_STR("Host"));
}

static bool check_field_name(sg_load_t *ld, const sg_place_t *at, sg_str_t name)
{
    if (!sg_is_token(name)) {
        sg_load_error(ld, at, "bad header name %s, expected letters, digits and - (RFC 9110, token)",
                      sg_load_quote(ld, name));
        return false;
    }
    if (is_framing_field(name)) {
        sg_load_error(ld, at,
                      "header %s is the gateway's own, expected an end-to-end header other than Host and "
                      "Content-Length",
                      sg_load_quote(ld, name));
        return false;
    }
    return true;
}

static bool check_field_value(sg_load_t *ld, const sg_node_t *n, sg_str_t value)
{
    sg_str_t trimmed = sg_str_trim(value);
    if (sg_is_field_value(value) && trimmed.n == value.n)
        return true;
    sg_load_error(ld, &n->place,
                  "bad header value, expected one line without control bytes and without spaces at its ends");
    return false;
}

/* Names of a map once each, whatever their case. */
static bool is_repeated(sg_load_t *ld, const sg_node_t *map, const sg_node_t *n)
{
    for (const sg_node_t *o = map->first; o != n; o = o->next) {
        if (sg_str_ieq(o->key, n->key)) {
            sg_load_error(ld, &n->key_place, "header %s twice, expected it once; it is on line %u too",
                          sg_load_quote(ld, n->key), o->key_place.line);
            return true;
        }
    }
    return false;
}

static void load_set(sg_load_t *ld, const sg_node_t *n, sg_field_edit_t *out)
{
    sg_str_t value, bad;
    if (!sg_load_is(ld, n, SG_NODE_MAP, "a map of header names to values"))
        return;
    out->set = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *out->set);
    SG_NODE_EACH(item, n)
    {
        if (!check_field_name(ld, &item->key_place, item->key) || is_repeated(ld, n, item) ||
            !sg_load_text_how(ld, item, "a header value", SG_EXPAND_KEEP_VARS, &value) ||
            !check_field_value(ld, item, value))
            continue;
        if (sg_vars_check(value, &bad)) {
            sg_load_error(ld, &item->place,
                          "unknown variable %s, expected one of tenant, key_id, plan, route, request_id, "
                          "client_ip, host",
                          sg_load_quote(ld, bad));
            continue;
        }
        out->set[out->set_count].name = sg_arena_str(ld->arena, item->key);
        out->set[out->set_count++].value = sg_arena_str(ld->arena, value);
    }
}

static void load_remove(sg_load_t *ld, const sg_node_t *n, sg_field_edit_t *out)
{
    sg_str_t name;
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of header names"))
        return;
    out->remove = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *out->remove);
    SG_NODE_EACH(item, n)
    {
        if (sg_load_text(ld, item, "a header name", &name) && check_field_name(ld, &item->place, name))
            out->remove[out->remove_count++] = sg_arena_str(ld->arena, name);
    }
}

void sg_load_edit(sg_load_t *ld, const sg_node_t *n, sg_field_edit_t *out)
{
    const sg_node_t *ignored, *part;
    if (!sg_load_map(ld, n, &sg_shape_fields, &ignored, true))
        return;
    if ((part = sg_node_get(n, "set")))
        load_set(ld, part, out);
    if ((part = sg_node_get(n, "remove")))
        load_remove(ld, part, out);
}

static void load_respond_fields(sg_load_t *ld, const sg_node_t *n, sg_route_t *route)
{
    sg_str_t value;
    if (!sg_load_is(ld, n, SG_NODE_MAP, "a map of header names to values"))
        return;
    SG_NODE_EACH(item, n)
    {
        if (check_field_name(ld, &item->key_place, item->key) &&
            sg_load_text(ld, item, "a header value", &value) && check_field_value(ld, item, value))
            sg_fields_add(&route->respond_fields, ld->arena, sg_arena_str(ld->arena, item->key),
                          sg_arena_str(ld->arena, value));
    }
}

void sg_load_respond(sg_load_t *ld, const sg_node_t *n, sg_route_t *route)
{
    const sg_node_t *ignored, *part;
    int64_t status = 200;
    sg_str_t text;
    route->respond = true;
    if (!sg_load_map(ld, n, &sg_shape_respond, &ignored, true))
        return;
    part = sg_node_get(n, "status");
    if (part && sg_load_text(ld, part, "a status from 200 to 599", &text) &&
        (sg_load_is_quoted(part, text) || sg_value_int(text, &status) || status < 200 || status > 599))
        sg_load_bad_value(ld, part, "a status from 200 to 599");
    route->respond_status = (unsigned)status;
    part = sg_node_get(n, "body");
    if (part && sg_load_text(ld, part, "a text", &text)) {
        route->respond_body = sg_arena_str(ld->arena, text);
        if (text.n && (status == 204 || status == 205 || status == 304))
            sg_load_error(ld, &part->place, "a body with status %d, expected none (RFC 9110)", (int)status);
    }
    part = sg_node_get(n, "headers");
    if (part)
        load_respond_fields(ld, part, route);
}
