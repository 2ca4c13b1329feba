#include "store/place.h"

bool sg_place_split(sg_str_t text, sg_str_t *host, unsigned *port)
{
    size_t colon = text.n;
    uint64_t number;
    while (colon > 0 && text.p[colon - 1] != ':')
        colon--;
    if (colon == 0)
        return false;
    sg_str_t digits = sg_str_n(text.p + colon, text.n - colon);
    if (sg_str_u64(digits, 65535, &number) != SG_OK || number == 0)
        return false;
    *host = sg_str_n(text.p, colon - 1);
    if (host->n >= 2 && host->p[0] == '[' && host->p[host->n - 1] == ']')
        *host = sg_str_n(host->p + 1, host->n - 2);
    *port = (unsigned)number;
    return true;
}

bool sg_place_same_nodes(const sg_store_conf_t *a, const sg_store_conf_t *b)
{
    if (a->node_count != b->node_count)
        return false;
    for (size_t i = 0; i < a->node_count; i++)
        if (!sg_str_eq(sg_str(a->nodes[i]), sg_str(b->nodes[i])))
            return false;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return sg_str_eq(sg_str(a), sg_str(b));
}

bool sg_place_same_server(const sg_store_conf_t *a, const sg_store_conf_t *b)
{
    return a->mode == b->mode && a->tls == b->tls && a->port == b->port && a->db == b->db &&
           same_text(a->host, b->host) && same_text(a->unix_path, b->unix_path) &&
           same_text(a->username, b->username) && sg_str_eq(a->password, b->password) &&
           same_text(a->master, b->master) && sg_place_same_nodes(a, b);
}
