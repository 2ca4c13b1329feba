#include "upstream_fixture.h"

/* Two targets before the reload; what the config is afterwards, each test says. */
typedef struct {
    fixture_t f;
    conf_t next;
    int listener[2];
    unsigned port[2];
    int fds_before;
} two_t;

static int set_up(void **state)
{
    two_t *t = SG_NEW(two_t);
    t->fds_before = count_fds();
    conf_init(&t->f.conf);
    conf_init(&t->next);
    for (int i = 0; i < 2; i++) {
        t->listener[i] = listen_on(&t->port[i], 16);
        conf_add(&t->f.conf, false, "127.0.0.1", t->port[i]);
    }
    fixture_start(&t->f);
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    two_t *t = *state;
    fixture_stop(&t->f);
    for (int i = 0; i < 2; i++)
        close(t->listener[i]);
    int left = count_fds() - t->fds_before;
    sg_free(t);
    return left == 0 ? 0 : -1;
}

static void reload(two_t *t)
{
    sg_upstreams_reload(t->f.ups, &t->next.config);
}

static sg_err_t dial_next(two_t *t, dialed_t *d)
{
    sg_dial_request_t req = {.upstream = &t->next.upstream};
    return dial_request(&t->f, &req, d);
}

static void same_targets_keep_their_connections(void **state)
{
    two_t *t = *state;
    sg_conn_t *a = dial_new(&t->f), *b = dial_new(&t->f);
    sg_conn_give_back(a);       /* b is lent out during the reload */
    conf_add(&t->next, false, "127.0.0.1", t->port[1]);
    conf_add(&t->next, false, "127.0.0.1", t->port[0])->weight = 7;
    t->next.upstream.timeout_us = 1;
    reload(t);
    sg_conn_give_back(b);
    dialed_t d, e;
    assert_int_equal(dial_next(t, &d), SG_OK);
    assert_int_equal(dial_next(t, &e), SG_ERR_AGAIN);   /* the next by weight is the same target, now busy */
    sg_dial_cancel(e.dial);
    assert_ptr_equal(d.conn, a);
    assert_int_equal(sg_conn_target_index(d.conn), 1);
    assert_int_equal(sg_conn_target(d.conn)->weight, 7);
    sg_conn_close(d.conn);
}

static void removed_target_closes_idle_now_and_busy_later(void **state)
{
    two_t *t = *state;
    sg_conn_t *a = dial_new(&t->f), *b = dial_new(&t->f), *c = dial_new(&t->f);
    assert_int_equal(sg_conn_target_index(a), 0);
    assert_int_equal(sg_conn_target_index(c), 0);
    int server_a = accept(t->listener[0], NULL, NULL), server_c = accept(t->listener[0], NULL, NULL);
    sg_conn_give_back(a);
    conf_add(&t->next, false, "127.0.0.1", t->port[1]);
    reload(t);
    char byte;
    assert_int_equal(read(server_a, &byte, 1), 0);
    /* The one in flight works on, and its target is still there to be named. */
    size_t n;
    assert_int_equal(sg_conn_send(c, "x", 1, &n), SG_OK);
    assert_int_equal(read(server_c, &byte, 1), 1);
    assert_string_equal(sg_conn_target(c)->url, t->f.conf.urls[0]);
    sg_conn_give_back(c);
    assert_int_equal(read(server_c, &byte, 1), 0);
    sg_conn_give_back(b);
    dialed_t d;
    assert_int_equal(dial_next(t, &d), SG_OK);
    assert_ptr_equal(d.conn, b);
    sg_conn_close(b);
    close(server_a);
    close(server_c);
}

static void an_exchange_goes_on_with_the_old_config(void **state)
{
    two_t *t = *state;
    conf_add(&t->next, false, "127.0.0.1", t->port[1]);
    reload(t);
    dialed_t d;
    int seen[2] = {0};
    for (int i = 0; i < 4; i++) {
        sg_err_t err = dial_start(&t->f, &d);       /* asks with the conf of before */
        if (err == SG_ERR_AGAIN)
            TURN_UNTIL(&t->f, d.done);
        assert_non_null(d.conn);
        seen[sg_conn_target_index(d.conn)]++;
        sg_upstream_report(t->f.ups, &t->f.conf.upstream, sg_conn_target_index(d.conn), true);
        sg_conn_give_back(d.conn);
    }
    assert_true(seen[0] == 2 && seen[1] == 2);
    assert_int_equal(status_of(&t->f, 0).idle, 1);
    reload(t);      /* one more: nobody asks for the oldest any longer */
    assert_int_equal(status_of(&t->f, 0).idle, 0);
}

static void a_dial_outlives_the_reload(void **state)
{
    two_t *t = *state;
    dialed_t d, e;
    assert_int_equal(dial_start(&t->f, &d), SG_ERR_AGAIN);
    assert_int_equal(dial_start(&t->f, &e), SG_ERR_AGAIN);
    reload(t);      /* to an upstream without targets */
    sg_dial_cancel(e.dial);
    TURN_UNTIL(&t->f, d.done);
    assert_int_equal(d.err, SG_OK);
    sg_conn_give_back(d.conn);
    assert_int_equal(dial_next(t, &d), SG_ERR_NOT_FOUND);
}

static void another_name_is_another_pool(void **state)
{
    two_t *t = *state;
    sg_conn_give_back(dial_new(&t->f));
    conf_add(&t->next, false, "127.0.0.1", t->port[0]);
    t->next.upstream.name = (char *)(uintptr_t)"orders";
    reload(t);
    dialed_t d;
    assert_int_equal(dial_next(t, &d), SG_ERR_AGAIN);
    sg_dial_cancel(d.dial);
}

static void failures_are_remembered_over_reloads(void **state)
{
    two_t *t = *state;
    t->f.conf.upstream.eject.failures = t->next.upstream.eject.failures = 2;
    t->f.conf.upstream.eject.for_us = t->next.upstream.eject.for_us = 60000000;
    sg_upstreams_reload(t->f.ups, &t->f.conf.config);
    sg_upstream_report(t->f.ups, &t->f.conf.upstream, 0, false);
    conf_add(&t->next, false, "127.0.0.1", t->port[0]);
    conf_add(&t->next, false, "127.0.0.1", t->port[1]);
    reload(t);
    sg_upstream_report(t->f.ups, &t->next.upstream, 0, false);
    sg_target_status_t s;
    sg_upstream_status(t->f.ups, &t->next.upstream, 0, &s);
    assert_true(s.ejected);
    sg_upstream_status(t->f.ups, &t->next.upstream, 1, &s);
    assert_false(s.ejected);
}

static void requests_in_flight_count_over_reloads(void **state)
{
    two_t *t = *state;
    sg_conn_t *a = dial_new(&t->f), *b = dial_new(&t->f);
    conf_add(&t->next, false, "127.0.0.1", t->port[0]);
    conf_add(&t->next, false, "127.0.0.1", t->port[1]);
    t->next.upstream.max_requests = 1;
    reload(t);
    dialed_t d;
    assert_int_equal(dial_next(t, &d), SG_ERR_FULL);
    sg_conn_give_back(a);
    assert_int_equal(dial_next(t, &d), SG_OK);
    assert_ptr_equal(d.conn, a);
    sg_conn_close(d.conn);
    sg_conn_close(b);
}

int main(void)
{
#define WITH_TWO(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_TWO(same_targets_keep_their_connections),
        WITH_TWO(removed_target_closes_idle_now_and_busy_later),
        WITH_TWO(an_exchange_goes_on_with_the_old_config),
        WITH_TWO(a_dial_outlives_the_reload),
        WITH_TWO(another_name_is_another_pool),
        WITH_TWO(failures_are_remembered_over_reloads),
        WITH_TWO(requests_in_flight_count_over_reloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
