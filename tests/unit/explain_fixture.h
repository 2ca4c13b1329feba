/* explain_fixture.h - `slotgate explain` run in this process on a config of its own, and its JSON. */
#ifndef SG_TESTS_EXPLAIN_FIXTURE_H
#define SG_TESTS_EXPLAIN_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/cli.h"

static const char explain_config[] =
    "server: {listen: 127.0.0.1:8080, trusted_proxies: [10.0.0.0/8]}\n"
    "store: {%s}\n"
    "identity:\n"
    "  api_key: [{header: X-API-Key}, {header: Authorization, scheme: Bearer}, {query: api_key}]\n"
    "  failures: {limit: 20, window: 1d}\n"
    "classes:\n"
    "  all: [{name: daily, algorithm: fixed_window, limit: 1000, window: 1d, per: tenant}]\n"
    "  search:\n"
    "    - {name: burst, algorithm: token_bucket, capacity: 20, refill: 10/s, per: key}\n"
    "    - {name: trial, algorithm: gcra, rate: 5/s, burst: 10, per: ip, dry_run: true}\n"
    "plans: {gold: {all.daily: {limit: unlimited}}}\n"
    "tenants:\n"
    "  acme: {plan: gold, keys: [{id: prod, sha256: %s}, {id: old, sha256: %s, disabled: true}]}\n"
    "  free: {keys: [{id: only, sha256: %s}]}\n"
    "upstreams: {users: {targets: [{url: http://127.0.0.1:9}]}}\n"
    "routes:\n"
    "  - name: user-search\n"
    "    match: {host: api.example.com, methods: [GET], path: /v1/users/:id/search}\n"
    "    classes: [all, search]\n"
    "    cost: 2\n"
    "    upstream: users\n"
    "    rewrite: {path: /users/:id/find}\n"
    "  - {name: rest, match: {path: /*}, auth: optional, classes: [all], upstream: users}\n"
    "  - {name: hello, match: {methods: [GET], path: /hello}, auth: none, respond: {status: 203, body: hi}}\n"
    "  - {name: post, match: {methods: [POST], host: only.test, path: /p}, auth: none, upstream: users}\n";

static char config_path[64], output_path[64];

static inline const char *digest_of(const char *key, char hex[SG_SHA256_HEX + 1])
{
    uint8_t digest[SG_SHA256_BYTES];
    sg_sha256(sg_str(key), digest);
    sg_hex(digest, sizeof digest, hex);
    hex[SG_SHA256_HEX] = '\0';
    return hex;
}

static inline void write_config(const char *store)
{
    char a[SG_SHA256_HEX + 1], b[SG_SHA256_HEX + 1], c[SG_SHA256_HEX + 1];
    FILE *f = fopen(config_path, "w");
    assert_non_null(f);
    /* The format is this file's own. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    fprintf(f, explain_config, store, digest_of("k-prod", a), digest_of("k-old", b), digest_of("k-only", c));
#pragma GCC diagnostic pop
    assert_int_equal(fclose(f), 0);
}

static inline void explain_files_make(void)
{
    snprintf(config_path, sizeof config_path, "/tmp/slotgate-explain-XXXXXX");
    snprintf(output_path, sizeof output_path, "/tmp/slotgate-explain-out-XXXXXX");
    int a = mkstemp(config_path), b = mkstemp(output_path);
    assert_true(a >= 0 && b >= 0);
    close(a);
    close(b);
}

static inline void explain_files_remove(void)
{
    unlink(config_path);
    unlink(output_path);
}

/* Runs it with stdout in a file, and without stderr. */
static inline int run(const char *const *args)
{
    char *argv[24] = {sg_strdup("explain")};
    int argc = 1, out = dup(1), err = dup(2), nothing = open("/dev/null", O_WRONLY);
    for (; args[argc - 1]; argc++)
        argv[argc] = sg_strdup(args[argc - 1]);
    fflush(stdout);
    assert_non_null(freopen(output_path, "w", stdout));
    assert_int_equal(dup2(nothing, 2), 2);
    int status = sg_cli_explain(argc, argv);
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    close(nothing);
    for (int i = 0; i < argc; i++)
        sg_free(argv[i]);
    return status;
}

static inline json_t *explain(int status, const char *method, const char *url, const char *field,
                              const char *peer)
{
    const char *args[] = {"-c", config_path, "--json", "--peer", peer ? peer : "192.0.2.1", "-H",
                          field ? field : "A: b", "-H", "Host: api.example.com", method, url, NULL};
    json_error_t error;
    int got = run(args);
    json_t *all = json_load_file(output_path, 0, &error);
    if (!all || got != status)
        fail_msg("%s %s: status %d, %s", method, url, got, all ? "JSON" : error.text);
    return all;
}

/* "a.b.c" of nested objects and arrays, as text. */
static inline const char *at(const json_t *all, const char *path)
{
    static char text[512];
    sg_str_t rest = sg_str(path), part;
    const json_t *v = all;
    while (rest.n > 0 && sg_str_next(&rest, '.', &part)) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", SG_STR_ARG(part));
        v = json_is_array(v) ? json_array_get(v, (size_t)(name[0] - '0')) : json_object_get(v, name);
    }
    if (json_is_string(v))
        return json_string_value(v);
    if (json_is_integer(v))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else
        return !v ? "absent" : json_is_true(v) ? "true" : json_is_null(v) ? "null" : "false";
    return text;
}

#endif
