/* route.h - the route table: what a request matches, and where it goes. */
#ifndef SG_GATE_ROUTE_H
#define SG_GATE_ROUTE_H

#include "gate/identity.h"
#include "gate/limit.h"
#include "http/field.h"
#include "http/target.h"

/* Methods that have a bit of their own; every other token is SG_METHOD_OTHER (served by routes without
 * `methods`). */
typedef enum {
    SG_METHOD_GET, SG_METHOD_HEAD, SG_METHOD_POST, SG_METHOD_PUT, SG_METHOD_DELETE, SG_METHOD_PATCH,
    SG_METHOD_OPTIONS, SG_METHOD_TRACE, SG_METHOD_CONNECT, SG_METHOD_OTHER, SG_METHOD_COUNT
} sg_method_t;
sg_method_t sg_method_parse(sg_str_t s);        /* methods are case-sensitive, RFC 9110 section 9.1 */
const char *sg_method_name(sg_method_t m);      /* "_OTHER" for the last */
bool sg_method_is_idempotent(sg_method_t m);    /* RFC 9110 section 9.2.2 */
#define SG_METHODS_ALL ((1u << SG_METHOD_COUNT) - 1)

typedef struct {
    sg_str_t name, value;           /* value may hold ${tenant} and other request variables */
} sg_set_field_t;

typedef struct {
    sg_set_field_t *set;
    size_t set_count;
    sg_str_t *remove;
    size_t remove_count;
} sg_field_edit_t;

typedef enum { SG_FAIL_INHERIT, SG_FAIL_LOCAL, SG_FAIL_OPEN, SG_FAIL_CLOSED } sg_on_failure_t;

typedef enum { SG_COST_FIXED, SG_COST_RESPONSE_HEADER, SG_COST_RESPONSE_KIB } sg_cost_from_t;

/* Owned by the config snapshot; immutable. */
typedef struct sg_route {
    const char *name;
    const char *host;               /* lower case; NULL = any */
    unsigned methods;               /* bits 1u << sg_method_t; SG_METHODS_ALL when absent */
    const char *pattern;            /* path as written: the only form that reaches keys, metrics, logs */
    sg_auth_t auth;
    unsigned *limits;               /* indexes into sg_tenant_t.limits: of all its classes, each once */
    size_t limit_count;
    int64_t cost;                   /* units, or the reserve */
    sg_cost_from_t cost_from;
    sg_str_t cost_header;
    const struct sg_upstream_conf *upstream;        /* NULL with respond */
    bool odd_paths_pass;
    sg_str_t rewrite;               /* path template; empty = none */
    sg_str_t strip_prefix;          /* empty = none */
    sg_field_edit_t request_fields, response_fields;
    int64_t max_body_bytes;         /* 0 = the server's */
    int64_t timeout_us;             /* 0 = the upstream's */
    sg_on_failure_t on_failure;
    bool respond;
    unsigned respond_status;
    sg_str_t respond_body;
    sg_fields_t respond_fields;
    unsigned metric;                /* id from metrics/ */
} sg_route_t;

#define SG_PARAMS_MAX 16

typedef struct {
    sg_str_t name, raw;             /* name without ':'; the segment's bytes as they came */
} sg_param_t;

typedef struct {
    const sg_route_t *route;        /* NULL: none */
    unsigned allow;                 /* no route, but the path has some for these methods: 405 */
    sg_param_t params[SG_PARAMS_MAX];
    size_t param_count;
    size_t rest;                    /* first segment that slash-star covers; segment_count when none */
} sg_match_t;

typedef struct sg_router sg_router_t;

sg_router_t *sg_router_new(void);
void sg_router_free(sg_router_t *r);
/* The route is referenced, not copied. SG_ERR_SYNTAX: bad host, methods, pattern, rewrite or
 * strip_prefix (why says what); SG_ERR_EXISTS: *other matches the same requests: same host, same pattern
 * but for the parameters' names, and a method in common. A route that names its methods is more specific
 * than one that serves all. */
SG_MUST sg_err_t sg_router_add(sg_router_t *r, const sg_route_t *route, const sg_route_t **other,
                               sg_why_t *why);
/* Most specific match of host (lower case, no port; may be empty), path and method: an exact host before
 * any host, then, segment by segment from the left, a literal before :param before slash-star. HEAD is
 * served by a route that allows GET. A trailing slash makes no other route, unless one is written with
 * it. Literals are hashed, so a match costs what the path's length and the parameters that stand beside
 * literals ask for, not the number of routes. Asterisk-form matches nothing. Views in *out live as long
 * as the target and the router. */
void sg_router_match(const sg_router_t *r, sg_str_t host, sg_method_t method, const sg_target_t *target,
                     sg_match_t *out);

/* The path to send upstream, without query, from raw bytes: rewrite, strip_prefix, or the path as it
 * came. Begins with '/'. In the arena or a view of the target. `m` is this route's match of this target. */
sg_str_t sg_route_path(const sg_route_t *route, const sg_match_t *m, const sg_target_t *target,
                       sg_arena_t *arena);

/* "GET, HEAD, POST" for Allow; HEAD is added where GET is. */
void sg_allow_text(unsigned methods, sg_buf_t *out);

/* Request variables for ${...} in field values. */
typedef struct {
    sg_str_t tenant, key_id, plan, route, request_id, client_ip, host;
} sg_vars_t;
/* Known names: tenant key_id plan route request_id client_ip host; "$$" is a dollar, so is one that
 * stands alone. Expanded text in the arena, or `text` itself when it has no dollar; bytes that no field
 * value may hold become '?'. What sg_vars_check refuses expands to nothing. */
sg_str_t sg_vars_expand(const sg_vars_t *v, sg_str_t text, sg_arena_t *arena);
/* Every ${name} known and closed? Else SG_ERR_SYNTAX and *bad is the name. */
SG_MUST sg_err_t sg_vars_check(sg_str_t text, sg_str_t *bad);

#endif
