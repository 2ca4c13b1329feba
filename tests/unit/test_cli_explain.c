/* test_cli_explain.c - what `slotgate explain` says of a request, as JSON, and its exit status. */
#include "explain_fixture.h"

static int setup(void **state)
{
    (void)state;
    explain_files_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    explain_files_remove();
    return 0;
}

static void tag_of(const char *text, sg_tag_t *out)
{
    sg_tag((sg_str_t){0}, sg_str(text), out);
}

static void test_a_request_that_passes(void **state)
{
    (void)state;
    char hex[SG_SHA256_HEX + 1], text[256];
    sg_tag_t tenant, key, ip;
    write_config("type: memory");
    json_t *x = explain(0, "GET", "/v1/users/7%2F8/search?a=%41&api_key=k-prod&b", NULL, "2001:db8::7");
    assert_string_equal(at(x, "host"), "api.example.com");
    assert_string_equal(at(x, "route.name"), "user-search");
    assert_string_equal(at(x, "route.params.id"), "7%2F8");
    assert_string_equal(at(x, "identity.tenant"), "acme");
    assert_string_equal(at(x, "identity.plan"), "gold");
    assert_string_equal(at(x, "identity.key"), "prod");
    assert_string_equal(at(x, "answer.action"), "forward");
    assert_string_equal(at(x, "answer.path"), "/users/7%2F8/find");
    assert_string_equal(at(x, "answer.query"), "a=%41&b");
    assert_string_equal(at(x, "cost"), "2");
    assert_string_equal(at(x, "limits.0.name"), "all.daily");
    assert_string_equal(at(x, "limits.0.unlimited"), "true");
    assert_string_equal(at(x, "limits.0.key"), "null");
    tag_of("tenant:acme", &tenant);
    snprintf(text, sizeof text, "key:%s", digest_of("k-prod", hex));
    tag_of(text, &key);
    tag_of("ip:2001:db8::", &ip);
    snprintf(text, sizeof text, "rl:tb:v1:{%s}:k.%s:search.burst", tenant.text, key.text);
    assert_string_equal(at(x, "limits.1.key"), text);
    snprintf(text, sizeof text, "rl:gc:v1:{%s}:i.%s:search.trial", tenant.text, ip.text);
    assert_string_equal(at(x, "limits.2.key"), text);
    assert_string_equal(at(x, "limits.2.dry_run"), "true");
    assert_string_equal(at(x, "limits.1.remaining"), "absent");
    assert_string_equal(at(x, "store.asked"), "false");
    json_decref(x);
}

static void test_what_becomes_of_requests(void **state)
{
    (void)state;
    static const struct {
        const char *method, *url, *field, *route, *action, *code, *reason;
    } rows[] = {
        {"GET", "/v1/users/7/search", NULL, "user-search", "refuse", "401", "no_key"},
        {"GET", "/v1/users/7/search", "X-API-Key: nobody", "user-search", "refuse", "401", "key_unknown"},
        {"GET", "/v1/users/7/search", "X-API-Key: k-old", "user-search", "refuse", "401", "key_disabled"},
        {"GET", "/v1/users/7/search", "Authorization: Bearer k-only", "user-search", "forward",
         "absent", "absent"},
        {"GET", "/v1/users/7/search?api_key=a", "X-API-Key: k-only", "user-search", "refuse",
         "400", "ambiguous_key"},
        {"GET", "http://other.test/v1/users/7/search", NULL, "rest", "forward", "absent", "absent"},
        {"GET", "/hello", NULL, "hello", "respond", "203", "absent"},
        {"GET", "/a//b", NULL, "rest", "refuse", "400", "odd_path"},
        {"GET", "/a/../b", NULL, "absent", "refuse", "400", "dot_segment"},
        {"GET", "nonsense", NULL, "absent", "refuse", "400", "bad_target"},
        {"GET", "*", NULL, "absent", "refuse", "400", "bad_target"},
        {"OPTIONS", "*", NULL, "absent", "refuse", "404", "no_route"},
        {"TRACE", "/hello", NULL, "absent", "refuse", "405", "method_not_supported"},
        {"CONNECT", "h:80", NULL, "absent", "refuse", "405", "method_not_supported"},
        {"A23456789012345678901234567890123", "/hello", NULL, "absent", "refuse", "400", "bad_method"},
        {"GET", "http://bad_/..", NULL, "absent", "refuse", "400", "dot_segment"},
    };
    write_config("type: memory");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool refused = strcmp(rows[i].action, "refuse") == 0;
        json_t *x = explain(refused, rows[i].method, rows[i].url, rows[i].field, NULL);
        if (strcmp(at(x, "route.name"), rows[i].route) != 0)
            fail_msg("%s: route %s", rows[i].url, at(x, "route.name"));
        assert_string_equal(at(x, "answer.action"), rows[i].action);
        assert_string_equal(at(x, "answer.status"), rows[i].code);
        assert_string_equal(at(x, "answer.reason"), rows[i].reason);
        json_decref(x);
    }
}

static void test_client_behind_a_proxy(void **state)
{
    (void)state;
    write_config("type: memory");
    json_t *x = explain(0, "GET", "/x", "X-Forwarded-For: 6.6.6.6, 198.51.100.7", "10.1.2.3");
    sg_tag_t ip;
    tag_of("ip:198.51.100.7", &ip);
    assert_string_equal(at(x, "identity.client"), "198.51.100.7");
    assert_string_equal(at(x, "identity.client_hash"), ip.text);
    assert_string_equal(at(x, "identity.tag"), ip.text);
    assert_string_equal(at(x, "identity.tenant"), "anonymous");
    assert_string_equal(at(x, "identity.key"), "null");
    json_decref(x);
    x = explain(0, "GET", "/x", "X-Forwarded-For: 198.51.100.7", NULL);
    assert_string_equal(at(x, "identity.client"), "192.0.2.1");
    json_decref(x);
}

/* The rest of the answer stands all the same. */
static void test_redis_that_is_away(void **state)
{
    (void)state;
    write_config("type: redis, url: \"unix:///tmp/slotgate-no-such-socket\"");
    json_t *x = explain(0, "GET", "/x", NULL, NULL);
    assert_string_equal(at(x, "limits.0.name"), "all.daily");
    assert_int_equal(strncmp(at(x, "limits.0.key"), "rl:fw:v1:{", 10), 0);
    assert_string_equal(at(x, "limits.0.remaining"), "absent");
    assert_string_equal(at(x, "store.asked"), "false");
    assert_string_equal(at(x, "store.note"), "no answer");
    assert_string_not_equal(at(x, "store.error"), "");
    json_decref(x);
}

static void test_text(void **state)
{
    (void)state;
    static char all[8192];
    const char *args[] = {"GET", "http://api.example.com/v1/users/7/search", "-H", "X-API-Key: k-only", "-c",
                          config_path, NULL};
    write_config("type: memory");
    assert_int_equal(run(args), 0);
    FILE *f = fopen(output_path, "r");
    assert_non_null(f);
    all[fread(all, 1, sizeof all - 1, f)] = '\0';
    fclose(f);
    assert_non_null(strstr(all, "user-search  (api.example.com/v1/users/:id/search)"));
    assert_non_null(strstr(all, "free"));
    assert_non_null(strstr(all, "limit 1000"));
    assert_non_null(strstr(all, "(dry run)"));
    assert_non_null(strstr(all, "forwarded as /users/7/find\n"));
    assert_null(strstr(all, "k-only"));
}

static void test_usage_and_bad_config(void **state)
{
    (void)state;
    write_config("type: memory");
    assert_int_equal(run((const char *const[]){NULL}), 64);
    assert_int_equal(run((const char *const[]){"GET", "/", NULL}), 64);
    assert_int_equal(run((const char *const[]){"-c", config_path, "GET", NULL}), 64);
    assert_int_equal(run((const char *const[]){"-c", config_path, "GET", "/", "more", NULL}), 64);
    assert_int_equal(run((const char *const[]){"-c", config_path, "G T", "/", NULL}), 64);
    assert_int_equal(run((const char *const[]){"-c", config_path, "-H", "no colon", "GET", "/", NULL}), 64);
    assert_int_equal(run((const char *const[]){"-c", config_path, "-H", "a b: c", "GET", "/", NULL}), 64);
    assert_int_equal(run((const char *const[]){"-c", config_path, "--peer", "x", "GET", "/", NULL}), 64);
    assert_int_equal(run((const char *const[]){"-c", config_path, "--nonsense", "GET", "/", NULL}), 64);
    assert_int_equal(run((const char *const[]){"-c", "/tmp/slotgate-no-such-file", "GET", "/", NULL}), 78);
    write_config("type: nonsense");
    assert_int_equal(run((const char *const[]){"-c", config_path, "GET", "/", NULL}), 78);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_that_passes),
        cmocka_unit_test(test_what_becomes_of_requests),
        cmocka_unit_test(test_client_behind_a_proxy),
        cmocka_unit_test(test_redis_that_is_away),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_usage_and_bad_config),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
