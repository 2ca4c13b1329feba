/* Decisions by a real redis-server: exactness, the script gone, the server gone, hung, refusing, and back. */
#include "store_fixture.h"

#define TAG "tttttttttttttttttttttt"

/* --- exact ---------------------------------------------------------------------------------------------- */

static void test_exact(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = fixed_window(5);
    open_store(f);
    for (int i = 0; i < 8; i++) {
        sg_answer_t a = decide_one(f, TAG, &l);
        assert_int_equal(a.source, SG_FROM_STORE);
        assert_int_equal(a.verdict.allowed, i < 5);
        assert_int_equal(a.verdict.count, 1);
        assert_int_equal(a.verdict.at[0].remaining, i < 5 ? 4 - i : 0);
    }
    assert_true(metrics_say(f, "slotgate_store_up 1"));
    assert_true(metrics_say(f, "slotgate_store_request_duration_seconds_count 8"));
}

/* All in one turn, in one write: exactly the limit passes. */
static void burst(fixture_t *f, const sg_limit_t *l, size_t n, size_t expected)
{
    got_t *got = sg_calloc(n, sizeof *got);
    asked_t *q = sg_calloc(n, sizeof *q);
    size_t allowed = 0;
    for (size_t i = 0; i < n; i++) {
        ask_for(f, &q[i], TAG, l);
        (void)begin(f, &q[i], &got[i]);
    }
    for (size_t i = 0; i < n; i++) {
        wait_for(f, &got[i]);
        assert_int_equal(got[i].a.source, SG_FROM_STORE);
        allowed += got[i].a.verdict.allowed;
    }
    assert_int_equal(allowed, expected);
    sg_free(got);
    sg_free(q);
}

static void test_burst_exact(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(30);
    open_store(f);
    burst(f, &l, 100, 30);
}

static void test_every_key_expires(void **state)
{
    fixture_t *f = *state;
    sg_limit_t all[] = {fixed_window(5), bucket(5), concurrency(5)};
    open_store(f);
    for (size_t i = 0; i < 3; i++)
        (void)decide_one(f, TAG, &all[i]);
    redisContext *c = server_connect(f);
    redisReply *keys = redisCommand(c, "KEYS *");
    assert_int_equal(keys->elements, 3);
    for (size_t i = 0; i < keys->elements; i++) {
        redisReply *ttl = redisCommand(c, "PTTL %s", keys->element[i]->str);
        assert_true(ttl->integer > 0);
        freeReplyObject(ttl);
    }
    freeReplyObject(keys);
    redisFree(c);
}

/* --- the script is gone ----------------------------------------------------------------------- */

static void test_script_flush(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(30);
    open_store(f);
    (void)decide_one(f, TAG, &l);
    say_expect(f, "OK", "SCRIPT FLUSH");
    say_expect(f, "OK", "CONFIG RESETSTAT");
    burst(f, &l, 100, 29);
    /* One of them brought the text, all others found it. */
    char *stats = say(f, "INFO commandstats");
    assert_non_null(strstr(stats, "cmdstat_eval:calls=1,"));
    sg_free(stats);
    assert_true(metrics_say(f, "slotgate_store_errors_total{kind=\"other\"} 0"));
}

static void test_restart(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(1000000);
    open_store(f);
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_STORE);
    server_stop(f);
    decide_until(f, TAG, &l, SG_FROM_LOCAL);
    assert_true(metrics_say(f, "slotgate_store_up 0"));
    server_start(f);
    decide_until(f, TAG, &l, SG_FROM_STORE);
    assert_true(metrics_say(f, "slotgate_store_up 1"));
    assert_true(metrics_say(f, "slotgate_store_breaker_open 0"));
}

static void test_away_at_start(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(1000000);
    open_store(f);
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_LOCAL);
    sg_store_status_t status;
    sg_store_status(f->store, &status);
    assert_string_equal(status.type, "redis");
    assert_false(status.up);
    assert_non_null(strstr(status.error, f->socket));
    server_start(f);
    decide_until(f, TAG, &l, SG_FROM_STORE);
    sg_store_status(f->store, &status);
    assert_true(status.up);
}

/* By name and TCP; where the name has an address at which nobody listens (::1), the next one is tried. */
static void test_by_name(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(1000000);
    free_port(f->port);
    server_start(f);
    f->conf.store.unix_path = NULL;
    f->conf.store.host = (char *)(uintptr_t) "localhost";
    f->conf.store.port = (unsigned)strtoul(f->port, NULL, 10);
    open_store(f);
    decide_until(f, TAG, &l, SG_FROM_STORE);
    /* A connection that is lost is made again, with the name looked up again. */
    sg_free(say(f, "CLIENT KILL TYPE normal SKIPME yes"));
    decide_until(f, TAG, &l, SG_FROM_LOCAL);
    decide_until(f, TAG, &l, SG_FROM_STORE);
}

static void test_no_such_name(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(5);
    f->conf.store.unix_path = NULL;
    f->conf.store.host =
        (char *)(uintptr_t) "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid";
    f->conf.store.port = 6379;
    open_store(f);
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_LOCAL);
    sg_store_status_t status;
    sg_store_status(f->store, &status);
    assert_non_null(strstr(status.error, "no address"));
}

/* Long enough for what is asked before the server hangs. */
#define HANG_US 1000000

/* --- a server that hangs ---------------------------------------------------------------------- */

static void test_hang(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(1000000);
    f->conf.store.timeout_us = HANG_US;
    open_store(f);
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_STORE);
    (void)kill(f->pid, SIGSTOP);
    for (int i = 0; i < SG_BREAKER_FAILURES; i++)
        assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_LOCAL);
    assert_true(metrics_say(f, "slotgate_store_breaker_open 1"));
    assert_true(metrics_say(f, "slotgate_store_errors_total{kind=\"timeout\"} 3"));
    /* While it is open nothing waits: the answer comes at once. */
    for (int i = 0; i < 100; i++) {
        asked_t q;
        got_t g;
        ask_for(f, &q, TAG, &l);
        assert_null(begin(f, &q, &g));
        assert_int_equal(g.a.source, SG_FROM_LOCAL);
        turn(f);
    }
    (void)kill(f->pid, SIGCONT);
    decide_until(f, TAG, &l, SG_FROM_STORE);
    assert_true(metrics_say(f, "slotgate_store_breaker_open 0"));
    /* One connection of ours and the one that asks, once Redis has seen the end of the others. */
    bool two = false;
    for (int i = 0; i < 2000 && !two; i++) {
        char *clients = say(f, "INFO clients");
        two = strstr(clients, "connected_clients:2\r") != NULL;
        sg_free(clients);
        turn(f);
    }
    assert_true(two);
}

/* Many at once are given up together when the breaker opens, each once. */
static void test_hang_with_many_out(void **state)
{
    enum { MANY = 200 };
    fixture_t *f = *state;
    sg_limit_t l = bucket(1000000);
    static got_t got[MANY];
    static asked_t q[MANY];
    f->conf.store.timeout_us = HANG_US;
    open_store(f);
    (void)decide_one(f, TAG, &l);
    (void)kill(f->pid, SIGSTOP);
    for (size_t i = 0; i < MANY; i++) {
        ask_for(f, &q[i], TAG, &l);
        assert_non_null(begin(f, &q[i], &got[i]));
    }
    for (size_t i = 0; i < MANY; i++) {
        wait_for(f, &got[i]);
        assert_int_equal(got[i].a.source, SG_FROM_LOCAL);
    }
    (void)kill(f->pid, SIGCONT);
    decide_until(f, TAG, &l, SG_FROM_STORE);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(got[i].calls, 1);
}

/* --- a server that refuses -------------------------------------------------------------------- */

static void test_wrong_type(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(5);
    sg_key_scope_t scope = {SG_STR("rl"), SG_STR("v1"), TAG, NULL, "i"};
    char room[SG_KEY_BYTES];
    int64_t number;
    sg_str_t key = sg_limit_key(&scope, &l, sg_clock_wall_us(), room, &number);
    open_store(f);
    say_expect(f, "1", "LPUSH %.*s x", SG_STR_ARG(key));
    for (int i = 0; i < 2 * SG_BREAKER_FAILURES; i++)
        assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_LOCAL);
    /* One spoilt key is not a store that is down. */
    assert_int_equal(decide_one(f, "uuuuuuuuuuuuuuuuuuuuuu", &l).source, SG_FROM_STORE);
    assert_true(metrics_say(f, "slotgate_store_errors_total{kind=\"wrongtype\"} 6"));
    assert_true(metrics_say(f, "slotgate_store_up 1"));
}

static void test_out_of_memory(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(5);
    f->conf.store.on_failure = SG_FAIL_CLOSED;
    open_store(f);
    say_expect(f, "OK", "CONFIG SET maxmemory 1");
    sg_answer_t a = decide_one(f, TAG, &l);
    assert_int_equal(a.source, SG_FROM_CLOSED);
    assert_false(a.verdict.allowed);
    assert_int_equal(a.retry_us, 1000000);
    assert_true(metrics_say(f, "slotgate_store_errors_total{kind=\"oom\"} 1"));
    say_expect(f, "OK", "CONFIG SET maxmemory 0");
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_STORE);
}

static void test_readonly(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(1000000);
    open_store(f);
    (void)decide_one(f, TAG, &l);
    say_expect(f, "OK", "REPLICAOF 127.0.0.1 1");
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_LOCAL);
    assert_true(metrics_say(f, "slotgate_store_errors_total{kind=\"readonly\"} 1"));
    decide_until(f, TAG, &l, SG_FROM_LOCAL);
    say_expect(f, "OK", "REPLICAOF NO ONE");
    decide_until(f, TAG, &l, SG_FROM_STORE);
}

static bool server_counts(fixture_t *f, const char *text)
{
    char *stats = say(f, "INFO commandstats");
    bool found = strstr(stats, text) != NULL;
    sg_free(stats);
    return found;
}

/* --- concurrency slots ------------------------------------------------------------------------ */

static bool slots_are(fixture_t *f, const char *expected)
{
    char *got = say(f, "ZCARD rl:cc:v1:{" TAG "}:all.slots");
    bool same = strcmp(got, expected) == 0;
    sg_free(got);
    return same;
}

static void slots_become(fixture_t *f, const char *expected)
{
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    while (!slots_are(f, expected)) {
        assert_true(sg_clock_mono_us() < end_us);
        turn(f);
    }
}

static void test_release(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = concurrency(1);
    asked_t first;
    open_store(f);
    ask_for(f, &first, TAG, &l);
    assert_true(decide(f, &first).verdict.allowed);
    assert_false(decide_one(f, TAG, &l).verdict.allowed);
    assert_true(slots_are(f, "1"));
    sg_store_release(f->store, &first.check, SG_FROM_STORE);
    assert_true(decide_one(f, TAG, &l).verdict.allowed);
}

static void test_cancel_gives_the_slot_back(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = concurrency(1);
    asked_t q;
    got_t g;
    open_store(f);
    (void)decide_one(f, "uuuuuuuuuuuuuuuuuuuuuu", &l);
    ask_for(f, &q, TAG, &l);
    sg_ticket_t *t = begin(f, &q, &g);
    assert_non_null(t);
    sg_store_cancel(t);
    memset(&q, 0xa5, sizeof q);         /* the caller's memory is the caller's again */
    /* The decision was made, and its slot given back. */
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    while (!server_counts(f, "cmdstat_zrem:calls=1,")) {
        assert_true(sg_clock_mono_us() < end_us);
        turn(f);
    }
    assert_true(server_counts(f, "cmdstat_zadd:calls=2,"));
    assert_true(decide_one(f, TAG, &l).verdict.allowed);
    assert_int_equal(g.calls, 0);
}

static void test_cancel_before_the_connection(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = concurrency(1);
    asked_t q;
    got_t g;
    open_store(f);
    ask_for(f, &q, TAG, &l);
    sg_ticket_t *t = begin(f, &q, &g);
    assert_non_null(t);
    sg_store_cancel(t);
    assert_true(decide_one(f, TAG, &l).verdict.allowed);
    assert_int_equal(g.calls, 0);
}

/* The answer came by policy, the reply later: the slot that it took in Redis goes back. */
static void test_late_reply_gives_the_slot_back(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = concurrency(1);
    f->conf.store.timeout_us = HANG_US;
    open_store(f);
    (void)decide_one(f, "uuuuuuuuuuuuuuuuuuuuuu", &l);
    (void)kill(f->pid, SIGSTOP);
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_LOCAL);
    (void)kill(f->pid, SIGCONT);
    /* Connections are served in order: the decision, then this. */
    say_expect(f, "PONG", "PING");
    slots_become(f, "0");
    assert_true(metrics_say(f, "slotgate_store_up 1"));
}

static void test_slots_wait_for_the_connection(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = concurrency(1);
    asked_t q;
    open_store(f);
    ask_for(f, &q, TAG, &l);
    assert_true(decide(f, &q).verdict.allowed);
    sg_free(say(f, "CLIENT KILL TYPE normal SKIPME yes"));
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    while (metrics_say(f, "slotgate_store_up 1") && sg_clock_mono_us() < end_us)
        turn(f);
    sg_store_release(f->store, &q.check, SG_FROM_STORE);
    slots_become(f, "0");
}

static void test_local_slots_go_back_locally(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = concurrency(1);
    asked_t q;
    open_store(f);
    ask_for(f, &q, TAG, &l);
    sg_answer_t a = decide(f, &q);
    assert_int_equal(a.source, SG_FROM_LOCAL);
    assert_true(a.verdict.allowed);
    assert_false(decide_one(f, TAG, &l).verdict.allowed);
    sg_store_release(f->store, &q.check, SG_FROM_LOCAL);
    assert_true(decide_one(f, TAG, &l).verdict.allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exact, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_burst_exact, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_every_key_expires, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_script_flush, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_restart, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_away_at_start, without_server, teardown),
        cmocka_unit_test_setup_teardown(test_by_name, without_server, teardown),
        cmocka_unit_test_setup_teardown(test_no_such_name, without_server, teardown),
        cmocka_unit_test_setup_teardown(test_hang, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_hang_with_many_out, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_type, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_readonly, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_release, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_gives_the_slot_back, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_before_the_connection, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_late_reply_gives_the_slot_back, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_slots_wait_for_the_connection, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_local_slots_go_back_locally, without_server, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
