/* What a good file becomes. */
#include "config_fixture.h"

#include "config/values.h"

static const char example[] =
    "server:\n"
    "  listen: ['0.0.0.0:8080', '[::1]:8081', 'unix:/run/x.sock']\n"
    "  trusted_proxies: [10.0.0.0/8, '::1']\n"
    "  max_body_size: 1MiB\n"
    "  headers: both\n"
    "admin: {listen: '127.0.0.1:9180', token_file: admin.token}\n"
    "log: {level: warn, format: text, access: access.log}\n"
    "metrics: {max_tenants: 7}\n"
    "store: {type: redis, url: 'redis://db.example:6380/3', username: gw, password_file: redis.pass,\n"
    "        timeout: 50ms, on_failure: closed, local_share: 0.5, key_prefix: gw, key_version: v2}\n"
    "identity:\n"
    "  api_key: [{header: X-API-Key}, {header: Authorization, scheme: Bearer}, {query: api_key}]\n"
    "  failures: {limit: 3, window: 10s}\n"
    "classes:\n"
    "  all:\n"
    "    - {name: daily, algorithm: fixed_window, limit: 100000, window: 1d, per: tenant}\n"
    "  search:\n"
    "    - {name: burst, algorithm: token_bucket, capacity: 20, refill: 10/s, per: key}\n"
    "    - {name: minute, algorithm: sliding_window, limit: 300, window: 1m, per: key}\n"
    "  exports:\n"
    "    - {name: slots, algorithm: concurrency, limit: 2, lease: 5m}\n"
    "    - {name: trial, algorithm: gcra, rate: 0.5/s, burst: 10, per: ip, dry_run: true}\n"
    "    - {name: exact, algorithm: sliding_log, limit: 5, window: 250ms, per: ip}\n"
    "plans:\n"
    "  free: {all.daily: {limit: 1000}, search.minute: {limit: 30}}\n"
    "  gold: {all.daily: {limit: unlimited}}\n"
    "tenants:\n"
    "  acme:\n"
    "    plan: gold\n"
    "    keys:\n"
    "      - {id: prod, sha256: 9F86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}\n"
    "      - {id: trial, sha256: 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752,\n"
    "         expires: 2027-01-01T00:00:00Z, disabled: true}\n"
    "    limits: {search.burst: {capacity: 50, refill: 25/s}}\n"
    "  'say \"hi\"': {plan: free}\n"
    "  plain: {}\n"
    "  again: {plan: gold, limits: {all.daily: {limit: 5}}}\n"
    "upstreams:\n"
    "  users:\n"
    "    targets: [{url: 'http://10.0.1.1:8000', weight: 2}, {url: 'https://[::1]'}, {url: "
    "'unix:/run/u.sock'}]\n"
    "    balance: hash\n"
    "    retry_on: [502, reset]\n"
    "    eject: {failures: 9}\n"
    "    tls: {verify: false, server_name: users.internal}\n"
    "routes:\n"
    "  - name: user-search\n"
    "    match: {host: API.Example.com, methods: [GET, HEAD], path: /v1/users/:id/search}\n"
    "    classes: [search, all]\n"
    "    cost: 3\n"
    "    upstream: users\n"
    "    odd_paths: pass\n"
    "    rewrite: {path: '/users/:id/find'}\n"
    "    request_headers: {set: {X-Tenant: '${tenant}', X-Cash: '$$5'}, remove: [X-Debug]}\n"
    "    response_headers: {set: {Strict-Transport-Security: max-age=31536000}, remove: [X-Powered-By]}\n"
    "    max_body_size: 2MiB\n"
    "    timeout: 5s\n"
    "    on_store_failure: open\n"
    "  - {name: rest, match: {path: '/*'}, auth: optional, classes: [exports], upstream: users, "
    "strip_prefix: /}\n"
    "  - name: hello\n"
    "    match: {path: /hello}\n"
    "    respond: {status: 203, body: \"hello\\n\", headers: {Content-Type: text/plain}}\n";

static const char *const side_files[] = {"admin.token", "redis.pass"};

static const sg_config_t *load_example(fixture_t *f)
{
    fixture_write(f, "admin.token", "opensesame\n", 11);
    fixture_write(f, "redis.pass", "pass word\r\n", 11);
    return fixture_good(f, example);
}

static int teardown(void **state)
{
    for (size_t i = 0; i < sizeof side_files / sizeof side_files[0]; i++)
        fixture_remove(*state, side_files[i]);
    return fixture_teardown(state);
}

static bool str_is(sg_str_t s, const char *z)
{
    return sg_str_eq(s, sg_str(z));
}

static void test_sections(void **state)
{
    const sg_config_t *c = load_example(*state);
    char access[192];
    snprintf(access, sizeof access, "%s/access.log", ((fixture_t *)*state)->dir);
    assert_int_equal(c->server.listen.count, 3);
    assert_true(c->server.listen.at[2].is_unix);
    assert_int_equal(c->server.workers, 0);
    assert_int_equal(c->server.max_connections, 10000);
    assert_int_equal(c->server.max_header_bytes, 32768);
    assert_int_equal(c->server.max_body_bytes, 1048576);
    assert_int_equal(c->server.header_timeout_us, 10 * SG_SECOND_US);
    assert_int_equal(c->server.drain_timeout_us, 30 * SG_SECOND_US);
    assert_int_equal(c->server.dialect, SG_DIALECT_BOTH);
    assert_true(str_is(c->admin.token, "opensesame"));
    assert_int_equal(c->log.level, SG_LOG_WARN);
    assert_false(c->log.json);
    assert_string_equal(c->log.access, access);
    assert_int_equal(c->max_tenants, 7);
    assert_int_equal(c->identity.trusted_count, 2);
}

static void test_store(void **state)
{
    const sg_store_conf_t *s = &load_example(*state)->store;
    assert_int_equal(s->type, SG_STORE_REDIS);
    assert_string_equal(s->host, "db.example");
    assert_int_equal(s->port, 6380);
    assert_int_equal(s->db, 3);
    assert_false(s->tls);
    assert_string_equal(s->username, "gw");
    assert_true(str_is(s->password, "pass word"));
    assert_int_equal(s->timeout_us, 50000);
    assert_int_equal(s->on_failure, SG_FAIL_CLOSED);
    assert_int_equal(s->local_share_ppm, 500000);
    assert_true(str_is(s->key_prefix, "gw"));
    assert_true(str_is(s->key_version, "v2"));
}

static void test_identity(void **state)
{
    const sg_identity_conf_t *c = &load_example(*state)->identity;
    assert_int_equal(c->source_count, 3);
    assert_int_equal(c->sources[0].kind, SG_KEY_FROM_HEADER);
    assert_int_equal(c->sources[1].kind, SG_KEY_FROM_SCHEME);
    assert_true(str_is(c->sources[1].scheme, "Bearer"));
    assert_int_equal(c->sources[2].kind, SG_KEY_FROM_QUERY);
    assert_true(str_is(c->sources[2].name, "api_key"));
    assert_int_equal(c->ipv6_prefix, 64);
    assert_int_equal(c->failures.limit, 3);
    assert_int_equal(c->failures.window_us, 10 * SG_SECOND_US);
    assert_int_equal(c->failures.per, SG_PER_IP);
    assert_non_null(c->anonymous);
    assert_true(c->anonymous->anonymous);
}

static void test_limits(void **state)
{
    const sg_config_t *c = load_example(*state);
    assert_int_equal(c->limit_count, 6);
    assert_int_equal(c->class_count, 3);
    assert_string_equal(c->limits[0]->name, "all.daily");
    assert_int_equal(c->limits[0]->window_us, SG_DAY_US);
    assert_string_equal(c->limits[1]->name, "search.burst");
    assert_int_equal(c->limits[1]->limit, 20);
    assert_int_equal(c->limits[1]->rate_count, 1);
    assert_int_equal(c->limits[1]->rate_us, 100000);
    assert_int_equal(c->limits[1]->window_us, 2 * SG_SECOND_US);
    assert_int_equal(c->limits[2]->precision, 10);
    assert_int_equal(c->limits[2]->per, SG_PER_KEY);
    assert_int_equal(c->limits[3]->lease_us, 300 * SG_SECOND_US);
    assert_true(c->limits[4]->dry_run);
    assert_int_equal(c->limits[4]->rate_us, 2 * SG_SECOND_US);
    assert_int_equal(c->limits[5]->window_us, 250000);
    assert_int_equal(c->limits[5]->index, 5);
    assert_int_equal(c->classes[1].limit_count, 2);
    assert_int_equal(c->classes[1].limits[1], 2);
}

static void test_tenants(void **state)
{
    const sg_config_t *c = load_example(*state);
    const sg_tenant_t *acme = sg_config_tenant(c, SG_STR("acme")),
                      *plain = sg_config_tenant(c, SG_STR("plain")),
                      *hi = sg_config_tenant(c, SG_STR("say \"hi\"")),
                      *again = sg_config_tenant(c, SG_STR("again"));
    uint8_t digest[SG_SHA256_BYTES];
    sg_tag_t tag;
    assert_int_equal(c->tenant_count, 5);
    assert_null(sg_config_tenant(c, SG_STR("nobody")));
    assert_string_equal(acme->plan, "gold");
    assert_true(acme->limits[0]->unlimited);
    assert_int_equal(acme->limits[1]->limit, 50);
    assert_int_equal(acme->limits[1]->rate_us, 40000);
    assert_ptr_equal(acme->limits[2], c->limits[2]);
    assert_ptr_equal(plain->limits, c->limits);
    assert_int_equal(hi->limits[0]->limit, 1000);
    assert_int_equal(hi->limits[2]->limit, 30);
    assert_false(again->limits[0]->unlimited);
    assert_int_equal(again->limits[0]->limit, 5);
    sg_tag((sg_str_t){0}, SG_STR("tenant:acme"), &tag);
    assert_string_equal(acme->tag.text, tag.text);
    assert_int_equal(acme->key_count, 2);
    assert_string_equal(acme->keys[0].id, "prod");
    assert_true(acme->keys[1].disabled);
    assert_int_equal(acme->keys[1].expires_us, INT64_C(1798761600000000));
    sg_sha256(SG_STR("test"), digest);
    assert_ptr_equal(sg_key_table_find(c->identity.keys, digest), &acme->keys[0]);
    assert_ptr_equal(acme->keys[0].tenant, acme);
    sg_tag((sg_str_t){0}, SG_STR("key:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
           &tag);
    assert_string_equal(acme->keys[0].hash.text, tag.text);
}

static void test_upstreams(void **state)
{
    const sg_config_t *c = load_example(*state);
    const sg_upstream_conf_t *u = &c->upstreams[0];
    assert_int_equal(c->upstream_count, 1);
    assert_string_equal(u->name, "users");
    assert_int_equal(u->target_count, 3);
    assert_string_equal(u->targets[0].host, "10.0.1.1");
    assert_int_equal(u->targets[0].port, 8000);
    assert_int_equal(u->targets[0].weight, 2);
    assert_string_equal(u->targets[1].host, "::1");
    assert_true(u->targets[1].https);
    assert_int_equal(u->targets[1].port, 443);
    assert_int_equal(u->targets[1].weight, 1);
    assert_null(u->targets[2].host);
    assert_string_equal(u->targets[2].unix_path, "/run/u.sock");
    assert_int_equal(u->balance, SG_BALANCE_HASH);
    assert_int_equal(u->retry_on, SG_RETRY_502 | SG_RETRY_RESET);
    assert_int_equal(u->retries, 1);
    assert_int_equal(u->timeout_us, 30 * SG_SECOND_US);
    assert_null(u->health.path);
    assert_int_equal(u->eject.failures, 9);
    assert_int_equal(u->eject.for_us, 30 * SG_SECOND_US);
    assert_false(u->tls.verify);
    assert_string_equal(u->tls.server_name, "users.internal");
    assert_null(u->tls.ca);
}

static void test_routes(void **state)
{
    const sg_config_t *c = load_example(*state);
    const sg_route_t *r = c->routes[0];
    assert_int_equal(c->route_count, 3);
    assert_string_equal(r->name, "user-search");
    assert_string_equal(r->host, "api.example.com");
    assert_int_equal(r->methods, (1u << SG_METHOD_GET) | (1u << SG_METHOD_HEAD));
    assert_int_equal(r->auth, SG_AUTH_REQUIRED);
    assert_int_equal(r->limit_count, 3);
    assert_int_equal(r->limits[0], 1);
    assert_int_equal(r->limits[1], 2);
    assert_int_equal(r->limits[2], 0);
    assert_int_equal(r->cost, 3);
    assert_ptr_equal(r->upstream, &c->upstreams[0]);
    assert_true(r->odd_paths_pass);
    assert_true(str_is(r->rewrite, "/users/:id/find"));
    assert_int_equal(r->request_fields.set_count, 2);
    assert_true(str_is(r->request_fields.set[0].value, "${tenant}"));
    assert_true(str_is(r->request_fields.set[1].value, "$$5"));
    assert_true(str_is(r->request_fields.remove[0], "X-Debug"));
    assert_true(str_is(r->response_fields.set[0].value, "max-age=31536000"));
    assert_int_equal(r->max_body_bytes, 2097152);
    assert_int_equal(r->timeout_us, 5 * SG_SECOND_US);
    assert_int_equal(r->on_failure, SG_FAIL_OPEN);
    r = c->routes[1];
    assert_null(r->host);
    assert_int_equal(r->methods, SG_METHODS_ALL);
    assert_int_equal(r->auth, SG_AUTH_OPTIONAL);
    assert_int_equal(r->on_failure, SG_FAIL_INHERIT);
    r = c->routes[2];
    assert_int_equal(r->auth, SG_AUTH_OPTIONAL);
    assert_true(r->respond);
    assert_int_equal(r->respond_status, 203);
    assert_true(str_is(r->respond_body, "hello\n"));
    assert_true(str_is(r->respond_fields.at[0].value, "text/plain"));
    assert_null(r->upstream);
}

static void test_defaults(void **state)
{
    const sg_config_t *c = fixture_good(*state, "routes: []\n");
    assert_int_equal(c->server.listen.count, 1);
    assert_string_equal(c->server.listen.at[0].text, "0.0.0.0:8080");
    assert_string_equal(c->admin.listen.at[0].text, "127.0.0.1:9180");
    assert_int_equal(c->store.type, SG_STORE_MEMORY);
    assert_string_equal(c->store.host, "127.0.0.1");
    assert_int_equal(c->store.on_failure, SG_FAIL_LOCAL);
    assert_int_equal(c->store.local_share_ppm, 1000000);
    assert_true(str_is(c->store.key_prefix, "rl"));
    assert_string_equal(c->log.access, "stdout");
    assert_true(c->log.json);
    assert_int_equal(c->max_tenants, 1000);
    assert_int_equal(c->identity.source_count, 2);
    assert_int_equal(c->identity.failures.limit, 20);
    assert_int_equal(c->tenant_count, 1);
    assert_ptr_equal(c->tenants[0], c->identity.anonymous);
    assert_string_equal(c->tenants[0]->name, "anonymous");
}

/* What is printed loads again, prints the same, and has no secret in it. */
static void test_print_round_trip(void **state)
{
    fixture_t *f = *state;
    char *first = NULL, *second = NULL;
    size_t n;
    FILE *out = open_memstream(&first, &n);
    load_example(f);
    sg_config_print(f->config, out);
    fclose(out);
    assert_null(strstr(first, "opensesame"));
    assert_null(strstr(first, "pass word"));
    assert_non_null(strstr(first, "refill: 10/s"));
    assert_non_null(strstr(first, "all.daily: {limit: unlimited}"));
    fixture_good(f, first);
    out = open_memstream(&second, &n);
    sg_config_print(f->config, out);
    fclose(out);
    assert_string_equal(strchr(first, '\n'), strchr(second, '\n'));
    free(first);
    free(second);
}

/* Between { } and [ ] YAML takes ${NAME} in quotes only, so there it may be a number too; and what came from
 * the environment is printed as it was written. */
static void test_environment(void **state)
{
    static const char text[] = "server: {max_connections: \"${SG_TEST_N}\", watch: \"${SG_TEST_TRUE}\"}\n"
                               "log: {access: \"${SG_TEST_WORD}.log\"}\n"
                               "store: {local_share: \"${SG_TEST_SHARE}\"}\n"
                               "routes:\n"
                               "  - name: a\n"
                               "    match: {path: /a}\n"
                               "    cost: \"${SG_TEST_N}\"\n"
                               "    respond: {body: \"$$${SG_TEST_WORD}\"}\n"
                               "    response_headers: {set: {A: \"${SG_TEST_WORD} ${tenant} $$\"}}\n";
    fixture_t *f = *state;
    char *printed = NULL;
    size_t n;
    FILE *out = open_memstream(&printed, &n);
    setenv("SG_TEST_N", "7", 1);
    setenv("SG_TEST_TRUE", "true", 1);
    setenv("SG_TEST_SHARE", "0.5", 1);
    setenv("SG_TEST_WORD", "hunter2", 1);
    fixture_good(f, text);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(f->config->server.max_connections, 7);
        assert_true(f->config->server.watch);
        assert_int_equal(f->config->store.local_share_ppm, 500000);
        assert_int_equal(f->config->routes[0]->cost, 7);
        assert_true(sg_str_eq(f->config->routes[0]->respond_body, SG_STR("$hunter2")));
        assert_true(
            sg_str_eq(f->config->routes[0]->response_fields.set[0].value, SG_STR("hunter2 ${tenant} $$")));
        if (i == 0) {
            sg_config_print(f->config, out);
            fclose(out);
            assert_null(strstr(printed, "hunter2"));
            assert_non_null(strstr(printed, "${SG_TEST_WORD}.log"));
            fixture_good(f, printed);
        }
    }
    free(printed);
}

static void test_listeners_that_clash(void **state)
{
    static const struct {
        const char *server, *admin;
        unsigned findings;
    } cases[] = {
        {"'127.0.0.1:8080'", "'127.0.0.1:8080'", 1},
        {"'0.0.0.0:9180'", "'127.0.0.1:9180'", 1},
        {"['[::]:9180', '0.0.0.0:9181']", "'127.0.0.1:9180'", 0},
        {"['[::]:80', '[::1]:80', '0.0.0.0:80']", "'127.0.0.1:9180'", 1},
        {"['127.0.0.1:80', '127.0.0.2:80']", "'127.0.0.1:81'", 0},
        {"'127.0.0.1:0'", "'127.0.0.1:0'", 0},
        {"'unix:/run/a.sock'", "'unix:/run/a.sock'", 1},
        {"'unix:/run/a.sock'", "'unix:/run/b.sock'", 0},
    };
    fixture_t *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "server: {listen: %s}\nadmin: {listen: %s}\n"
                 "routes: [{name: a, match: {path: /a}, respond: {}}]\n",
                 cases[i].server, cases[i].admin);
        fixture_good(f, text);
        assert_int_equal(f->diags.count, cases[i].findings);
        assert_true(!f->diags.count || strstr(f->diags.at[0].text, "cannot both be listened on"));
    }
}

static void test_warnings(void **state)
{
    fixture_t *f = *state;
    fixture_good(f, "classes:\n"
                    "  unused:\n"
                    "    - {name: a, algorithm: fixed_window, limit: 5, window: 1m}\n"
                    "  c:\n"
                    "    - {name: minute, algorithm: fixed_window, limit: 50, window: 1m}\n"
                    "    - {name: hour, algorithm: fixed_window, limit: 20, window: 1h}\n"
                    "    - {name: log, algorithm: sliding_log, limit: 100000, window: 1h}\n"
                    "    - {name: off, algorithm: fixed_window, limit: 0, window: 1h, per: ip}\n"
                    "plans:\n"
                    "  small: {c.log: {limit: 20}}\n"
                    "tenants: {t: {plan: small}}\n"
                    "tenants_files: [none/*.yaml]\n"
                    "routes:\n"
                    "  - {name: a, match: {path: /a}, classes: [c], cost: 30, respond: {}}\n");
    assert_non_null(fixture_find(f, 2, 3, "class \"unused\" is used by no route"));
    assert_non_null(fixture_find(f, 5, 7, "c.minute can never deny"));
    assert_non_null(fixture_find(f, 6, 7, "c.hour admits 20 units at most, but a route costs 30"));
    assert_non_null(fixture_find(f, 7, 50, "sliding log of 100000 units"));
    assert_non_null(fixture_find(f, 10, 18, "c.log admits 20 units at most, but a route costs 30"));
    assert_non_null(fixture_find(f, 12, 17, "no file matches"));
    assert_int_equal(f->diags.count, 6);
    assert_int_equal(f->diags.errors, 0);
}

/* Keys that are not yet active say so where they stand, and only when they ask for something. */
static void test_inactive(void **state)
{
    fixture_t *f = *state;
    fixture_good(f, "server: {max_connections_per_ip: 0}\n"
                    "store: {mode: standalone,\n"
                    "  url: 'rediss://a/0'}\n"
                    "routes: [{name: a, match: {path: /a}, respond: {}}]\n");
#ifdef HAVE_HIREDIS_SSL
    assert_int_equal(f->diags.count, 0);
#else
    assert_int_equal(f->diags.count, 1);
    assert_int_equal(f->diags.at[0].level, SG_DIAG_INACTIVE);
    assert_non_null(strstr(f->diags.at[0].text, "built without Redis TLS"));
    assert_int_equal(f->diags.at[0].line, 3);
    assert_int_equal(f->diags.at[0].column, 8);
#endif
}

static void test_hash_and_references(void **state)
{
    fixture_t *f = *state;
    char one[17], two[17];
    sg_config_t *kept;
    fixture_good(f, "routes: []\n");
    memcpy(one, f->config->hash, sizeof one);
    assert_int_equal(strlen(one), 16);
    kept = sg_config_ref(f->config);
    fixture_good(f, "routes: []\n# a comment\n");
    memcpy(two, f->config->hash, sizeof two);
    assert_string_not_equal(one, two);
    assert_string_equal(kept->hash, one);
    sg_config_unref(kept);
    fixture_good(f, "routes: []\n");
    assert_string_equal(f->config->hash, one);
    sg_config_unref(NULL);
}

static void test_metric_ids(void **state)
{
    fixture_t *f = *state;
    sg_metrics_t *m = sg_metrics_new();
    const sg_config_t *c = load_example(f);
    unsigned daily;
    assert_int_equal(c->routes[0]->metric, 0);
    fixture_clear(f);
    f->config = sg_config_load(f->path, m, &f->diags);
    c = f->config;
    daily = c->limits[0]->metric;
    assert_int_equal(c->routes[0]->metric, sg_metrics_route(m, "user-search"));
    assert_int_not_equal(c->routes[0]->metric, 0);
    assert_int_equal(sg_config_tenant(c, SG_STR("acme"))->limits[0]->metric, daily);
    assert_int_equal(daily, sg_metrics_limit(m, "all.daily"));
    assert_int_equal(c->upstreams[0].metric, sg_metrics_upstream(m, "users"));
    assert_int_not_equal(c->upstreams[0].targets[0].metric, c->upstreams[0].targets[1].metric);
    assert_int_not_equal(c->identity.anonymous->metric, 0);
    fixture_clear(f);
    sg_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_tenants),
        cmocka_unit_test(test_upstreams),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_print_round_trip),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_listeners_that_clash),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_inactive),
        cmocka_unit_test(test_hash_and_references),
        cmocka_unit_test(test_metric_ids),
    };
    return cmocka_run_group_tests(tests, fixture_setup, teardown);
}
