/* client_addr.c - the client's address behind trusted proxies. */
#include "gate/identity.h"

static bool is_trusted(const sg_identity_conf_t *c, const sg_addr_t *a)
{
    for (size_t i = 0; i < c->trusted_count; i++) {
        if (sg_cidr_has(&c->trusted[i], a))
            return true;
    }
    return false;
}

static bool is_port(sg_str_t s)
{
    uint64_t port;
    return s.n <= 5 && sg_str_u64(s, 65535, &port) == SG_OK;
}

/* "[v6]" or "[v6]:port" */
static bool parse_bracketed(sg_str_t s, sg_addr_t *out)
{
    const char *close = memchr(s.p, ']', s.n);
    if (!close)
        return false;
    sg_str_t inside = sg_str_n(s.p + 1, (size_t)(close - s.p) - 1);
    sg_str_t port = sg_str_n(close + 1, s.n - inside.n - 2);
    if (port.n > 0 && (port.p[0] != ':' || !is_port(sg_str_n(port.p + 1, port.n - 1))))
        return false;
    return inside.n > 0 && memchr(inside.p, ':', inside.n) && sg_addr_parse(inside, out) == SG_OK;
}

static bool parse_element(sg_str_t s, sg_addr_t *out)
{
    if (s.p[0] == '[')
        return parse_bracketed(s, out);
    const char *colon = memchr(s.p, ':', s.n);
    if (!colon)
        return sg_addr_parse(s, out) == SG_OK;
    sg_str_t after = sg_str_n(colon + 1, s.n - (size_t)(colon - s.p) - 1);
    if (after.n > 0 && memchr(after.p, ':', after.n))
        return sg_addr_parse(s, out) == SG_OK;
    return is_port(after) && sg_addr_parse(sg_str_n(s.p, (size_t)(colon - s.p)), out) == SG_OK;
}

/* Cut the last element off a comma-separated line. False when the line is used up. */
static bool last_element(sg_str_t *line, sg_str_t *element)
{
    if (line->n == 0)
        return false;
    size_t start = line->n;
    while (start > 0 && line->p[start - 1] != ',')
        start--;
    *element = sg_str_trim(sg_str_n(line->p + start, line->n - start));
    line->n = start > 0 ? start - 1 : 0;
    return true;
}

/* From the right through one line. False when the client is found, or nothing further left can be believed.
 * Empty elements are skipped (RFC 9110 section 5.6.1.2). */
static bool walk_line(const sg_identity_conf_t *c, sg_str_t line, sg_addr_t *client)
{
    sg_str_t element;
    while (last_element(&line, &element)) {
        sg_addr_t a;
        if (element.n == 0)
            continue;
        if (!parse_element(element, &a))
            return false;
        *client = a;
        if (!is_trusted(c, &a))
            return false;
    }
    return true;
}

sg_addr_t sg_client_addr(const sg_identity_conf_t *c, const sg_addr_t *peer, const sg_fields_t *fields,
                         bool *peer_trusted)
{
    static const sg_addr_t loopback = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};
    sg_addr_t client = peer ? *peer : loopback;
    *peer_trusted = !peer || is_trusted(c, peer);
    if (!*peer_trusted)
        return client;
    for (size_t i = fields->count; i > 0; i--) {
        const sg_field_t *f = &fields->at[i - 1];
        if (sg_str_ieq(f->name, SG_STR("X-Forwarded-For")) && !walk_line(c, f->value, &client))
            break;
    }
    return client;
}
