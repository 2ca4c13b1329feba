/* schema.c - the table of keys. */
#include "config/schema.h"

#include "config/load.h"

#define AT(type, field)  .offset = offsetof(type, field)
#define YEAR_US          (366 * SG_DAY_US)
#define MS               INT64_C(1000)
#define S                SG_SECOND_US
#define DURATION(lo, hi) .type = SG_TYPE_DURATION, .min = (lo), .max = (hi)
#define SIZE(lo, hi)     .type = SG_TYPE_SIZE, .min = (lo), .max = (hi)
#define INT(lo, hi)      .type = SG_TYPE_INT, .min = (lo), .max = (hi)
#define UINT(lo, hi)     .type = SG_TYPE_UINT, .min = (lo), .max = (hi)
#define WORD(w)          .type = SG_TYPE_WORD, .words = (w)
#define BOOL             .type = SG_TYPE_BOOL
#define STRING           .type = SG_TYPE_STRING
#define READABLE         .type = SG_TYPE_FILE
#define SECRET           .type = SG_TYPE_SECRET, .what = "path of a file with a secret"
#define MAP(s)           .type = SG_TYPE_MAP, .shape = &(s), .infix = ""
#define OWN(w, fn)       .type = SG_TYPE_OWN, .what = (w), .load = (fn)
#define KEEP(w)          OWN(w, sg_load_node)
#define BELOW(s, path)   .shape = &(s), .infix = (path)
#define STATIC_SHAPE(id, text)                                                                               \
    static const sg_shape_t sg_shape_##id = {text, id##_rows, sizeof id##_rows / sizeof id##_rows[0]}
#define SHAPE(id, text)                                                                                      \
    const sg_shape_t sg_shape_##id = {text, id##_rows, sizeof id##_rows / sizeof id##_rows[0]}

static const sg_key_row_t server_tls_rows[] = {
    {"certificate", READABLE, .help = "certificate chain, PEM", AT(sg_server_conf_t, tls_certificate),
     .required = true},
    {"key", READABLE, .help = "private key, PEM", AT(sg_server_conf_t, tls_key), .required = true},
    {"client_ca", READABLE,
     .help = "authorities, PEM, one of which must have signed the client's certificate; 403 without one",
     AT(sg_server_conf_t, tls_client_ca)},
};
STATIC_SHAPE(server_tls, "the server's TLS");

static const sg_key_row_t server_rows[] = {
    {"listen", OWN("address, or a list of them", sg_load_endpoints),
     .help = "where clients connect: host:port, [v6]:port, unix:/path; "
             "sockets that systemd hands over go before it",
     AT(sg_server_conf_t, listen), .fallback = "\"0.0.0.0:8080\""},
    {"workers", OWN("integer or auto", sg_load_workers),
     .help = "event loops, one thread each; auto: one for every core this process may "
             "use",
     AT(sg_server_conf_t, workers), .max = 1024, .range = "1 to 1024, or auto", .fallback = "auto"},
    {"tls", MAP(sg_shape_server_tls), .help = "TLS towards clients; absent: plain HTTP",
     .optional_map = true},
    {"trusted_proxies", OWN("list of addresses and prefixes", sg_load_trusted),
     .help = "whose X-Forwarded-For and X-Forwarded-Proto are "
             "believed, and whose Forwarded, X-Real-IP and other X-Forwarded-* fields go on",
     .fallback = "[]"},
    {"max_connections", INT(1, 10000000), .help = "clients' connections at once, over all workers",
     AT(sg_server_conf_t, max_connections), .fallback = "10000"},
    {"max_connections_per_ip", INT(0, 10000000),
     .help = "connections of one client address at once, over all workers; 0: no bound",
     AT(sg_server_conf_t, max_connections_per_ip), .fallback = "0"},
    {"max_header_size", SIZE(1024, 1 << 20), .help = "size of a request's head; 431 beyond",
     AT(sg_server_conf_t, max_header_bytes), .fallback = "32KiB"},
    {"max_body_size", SIZE(1, INT64_C(1) << 40),
     .help = "size of a request's body; 413 beyond; a route may differ", AT(sg_server_conf_t, max_body_bytes),
     .fallback = "10MiB"},
    {"header_timeout", DURATION(10 * MS, 3600 * S), .help = "time for a request's head; 408 beyond",
     AT(sg_server_conf_t, header_timeout_us), .fallback = "10s"},
    {"idle_timeout", DURATION(10 * MS, SG_DAY_US), .help = "time a kept-alive connection may idle",
     AT(sg_server_conf_t, idle_timeout_us), .fallback = "60s"},
    {"drain_timeout", DURATION(0, SG_DAY_US), .help = "time for exchanges to finish at shutdown",
     AT(sg_server_conf_t, drain_timeout_us), .fallback = "30s"},
    {"headers", WORD("draft legacy both none"),
     .help = "dialect of the rate-limit fields: draft (RateLimit-Policy, RateLimit), legacy "
             "(X-RateLimit-*), both, none",
     AT(sg_server_conf_t, dialect), .fallback = "draft"},
    {"watch", BOOL, .help = "reload when the file changes", AT(sg_server_conf_t, watch), .fallback = "false"},
};
SHAPE(server, "the section server");

static const sg_key_row_t admin_rows[] = {
    {"listen", OWN("address, or a list of them", sg_load_endpoints),
     .help = "where /metrics, /healthz, /readyz, /status and the page are", AT(sg_admin_raw_t, conf.listen),
     .fallback = "127.0.0.1:9180"},
    {"token_file", SECRET,
     .help = "token that admin requests carry as Authorization: Bearer; required when not on loopback or a "
             "unix socket",
     AT(sg_admin_raw_t, token)},
};
SHAPE(admin, "the section admin");

static const sg_key_row_t log_rows[] = {
    {"level", WORD("error warn info debug"), .help = "least important lines that are written",
     AT(sg_log_conf_t, level), .fallback = "info"},
    {"format", OWN("json or text", sg_load_format),
     .help = "form of the gateway's own log lines; the access log is always JSON", AT(sg_log_conf_t, json),
     .fallback = "json"},
    {"access", OWN("stdout, off, or a path", sg_load_access), .help = "where the access log goes, in JSON",
     AT(sg_log_conf_t, access), .fallback = "stdout"},
};
SHAPE(log, "the section log");

static const sg_key_row_t metrics_rows[] = {
    {"max_tenants", .type = SG_TYPE_COUNT,
     .help = "tenants that have label values of their own; the rest counts as _other",
     AT(sg_config_t, max_tenants), .min = 0, .max = 1000000, .fallback = "1000"},
};
SHAPE(metrics, "the section metrics");

static const sg_key_row_t store_rows[] = {
    {"type", WORD("memory redis"), .help = "memory: counters of this process; redis: shared by all gateways",
     AT(sg_store_raw_t, conf.type), .fallback = "memory"},
    {"url", OWN("URL", sg_load_store_url), .help = "redis://host:port/db, rediss:// with TLS, unix:///path",
     AT(sg_store_raw_t, url), .fallback = "redis://127.0.0.1:6379/0"},
    {"mode", WORD("standalone sentinel cluster"), .help = "how the Redis is run",
     AT(sg_store_raw_t, conf.mode), .fallback = "standalone"},
    {"nodes", KEEP("list of host:port"), .help = "sentinel, cluster: servers to ask first",
     AT(sg_store_raw_t, nodes)},
    {"master", STRING, .help = "sentinel: name of the master", AT(sg_store_raw_t, conf.master)},
    {"username", STRING, .help = "user of Redis's ACL", AT(sg_store_raw_t, conf.username)},
    {"password_file", SECRET, .help = "password of Redis", AT(sg_store_raw_t, password)},
    {"timeout", DURATION(1 * MS, 60 * S), .help = "deadline of one decision: queue, connection and reply",
     AT(sg_store_raw_t, conf.timeout_us), .fallback = "100ms"},
    {"on_failure", OWN("local, open or closed", sg_load_on_failure),
     .help = "when the store does not answer: local (this process's own "
             "counters decide), open (forward), closed (503)",
     AT(sg_store_raw_t, conf.on_failure), .fallback = "local"},
    {"local_share", OWN("number", sg_load_share),
     .help = "share of each limit that one process admits while the store is away",
     AT(sg_store_raw_t, conf.local_share_ppm), .range = "0 to 1, at most 6 decimals", .fallback = "1.0"},
    {"key_prefix", OWN("name", sg_load_key_part), .help = "first part of key names",
     AT(sg_store_raw_t, conf.key_prefix), .max = 16, .range = "1 to 16 of A-Z a-z 0-9 _ -", .fallback = "rl"},
    {"key_version", OWN("name", sg_load_key_part), .help = "part of key names to start afresh with",
     AT(sg_store_raw_t, conf.key_version), .max = 8, .range = "1 to 8 of A-Z a-z 0-9 _ -", .fallback = "v1"},
    {"deny_cache", BOOL, .help = "answer repeated denials without asking Redis",
     AT(sg_store_raw_t, conf.deny_cache), .fallback = "true"},
};
SHAPE(store, "the section store");

static const sg_key_row_t source_rows[] = {
    {"header", STRING, .help = "header field that holds the key", AT(sg_source_raw_t, header)},
    {"scheme", STRING, .help = "with header: the word before the key, as in Authorization: Bearer",
     AT(sg_source_raw_t, scheme)},
    {"query", STRING, .help = "query parameter that holds the key", AT(sg_source_raw_t, query)},
};
SHAPE(source, "a source of API keys");

static const sg_key_row_t failures_rows[] = {
    {"limit", OWN("integer or unlimited", sg_load_limit_number), .help = "bad keys in one window",
     AT(sg_identity_raw_t, failures.limit), .max = SG_LIMIT_NUMBER_MAX,
     .range = "0 to 9007199254740991, or unlimited", .fallback = "20"},
    {"window", DURATION(1 * MS, YEAR_US), .help = "the window, aligned to the epoch",
     AT(sg_identity_raw_t, failures.window_us), .fallback = "1m"},
};
STATIC_SHAPE(failures, "the limit of bad keys");

static const sg_key_row_t identity_rows[] = {
    {"api_key", KEEP("list of sources"),
     .help = "where API keys are looked for, in order; the first that is present decides",
     AT(sg_identity_raw_t, sources),
     .fallback = "[{header: X-API-Key}, {header: Authorization, scheme: Bearer}]",
     BELOW(sg_shape_source, "[]")},
    {"forward_key", BOOL, .help = "leave the key on the request that goes upstream",
     AT(sg_identity_raw_t, forward_key), .fallback = "false"},
    {"secret_file", SECRET,
     .help = "HMAC secret for the hashes in key names; without it an IPv4 address can be found from its hash",
     AT(sg_identity_raw_t, secret)},
    {"ipv6_prefix", UINT(1, 128), .help = "bits of an IPv6 address that make one client",
     AT(sg_identity_raw_t, ipv6_prefix), .fallback = "64"},
    {"failures", MAP(sg_shape_failures),
     .help = "bad keys that one client address may send before it gets 429 for them"},
};
SHAPE(identity, "the section identity");

#define ALGORITHMS "token_bucket gcra fixed_window sliding_window sliding_log concurrency"
#define LIMIT_ROWS                                                                                           \
    {"capacity", INT(0, SG_LIMIT_NUMBER_MAX), .help = "token_bucket: tokens it holds",                       \
     AT(sg_limit_raw_t, capacity)},                                                                          \
        {"refill", .type = SG_TYPE_RATE, .help = "token_bucket: tokens that come back",                      \
         AT(sg_limit_raw_t, refill)},                                                                        \
        {"rate", .type = SG_TYPE_RATE, .help = "gcra: sustained rate", AT(sg_limit_raw_t, rate)},            \
        {"burst", INT(0, SG_LIMIT_NUMBER_MAX), .help = "gcra: units at once", AT(sg_limit_raw_t, burst)},    \
        {"limit",                                                                                            \
         OWN("integer or unlimited", sg_load_limit_number),                                                  \
         .help = "windows: units in a window; concurrency: requests in flight; "                             \
                 "0 denies all; unlimited (plans and tenants only, any algorithm) switches the limit off",   \
         AT(sg_limit_raw_t, limit),                                                                          \
         .max = SG_LIMIT_NUMBER_MAX,                                                                         \
         .range = "0 to 9007199254740991, or unlimited"},                                                    \
        {"window", DURATION(1 * MS, YEAR_US), .help = "windows: length", AT(sg_limit_raw_t, window_us)},     \
        {"precision", INT(1, 100), .help = "sliding_window: sub-windows in a window",                        \
         AT(sg_limit_raw_t, precision), .fallback = "10"},                                                   \
        {"lease", DURATION(1 * S, YEAR_US),                                                                  \
         .help = "concurrency: a slot that a crashed gateway holds lapses after it",                         \
         AT(sg_limit_raw_t, lease_us), .fallback = "60s"},                                                   \
    {                                                                                                        \
        "dry_run", BOOL, .help = "evaluate and count, never deny", AT(sg_limit_raw_t, dry_run),              \
                         .fallback = "false"                                                                 \
    }

static const sg_key_row_t limit_rows[] = {
    {"name", STRING, .help = "name in its class; the limit is class.name in headers, metrics and overrides",
     AT(sg_limit_raw_t, name), .range = "1 to 32 of A-Z a-z 0-9 _ -", .required = true},
    {"algorithm", WORD(ALGORITHMS), .help = "how it counts", AT(sg_limit_raw_t, algo), .required = true},
    LIMIT_ROWS,
    {"per", WORD("tenant key ip all"),
     .help = "whose counter it is; per key counts anonymous callers per IP; "
             "all: one budget for everybody",
     AT(sg_limit_raw_t, per), .fallback = "tenant"},
    {"block", INT(1, SG_LIMIT_NUMBER_MAX),
     .help = "per all, in Redis: most units that a gateway takes ahead; without it each request's units are "
             "taken when it comes, with store.mode cluster a hundredth of the limit is taken ahead",
     AT(sg_limit_raw_t, block)},
};
SHAPE(limit, "a limit");

static const sg_key_row_t override_rows[] = {LIMIT_ROWS};
SHAPE(override, "an override of a limit");

static const sg_key_row_t key_rows[] = {
    {"id", STRING, .help = "name of the key in logs", AT(sg_key_raw_t, id),
     .range = "1 to 64 of A-Z a-z 0-9 _ - .", .required = true},
    {"sha256", KEEP("64 hexadecimal digits"),
     .help = "SHA-256 of the key (slotgate key new, slotgate key hash)", AT(sg_key_raw_t, digest),
     .required = true},
    {"expires", KEEP("RFC 3339 time"), .help = "from then on the key answers 401", AT(sg_key_raw_t, expires)},
    {"disabled", BOOL, .help = "the key answers 401", AT(sg_key_raw_t, disabled), .fallback = "false"},
};
SHAPE(key, "an API key");

static const sg_key_row_t tenant_rows[] = {
    {"plan", KEEP("name of a plan"), .help = "its plan", AT(sg_tenant_raw_t, plan)},
    {"keys", KEEP("list of API keys"), .help = "its API keys", AT(sg_tenant_raw_t, keys), .fallback = "[]",
     BELOW(sg_shape_key, "[]")},
    {"limits", KEEP("map of limit names"),
     .help = "overrides of its plan, by class.limit; fields as in plans", AT(sg_tenant_raw_t, limits),
     .fallback = "{}"},
};
SHAPE(tenant, "a tenant");

static const sg_key_row_t target_rows[] = {
    {"url", KEEP("URL"), .help = "http://host[:port], https://host[:port] or unix:/path", .required = true},
    {"weight", UINT(1, 1000), .help = "share of the requests, against the other targets",
     AT(sg_target_conf_t, weight), .fallback = "1"},
};
SHAPE(target, "a target");

#define HEALTH(field) AT(sg_upstream_conf_t, health.field)
static const sg_key_row_t health_rows[] = {
    {"path", OWN("path", sg_load_request_path), .help = "what is asked for with GET", HEALTH(path),
     .required = true},
    {"interval", DURATION(100 * MS, SG_DAY_US), .help = "time between two checks of a target",
     HEALTH(interval_us), .fallback = "5s"},
    {"timeout", DURATION(10 * MS, 3600 * S), .help = "time for an answer", HEALTH(timeout_us),
     .fallback = "1s"},
    {"healthy", UINT(1, 1000), .help = "good answers in a row that bring a target back", HEALTH(healthy),
     .fallback = "2"},
    {"unhealthy", UINT(1, 1000), .help = "bad answers in a row that take it out", HEALTH(unhealthy),
     .fallback = "3"},
    {"status", OWN("status or range", sg_load_status_range), .help = "good statuses", HEALTH(status_min),
     .range = "100 to 599, as 200 or "
              "200-399",
     .fallback = "200-399"},
};
STATIC_SHAPE(health, "health checks");

static const sg_key_row_t eject_rows[] = {
    {"failures", UINT(1, 1000000), .help = "connect errors and 5xx in a row",
     AT(sg_upstream_conf_t, eject.failures), .fallback = "5"},
    {"for", DURATION(1 * MS, SG_DAY_US), .help = "how long the target is left out",
     AT(sg_upstream_conf_t, eject.for_us), .fallback = "30s"},
};
STATIC_SHAPE(eject, "ejection");

static const sg_key_row_t upstream_tls_rows[] = {
    {"verify", BOOL, .help = "check the server's certificate and name", AT(sg_upstream_conf_t, tls.verify),
     .fallback = "true"},
    {"ca", READABLE, .help = "certificates to trust, PEM; absent: the system's",
     AT(sg_upstream_conf_t, tls.ca)},
    {"server_name", STRING, .help = "name to ask for and to check; absent: the host of the URL",
     AT(sg_upstream_conf_t, tls.server_name)},
    {"certificate", READABLE, .help = "client certificate, PEM", AT(sg_upstream_conf_t, tls.certificate)},
    {"key", READABLE, .help = "its private key, PEM", AT(sg_upstream_conf_t, tls.key)},
};
STATIC_SHAPE(upstream_tls, "an upstream's TLS");

static const sg_key_row_t upstream_rows[] = {
    {"targets", OWN("list of targets", sg_load_targets), .help = "servers of this upstream", .required = true,
     BELOW(sg_shape_target, "[]")},
    {"balance", WORD("round_robin least_requests hash"),
     .help = "which target gets a request; hash: consistent, by the caller", AT(sg_upstream_conf_t, balance),
     .fallback = "round_robin"},
    {"connect_timeout", DURATION(1 * MS, 3600 * S), .help = "time to connect, TLS included",
     AT(sg_upstream_conf_t, connect_timeout_us), .fallback = "1s"},
    {"timeout", DURATION(1 * MS, SG_DAY_US), .help = "time to the answer's first byte; 504 beyond",
     AT(sg_upstream_conf_t, timeout_us), .fallback = "30s"},
    {"idle_timeout", DURATION(1 * MS, SG_DAY_US), .help = "time between two bytes of a body",
     AT(sg_upstream_conf_t, idle_timeout_us), .fallback = "60s"},
    {"max_requests", INT(0, 10000000),
     .help = "requests in flight per target, over all workers; 0: no bound; 503 beyond",
     AT(sg_upstream_conf_t, max_requests), .fallback = "0"},
    {"retries", UINT(0, 10),
     .help = "further attempts, before a byte of the answer has come; idempotent methods only, or when "
             "nothing was "
             "sent",
     AT(sg_upstream_conf_t, retries), .fallback = "1"},
    {"retry_on", OWN("list of words", sg_load_retry_on), .help = "what is tried again",
     AT(sg_upstream_conf_t, retry_on), .words = "connect reset 502 503 504",
     .range = "connect, reset, 502, 503, 504", .fallback = "[connect, reset]"},
    {"resolve_interval", DURATION(1 * S, SG_DAY_US), .help = "names are looked up again after it",
     AT(sg_upstream_conf_t, resolve_interval_us), .fallback = "30s"},
    {"health", MAP(sg_shape_health),
     .help = "active checks: a target that fails them is left out, unless all are out; absent: none",
     .optional_map = true},
    {"eject", MAP(sg_shape_eject),
     .help = "a target that fails in a row is left out for a while, unless all are out; absent: never",
     .optional_map = true},
    {"tls", MAP(sg_shape_upstream_tls), .help = "for https:// targets"},
    {"preserve_host", BOOL, .help = "send the client's Host upstream, not the target's",
     AT(sg_upstream_conf_t, preserve_host), .fallback = "false"},
};
SHAPE(upstream, "an upstream");

static const sg_key_row_t match_rows[] = {
    {"host", KEEP("host name"), .help = "host of the request; absent: any"},
    {"methods", KEEP("list of methods"),
     .help = "of GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS; absent: all, others too; GET serves HEAD"},
    {"path", KEEP("path pattern"), .help = "/literal/:param segments, /* at the end for all below",
     .required = true},
};
SHAPE(match, "a match");

static const sg_key_row_t cost_from_rows[] = {
    {"response_header", KEEP("header name"), .help = "field of the answer that holds the units"},
};
SHAPE(cost_from, "the source of a cost");

static const sg_key_row_t cost_rows[] = {
    {"reserve", KEEP("integer"), .help = "units taken before the request goes on",
     .range = "1 to 9007199254740991", .required = true},
    {"from", KEEP("response_kib, or a map"),
     .help = "what the units are settled by after the answer: response_kib (each KiB begun of its "
             "body), or a header",
     .required = true, BELOW(sg_shape_cost_from, "")},
};
SHAPE(cost, "a cost");

static const sg_key_row_t rewrite_rows[] = {
    {"path", KEEP("path template"),
     .help = "path to send; :name stands for a parameter of the match, /* at the end for the rest"},
    {"strip_prefix", KEEP("path"), .help = "leading segments to take off"},
};
SHAPE(rewrite, "a rewrite");

static const sg_key_row_t fields_rows[] = {
    {"set", KEEP("map of names to values"),
     .help = "fields to set, replacing those of that name; values may hold ${tenant}, ${key_id}, "
             "${plan}, ${route}, ${request_id}, ${client_ip}, ${host}"},
    {"remove", KEEP("list of names"), .help = "fields to remove"},
};
SHAPE(fields, "header edits");

static const sg_key_row_t respond_rows[] = {
    {"status", KEEP("integer"), .help = "status of the answer", .range = "200 to 599", .fallback = "200"},
    {"body", KEEP("string"), .help = "body of the answer", .fallback = "\"\""},
    {"headers", KEEP("map of names to values"), .help = "fields of the answer"},
};
SHAPE(respond, "an answer");

static const sg_key_row_t route_rows[] = {
    {"name", STRING, .help = "its name in metrics and logs", AT(sg_route_raw_t, name),
     .range = "1 to 64 of A-Z a-z 0-9 _ - .", .required = true},
    {"match", KEEP("map"),
     .help = "which requests; the most specific route wins: host, then literal segments before :params "
             "before /*, "
             "then method",
     AT(sg_route_raw_t, match), .required = true, BELOW(sg_shape_match, "")},
    {"auth", WORD("required optional none"),
     .help = "API key: required (401 without), optional (anonymous without), none (keys are ignored)",
     AT(sg_route_raw_t, auth),
     .range = "required, optional, none; default: required with classes, else optional"},
    {"classes", KEEP("list of classes"), .help = "whose limits apply", AT(sg_route_raw_t, classes),
     .fallback = "[]"},
    {"cost", KEEP("integer, or a map"), .help = "units that one request takes of each limit",
     AT(sg_route_raw_t, cost), .range = "0 to 9007199254740991", .fallback = "1", BELOW(sg_shape_cost, "")},
    {"upstream", KEEP("name of an upstream"),
     .help = "where requests go; exactly one of upstream and respond", AT(sg_route_raw_t, upstream)},
    {"odd_paths", WORD("refuse pass"),
     .help = "paths with // or ;, which upstreams read in different ways: 400, or on",
     AT(sg_route_raw_t, odd_paths), .fallback = "refuse"},
    {"rewrite", KEEP("map"), .help = "another path upstream", AT(sg_route_raw_t, rewrite),
     BELOW(sg_shape_rewrite, "")},
    {"strip_prefix", KEEP("path"), .help = "short for rewrite.strip_prefix",
     AT(sg_route_raw_t, strip_prefix)},
    {"request_headers", KEEP("map"), .help = "fields of the request that goes upstream",
     AT(sg_route_raw_t, request_headers), BELOW(sg_shape_fields, "")},
    {"response_headers", KEEP("map"), .help = "fields of the answer", AT(sg_route_raw_t, response_headers),
     BELOW(sg_shape_fields, "")},
    {"max_body_size", SIZE(1, INT64_C(1) << 40), .help = "instead of server.max_body_size",
     AT(sg_route_raw_t, max_body_bytes)},
    {"timeout", DURATION(1 * MS, SG_DAY_US), .help = "instead of the upstream's timeout",
     AT(sg_route_raw_t, timeout_us)},
    {"on_store_failure", OWN("local, open or closed", sg_load_on_failure),
     .help = "instead of store.on_failure", AT(sg_route_raw_t, on_failure)},
    {"respond", KEEP("map"), .help = "the gateway answers itself", AT(sg_route_raw_t, respond),
     BELOW(sg_shape_respond, "")},
};
SHAPE(route, "a route");

#define SECTION(s)        .type = SG_TYPE_OWN, .what = "map", .shape = &sg_shape_##s, .infix = ""
#define TABLE(w, s, path) .type = SG_TYPE_OWN, .what = (w), .shape = &sg_shape_##s, .infix = (path)
static const sg_key_row_t top_rows[] = {
    {"server", SECTION(server), .help = "towards clients"},
    {"admin", SECTION(admin), .help = "the admin listener"},
    {"log", SECTION(log), .help = "logs"},
    {"metrics", SECTION(metrics), .help = "metrics"},
    {"store", SECTION(store), .help = "where counters live"},
    {"identity", SECTION(identity), .help = "who calls"},
    {"classes", TABLE("map of names to lists of limits", limit, ".CLASS[]"),
     .help = "named groups of limits; routes that name the same "
             "class share its counters"},
    {"plans", TABLE("map of names to overrides", override, ".PLAN.LIMIT"),
     .help = "named overrides of limits, by class.limit"},
    {"tenants", TABLE("map of names to tenants", tenant, ".TENANT"),
     .help = "customers; callers without a key are the tenant anonymous"},
    {"tenants_files", .type = SG_TYPE_OWN, .what = "list of paths with * and ?",
     .help = "further tenants, one map in each file", .fallback = "[]"},
    {"upstreams", TABLE("map of names to upstreams", upstream, ".UPSTREAM"),
     .help = "servers that requests go to"},
    {"routes", TABLE("list of routes", route, "[]"), .help = "what requests match, and where they go"},
};
SHAPE(top, "the config file");
