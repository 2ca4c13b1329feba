/* The master found by a real sentinel: at first, when it is another one, and when nobody knows. */
#include "store_fixture.h"

#define TAG "tttttttttttttttttttttt"

typedef struct {
    fixture_t *f;
    fixture_t redis[2];
    fixture_t sentinel;
    char config[96];
    char dead[32], alive[32];
    char *nodes[2];
} sentinel_t;

static void sentinel_start(sentinel_t *s)
{
    fixture_t *f = &s->sentinel;
    place_new(f);
    f->socket[0] = '\0';
    free_port(f->port);
    (void)snprintf(s->config, sizeof s->config, "%s/s.conf", f->dir);
    FILE *file = fopen(s->config, "w");
    assert_non_null(file);
    (void)fprintf(file, "port %s\nbind 127.0.0.1\ndir %s\nlogfile %s\n", f->port, f->dir, f->log);
    (void)fprintf(file, "sentinel monitor mymaster 127.0.0.1 %s 1\n", s->redis[0].port);
    (void)fclose(file);
    f->pid = fork();
    assert_true(f->pid >= 0);
    if (f->pid == 0) {
        (void)setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", 1);
        (void)execlp("redis-server", "redis-server", s->config, "--sentinel", (char *)NULL);
        _exit(127);
    }
    server_wait(f);
}

/* The first of the two sentinels that are named is not there. */
static int setup(void **state)
{
    char port[8];
    sentinel_t *s = SG_NEW(sentinel_t);
    s->f = fixture_new();
    for (int i = 0; i < 2; i++) {
        place_new(&s->redis[i]);
        free_port(s->redis[i].port);
        server_start(&s->redis[i]);
    }
    sentinel_start(s);
    free_port(port);
    (void)snprintf(s->dead, sizeof s->dead, "127.0.0.1:%s", port);
    (void)snprintf(s->alive, sizeof s->alive, "localhost:%s", s->sentinel.port);
    s->nodes[0] = s->dead;
    s->nodes[1] = s->alive;
    s->f->conf.store.mode = SG_REDIS_SENTINEL;
    s->f->conf.store.unix_path = NULL;
    s->f->conf.store.nodes = s->nodes;
    s->f->conf.store.node_count = 2;
    s->f->conf.store.master = (char *)(uintptr_t) "mymaster";
    *state = s;
    return 0;
}

static int end(void **state)
{
    sentinel_t *s = *state;
    close_store(s->f);
    place_free(&s->redis[0]);
    place_free(&s->redis[1]);
    (void)unlink(s->config);
    place_free(&s->sentinel);
    fixture_free(s->f);
    sg_free(s);
    return 0;
}

static long keys_in(fixture_t *redis)
{
    char *n = say(redis, "DBSIZE");
    long keys = strtol(n, NULL, 10);
    sg_free(n);
    return keys;
}

static void test_the_master_is_found(void **state)
{
    sentinel_t *s = *state;
    sg_limit_t l = bucket(2);
    open_store(s->f);
    decide_until(s->f, TAG, &l, SG_FROM_STORE);
    assert_true(decide_one(s->f, TAG, &l).verdict.allowed);
    assert_false(decide_one(s->f, TAG, &l).verdict.allowed);
    assert_int_equal(keys_in(&s->redis[0]), 1);
}

static void test_another_master(void **state)
{
    sentinel_t *s = *state;
    sg_limit_t l = bucket(1000000);
    open_store(s->f);
    decide_until(s->f, TAG, &l, SG_FROM_STORE);
    say_expect(&s->sentinel, "OK", "SENTINEL REMOVE mymaster");
    say_expect(&s->sentinel, "OK", "SENTINEL MONITOR mymaster 127.0.0.1 %s 1", s->redis[1].port);
    server_stop(&s->redis[0]);
    decide_until(s->f, TAG, &l, SG_FROM_LOCAL);
    decide_until(s->f, TAG, &l, SG_FROM_STORE);
    assert_int_equal(keys_in(&s->redis[1]), 1);
}

/* The old master became a replica and still answers: READONLY, once, then the sentinel is asked. */
static void test_the_old_master_is_a_replica(void **state)
{
    sentinel_t *s = *state;
    sg_limit_t l = bucket(1000000);
    open_store(s->f);
    decide_until(s->f, TAG, &l, SG_FROM_STORE);
    say_expect(&s->sentinel, "OK", "SENTINEL REMOVE mymaster");
    say_expect(&s->sentinel, "OK", "SENTINEL MONITOR mymaster 127.0.0.1 %s 1", s->redis[1].port);
    say_expect(&s->redis[0], "OK", "REPLICAOF 127.0.0.1 %s", s->redis[1].port);
    assert_int_equal(decide_one(s->f, TAG, &l).source, SG_FROM_LOCAL);
    decide_until(s->f, TAG, &l, SG_FROM_STORE);
    assert_true(metrics_say(s->f, "slotgate_store_errors_total{kind=\"readonly\"} 1"));
    assert_int_equal(keys_in(&s->redis[1]), 1);
}

static void test_nobody_knows(void **state)
{
    sentinel_t *s = *state;
    sg_limit_t l = bucket(5);
    s->f->conf.store.master = (char *)(uintptr_t) "other";
    open_store(s->f);
    assert_int_equal(decide_one(s->f, TAG, &l).source, SG_FROM_LOCAL);
    sg_store_status_t status = {.type = NULL};
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    while (!strstr(status.error, "does not know the master") && sg_clock_mono_us() < end_us) {
        turn(s->f);
        sg_store_status(s->f->store, &status);
    }
    assert_non_null(strstr(status.error, "does not know the master"));
}

static void test_reload_while_asking(void **state)
{
    sentinel_t *s = *state;
    sg_limit_t l = bucket(5);
    open_store(s->f);
    sg_config_t next = s->f->conf;
    next.refs = 1;
    turn(s->f);
    sg_store_reload(s->f->store, &next);
    memset(&s->f->conf.store, 0, sizeof s->f->conf.store);      /* as if the old one were freed */
    s->f->conf.store.key_prefix = next.store.key_prefix;
    s->f->conf.store.key_version = next.store.key_version;
    decide_until(s->f, TAG, &l, SG_FROM_STORE);
    close_store(s->f);
    assert_int_equal(s->f->conf.refs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_master_is_found, setup, end),
        cmocka_unit_test_setup_teardown(test_another_master, setup, end),
        cmocka_unit_test_setup_teardown(test_the_old_master_is_a_replica, setup, end),
        cmocka_unit_test_setup_teardown(test_nobody_knows, setup, end),
        cmocka_unit_test_setup_teardown(test_reload_while_asking, setup, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
