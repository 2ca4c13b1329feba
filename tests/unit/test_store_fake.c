/* Servers that do what a healthy Redis does not: nonsense, halves, silence, a connection closed
 * after the work was done. A decision is answered once, by policy, and is never sent a second time. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "store_fixture.h"

#define TAG "tttttttttttttttttttttt"

/* --- the server: one thread, one connection at a time ----------------------------------------- */

typedef struct {
    const char *to_script;      /* what EVALSHA and EVAL are answered; NULL: nothing */
    size_t to_script_len;       /* 0: up to the NUL */
    bool close_after;           /* and then the connection is closed */
    const char *to_ping;        /* NULL: +PONG */
    const char *greeting;       /* sent before anything is asked */
    int listen_fd;
    pthread_t thread;
    atomic_bool stop;
    atomic_int executions, connections;
} fake_t;

static void fake_send(int fd, const char *bytes, size_t n)
{
    ssize_t sent = send(fd, bytes, n ? n : strlen(bytes), MSG_NOSIGNAL);
    (void)sent;
}

/* False: close the connection. */
static bool fake_answer(fake_t *s, int fd, const redisReply *command)
{
    const char *name = command->element[0]->str;
    if (strcmp(name, "EVALSHA") == 0 || strcmp(name, "EVAL") == 0) {
        atomic_fetch_add(&s->executions, 1);
        if (s->to_script)
            fake_send(fd, s->to_script, s->to_script_len);
        return !s->close_after;
    }
    if (strcmp(name, "PING") == 0)
        fake_send(fd, s->to_ping ? s->to_ping : "+PONG\r\n", 0);
    else
        fake_send(fd, "+OK\r\n", 0);
    return true;
}

static void fake_serve(fake_t *s, int fd)
{
    redisReader *reader = redisReaderCreate();
    char buf[4096];
    bool open = true;
    struct timeval tick = {.tv_usec = 20000};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick);
    if (s->greeting)
        fake_send(fd, s->greeting, 0);
    while (open && !atomic_load(&s->stop)) {
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        if (n < 0)
            continue;
        if (n == 0)
            break;
        (void)redisReaderFeed(reader, buf, (size_t)n);
        void *command = NULL;
        while (open && redisReaderGetReply(reader, &command) == REDIS_OK && command) {
            open = fake_answer(s, fd, command);
            freeReplyObject(command);
        }
    }
    redisReaderFree(reader);
    (void)close(fd);
}

static void *fake_thread(void *arg)
{
    fake_t *s = arg;
    while (!atomic_load(&s->stop)) {
        int fd = accept(s->listen_fd, NULL, NULL);
        if (fd < 0)
            continue;
        atomic_fetch_add(&s->connections, 1);
        fake_serve(s, fd);
    }
    return NULL;
}

static void fake_start(fixture_t *f, fake_t *s)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct timeval tick = {.tv_usec = 20000};
    (void)snprintf(sa.sun_path, sizeof sa.sun_path, "%s", f->socket);
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->listen_fd >= 0);
    (void)setsockopt(s->listen_fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick);
    assert_int_equal(bind(s->listen_fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(s->listen_fd, 8), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, fake_thread, s), 0);
}

static void fake_stop(fake_t *s)
{
    atomic_store(&s->stop, true);
    (void)pthread_join(s->thread, NULL);
    (void)close(s->listen_fd);
}

/* --- one decision against it ------------------------------------------------------------------ */

/* Answered by policy, once, with this failure counted, and executed as often as said. */
static void one_decision(fixture_t *f, fake_t *s, int executions, const char *kind)
{
    sg_limit_t l = bucket(5);
    asked_t q;
    got_t g;
    fake_start(f, s);
    if (strcmp(kind, "timeout") == 0)
        f->conf.store.timeout_us = TIMEOUT_US;
    open_store(f);
    ask_for(f, &q, TAG, &l);
    if (begin(f, &q, &g))
        wait_for(f, &g);
    assert_int_equal(g.a.source, SG_FROM_LOCAL);
    char *line = sg_asprintf("slotgate_store_errors_total{kind=\"%s\"} 1", kind);
    assert_true(metrics_say(f, line));
    sg_free(line);
    /* Time for a second sending, if there were one: two more connections, or what a deadline takes. */
    int64_t end_us = sg_clock_mono_us() + TIMEOUT_US;
    int seen = atomic_load(&s->connections);
    while (sg_clock_mono_us() < end_us && atomic_load(&s->connections) < seen + 2)
        turn(f);
    assert_int_equal(g.calls, 1);
    assert_int_equal(atomic_load(&s->executions), executions);
    close_store(f);
    fake_stop(s);
}

/* A settlement goes out when the connection is there, once; `lost` when its reply does not say that it was
 * done. */
static void one_settlement(fixture_t *f, fake_t *s, int executions, int lost)
{
    sg_limit_t l = bucket(5);
    asked_t q;
    fake_start(f, s);
    open_store(f);
    ask_for(f, &q, TAG, &l);
    sg_answer_t a = made(&q);
    sg_store_settle(f->store, &q.check, &a, 3);
    memset(&q, 0xee, sizeof q); /* all that is needed has been copied */
    memset(&l, 0xee, sizeof l);
    char *line = sg_asprintf("slotgate_cost_settlements_total{outcome=\"lost\"} %d", lost);
    int64_t give_up_us = sg_clock_mono_us() + PATIENCE_US;
    while ((atomic_load(&s->executions) < executions || !metrics_say(f, line)) &&
           sg_clock_mono_us() < give_up_us)
        turn(f);
    int64_t end_us = sg_clock_mono_us() + TIMEOUT_US;
    int seen = atomic_load(&s->connections);
    while (sg_clock_mono_us() < end_us && atomic_load(&s->connections) < seen + 2)
        turn(f);
    assert_int_equal(atomic_load(&s->executions), executions);
    assert_true(metrics_say(f, line));
    sg_free(line);
    close_store(f);
    fake_stop(s);
}

static void test_a_settlement_is_done(void **state)
{
    fake_t s = {.to_script = "*2\r\n:1700000000000000\r\n:1\r\n"};
    one_settlement(*state, &s, 1, 0);
}

static void test_a_settlement_is_not_repeated(void **state)
{
    fake_t s = {.close_after = true};
    one_settlement(*state, &s, 1, 1);
}

static void test_a_settlement_is_not_answered(void **state)
{
    fake_t s = {0};
    one_settlement(*state, &s, 1, 1);
}

static void test_a_settlement_is_answered_like_a_decision(void **state)
{
    fake_t s = {.to_script = "*7\r\n:1700000000000000\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"};
    one_settlement(*state, &s, 1, 1);
}

static void test_a_settlement_misses_its_bucket_for_ever(void **state)
{
    fake_t s = {.to_script = "*2\r\n:1700000000000000\r\n:2\r\n"};
    one_settlement(*state, &s, 6, 1);
}

static void test_closed_after_the_work(void **state)
{
    fake_t s = {.close_after = true};
    one_decision(*state, &s, 1, "reset");
}

static void test_half_a_reply_then_closed(void **state)
{
    fake_t s = {.to_script = "*6\r\n:1700000000000\r\n:1\r\n:1", .close_after = true};
    one_decision(*state, &s, 1, "reset");
}

static void test_half_a_reply_then_silence(void **state)
{
    fake_t s = {.to_script = "*6\r\n:1700000000000\r\n"};
    one_decision(*state, &s, 1, "timeout");
}

static void test_silence(void **state)
{
    fake_t s = {0};
    one_decision(*state, &s, 1, "timeout");
}

static void test_garbage(void **state)
{
    fake_t s = {.to_script = "HTTP/1.1 400 Bad Request\r\n\r\n"};
    one_decision(*state, &s, 1, "protocol");
}

static void test_zeros(void **state)
{
    fake_t s = {.to_script = "\0\0\0\0\0\0\0\0", .to_script_len = 8};
    one_decision(*state, &s, 1, "protocol");
}

static void test_a_huge_array(void **state)
{
    fake_t s = {.to_script = "*2147483647\r\n"};
    one_decision(*state, &s, 1, "protocol");
}

static void test_deep_nesting(void **state)
{
    fake_t s = {.to_script = "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"};
    one_decision(*state, &s, 1, "protocol");
}

static void test_a_verdict_of_another_shape(void **state)
{
    fake_t s = {.to_script = "*3\r\n:1700000000000\r\n:1\r\n:1\r\n"};
    one_decision(*state, &s, 1, "protocol");
}

static void test_texts_for_numbers(void **state)
{
#define ONE "$1\r\n1\r\n"
    fake_t s = {.to_script = "*7\r\n" ONE ONE ONE ONE ONE ONE ONE};
    one_decision(*state, &s, 1, "protocol");
}

static void test_nil(void **state)
{
    fake_t s = {.to_script = "$-1\r\n"};
    one_decision(*state, &s, 1, "protocol");
}

static void test_an_unknown_error(void **state)
{
    fake_t s = {.to_script = "-BUSY Redis is busy running a script.\r\n"};
    one_decision(*state, &s, 1, "other");
}

static void test_an_error_inside_the_script_of_redis_6(void **state)
{
    fake_t s = {.to_script = "-ERR Error running script (call to f_0123): @user_script:7: "
                             "@user_script: 7: -OOM command not allowed when used memory > 'maxmemory'.\r\n"};
    one_decision(*state, &s, 1, "oom");
}

/* A server that never has the script: asked again with the text, then given up; nothing was
 * executed by a NOSCRIPT. */
static void test_noscript_for_ever(void **state)
{
    fake_t s = {.to_script = "-NOSCRIPT No matching script.\r\n"};
    one_decision(*state, &s, 6, "other");
}

/* Its clock jumps to another window with each answer. */
static void test_wrong_bucket_for_ever(void **state)
{
    fake_t s = {.to_script = "*2\r\n:1700000000000\r\n:2\r\n"};
    one_decision(*state, &s, 6, "other");
}

static void test_an_answer_nobody_asked_for(void **state)
{
    fake_t s = {.greeting = "+hello\r\n+hello\r\n+hello\r\n+hello\r\n"};
    one_decision(*state, &s, 0, "protocol");
}

static void test_too_many_clients(void **state)
{
    fake_t s = {.greeting = "-ERR max number of clients reached\r\n"};
    one_decision(*state, &s, 0, "other");
}

static void test_loading(void **state)
{
    fake_t s = {.to_ping = "-LOADING Redis is loading the dataset in memory\r\n"};
    one_decision(*state, &s, 0, "loading");
}

static void test_no_pong(void **state)
{
    fake_t s = {.to_ping = "$100\r\n"};
    one_decision(*state, &s, 0, "timeout");
}

/* Three lost in a row open the breaker; a closing server does not get a storm of connections. */
static void test_no_storm(void **state)
{
    fixture_t *f = *state;
    fake_t s = {.to_ping = "-LOADING Redis is loading the dataset in memory\r\n"};
    fake_start(f, &s);
    open_store(f);
    int64_t end_us = sg_clock_mono_us() + 600000;
    while (sg_clock_mono_us() < end_us)
        turn(f);
    assert_true(metrics_say(f, "slotgate_store_breaker_open 1"));
    /* Pauses of 20, 40, 80, 160, 320, 400 ms, of which half may fall away. */
    assert_in_range(atomic_load(&s.connections), SG_BREAKER_FAILURES, 8);
    close_store(f);
    fake_stop(&s);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, without_server, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_closed_after_the_work),
        CASE(test_half_a_reply_then_closed),
        CASE(test_half_a_reply_then_silence),
        CASE(test_silence),
        CASE(test_garbage),
        CASE(test_zeros),
        CASE(test_a_huge_array),
        CASE(test_deep_nesting),
        CASE(test_a_verdict_of_another_shape),
        CASE(test_texts_for_numbers),
        CASE(test_nil),
        CASE(test_an_unknown_error),
        CASE(test_an_error_inside_the_script_of_redis_6),
        CASE(test_noscript_for_ever),
        CASE(test_wrong_bucket_for_ever),
        CASE(test_an_answer_nobody_asked_for),
        CASE(test_too_many_clients),
        CASE(test_loading),
        CASE(test_no_pong),
        CASE(test_no_storm),
        CASE(test_a_settlement_is_done),
        CASE(test_a_settlement_is_not_repeated),
        CASE(test_a_settlement_is_not_answered),
        CASE(test_a_settlement_is_answered_like_a_decision),
        CASE(test_a_settlement_misses_its_bucket_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
