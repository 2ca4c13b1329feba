/* The admin listener, driven over real sockets. */
#include "admin_fixture.h"

static int set_up(void **state)
{
    fixture_t *f = fixture_new();
    fixture_start(f, small_yaml, false);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_free(*state);
    return 0;
}

/* --- reading ------------------------------------------------------------------------------------------- */

static void test_metrics_in_both_formats(void **state)
{
    fixture_t *f = *state;
    expect(f, "GET", "/metrics", "", 200, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    expect(f, "GET", "/metrics", "", 200, "\n# TYPE slotgate_http_requests_total counter\n");
    expect(f, "GET", "/metrics", "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n",
           200, "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
    char *answer = ask(f, "GET", "/metrics", "Accept: application/openmetrics-text\r\n");
    assert_has(answer, "\n# TYPE slotgate_http_requests counter\n");
    assert_string_equal(answer + strlen(answer) - 6, "# EOF\n");
    sg_free(answer);
}

static void test_health_is_alive(void **state)
{
    expect(*state, "GET", "/healthz", "", 200, "\r\n\r\nok\n");
}

static void test_ready_tells_what_is_missing(void **state)
{
    fixture_t *f = *state;
    expect(f, "GET", "/readyz", "", 200, "\r\n\r\nready\n");
    f->store_up = false; /* the policy `local` serves without the store */
    expect(f, "GET", "/readyz", "", 200, "\r\n\r\nready\n");
    f->draining = true;
    expect(f, "GET", "/readyz", "", 503, "\r\n\r\nnot ready: draining\n");
    f->ready = false;
    expect(f, "GET", "/readyz", "", 503, "\r\n\r\nnot ready: draining workers\n");
    json_t *o = expect_json(f, "GET", "/readyz?verbose", 503), *checks = json_object_get(o, "checks");
    assert_true(json_is_false(json_object_get(o, "ready")));
    assert_true(json_is_true(json_object_get(json_object_get(checks, "config"), "ok")));
    assert_true(json_is_true(json_object_get(json_object_get(checks, "store"), "ok")));
    json_t *workers = json_object_get(checks, "workers");
    assert_string_equal(json_string_value(json_object_get(workers, "detail")), "worker 1 does not turn");
    json_decref(o);
    sg_config_t *config = f->config;
    f->config = NULL;
    expect(f, "GET", "/readyz", "", 503, "not ready: config draining workers\n");
    f->config = config;
}

static void test_status_shows_the_whole(void **state)
{
    fixture_t *f = *state;
    f->load_error = "slotgate.yaml:3:1: unknown key";
    sg_count_request(f->block, &(sg_request_sample_t){.status = 200});
    json_t *o = expect_json(f, "GET", "/status", 200);
    const char *hash, *error, *source, *store, *upstream, *url;
    int tenants, requests, busy, up;
    assert_int_equal(json_unpack(o, "{s:i, s:i, s:{s:s, s:s, s:s}, s:{s:s, s:b}, s:[{s:s, s:[{s:s, s:i}]}]}",
                                 "tenants", &tenants, "requests", &requests, "config", "hash", &hash,
                                 "last_error", &error, "source", &source, "store", "type", &store, "up", &up,
                                 "upstreams", "name", &upstream, "targets", "url", &url, "busy", &busy),
                     0);
    assert_int_equal(tenants, 3); /* anonymous is one */
    assert_int_equal(requests, 1);
    assert_string_equal(hash, f->config->hash);
    assert_string_equal(source, f->config->source);
    assert_string_equal(error, "slotgate.yaml:3:1: unknown key");
    assert_string_equal(store, "redis");
    assert_true(up);
    assert_string_equal(upstream, "users");
    assert_string_equal(url, "http://127.0.0.1:8000");
    assert_int_equal(busy, 2);
    assert_int_equal(json_array_size(json_object_get(o, "workers")), 2);
    json_decref(o);
    f->store_up = false;
    expect(f, "GET", "/status", "", 200, "\"breaker_open\":true");
}

static void test_tenants_come_busiest_first(void **state)
{
    fixture_t *f = *state;
    const sg_tenant_t *t = sg_config_tenant(f->config, SG_STR("big corp/x"));
    const sg_limit_t *daily = t->limits[0];
    sg_request_sample_t s = {
        .tenant = t->metric, .status = 429, .result = SG_RESULT_LIMITED, .request_bytes = 5};
    sg_count_request(f->block, &s);
    sg_count_quota(f->block, t->metric, daily->metric, 0.25, sg_clock_wall_us() + 60000000);
    json_t *o = expect_json(f, "GET", "/tenants", 200), *list = json_object_get(o, "tenants");
    assert_int_equal(json_array_size(list), 3);
    const char *name;
    int limited, bytes, permille;
    assert_int_equal(json_unpack(json_array_get(list, 0), "{s:s, s:{s:i}, s:i, s:{s:i}}", "name", &name,
                                 "results", "limited", &limited, "request_bytes", &bytes,
                                 "quota_used_permille", daily->name, &permille),
                     0);
    assert_string_equal(name, "big corp/x");
    assert_int_equal(limited, 1);
    assert_int_equal(bytes, 5);
    assert_int_equal(permille, 250);
    json_decref(o);
    expect(f, "GET", "/tenants?limit=x", "", 400, "from 0 to 10000");
    expect(f, "GET", "/tenants?limit=10001", "", 400, "from 0 to 10000");
    o = expect_json(f, "GET", "/tenants?limit=1", 200);
    assert_int_equal(json_array_size(json_object_get(o, "tenants")), 1);
    assert_int_equal(json_integer_value(json_object_get(o, "count")), 3);
    json_decref(o);
}

static void test_page_needs_nothing_from_elsewhere(void **state)
{
    char *answer = ask(*state, "GET", "/", "");
    assert_int_equal(status_of(answer), 200);
    assert_has(answer, "Content-Type: text/html; charset=utf-8\r\n");
    assert_has(answer, "Content-Security-Policy: default-src 'none';");
    assert_has(answer, "get(\"/status\"), get(\"/tenants\")");
    assert_null(strstr(body_of(answer), "://"));
    assert_null(strstr(body_of(answer), "innerHTML"));
    assert_has(answer, "</html>");
    sg_free(answer);
}

static void test_head_is_get_without_a_body(void **state)
{
    char *get = ask(*state, "GET", "/healthz", ""), *head = ask(*state, "HEAD", "/healthz", "");
    assert_int_equal(status_of(head), 200);
    assert_string_equal(body_of(head), "");
    assert_has(get, "Content-Length: 3\r\n");
    assert_has(head, "Content-Length: 3\r\n");
    sg_free(get);
    sg_free(head);
    expect(*state, "HEAD", "/metrics", "", 200, "version=0.0.4");
    expect(*state, "HEAD", "/nothing", "", 404, "application/problem+json");
}

static void test_paths_are_strict(void **state)
{
    const char *const bad[] = {
        "/metrics/", "//metrics",     "/Metrics",        "/metrics%2f",          "/status/x",
        "/tenants/", "/tenants/acme", "/tenants//usage", "/tenants/acme/usage/", "/x",
        "/%6detrics"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect(*state, "GET", bad[i], "", 404, "\"title\":\"Not Found\"");
    expect(*state, "GET", "/tenants/%zz/usage", "", 400, "percent-encoded");
    expect(*state, "GET", "/tenants/a%00/usage", "", 400, "percent-encoded");
    expect(*state, "GET", "/tenants/nobody/usage", "", 404, "no tenant of that name");
}

static void test_methods_are_strict(void **state)
{
    fixture_t *f = *state;
    expect(f, "POST", "/metrics", "Content-Length: 0\r\n", 405, "Allow: GET, HEAD\r\n");
    expect(f, "DELETE", "/status", "", 405, "\"status\":405");
    expect(f, "GET", "/reload", "", 405, "Allow: POST\r\n");
    expect(f, "GET", "/tenants/acme/reset", "", 405, "Allow: POST\r\n");
    expect(f, "OPTIONS", "/reload", "", 405, "Allow: POST\r\n");
    assert_int_equal(f->reloads, 0);
    assert_int_equal(f->resets, 0);
}

static void test_a_connection_is_kept(void **state)
{
    fixture_t *f = *state;
    int fd = dial(f, 0);
    say(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /readyz HTTP/1.1\r\nHost: a\r\nConnection: "
            "close\r\n\r\n");
    char *answers = hear(f, fd);
    assert_has(answers, "\r\n\r\nok\nHTTP/1.1 200 OK\r\n");
    assert_has(answers, "\r\n\r\nready\n");
    sg_free(answers);
}

/* --- usage --------------------------------------------------------------------------------------------- */

static void check_usage(const json_t *o)
{
    const json_t *limits = json_object_get(o, "limits");
    const char *tenant, *name, *algorithm, *key;
    int limit, remaining, reset;
    assert_int_equal(json_unpack((json_t *)(uintptr_t)o, "{s:s, s:[{s:s, s:s, s:i, s:i, s:i}]}", "tenant",
                                 &tenant, "limits", "name", &name, "algorithm", &algorithm, "limit", &limit,
                                 "remaining", &remaining, "reset_ms", &reset),
                     0);
    assert_string_equal(tenant, "acme");
    assert_string_equal(name, "all.daily");
    assert_string_equal(algorithm, "fixed_window");
    assert_int_equal(limit, 1000);
    assert_int_equal(remaining, 993);
    assert_int_equal(reset, 1501);
    assert_int_equal(json_array_size(limits), 4);
    assert_int_equal(json_unpack(json_array_get(limits, 2), "{s:s, s:s, s:i}", "name", &name, "key", &key,
                                 "remaining", &remaining),
                     0);
    assert_string_equal(name, "search.burst");
    assert_string_equal(key, "trial");
    assert_int_equal(remaining, 13);
    const json_t *per_ip = json_array_get(limits, 3); /* whose counters are not the tenant's */
    assert_string_equal(json_string_value(json_object_get(per_ip, "per")), "ip");
    assert_null(json_object_get(per_ip, "remaining"));
    assert_true(json_is_true(json_object_get(per_ip, "dry_run")));
}

static void test_usage_peeks_at_every_limit(void **state)
{
    fixture_t *f = *state;
    json_t *o = expect_json(f, "GET", "/tenants/acme/usage", 200);
    check_usage(o);
    json_decref(o);
    const sg_tenant_t *acme = sg_config_tenant(f->config, SG_STR("acme"));
    assert_int_equal(f->asked_count, 3);
    assert_null(f->asked[0].key);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(f->asked[i].count, 1);
        assert_int_equal(f->asked[i].cost, 0);
    }
    assert_string_equal(f->asked[2].key, acme->keys[1].hash.text);
    expect(f, "GET", "/tenants/big%20corp%2Fx/usage", "", 200, "\"tenant\":\"big corp/x\"");
    expect(f, "GET", "/tenants/anonymous/usage", "", 409, "counted by address");
}

static void give_answer(void *arg)
{
    fixture_t *f = arg;
    sg_answer_fn *fn = f->answer_fn;
    f->answer_fn = NULL;
    fn(f->answer_arg, &f->answer);
}

/* Turns until the store has been asked and its answer is out. */
static void until_asked(fixture_t *f)
{
    int64_t deadline = sg_clock_mono_us() + DEADLINE_US;
    while (!f->answer_fn && sg_clock_mono_us() < deadline)
        sg_loop_turn(f->loop, 1000);
    assert_non_null(f->answer_fn);
}

static void test_a_late_answer_leaves_in_the_same_turn(void **state)
{
    fixture_t *f = *state;
    char head[16];
    int fd = dial(f, 0);
    f->late = true;
    say(fd, "GET /tenants/acme/usage HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    for (int i = 0; i < 2; i++) {
        until_asked(f);
        give_answer(f);
    }
    until_asked(f);
    assert_int_equal(recv(fd, head, sizeof head, MSG_PEEK), -1);
    sg_timer_in(f->loop, &f->timer, 0, give_answer, f);
    sg_loop_turn(f->loop, 0);
    assert_null(f->answer_fn);
    assert_true(recv(fd, head, sizeof head, MSG_PEEK) > 0);
    char *answer = hear(f, fd);
    json_t *o = json_loads(body_of(answer), 0, NULL);
    check_usage(o);
    json_decref(o);
    sg_free(answer);
}

static void test_usage_without_the_store(void **state)
{
    fixture_t *f = *state;
    f->answer.source = SG_FROM_CLOSED;
    expect(f, "GET", "/tenants/acme/usage", "", 503, "the store does not answer");
    f->answer.source = SG_FROM_LOCAL;
    expect(f, "GET", "/tenants/acme/usage", "", 200, "\"source\":\"local\"");
    f->late = true;
    f->answer.source = SG_FROM_OPEN;
    int fd = dial(f, 0);
    say(fd, "GET /tenants/acme/usage HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    until_asked(f);
    give_answer(f);
    char *answer = hear(f, fd);
    assert_int_equal(status_of(answer), 503);
    sg_free(answer);
}

static void test_stopping_while_the_store_is_asked(void **state)
{
    fixture_t *f = *state;
    int fd = dial(f, 0);
    f->late = true;
    say(fd, "GET /tenants/acme/usage HTTP/1.1\r\nHost: a\r\n\r\n");
    until_asked(f);
    sg_admin_free(f->admin);
    f->admin = NULL;
    assert_int_equal(f->cancels, 1);
    char *answer = hear(f, fd);
    assert_int_equal(status_of(answer), 503);
    sg_free(answer);
}

static void test_the_client_goes_while_the_store_is_asked(void **state)
{
    fixture_t *f = *state;
    int fd = dial(f, 0);
    f->late = true;
    say(fd, "GET /tenants/acme/usage HTTP/1.1\r\nHost: a\r\n\r\n");
    until_asked(f);
    close(fd);
    f->late = false;
    give_answer(f);
    expect(f, "GET", "/healthz", "", 200, "ok\n");
}

/* --- actions ------------------------------------------------------------------------------------------- */

static void test_reset_of_the_memory_store(void **state)
{
    fixture_t *f = *state;
    expect(f, "POST", "/tenants/acme/reset", "Content-Length: 5\r\n\r\nhello", 200, "\"counters\":3");
    assert_int_equal(f->resets, 1);
    assert_string_equal(f->reset_tag, sg_config_tenant(f->config, SG_STR("acme"))->tag.text);
    expect(f, "POST", "/tenants/nobody/reset", "", 404, "no tenant of that name");
    expect(f, "POST", "/tenants/anonymous/reset", "", 409, "counted by address");
    assert_int_equal(f->resets, 1);
}

static const char *redis_yaml(void)
{
    return "admin: {listen: \"127.0.0.1:0\"}\n"
           "store: {type: redis, url: \"redis://127.0.0.1:1/0\", on_failure: closed}\n"
           "classes: {all: [{name: daily, algorithm: fixed_window, limit: 10, window: 1d, per: tenant}]}\n"
           "tenants: {acme: {keys: [{id: prod, sha256: "
           "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]}}\n"
           "upstreams: {u: {targets: [{url: \"http://127.0.0.1:8000\"}]}}\n"
           "routes: [{name: r, match: {path: \"/*\"}, classes: [all], upstream: u}]\n";
}

static void test_reset_in_redis(void **state)
{
    (void)state;
    fixture_t *f = fixture_new();
    fixture_start(f, redis_yaml(), true);
    expect(f, "POST", "/tenants/acme/reset", "", 200, "\"counters\":7");
    f->reset_error = "timeout";
    expect(f, "POST", "/tenants/acme/reset", "", 503, "timeout");
    f->reset_error = NULL;
    f->reset_late = true;
    int fd = dial(f, 0);
    say(fd, "POST /tenants/acme/reset HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    int64_t deadline = sg_clock_mono_us() + DEADLINE_US;
    while (!f->reset_fn && sg_clock_mono_us() < deadline)
        sg_loop_turn(f->loop, 1000);
    assert_non_null(f->reset_fn);
    f->reset_fn(f->reset_arg, 1, NULL);
    char *answer = hear(f, fd);
    assert_has(answer, "\"counters\":4");
    sg_free(answer);
    fixture_free(f);
}

static void test_reset_in_redis_that_cannot_be_done(void **state)
{
    (void)state;
    fixture_t *f = fixture_new();
    fixture_start(f, redis_yaml(), false);
    expect(f, "POST", "/tenants/acme/reset", "", 501, "\"title\":\"Not Implemented\"");
    assert_int_equal(f->resets, 0);
    f->store_up = false; /* on_failure: closed */
    expect(f, "GET", "/readyz", "", 503, "not ready: store\n");
    fixture_free(f);
}

static void test_reload(void **state)
{
    fixture_t *f = *state;
    char *answer = ask(f, "POST", "/reload", "");
    assert_int_equal(status_of(answer), 422);
    assert_has(answer, "Content-Type: application/problem+json\r\n");
    assert_has(
        answer,
        "\"findings\":[\"slotgate.yaml:3:1: error: unknown key\",\"slotgate.yaml:9:5: error: another\"]");
    sg_free(answer);
    f->reload_yaml = small_yaml;
    expect(f, "POST", "/reload", "", 200, "\"hash\":");
    assert_int_equal(f->reloads, 2);
}

static void test_a_reload_may_move_the_listener(void **state)
{
    fixture_t *f = *state;
    char *yaml =
        sg_asprintf("admin: {listen: \"unix:%s/admin.sock\"}\n%s", f->folder, strchr(small_yaml, '\n') + 1);
    char *before = sg_strdup(sg_admin_address(f->admin, 0));
    f->reload_yaml = yaml;
    int idle = dial(f, 0); /* a connection that stays */
    expect(f, "POST", "/reload", "", 200, "\"hash\":");
    assert_int_equal(strncmp(sg_admin_address(f->admin, 0), "unix:", 5), 0);
    assert_null(sg_admin_address(f->admin, 1));
    expect(f, "GET", "/healthz", "", 200, "ok\n");
    say(idle, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    char *answer = hear(f, idle);
    assert_has(answer, "Connection: close\r\n");
    sg_free(answer);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    in.sin_port = htons((uint16_t)strtoul(strrchr(before, ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    sg_free(before);
    sg_free(yaml);
}

/* A page that was loaded from this listener under that name. */
static void may_reload_as(const fixture_t *f, const char *host)
{
    int fd = dial(f, 0);
    char *request = sg_asprintf("POST /reload HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\n"
                                "Connection: close\r\n\r\n",
                                host, host);
    say(fd, request);
    char *answer = hear(f, fd);
    assert_int_equal(status_of(answer), 200);
    sg_free(answer);
    sg_free(request);
}

static void test_other_origins_may_not_act(void **state)
{
    fixture_t *f = *state;
    f->reload_yaml = small_yaml;
    expect(f, "POST", "/reload", "Origin: http://evil.example\r\n", 403, "another origin");
    expect(f, "POST", "/reload", "Origin: null\r\n", 403, "another origin");
    assert_int_equal(f->reloads, 0);
    /* Its own name says nothing: it may point here. An address or localhost is ours. */
    expect(f, "POST", "/reload", "Origin: http://admin\r\n", 403, "another origin");
    assert_int_equal(f->reloads, 0);
    may_reload_as(f, "127.0.0.1:9180");
    may_reload_as(f, "localhost:9180");
    may_reload_as(f, "[::1]:9180");
}

static void test_a_large_body_is_not_read(void **state)
{
    fixture_t *f = *state;
    int fd = dial(f, 0);
    char chunk[4096 + 8];
    memset(chunk, 'x', sizeof chunk);
    memcpy(chunk, "1000\r\n", 6);
    memcpy(chunk + 6 + 4096, "\r\n", 2);
    say(fd, "POST /reload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 64; i++) {
        if (send(fd, chunk, sizeof chunk, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
            break;
        sg_loop_turn(f->loop, 1000);
    }
    assert_int_equal(f->reloads, 0);
    close(fd);
    expect(f, "GET", "/healthz", "", 200, "ok\n");
}

/* --- the token ----------------------------------------------------------------------------------------- */

static void test_token(void **state)
{
    (void)state;
    fixture_t *f = fixture_new();
    write_file(f, "token", "s3cret-token\n");
    char *yaml =
        sg_asprintf("admin: {listen: \"127.0.0.1:0\", token_file: token}\n%s", strchr(small_yaml, '\n') + 1);
    fixture_start(f, yaml, false);
    expect(f, "GET", "/metrics", "", 401, "WWW-Authenticate: Bearer realm=\"slotgate admin\"\r\n");
    expect(f, "GET", "/status", "", 401, "\"title\":\"Unauthorized\"");
    expect(f, "GET", "/nothing", "", 401, "Bearer");
    expect(f, "GET", "/readyz?verbose", "", 401, "Bearer");
    expect(f, "POST", "/reload", "Authorization: Bearer wrong\r\n", 401, "Bearer");
    expect(f, "POST", "/reload", "Authorization: Basic s3cret-token\r\n", 401, "Bearer");
    expect(f, "POST", "/reload", "Authorization: Bearer s3cret-toke\r\n", 401, "Bearer");
    expect(f, "POST", "/reload", "Authorization: Bearer\r\n", 401, "Bearer");
    assert_int_equal(f->reloads, 0);
    expect(f, "GET", "/metrics", "Authorization: Bearer s3cret-token\r\n", 200, "slotgate_build_info");
    expect(f, "GET", "/status", "authorization: bearer  s3cret-token\r\n", 200, "\"config\"");
    expect(f, "GET", "/nothing", "Authorization: Bearer s3cret-token\r\n", 404, "no such endpoint");
    expect(f, "GET", "/healthz", "", 200, "ok\n");
    expect(f, "GET", "/readyz", "", 200, "ready\n");
    expect(f, "GET", "/", "", 200, "<!doctype html>");
    sg_free(yaml);
    fixture_free(f);
}

/* --- addresses ----------------------------------------------------------------------------------------- */

static sg_config_t with_listen(const fixture_t *f, sg_endpoint_t *e)
{
    sg_config_t c = {.admin = {.listen = {e, 1}}, .source = f->config->source};
    return c;
}

static void test_an_address_that_is_taken(void **state)
{
    fixture_t *f = *state;
    sg_why_t why;
    sg_endpoint_t e;
    sg_admin_host_t host = host_of(f);
    assert_int_equal(sg_endpoint_parse(sg_str(sg_admin_address(f->admin, 0)), &e, &why), SG_OK);
    sg_config_t c = with_listen(f, &e);
    assert_null(sg_admin_new(f->loop, &host, &c, &why));
    assert_has(why.text, "admin.listen: cannot listen on 127.0.0.1:");
    assert_has(why.text, "another process listens there");
}

static void test_a_reload_that_fails_changes_nothing(void **state)
{
    fixture_t *f = *state;
    sg_why_t why;
    sg_endpoint_t e;
    assert_int_equal(sg_endpoint_parse(SG_STR("unix:/nowhere/at/all/admin.sock"), &e, &why), SG_OK);
    sg_config_t c = with_listen(f, &e);
    assert_int_equal(sg_admin_reload(f->admin, &c, &why), SG_ERR_IO);
    assert_has(why.text, "unix:/nowhere/at/all/admin.sock");
    expect(f, "GET", "/healthz", "", 200, "ok\n");
    assert_null(sg_admin_address(f->admin, 1));
}

static void test_a_stale_socket_file_is_replaced(void **state)
{
    (void)state;
    fixture_t *f = fixture_new();
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "%s/admin.sock", f->folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    close(fd); /* as a process that was killed leaves it */
    char *yaml = sg_asprintf("admin: {listen: \"unix:%s\"}\n%s", un.sun_path, strchr(small_yaml, '\n') + 1);
    fixture_start(f, yaml, false);
    struct stat st;
    assert_int_equal(stat(un.sun_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    expect(f, "GET", "/healthz", "", 200, "ok\n");
    sg_free(yaml);
    fixture_free(f); /* and finds the folder empty */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_metrics_in_both_formats),
        TEST(test_health_is_alive),
        TEST(test_ready_tells_what_is_missing),
        TEST(test_status_shows_the_whole),
        TEST(test_tenants_come_busiest_first),
        TEST(test_page_needs_nothing_from_elsewhere),
        TEST(test_head_is_get_without_a_body),
        TEST(test_paths_are_strict),
        TEST(test_methods_are_strict),
        TEST(test_a_connection_is_kept),
        TEST(test_usage_peeks_at_every_limit),
        TEST(test_a_late_answer_leaves_in_the_same_turn),
        TEST(test_usage_without_the_store),
        TEST(test_stopping_while_the_store_is_asked),
        TEST(test_the_client_goes_while_the_store_is_asked),
        TEST(test_reset_of_the_memory_store),
        cmocka_unit_test(test_reset_in_redis),
        cmocka_unit_test(test_reset_in_redis_that_cannot_be_done),
        TEST(test_reload),
        TEST(test_a_reload_may_move_the_listener),
        TEST(test_other_origins_may_not_act),
        TEST(test_a_large_body_is_not_read),
        cmocka_unit_test(test_token),
        TEST(test_an_address_that_is_taken),
        TEST(test_a_reload_that_fails_changes_nothing),
        cmocka_unit_test(test_a_stale_socket_file_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
