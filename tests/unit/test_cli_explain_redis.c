/* test_cli_explain_redis.c - `slotgate explain` asks a real Redis what is left, and writes nothing to it. */
#include "explain_fixture.h"
#include "store_fixture.h"

static const char search[] = "http://api.example.com/v1/users/7/search";

static int setup(void **state)
{
    char store[160];
    explain_files_make();
    (void)with_server(state);
    fixture_t *f = *state;
    (void)snprintf(store, sizeof store, "type: redis, url: \"unix://%s\", timeout: 5s", f->socket);
    write_config(store);
    return 0;
}

static int end(void **state)
{
    explain_files_remove();
    return teardown(state);
}

static void test_a_peek_writes_nothing(void **state)
{
    fixture_t *f = *state;
    json_t *x = explain(0, "GET", search, "X-API-Key: k-only", NULL);
    assert_string_equal(at(x, "store.asked"), "true");
    assert_string_equal(at(x, "limits.0.remaining"), "1000");
    assert_string_equal(at(x, "limits.1.remaining"), "20");
    assert_string_equal(at(x, "limits.2.remaining"), "10");
    json_decref(x);
    say_expect(f, "0", "DBSIZE");
}

/* The keys that it names are the keys that it reads; a request of cost 2 finds one unit left too few. */
static void test_what_is_used_up(void **state)
{
    static const struct {
        const char *count, *left, *action;
        int status;
    } rows[] = {
        {"400", "600", "forward", 0},
        {"998", "2", "forward", 0},
        {"999", "1", "refuse", 1},
        {"1000", "0", "refuse", 1},
    };
    fixture_t *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *x = explain(0, "GET", search, "X-API-Key: k-only", NULL);
        say_expect(f, "OK", "SET %s %s EX 100", at(x, "limits.0.key"), rows[i].count);
        json_decref(x);
        x = explain(rows[i].status, "GET", search, "X-API-Key: k-only", NULL);
        assert_string_equal(at(x, "limits.0.remaining"), rows[i].left);
        assert_string_equal(at(x, "answer.action"), rows[i].action);
        if (rows[i].status)
            assert_string_equal(at(x, "answer.status"), "429");
        say_expect(f, rows[i].count, "GET %s", at(x, "limits.0.key"));
        say_expect(f, "1", "DEL %s", at(x, "limits.0.key"));
        json_decref(x);
    }
    say_expect(f, "0", "DBSIZE");
}

/* Another tenant's counters, and a limit that its plan switches off, are nothing to this request. */
static void test_tenants_are_apart(void **state)
{
    fixture_t *f = *state;
    json_t *x = explain(0, "GET", search, "X-API-Key: k-only", NULL);
    say_expect(f, "OK", "SET %s 1000 EX 100", at(x, "limits.0.key"));
    json_decref(x);
    x = explain(0, "GET", search, "X-API-Key: k-prod", NULL);
    assert_string_equal(at(x, "limits.0.unlimited"), "true");
    assert_string_equal(at(x, "limits.0.remaining"), "absent");
    assert_string_equal(at(x, "limits.1.name"), "search.burst");
    assert_string_equal(at(x, "limits.1.remaining"), "20");
    json_decref(x);
}

/* Bad keys: the limit of failures is shown. */
static void test_bad_keys(void **state)
{
    fixture_t *f = *state;
    json_t *x = explain(1, "GET", search, "X-API-Key: nobody", NULL);
    assert_string_equal(at(x, "answer.status"), "401");
    assert_string_equal(at(x, "limits.0.remaining"), "20");
    say_expect(f, "OK", "SET %s 20 EX 100", at(x, "limits.0.key"));
    json_decref(x);
    x = explain(1, "GET", search, "X-API-Key: nobody", NULL);
    assert_string_equal(at(x, "answer.status"), "429");
    json_decref(x);
    x = explain(0, "GET", search, "X-API-Key: k-only", NULL);
    json_decref(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_peek_writes_nothing, setup, end),
        cmocka_unit_test_setup_teardown(test_what_is_used_up, setup, end),
        cmocka_unit_test_setup_teardown(test_tenants_are_apart, setup, end),
        cmocka_unit_test_setup_teardown(test_bad_keys, setup, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
