/* addr.h - IP addresses and prefixes.
 *
 * One form for all: 16 bytes, IPv4 as ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2), so an IPv4-mapped
 * address and the IPv4 address are the same one. */
#ifndef SG_BASE_ADDR_H
#define SG_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    uint8_t b[16];
} sg_addr_t;

typedef struct {
    sg_addr_t net;
    unsigned bits;              /* 0..128; an IPv4 /n is 96 + n */
} sg_cidr_t;

#define SG_ADDR_TEXT 46         /* with the NUL */

bool sg_addr_is_v4(const sg_addr_t *a);
bool sg_addr_eq(const sg_addr_t *a, const sg_addr_t *b);
bool sg_addr_is_loopback(const sg_addr_t *a);

/* Strict: "1.2.3.4" without leading zeros, or RFC 4291 text; no zone, no port, no brackets. */
SG_MUST sg_err_t sg_addr_parse(sg_str_t s, sg_addr_t *out);
/* RFC 5952 text; IPv4 in dotted form. */
void sg_addr_text(const sg_addr_t *a, char out[SG_ADDR_TEXT]);
/* SG_ERR_UNSUPPORTED for a family that has no IP address (AF_UNIX). */
SG_MUST sg_err_t sg_addr_from_sockaddr(const struct sockaddr *sa, sg_addr_t *out);

/* "10.0.0.0/8", "::1", "2001:db8::/32". Bits beyond the prefix must be zero. */
SG_MUST sg_err_t sg_cidr_parse(sg_str_t s, sg_cidr_t *out);
bool sg_cidr_has(const sg_cidr_t *c, const sg_addr_t *a);
/* IPv6: the first `bits` bits, the rest zero. IPv4 stays whole. */
sg_addr_t sg_addr_mask_v6(const sg_addr_t *a, unsigned bits);

/* A place to listen on or connect to, as written in the config: host:port, [v6]:port, unix:/path. */
typedef struct {
    struct sockaddr_storage sa; /* numeric address or unix path */
    socklen_t len;
    char text[128];             /* as written */
    bool is_unix;
} sg_endpoint_t;

/* The host must be a numeric address, "localhost" or "*"; SG_ERR_SYNTAX otherwise. */
SG_MUST sg_err_t sg_endpoint_parse(sg_str_t s, sg_endpoint_t *out, sg_why_t *why);
bool sg_endpoint_is_loopback(const sg_endpoint_t *e);   /* loopback address or unix socket */

#endif
