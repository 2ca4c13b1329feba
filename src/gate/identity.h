/* identity.h - who is calling: tenants, API keys, client addresses. */
#ifndef SG_GATE_IDENTITY_H
#define SG_GATE_IDENTITY_H

#include "base/addr.h"
#include "base/hash.h"
#include "gate/limit.h"
#include "http/field.h"
#include "http/target.h"

typedef struct sg_tenant sg_tenant_t;

typedef struct {
    const char *id;                         /* as in the config: "prod" */
    uint8_t digest[SG_SHA256_BYTES];        /* SHA-256 of the clear key */
    sg_tag_t hash;                          /* sg_tag("key:" + hex digest): the sub part of key names */
    bool disabled;
    int64_t expires_us;                     /* epoch; 0 = never */
    const sg_tenant_t *tenant;
} sg_api_key_t;

struct sg_tenant {
    const char *name;
    const char *plan;                       /* NULL = none */
    sg_tag_t tag;                           /* sg_tag("tenant:" + name) */
    const sg_limit_t *const *limits;        /* by sg_limit_t.index; plan and overrides applied */
    sg_api_key_t *keys;
    size_t key_count;
    unsigned metric;                        /* id from metrics/ */
    bool anonymous;
};

/* Look-up of keys by digest; immutable after finish. */
typedef struct sg_key_table sg_key_table_t;
sg_key_table_t *sg_key_table_new(size_t expected);
void sg_key_table_free(sg_key_table_t *t);
/* The key is referenced, not copied. SG_ERR_EXISTS for a digest that is there already; *other gets it. */
SG_MUST sg_err_t sg_key_table_add(sg_key_table_t *t, const sg_api_key_t *key, const sg_api_key_t **other);
/* The final comparison is in constant time. NULL when unknown. */
const sg_api_key_t *sg_key_table_find(const sg_key_table_t *t, const uint8_t digest[SG_SHA256_BYTES]);

typedef enum { SG_KEY_FROM_HEADER, SG_KEY_FROM_SCHEME, SG_KEY_FROM_QUERY } sg_key_source_kind_t;

typedef struct {
    sg_key_source_kind_t kind;
    sg_str_t name;                          /* header or query parameter */
    sg_str_t scheme;                        /* "Bearer"; compared in any case */
} sg_key_source_t;

typedef enum { SG_AUTH_REQUIRED, SG_AUTH_OPTIONAL, SG_AUTH_NONE } sg_auth_t;

/* The identity part of the config. */
typedef struct {
    sg_key_source_t *sources;
    size_t source_count;
    bool forward_key;
    sg_str_t secret;                        /* HMAC secret; empty = plain SHA-256 */
    unsigned ipv6_prefix;
    sg_limit_t failures;                    /* bad keys per IP */
    const sg_cidr_t *trusted;               /* server.trusted_proxies */
    size_t trusted_count;
    const sg_key_table_t *keys;
    const sg_tenant_t *anonymous;
} sg_identity_conf_t;

typedef enum {
    SG_ID_OK = 0,
    SG_ID_MISSING,          /* no key, and one is required: 401 */
    SG_ID_UNKNOWN,          /* 401 */
    SG_ID_DISABLED,         /* 401 */
    SG_ID_EXPIRED,          /* 401 */
    SG_ID_AMBIGUOUS,        /* the same source twice, or two sources that disagree: 400 */
} sg_id_err_t;
const char *sg_id_err_name(sg_id_err_t e);

typedef struct {
    const sg_tenant_t *tenant;              /* never NULL after SG_ID_OK */
    const sg_api_key_t *key;                /* NULL: anonymous */
    sg_addr_t client;                       /* see sg_client_addr */
    sg_tag_t ip;                            /* hash of the client's (masked) address */
    const char *tag;                        /* slot tag: tenant's, or ip's for anonymous callers */
} sg_identity_t;

/* The client's address: `peer`, or found in the X-Forwarded-For lines, walked from the right past
 * trusted addresses; a malformed element stops the walk at the last good one. When all are trusted it is
 * the leftmost. Elements may carry a port or brackets. `peer_trusted` gets whether the peer itself is
 * trusted. A NULL peer (unix socket) counts as trusted loopback. */
sg_addr_t sg_client_addr(const sg_identity_conf_t *c, const sg_addr_t *peer, const sg_fields_t *fields,
                         bool *peer_trusted);

/* Find out who calls. Fills out->client, ip and tag always, the rest on SG_ID_OK; out->tag lies
 * in the arena or in the tenant. now_us: epoch (expiry). Reads the key from the configured sources; clear
 * keys do not leave this function. A header without a value, or with another scheme, holds no key. */
SG_MUST sg_id_err_t sg_identity_resolve(const sg_identity_conf_t *c, sg_auth_t auth,
                                        const sg_fields_t *fields, const sg_target_t *target,
                                        const sg_addr_t *client, int64_t now_us, sg_arena_t *arena,
                                        sg_identity_t *out);
/* Remove the key from what goes upstream: header sources from `fields`, query sources from the query
 * (*query is replaced when one was there; *has_query says whether a '?' is left to write). Does nothing
 * with forward_key. For a source with a scheme the header goes only when it has that scheme. */
void sg_identity_strip(const sg_identity_conf_t *c, sg_arena_t *arena, sg_fields_t *fields, sg_str_t *query,
                       bool *has_query);

/* Masked address text -> hash, as it stands in key names: sg_tag("ip:" + text). */
void sg_ip_tag(const sg_identity_conf_t *c, const sg_addr_t *client, sg_tag_t *out);

#endif
