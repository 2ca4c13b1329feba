/* url.c - hosts, ports and names. */
#include "config/load.h"

const sg_name_rule_t sg_rule_limit = {.max = 32};
const sg_name_rule_t sg_rule_name = {.max = 64, .dots = true, .reserve = true};

static bool is_alnum(char c)
{
    char l = sg_ascii_lower(c);
    return sg_ascii_digit(c) || (l >= 'a' && l <= 'z');
}

bool sg_load_check_name(sg_load_t *ld, const sg_place_t *at, sg_str_t s, const sg_name_rule_t *rule)
{
    bool good = s.n > 0 && s.n <= rule->max;
    for (size_t i = 0; i < s.n && good; i++)
        good = is_alnum(s.p[i]) || s.p[i] == '_' || s.p[i] == '-' || (rule->dots && s.p[i] == '.');
    if (!good) {
        sg_load_error(ld, at, "bad name %s, expected 1 to %zu of A-Z a-z 0-9 _ -%s", sg_load_quote(ld, s),
                      rule->max, rule->dots ? " ." : "");
        return false;
    }
    if (rule->reserve && s.p[0] == '_') {
        sg_load_error(ld, at,
                      "bad name %s, expected one that does not begin with _ (these are the gateway's own)",
                      sg_load_quote(ld, s));
        return false;
    }
    return true;
}

/* The last label tells an address from a name: no top-level domain is all digits. */
static bool looks_like_v4(sg_str_t host)
{
    size_t i = host.n;
    while (i > 0 && host.p[i - 1] != '.')
        i--;
    for (size_t j = i; j < host.n; j++) {
        if (!sg_ascii_digit(host.p[j]))
            return false;
    }
    return i < host.n;
}

static bool is_host_name(sg_str_t host)
{
    sg_addr_t addr;
    char before = '.';
    if (host.n == 0 || host.n > 253)
        return false;
    for (size_t i = 0; i < host.n; before = host.p[i++]) {
        if (host.p[i] == '.' ? before == '.' : !is_alnum(host.p[i]) && host.p[i] != '-' && host.p[i] != '_')
            return false;
    }
    return !looks_like_v4(host) || sg_addr_parse(host, &addr) == SG_OK;
}

static bool parse_port(sg_str_t s, unsigned *port)
{
    int64_t v;
    if (sg_value_int(s, &v) || v < 1 || v > 65535)
        return false;
    *port = (unsigned)v;
    return true;
}

bool sg_load_host_port(sg_str_t s, sg_str_t *host, unsigned *port)
{
    sg_addr_t addr;
    const char *colon;
    *port = 0;
    if (s.n && s.p[0] == '[') {
        const char *end = memchr(s.p, ']', s.n);
        if (!end)
            return false;
        *host = sg_str_n(s.p + 1, (size_t)(end - s.p) - 1);
        if (sg_addr_parse(*host, &addr) || !memchr(host->p, ':', host->n))
            return false;
        s = sg_str_n(end + 1, s.n - host->n - 2);
        return s.n == 0 || (s.p[0] == ':' && parse_port(sg_str_n(s.p + 1, s.n - 1), port));
    }
    colon = s.n ? memchr(s.p, ':', s.n) : NULL;
    *host = colon ? sg_str_n(s.p, (size_t)(colon - s.p)) : s;
    if (!is_host_name(*host))
        return false;
    return !colon || parse_port(sg_str_n(colon + 1, s.n - host->n - 1), port);
}
