#include <pthread.h>
#include <stdatomic.h>

#include "upstream_fixture.h"

/* A target that answers checks in a thread, as each test tells it to. */
typedef struct {
    fixture_t f;
    int listener, fds_before;
    unsigned port;
    pthread_t thread;
    atomic_int answer;              /* index of `answers` */
    atomic_int requests;
    char request[512];              /* the first one; read it after `requests` is not 0 */
} checked_t;

enum { OK, BROKEN, INTERIM, NO_HTTP, SILENT, CLOSE, ENDLESS };

static const char *const answers[] = {
    [OK] = "HTTP/1.1 204 No Content\r\n\r\n",
    [BROKEN] = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    [INTERIM] = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok",
    [NO_HTTP] = "220 mail.example ESMTP\r\n\r\n",
    [SILENT] = "",
    [CLOSE] = "",
    [ENDLESS] = "HTTP/1.1 200 OK\r\nX: ",
};

static void read_head(int fd, char *out, size_t size)
{
    size_t have = 0;
    ssize_t n;
    while (have < size - 1 && (n = read(fd, out + have, size - 1 - have)) > 0) {
        have += (size_t)n;
        out[have] = '\0';
        if (strstr(out, "\r\n\r\n"))
            return;
    }
}

static void answer_one(checked_t *t, int fd)
{
    char head[512] = "";
    read_head(fd, head, sizeof head);
    if (head[0] == '\0')
        return;
    if (atomic_load(&t->requests) == 0)
        snprintf(t->request, sizeof t->request, "%s", head);
    int how = atomic_load(&t->answer);
    ssize_t n = send(fd, answers[how], strlen(answers[how]), MSG_NOSIGNAL);
    atomic_fetch_add(&t->requests, 1);
    while (how == ENDLESS && n > 0)
        n = send(fd, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 31, MSG_NOSIGNAL);
    if (how == SILENT)
        (void)read(fd, head, sizeof head);      /* until the gateway hangs up */
}

static void *serve(void *arg)
{
    checked_t *t = arg;
    int fd;
    while ((fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        answer_one(t, fd);
        close(fd);
    }
    return NULL;
}

static int set_up(void **state)
{
    checked_t *t = SG_NEW(checked_t);
    t->fds_before = count_fds();
    t->listener = listen_on(&t->port, 16);
    assert_int_equal(pthread_create(&t->thread, NULL, serve, t), 0);
    conf_init(&t->f.conf);
    conf_add(&t->f.conf, false, "127.0.0.1", t->port);
    t->f.conf.upstream.health.path = (char *)(uintptr_t)"/healthz?deep=1";
    t->f.conf.upstream.health.interval_us = 5000;
    t->f.conf.upstream.health.timeout_us = 5000000;
    t->f.conf.upstream.health.healthy = 2;
    t->f.conf.upstream.health.unhealthy = 3;
    t->f.conf.upstream.health.status_min = 200;
    t->f.conf.upstream.health.status_max = 399;
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    checked_t *t = *state;
    fixture_stop(&t->f);
    shutdown(t->listener, SHUT_RDWR);
    pthread_join(t->thread, NULL);
    close(t->listener);
    int left = count_fds() - t->fds_before;
    if (left != 0)
        fprintf(stderr, "%d files left open\n", left);
    sg_free(t);
    return left == 0 ? 0 : -1;
}

static bool up(checked_t *t)
{
    return status_of(&t->f, 0).up;
}

static void asks_plainly(void **state)
{
    checked_t *t = *state;
    fixture_start(&t->f);
    TURN_UNTIL(&t->f, atomic_load(&t->requests) >= 3);
    char expected[256];
    snprintf(expected, sizeof expected,
             "GET /healthz?deep=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: slotgate-health\r\n"
             "Connection: close\r\n\r\n", t->port);
    assert_string_equal(t->request, expected);
    assert_true(up(t));
}

static void goes_down_and_comes_back(void **state)
{
    checked_t *t = *state;
    atomic_store(&t->answer, BROKEN);
    fixture_start(&t->f);
    TURN_UNTIL(&t->f, !up(t));
    assert_true(atomic_load(&t->requests) >= 3);
    assert_false(status_of(&t->f, 0).ejected);
    int before = atomic_load(&t->requests);
    atomic_store(&t->answer, OK);
    TURN_UNTIL(&t->f, up(t));
    assert_true(atomic_load(&t->requests) >= before + 2);
}

static void interim_answers_do_not_count(void **state)
{
    checked_t *t = *state;
    atomic_store(&t->answer, INTERIM);
    t->f.conf.upstream.health.unhealthy = 1;
    fixture_start(&t->f);
    TURN_UNTIL(&t->f, atomic_load(&t->requests) >= 4);
    assert_true(up(t));
}

static void takes_it_down(checked_t *t, int answer)
{
    atomic_store(&t->answer, answer);
    t->f.conf.upstream.health.unhealthy = 2;
    fixture_start(&t->f);
    TURN_UNTIL(&t->f, !up(t));
}

static void what_is_not_http_is_bad(void **state)
{
    takes_it_down(*state, NO_HTTP);
}

static void an_end_without_answer_is_bad(void **state)
{
    takes_it_down(*state, CLOSE);
}

static void a_head_without_end_is_bad(void **state)
{
    takes_it_down(*state, ENDLESS);
}

static void silence_is_bad_after_the_timeout(void **state)
{
    checked_t *t = *state;
    t->f.conf.upstream.health.timeout_us = 20000;
    takes_it_down(t, SILENT);
}

static void a_refused_connect_is_bad(void **state)
{
    checked_t *t = *state;
    unsigned port;
    close(listen_on(&port, 1));     /* nobody listens there now */
    t->f.conf.upstream.target_count = 0;
    conf_add(&t->f.conf, false, "127.0.0.1", port);
    fixture_start(&t->f);
    TURN_UNTIL(&t->f, !up(t));
}

static void a_target_that_is_down_gets_no_requests(void **state)
{
    checked_t *t = *state;
    unsigned port;
    close(listen_on(&port, 1));
    conf_add(&t->f.conf, false, "127.0.0.1", port);
    fixture_start(&t->f);
    TURN_UNTIL(&t->f, !status_of(&t->f, 1).up);
    assert_true(up(t));
    dialed_t d;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(dial_start(&t->f, &d), SG_ERR_AGAIN);
        assert_int_equal(sg_dial_target_index(d.dial), 0);
        sg_dial_cancel(d.dial);
    }
}

static void one_check_per_interval_over_all_workers(void **state)
{
    checked_t *t = *state;
    t->f.conf.upstream.health.interval_us = 60000000;
    fixture_start(&t->f);
    sg_upstreams_t *other = sg_upstreams_new(t->f.loop, &t->f.conf.config, t->f.shared, NULL);
    TURN_UNTIL(&t->f, atomic_load(&t->requests) >= 1 && status_of(&t->f, 0).busy == 0);
    for (int i = 0; i < 5; i++)
        sg_loop_turn(t->f.loop, 2000);
    assert_int_equal(atomic_load(&t->requests), 1);
    sg_upstreams_free(other);
}

static void without_checks_nothing_is_down(void **state)
{
    checked_t *t = *state;
    atomic_store(&t->answer, BROKEN);
    fixture_start(&t->f);
    TURN_UNTIL(&t->f, !up(t));
    t->f.conf.upstream.health.path = NULL;
    sg_upstreams_reload(t->f.ups, &t->f.conf.config);
    assert_true(up(t));
}

static void freed_in_the_middle_of_a_check(void **state)
{
    checked_t *t = *state;
    atomic_store(&t->answer, SILENT);
    fixture_start(&t->f);
    TURN_UNTIL(&t->f, atomic_load(&t->requests) == 1);
    assert_int_equal(status_of(&t->f, 0).busy, 1);
    /* tear_down frees it now */
}

int main(void)
{
#define CHECKED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CHECKED(asks_plainly),
        CHECKED(goes_down_and_comes_back),
        CHECKED(interim_answers_do_not_count),
        CHECKED(what_is_not_http_is_bad),
        CHECKED(an_end_without_answer_is_bad),
        CHECKED(a_head_without_end_is_bad),
        CHECKED(silence_is_bad_after_the_timeout),
        CHECKED(a_refused_connect_is_bad),
        CHECKED(a_target_that_is_down_gets_no_requests),
        CHECKED(one_check_per_interval_over_all_workers),
        CHECKED(without_checks_nothing_is_down),
        CHECKED(freed_in_the_middle_of_a_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
