/* What a store does by its config: policies, credentials, database, reload, the predicted clock,
 * denials kept. */
#include <fcntl.h>

#include "store_fixture.h"

#define TAG "tttttttttttttttttttttt"

/* --- policies, with no server at all ---------------------------------------------------------- */

static void test_policies(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(2);
    asked_t q;
    open_store(f);
    ask_for(f, &q, TAG, &l);

    q.check.on_failure = SG_FAIL_OPEN;
    sg_answer_t a = decide(f, &q);
    assert_int_equal(a.source, SG_FROM_OPEN);
    assert_true(a.verdict.allowed);
    assert_int_equal(a.verdict.count, 0);

    q.check.on_failure = SG_FAIL_CLOSED;
    a = decide(f, &q);
    assert_int_equal(a.source, SG_FROM_CLOSED);
    assert_false(a.verdict.allowed);
    assert_true(a.retry_us > 0);

    q.check.on_failure = SG_FAIL_INHERIT;       /* the store's: local */
    assert_true(decide(f, &q).verdict.allowed);
    assert_true(decide(f, &q).verdict.allowed);
    a = decide(f, &q);
    assert_int_equal(a.source, SG_FROM_LOCAL);
    assert_false(a.verdict.allowed);
}

static void test_local_share(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(10);
    f->conf.store.local_share_ppm = 300000;
    open_store(f);
    int allowed = 0;
    for (int i = 0; i < 10; i++)
        allowed += decide_one(f, TAG, &l).verdict.allowed;
    assert_int_equal(allowed, 3);
}

/* --- credentials ------------------------------------------------------------------------------ */

#define PASSWORD "correct-horse-battery"
/* As in docs/operations.md. */
#define RULES                                                                                      \
    "resetkeys ~rl:* resetchannels -@all +ping +select +client|setname +eval +evalsha +time +get " \
    "+set +incrby +hset +hdel +hmget +hgetall +pexpire +zadd +zrem +zcard +zcount +zrange "        \
    "+zrangebyscore +zremrangebyscore"

/* What is written to stderr in between; free it. */
static int quiet_begin(void)
{
    (void)fflush(stderr);
    int saved = dup(STDERR_FILENO);
    int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && file >= 0);
    assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
    (void)close(file);
    return saved;
}

static char *quiet_end(int saved)
{
    char *text = sg_calloc(1, 65536);
    assert_true(pread(STDERR_FILENO, text, 65535, 0) >= 0);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    (void)close(saved);
    return text;
}

static void use_acl(fixture_t *f, const char *password)
{
    say_expect(f, "OK", "ACL SETUSER gw on >" PASSWORD " " RULES);
    say_expect(f, "OK", "ACL SETUSER default -@all +acl +ping +dbsize +select nopass on");
    f->conf.store.username = (char *)(uintptr_t) "gw";
    f->conf.store.password = sg_str(password);
}

/* The rules in the documentation are enough for every algorithm, on the allowed and on the denied path. */
static void test_acl_user(void **state)
{
    fixture_t *f = *state;
    sg_limit_t all[] = {
        fixed_window(1),
        bucket(1),
        concurrency(1),
        {.name = "all.g", .algo = SG_ALGO_GCRA, .limit = 1, .rate_count = 1, .rate_us = 60000000},
        {.name = "all.w", .algo = SG_ALGO_SLIDING_WINDOW, .limit = 1, .window_us = 60000000, .precision = 10},
        {.name = "all.l", .algo = SG_ALGO_SLIDING_LOG, .limit = 1, .window_us = 60000000},
    };
    use_acl(f, PASSWORD);
    open_store(f);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        limit_finish(&all[i]);
        asked_t q;
        ask_for(f, &q, TAG, &all[i]);
        sg_answer_t a = decide(f, &q);
        assert_int_equal(a.source, SG_FROM_STORE);
        assert_true(a.verdict.allowed);
        a = decide_one(f, TAG, &all[i]);
        assert_int_equal(a.source, SG_FROM_STORE);
        assert_false(a.verdict.allowed);
        sg_store_release(f->store, &q.check, SG_FROM_STORE);
    }
    assert_true(decide_one(f, TAG, &all[2]).verdict.allowed);
}

static void test_wrong_password(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(5);
    use_acl(f, "wrong-" PASSWORD);
    int saved = quiet_begin();
    open_store(f);
    sg_answer_t a = decide_one(f, TAG, &l);
    sg_store_status_t status;
    sg_store_status(f->store, &status);
    char *log = quiet_end(saved);
    assert_int_equal(a.source, SG_FROM_LOCAL);
    assert_non_null(strstr(status.error, "WRONGPASS"));
    assert_null(strstr(status.error, PASSWORD));
    assert_non_null(strstr(log, "store away"));
    assert_null(strstr(log, PASSWORD));
    sg_free(log);
    assert_true(metrics_say(f, "slotgate_store_errors_total{kind=\"auth\"} 1"));
}

static void test_database(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(5);
    f->conf.store.db = 3;
    open_store(f);
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_STORE);
    say_expect(f, "0", "DBSIZE");
    char *keys = say(f, "INFO keyspace");
    assert_non_null(strstr(keys, "db3:keys=1,"));
    sg_free(keys);
}

static void test_database_out_of_range(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(5);
    f->conf.store.db = 4000;
    open_store(f);
    assert_int_equal(decide_one(f, TAG, &l).source, SG_FROM_LOCAL);
    sg_store_status_t status;
    sg_store_status(f->store, &status);
    assert_non_null(strstr(status.error, "DB index"));
}

/* --- the predicted clock ---------------------------------------------------------------------- */

static void by_policy(void *arg, const sg_check_t *check, sg_answer_t *out)
{
    (void)check;
    *out = (sg_answer_t){.source = SG_FROM_CLOSED};
    ++*(int *)arg;
}

static void answered(void *arg, const sg_check_t *check, const sg_verdict_t *verdict)
{
    (void)arg, (void)check, (void)verdict;
}

static void test_wrong_clock(void **state)
{
    fixture_t *f = *state;
    int failures = 0;
    sg_limit_t l = fixed_window(3);
    sg_redis_hooks_t hooks = {.failed = by_policy, .answered = answered, .arg = &failures};
    sg_redis_t *r = sg_redis_new(f->loop, &f->conf, f->block, &hooks);
    for (int i = 0; i < 5; i++) {
        asked_t q;
        got_t g = {0};
        ask_for(f, &q, TAG, &l);
        sg_redis_assume_clock(r, sg_clock_wall_us() - (i + 1) * INT64_C(86400000000));
        assert_non_null(sg_redis_check(r, &q.check, on_answer, &g));
        wait_for(f, &g);
        assert_int_equal(g.a.source, SG_FROM_STORE);
        assert_int_equal(g.a.verdict.allowed, i < 3);
    }
    assert_int_equal(failures, 0);
    say_expect(f, "1", "DBSIZE");       /* nothing was written to a wrong bucket */
    sg_redis_free(r);
}

/* --- reload ----------------------------------------------------------------------------------- */

static char *connections_received(fixture_t *f)
{
    char *stats = say(f, "INFO stats");
    char *at = strstr(stats, "total_connections_received:");
    assert_non_null(at);
    char *number = sg_strndup(sg_str_n(at + 27, strcspn(at + 27, "\r")));
    sg_free(stats);
    return number;
}

static void test_reload_keeps_the_connection(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(3);
    open_store(f);
    assert_int_equal(decide_one(f, TAG, &l).verdict.at[0].remaining, 2);
    char *before = connections_received(f);
    sg_config_t next = f->conf;
    next.refs = 1;
    next.store.on_failure = SG_FAIL_CLOSED;
    sg_store_reload(f->store, &next);
    assert_int_equal(decide_one(f, TAG, &l).verdict.at[0].remaining, 1);
    char *after = connections_received(f);
    assert_int_equal(strtol(after, NULL, 10), strtol(before, NULL, 10) + 1);    /* our own question */
    server_stop(f);
    decide_until(f, TAG, &l, SG_FROM_CLOSED);
    sg_free(before);
    sg_free(after);
    close_store(f);
}

/* What is out is still answered by the old server; the new one is asked from then on. */
static void test_reload_to_another_database(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(3);
    asked_t q;
    got_t g;
    open_store(f);
    (void)decide_one(f, TAG, &l);
    ask_for(f, &q, TAG, &l);
    assert_non_null(begin(f, &q, &g));
    sg_config_t next = f->conf;
    next.refs = 1;
    next.store.db = 1;
    sg_store_reload(f->store, &next);
    wait_for(f, &g);
    assert_int_equal(g.a.source, SG_FROM_STORE);
    assert_int_equal(g.a.verdict.at[0].remaining, 1);
    sg_answer_t a = decide_one(f, TAG, &l);
    assert_int_equal(a.source, SG_FROM_STORE);
    assert_int_equal(a.verdict.at[0].remaining, 2);
    assert_int_equal(f->conf.refs, 1);          /* the old connection and its config are gone */
    close_store(f);
}

static void test_reload_to_memory_and_back(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(5);
    open_store(f);
    (void)decide_one(f, TAG, &l);
    sg_config_t next = f->conf;
    next.refs = 1;
    next.store.type = SG_STORE_MEMORY;
    sg_store_reload(f->store, &next);
    asked_t q;
    got_t g;
    ask_for(f, &q, TAG, &l);
    assert_null(begin(f, &q, &g));              /* memory answers at once */
    assert_int_equal(g.a.source, SG_FROM_STORE);
    assert_int_equal(g.a.verdict.at[0].remaining, 4);
    sg_store_reload(f->store, &f->conf);
    assert_int_equal(decide_one(f, TAG, &l).verdict.at[0].remaining, 3);
    close_store(f);
    assert_int_equal(next.refs, 1);
}

/* --- denials kept ----------------------------------------------------------------------------- */

static void test_denials_are_kept(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = bucket(1);
    f->conf.store.deny_cache = true;
    open_store(f);
    assert_true(decide_one(f, TAG, &l).verdict.allowed);
    sg_answer_t first = decide_one(f, TAG, &l);
    assert_int_equal(first.source, SG_FROM_STORE);
    assert_false(first.verdict.allowed);
    sg_answer_t again = decide_one(f, TAG, &l);
    assert_int_equal(again.source, SG_FROM_DENY_CACHE);
    assert_false(again.verdict.allowed);
    assert_int_equal(again.verdict.count, 1);
    assert_true(again.verdict.at[0].retry_us <= first.verdict.at[0].retry_us);
    /* Another caller is asked for. */
    assert_true(decide_one(f, "uuuuuuuuuuuuuuuuuuuuuu", &l).verdict.allowed);
    /* It is asked again before long, so that a reset is seen. */
    sg_free(say(f, "FLUSHALL"));
    decide_until(f, TAG, &l, SG_FROM_STORE);
}

static void test_full_slots_are_not_kept(void **state)
{
    fixture_t *f = *state;
    sg_limit_t l = concurrency(1);
    f->conf.store.deny_cache = true;
    open_store(f);
    asked_t q;
    ask_for(f, &q, TAG, &l);
    assert_true(decide(f, &q).verdict.allowed);
    assert_false(decide_one(f, TAG, &l).verdict.allowed);
    sg_store_release(f->store, &q.check, SG_FROM_STORE);
    assert_true(decide_one(f, TAG, &l).verdict.allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_policies, without_server, teardown),
        cmocka_unit_test_setup_teardown(test_local_share, without_server, teardown),
        cmocka_unit_test_setup_teardown(test_acl_user, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_password, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_database, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_database_out_of_range, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_clock, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_reload_keeps_the_connection, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_reload_to_another_database, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_reload_to_memory_and_back, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_denials_are_kept, with_server, teardown),
        cmocka_unit_test_setup_teardown(test_full_slots_are_not_kept, with_server, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
