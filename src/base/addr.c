#include "base/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool sg_addr_is_v4(const sg_addr_t *a)
{
    return memcmp(a->b, v4_prefix, sizeof v4_prefix) == 0;
}

bool sg_addr_eq(const sg_addr_t *a, const sg_addr_t *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

bool sg_addr_is_loopback(const sg_addr_t *a)
{
    static const uint8_t one[16] = {[15] = 1};
    return sg_addr_is_v4(a) ? a->b[12] == 127 : memcmp(a->b, one, sizeof one) == 0;
}

static void set_v4(sg_addr_t *out, const void *four)
{
    memcpy(out->b, v4_prefix, sizeof v4_prefix);
    memcpy(out->b + 12, four, 4);
}

sg_err_t sg_addr_parse(sg_str_t s, sg_addr_t *out)
{
    char z[SG_ADDR_TEXT];
    if (s.n == 0 || s.n >= sizeof z || memchr(s.p, '\0', s.n))
        return SG_ERR_SYNTAX;
    memcpy(z, s.p, s.n);
    z[s.n] = '\0';
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, z, &four) == 1) {
        set_v4(out, &four);
        return SG_OK;
    }
    if (inet_pton(AF_INET6, z, &six) != 1)
        return SG_ERR_SYNTAX;
    memcpy(out->b, &six, sizeof out->b);
    return SG_OK;
}

/* Several times in each request: inet_ntop goes through printf. */
static void v4_text(const uint8_t b[4], char *out)
{
    for (size_t i = 0; i < 4; i++) {
        if (b[i] >= 100)
            *out++ = (char)('0' + b[i] / 100);
        if (b[i] >= 10)
            *out++ = (char)('0' + b[i] / 10 % 10);
        *out++ = (char)('0' + b[i] % 10);
        *out++ = i < 3 ? '.' : '\0';
    }
}

void sg_addr_text(const sg_addr_t *a, char out[SG_ADDR_TEXT])
{
    if (sg_addr_is_v4(a))
        v4_text(a->b + 12, out);
    else if (!inet_ntop(AF_INET6, a->b, out, SG_ADDR_TEXT))
        out[0] = '\0';
}

sg_err_t sg_addr_from_sockaddr(const struct sockaddr *sa, sg_addr_t *out)
{
    if (sa->sa_family == AF_INET) {
        set_v4(out, &((const struct sockaddr_in *)(const void *)sa)->sin_addr);
        return SG_OK;
    }
    if (sa->sa_family != AF_INET6)
        return SG_ERR_UNSUPPORTED;
    memcpy(out->b, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, sizeof out->b);
    return SG_OK;
}

static sg_addr_t mask(const sg_addr_t *a, unsigned bits)
{
    sg_addr_t m = *a;
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = bits > 8 * i ? bits - 8 * i : 0;
        if (keep < 8)
            m.b[i] &= (uint8_t)(0xff00u >> keep);
    }
    return m;
}

sg_err_t sg_cidr_parse(sg_str_t s, sg_cidr_t *out)
{
    sg_str_t text, bits = s;
    if (!sg_str_next(&bits, '/', &text))
        return SG_ERR_SYNTAX;
    sg_err_t err = sg_addr_parse(text, &out->net);
    if (err)
        return err;
    bool v4 = memchr(text.p, ':', text.n) == NULL;
    out->bits = 128;
    if (bits.p) {
        uint64_t n;
        if (bits.n > 1 && bits.p[0] == '0')
            return SG_ERR_SYNTAX;
        err = sg_str_u64(bits, v4 ? 32 : 128, &n);
        if (err)
            return err;
        out->bits = (unsigned)n + (v4 ? 96 : 0);
    }
    sg_addr_t net = mask(&out->net, out->bits);
    return sg_addr_eq(&net, &out->net) ? SG_OK : SG_ERR_RANGE;
}

bool sg_cidr_has(const sg_cidr_t *c, const sg_addr_t *a)
{
    sg_addr_t net = mask(a, c->bits);
    return sg_addr_eq(&net, &c->net);
}

sg_addr_t sg_addr_mask_v6(const sg_addr_t *a, unsigned bits)
{
    return sg_addr_is_v4(a) ? *a : mask(a, bits);
}

/* --- endpoints ----------------------------------------------------------------------------------- */

static sg_err_t endpoint_unix(sg_str_t path, sg_endpoint_t *out, sg_why_t *why)
{
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&out->sa;
    if (path.n < 2 || path.p[0] != '/' || path.n >= sizeof un->sun_path || memchr(path.p, '\0', path.n)) {
        sg_why_set(why, "expected unix:/path with an absolute path of at most %zu bytes",
                   sizeof un->sun_path - 1);
        return SG_ERR_SYNTAX;
    }
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path.p, path.n);
    out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.n + 1);
    out->is_unix = true;
    return SG_OK;
}

static void endpoint_fill(sg_endpoint_t *out, const sg_addr_t *a, bool v4, unsigned port)
{
    if (v4) {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)&out->sa;
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        memcpy(&in->sin_addr, a->b + 12, 4);
        out->len = sizeof *in;
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&out->sa;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        memcpy(&in6->sin6_addr, a->b, 16);
        out->len = sizeof *in6;
    }
}

/* "host:port" or "[v6]:port" cut in two; false when it is neither. */
static bool split_port(sg_str_t s, sg_str_t *host, sg_str_t *port)
{
    if (s.n && s.p[0] == '[') {
        const char *end = memchr(s.p, ']', s.n);
        if (!end || end + 1 >= s.p + s.n || end[1] != ':')
            return false;
        *host = sg_str_n(s.p + 1, (size_t)(end - s.p) - 1);
        *port = sg_str_n(end + 2, s.n - host->n - 3);
        return true;
    }
    const char *colon = s.n ? memchr(s.p, ':', s.n) : NULL;
    if (!colon)
        return false;
    *host = sg_str_n(s.p, (size_t)(colon - s.p));
    *port = sg_str_n(colon + 1, s.n - host->n - 1);
    return true;
}

sg_err_t sg_endpoint_parse(sg_str_t s, sg_endpoint_t *out, sg_why_t *why)
{
    memset(out, 0, sizeof *out);
    if (s.n == 0 || s.n >= sizeof out->text) {
        sg_why_set(why, "expected host:port, [v6]:port or unix:/path");
        return SG_ERR_SYNTAX;
    }
    memcpy(out->text, s.p, s.n);
    if (sg_str_starts(s, SG_STR("unix:")))
        return endpoint_unix(sg_str_n(s.p + 5, s.n - 5), out, why);
    sg_str_t host, port;
    uint64_t number;
    if (!split_port(s, &host, &port) || sg_str_u64(port, 65535, &number)) {
        sg_why_set(why, "expected host:port, [v6]:port or unix:/path, with a port from 0 to 65535");
        return SG_ERR_SYNTAX;
    }
    sg_addr_t a;
    if (sg_str_eq(host, SG_STR("localhost")))
        host = SG_STR("127.0.0.1");
    else if (sg_str_eq(host, SG_STR("*")))
        host = SG_STR("0.0.0.0");
    if (sg_addr_parse(host, &a)) {
        sg_why_set(why, "expected a numeric address, localhost or * before the port");
        return SG_ERR_SYNTAX;
    }
    endpoint_fill(out, &a, memchr(host.p, ':', host.n) == NULL, (unsigned)number);
    return SG_OK;
}

bool sg_endpoint_is_loopback(const sg_endpoint_t *e)
{
    sg_addr_t a;
    if (e->is_unix)
        return true;
    if (sg_addr_from_sockaddr((const struct sockaddr *)&e->sa, &a))
        return false;
    return sg_addr_is_loopback(&a);
}
