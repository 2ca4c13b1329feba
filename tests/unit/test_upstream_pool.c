#include "upstream_fixture.h"

#include "upstream/pool.h"

/* One target on loopback; the server's side of each connection is a socket of the test. */
typedef struct {
    fixture_t f;
    int listener;
    int fds_before;
} one_t;

static int set_up(void **state)
{
    one_t *t = SG_NEW(one_t);
    unsigned port;
    signal(SIGPIPE, SIG_IGN);
    t->fds_before = count_fds();
    t->listener = listen_on(&port, 16);
    conf_init(&t->f.conf);
    conf_add(&t->f.conf, false, "127.0.0.1", port);
    fixture_start(&t->f);
    *state = t;
    return 0;
}

/* Every test ends with as many open files as it began with. */
static int tear_down(void **state)
{
    one_t *t = *state;
    fixture_stop(&t->f);
    close(t->listener);
    int left = count_fds() - t->fds_before;
    if (left != 0)
        fprintf(stderr, "%d files left open\n", left);
    sg_free(t);
    return left == 0 ? 0 : -1;
}

static int accept_one(const one_t *t)
{
    int fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void bytes_go_both_ways(void **state)
{
    one_t *t = *state;
    sg_conn_t *c = dial_new(&t->f);
    int server = accept_one(t);
    char buf[16];
    size_t n = 0;
    assert_false(sg_conn_reused(c));
    assert_string_equal(sg_conn_target(c)->url, t->f.conf.urls[0]);
    assert_int_equal(sg_conn_target_index(c), 0);
    assert_int_equal(sg_conn_recv(c, buf, sizeof buf, &n), SG_ERR_AGAIN);
    assert_int_equal(sg_conn_send(c, "ping", 4, &n), SG_OK);
    assert_int_equal(n, 4);
    assert_int_equal(read(server, buf, sizeof buf), 4);
    assert_int_equal(write(server, "pong", 4), 4);
    close(server);
    assert_int_equal(sg_conn_recv(c, buf, sizeof buf, &n), SG_OK);
    assert_int_equal(n, 4);
    assert_memory_equal(buf, "pong", 4);
    assert_int_equal(sg_conn_recv(c, buf, sizeof buf, &n), SG_ERR_EOF);
    sg_conn_close(c);
}

static void reset_is_told(void **state)
{
    one_t *t = *state;
    sg_conn_t *c = dial_new(&t->f);
    int server = accept_one(t);
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    char buf[16];
    size_t n;
    setsockopt(server, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(server);
    assert_int_equal(sg_conn_recv(c, buf, sizeof buf, &n), SG_ERR_RESET);
    assert_int_equal(sg_conn_send(c, "x", 1, &n), SG_ERR_RESET);
    sg_conn_close(c);
}

static void given_back_is_handed_out_again(void **state)
{
    one_t *t = *state;
    sg_conn_t *c = dial_new(&t->f);
    int server = accept_one(t);
    assert_int_equal(status_of(&t->f, 0).busy, 1);
    sg_conn_give_back(c);
    assert_int_equal(status_of(&t->f, 0).busy, 0);
    assert_int_equal(status_of(&t->f, 0).idle, 1);
    sg_loop_turn(t->f.loop, 0);
    sg_conn_t *again = dial_pooled(&t->f);
    assert_ptr_equal(again, c);
    sg_conn_close(again);
    close(server);
}

static void most_recent_comes_first(void **state)
{
    one_t *t = *state;
    sg_conn_t *a = dial_new(&t->f), *b = dial_new(&t->f);
    sg_conn_give_back(a);
    sg_conn_give_back(b);
    assert_ptr_equal(dial_pooled(&t->f), b);
    assert_ptr_equal(dial_pooled(&t->f), a);
    sg_conn_close(a);
    sg_conn_close(b);
}

static void fresh_asks_for_a_new_one(void **state)
{
    one_t *t = *state;
    dialed_t d;
    sg_dial_request_t req = {.upstream = &t->f.conf.upstream, .fresh = true};
    sg_conn_give_back(dial_new(&t->f));
    assert_int_equal(dial_request(&t->f, &req, &d), SG_ERR_AGAIN);
    TURN_UNTIL(&t->f, d.done);
    assert_int_equal(d.err, SG_OK);
    assert_false(sg_conn_reused(d.conn));
    assert_int_equal(status_of(&t->f, 0).idle, 1);
    sg_conn_close(d.conn);
}

static void stray_bytes_close_an_idle_connection(void **state)
{
    one_t *t = *state;
    sg_conn_give_back(dial_new(&t->f));
    int server = accept_one(t);
    assert_int_equal(write(server, "HTTP/1.1 200 OK\r\n", 17), 17);
    TURN_UNTIL(&t->f, status_of(&t->f, 0).idle == 0);
    char byte;
    assert_true(read(server, &byte, 1) <= 0);
    close(server);
}

static void stray_bytes_are_seen_when_handed_out(void **state)
{
    one_t *t = *state;
    dialed_t d;
    sg_conn_give_back(dial_new(&t->f));
    int server = accept_one(t);
    assert_int_equal(write(server, "x", 1), 1);
    /* No turn of the loop between: the watch has told nothing yet. */
    assert_int_equal(dial_start(&t->f, &d), SG_ERR_AGAIN);
    TURN_UNTIL(&t->f, d.done);
    assert_false(sg_conn_reused(d.conn));
    sg_conn_close(d.conn);
    close(server);
}

static void end_of_an_idle_connection_closes_it(void **state)
{
    one_t *t = *state;
    dialed_t d;
    sg_conn_t *a = dial_new(&t->f), *b = dial_new(&t->f);
    int first = accept_one(t), second = accept_one(t);
    sg_conn_give_back(a);
    sg_conn_give_back(b);
    close(first);
    TURN_UNTIL(&t->f, status_of(&t->f, 0).idle == 1);
    close(second);
    assert_int_equal(dial_start(&t->f, &d), SG_ERR_AGAIN);
    sg_dial_cancel(d.dial);
    assert_int_equal(status_of(&t->f, 0).idle, 0);
}

static void refused_connect_fails(void **state)
{
    one_t *t = *state;
    close(t->listener);
    dial_fails(&t->f, SG_ERR_CONNECT);
    t->listener = socket(AF_INET, SOCK_STREAM, 0);
}

static void environment_changes_nothing(void **state)
{
    one_t *t = *state;
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("all_proxy", "http://127.0.0.1:1", 1), 0);
    sg_conn_t *c = dial_new(&t->f);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    close(accept_one(t));
    sg_conn_close(c);
}

/* --- watching ------------------------------------------------------------------------------- */

typedef struct {
    sg_conn_t *conn;
    unsigned calls, events;
    enum { KEEP, CLOSE, GIVE_BACK } then;
} seen_t;

static void on_ready(void *arg, unsigned events)
{
    seen_t *s = arg;
    s->calls++;
    s->events = events;
    char buf[64];
    size_t n;
    if (s->then == CLOSE)
        sg_conn_close(s->conn);
    if (s->then == GIVE_BACK) {
        assert_int_equal(sg_conn_recv(s->conn, buf, sizeof buf, &n), SG_OK);
        sg_conn_give_back(s->conn);
    }
}

static void readiness_is_told_while_it_lasts(void **state)
{
    one_t *t = *state;
    seen_t s = {.conn = dial_new(&t->f)};
    int server = accept_one(t);
    sg_conn_watch(s.conn, SG_EV_READ, on_ready, &s);
    sg_loop_turn(t->f.loop, 0);
    assert_int_equal(s.calls, 0);
    assert_int_equal(write(server, "x", 1), 1);
    TURN_UNTIL(&t->f, s.calls >= 3);
    assert_int_equal(s.events, SG_EV_READ);
    sg_conn_watch(s.conn, SG_EV_WRITE, on_ready, &s);
    s.calls = 0;
    TURN_UNTIL(&t->f, s.calls >= 1);
    assert_int_equal(s.events, SG_EV_WRITE);
    /* Paused: nothing is told, until it is asked for again. */
    sg_conn_watch(s.conn, 0, on_ready, &s);
    s.calls = 0;
    for (int i = 0; i < 5; i++)
        sg_loop_turn(t->f.loop, 0);
    assert_int_equal(s.calls, 0);
    s.then = CLOSE;
    sg_conn_watch(s.conn, SG_EV_READ, on_ready, &s);
    TURN_UNTIL(&t->f, s.calls == 1);
    assert_int_equal(status_of(&t->f, 0).busy, 0);
    close(server);
}

static void callback_may_give_back(void **state)
{
    one_t *t = *state;
    seen_t s = {.conn = dial_new(&t->f), .then = GIVE_BACK};
    int server = accept_one(t);
    sg_conn_watch(s.conn, SG_EV_READ, on_ready, &s);
    assert_int_equal(write(server, "answer", 6), 6);
    TURN_UNTIL(&t->f, s.calls == 1);
    sg_loop_turn(t->f.loop, 0);
    assert_int_equal(status_of(&t->f, 0).idle, 1);
    /* The last borrower's callback belongs to nobody now. */
    sg_conn_t *c = dial_pooled(&t->f);
    assert_int_equal(write(server, "more", 4), 4);
    for (int i = 0; i < 3; i++)
        sg_loop_turn(t->f.loop, 0);
    assert_int_equal(s.calls, 1);
    char buf[8];
    size_t n;
    assert_int_equal(sg_conn_recv(c, buf, sizeof buf, &n), SG_OK);
    assert_int_equal(n, 4);
    sg_conn_close(c);
    close(server);
}

static void hang_up_is_told_once_while_paused(void **state)
{
    one_t *t = *state;
    seen_t s = {.conn = dial_new(&t->f)};
    int server = accept_one(t);
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    sg_conn_watch(s.conn, 0, on_ready, &s);
    setsockopt(server, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(server);
    TURN_UNTIL(&t->f, s.calls == 1);
    assert_int_equal(s.events, SG_EV_HUP);
    for (int i = 0; i < 5; i++)
        sg_loop_turn(t->f.loop, 0);
    assert_int_equal(s.calls, 1);
    sg_conn_watch(s.conn, SG_EV_READ, on_ready, &s);
    TURN_UNTIL(&t->f, s.calls == 2);
    sg_conn_close(s.conn);
}

/* --- cancel --------------------------------------------------------------------------------- */

static void cancel_before_and_after_the_connect_began(void **state)
{
    one_t *t = *state;
    dialed_t d;
    assert_int_equal(dial_start(&t->f, &d), SG_ERR_AGAIN);
    sg_dial_cancel(d.dial);
    assert_int_equal(dial_start(&t->f, &d), SG_ERR_AGAIN);
    sg_loop_turn(t->f.loop, 0);
    if (!d.done)
        sg_dial_cancel(d.dial);
    else
        sg_conn_close(d.conn);
    bool was_done = d.done;
    for (int i = 0; i < 5; i++)
        sg_loop_turn(t->f.loop, 0);
    assert_true(d.done == was_done);
}

static void ends_with_idle_connections(void **state)
{
    one_t *t = *state;
    sg_conn_t *c[3];
    for (int i = 0; i < 3; i++)
        c[i] = dial_new(&t->f);
    for (int i = 0; i < 3; i++)
        sg_conn_give_back(c[i]);
    assert_int_equal(status_of(&t->f, 0).idle, 3);
}

/* --- other places --------------------------------------------------------------------------- */

/* A listener whose queue is full answers no further SYN: the one way to a connect that hangs, on loopback. */
static void connect_timeout_ends_a_hanging_connect(void **state)
{
    (void)state;
    fixture_t f = {0};
    unsigned port;
    int filler[4];
    int before = count_fds();
    int listener = listen_on(&port, 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 4; i++) {
        filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(filler[i], (struct sockaddr *)&sa, sizeof sa);
    }
    conf_init(&f.conf);
    conf_add(&f.conf, false, "127.0.0.1", port);
    f.conf.upstream.connect_timeout_us = 60000;
    fixture_start(&f);
    dial_fails(&f, SG_ERR_TIMEOUT);
    dialed_t d;
    assert_int_equal(dial_start(&f, &d), SG_ERR_AGAIN);     /* cancelled in the middle of the connect */
    for (int i = 0; i < 3; i++)
        sg_loop_turn(f.loop, 1000);
    assert_false(d.done);
    sg_dial_cancel(d.dial);
    fixture_stop(&f);
    for (int i = 0; i < 4; i++)
        close(filler[i]);
    close(listener);
    assert_int_equal(count_fds(), before);
}

/* A label of more than 63 bytes: the resolver refuses it without asking anybody. */
#define NO_NAME "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.invalid"

static void name_without_address_fails(void **state)
{
    (void)state;
    fixture_t f = {0};
    int before = count_fds();
    conf_init(&f.conf);
    conf_add(&f.conf, false, NO_NAME, 80);
    fixture_start(&f);
    dial_fails(&f, SG_ERR_RESOLVE);
    dialed_t d;
    assert_int_equal(dial_start(&f, &d), SG_ERR_AGAIN);     /* cancelled in the middle of the look-up */
    sg_loop_turn(f.loop, 0);
    if (!d.done)
        sg_dial_cancel(d.dial);
    fixture_stop(&f);
    int64_t give_up_us = sg_clock_mono_us() + PATIENCE_US;
    while (count_fds() != before && sg_clock_mono_us() < give_up_us)
        usleep(1000);                                       /* the look-up's own thread ends by itself */
    assert_int_equal(count_fds(), before);
}

static void unix_socket_target(void **state)
{
    (void)state;
    fixture_t f = {0};
    char dir[] = "/tmp/slotgate-upstream-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s/s", dir);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(listener, 4), 0);
    conf_init(&f.conf);
    sg_target_conf_t *target = conf_add(&f.conf, false, "x", 0);
    target->host = NULL;
    target->unix_path = sa.sun_path;
    fixture_start(&f);
    sg_conn_t *c = dial_new(&f);
    int server = accept(listener, NULL, NULL);
    send_all(&f, c, "hello", 5);
    char buf[8];
    assert_int_equal(read(server, buf, sizeof buf), 5);
    sg_conn_give_back(c);
    assert_ptr_equal(dial_pooled(&f), c);
    sg_conn_close(c);
    fixture_stop(&f);
    close(server);
    close(listener);
    unlink(sa.sun_path);
    rmdir(dir);
}

/* --- limits of keeping ----------------------------------------------------------------------------- */

/* A name is looked up again: connections to it are not kept past resolve_interval. */
static void a_name_is_not_kept_for_ever(void **state)
{
    one_t *t = *state;
    conf_t named;
    conf_init(&named);
    conf_add(&named, false, "localhost", t->f.conf.targets[0].port);
    named.upstream.resolve_interval_us = 1000;
    sg_upstreams_reload(t->f.ups, &named.config);
    sg_dial_request_t req = {.upstream = &named.upstream};
    dialed_t d;
    assert_int_equal(dial_request(&t->f, &req, &d), SG_ERR_AGAIN);
    TURN_UNTIL(&t->f, d.done);
    assert_int_equal(d.err, SG_OK);     /* also where ::1 comes first: nobody listens there */
    int64_t start_us = sg_loop_now_us(t->f.loop);
    TURN_UNTIL(&t->f, sg_loop_now_us(t->f.loop) > start_us + 1500);
    sg_conn_give_back(d.conn);
    assert_int_equal(dial_request(&t->f, &req, &d), SG_ERR_AGAIN);
    sg_dial_cancel(d.dial);
}

static void dial_pool(one_t *t, sg_pool_t *p, sg_conn_t **conn)
{
    dialed_t d = {0};
    assert_non_null(sg_dial_start(p, 0, false, on_dialed, &d));
    TURN_UNTIL(&t->f, d.done);
    assert_non_null(d.conn);
    *conn = d.conn;
}

static void idle_connections_are_few_and_not_old(void **state)
{
    one_t *t = *state;
    sg_pools_t all;
    sg_pools_init(&all, t->f.loop, t->f.shared);
    assert_int_equal(all.idle_max, SG_POOL_IDLE_MAX);
    all.idle_max = 2;
    sg_pool_t *p = sg_pool_get(&all, &t->f.conf.upstream, &t->f.conf.targets[0]);
    sg_conn_t *c[3];
    for (int i = 0; i < 3; i++)
        dial_pool(t, p, &c[i]);
    sg_conn_give_back(c[0]);
    int64_t start_us = sg_loop_now_us(t->f.loop);
    TURN_UNTIL(&t->f, sg_loop_now_us(t->f.loop) > start_us);
    sg_conn_give_back(c[1]);
    sg_conn_give_back(c[2]);            /* one more than are kept */
    assert_int_equal(p->idle_count, 2);
    sg_pool_expire(p);
    assert_int_equal(p->idle_count, 2);
    all.idle_us = sg_loop_now_us(t->f.loop) - start_us;
    sg_pool_expire(p);                  /* the oldest has reached that age */
    assert_int_equal(p->idle_count, 1);
    assert_ptr_equal(sg_pool_take(p, 0), c[1]);
    sg_conn_close(c[1]);
    sg_pool_put(p);
    sg_pools_deinit(&all);
    sg_loop_turn(t->f.loop, 0);
}

int main(void)
{
#define WITH_ONE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_ONE(bytes_go_both_ways),
        WITH_ONE(reset_is_told),
        WITH_ONE(given_back_is_handed_out_again),
        WITH_ONE(most_recent_comes_first),
        WITH_ONE(fresh_asks_for_a_new_one),
        WITH_ONE(stray_bytes_close_an_idle_connection),
        WITH_ONE(stray_bytes_are_seen_when_handed_out),
        WITH_ONE(end_of_an_idle_connection_closes_it),
        WITH_ONE(refused_connect_fails),
        WITH_ONE(environment_changes_nothing),
        WITH_ONE(readiness_is_told_while_it_lasts),
        WITH_ONE(callback_may_give_back),
        WITH_ONE(hang_up_is_told_once_while_paused),
        WITH_ONE(cancel_before_and_after_the_connect_began),
        WITH_ONE(ends_with_idle_connections),
        WITH_ONE(a_name_is_not_kept_for_ever),
        WITH_ONE(idle_connections_are_few_and_not_old),
        cmocka_unit_test(connect_timeout_ends_a_hanging_connect),
        cmocka_unit_test(name_without_address_fails),
        cmocka_unit_test(unix_socket_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
