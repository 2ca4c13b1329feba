#include <pthread.h>

#include "upstream_fixture.h"

#include "base/hash.h"
#include "upstream/balance.h"
#include "upstream/shared.h"

static sg_candidate_t candidate(unsigned weight, const char *url)
{
    return (sg_candidate_t){.weight = weight, .seed = sg_fnv1a(sg_str(url))};
}

/* --- the pure choice ------------------------------------------------------------------------ */

static void round_robin_follows_weights_smoothly(void **state)
{
    (void)state;
    sg_candidate_t c[] = {candidate(5, "a"), candidate(1, "b"), candidate(1, "c")};
    char order[15] = "";
    for (int i = 0; i < 14; i++)
        order[i] = (char)('a' + sg_balance_pick(SG_BALANCE_ROUND_ROBIN, c, 3, 0));
    assert_string_equal(order, "aabacaaaabacaa");       /* the sequence of the algorithm for 5, 1, 1 */
}

static void weight_zero_is_never_picked(void **state)
{
    (void)state;
    sg_candidate_t c[] = {candidate(0, "a"), candidate(1, "b")};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sg_balance_pick(SG_BALANCE_ROUND_ROBIN, c, 2, 0), 1);
        assert_int_equal(sg_balance_pick(SG_BALANCE_LEAST_REQUESTS, c, 2, 0), 1);
        assert_int_equal(sg_balance_pick(SG_BALANCE_HASH, c, 2, (uint64_t)i), 1);
    }
    c[1].weight = 0;
    assert_int_equal(sg_balance_pick(SG_BALANCE_ROUND_ROBIN, c, 2, 0), SG_PICK_NONE);
    assert_int_equal(sg_balance_pick(SG_BALANCE_ROUND_ROBIN, c, 0, 0), SG_PICK_NONE);
}

static void least_requests_looks_at_load_for_weight(void **state)
{
    (void)state;
    sg_candidate_t c[] = {candidate(1, "a"), candidate(3, "b"), candidate(1, "c")};
    c[0].in_flight = 2;
    c[1].in_flight = 5;     /* (5 + 1) / 3 = 2 */
    c[2].in_flight = 3;
    assert_int_equal(sg_balance_pick(SG_BALANCE_LEAST_REQUESTS, c, 3, 0), 1);
    c[1].in_flight = 9;
    assert_int_equal(sg_balance_pick(SG_BALANCE_LEAST_REQUESTS, c, 3, 0), 0);
    c[0].in_flight = c[2].in_flight = 0;
    int seen[3] = {0};
    for (int i = 0; i < 10; i++)
        seen[sg_balance_pick(SG_BALANCE_LEAST_REQUESTS, c, 3, 0)]++;
    assert_int_equal(seen[0], 5);       /* equals take turns */
    assert_int_equal(seen[2], 5);
}

enum { KEYS = 20000 };

static int hash_pick(sg_candidate_t *c, size_t n, int key)
{
    char text[32];
    snprintf(text, sizeof text, "tenant-%d", key);
    return sg_balance_pick(SG_BALANCE_HASH, c, n, sg_fnv1a(sg_str(text)));
}

static void hash_shares_by_weight(void **state)
{
    (void)state;
    sg_candidate_t c[] = {candidate(1, "http://a"), candidate(2, "http://b"), candidate(1, "http://c")};
    int seen[3] = {0};
    for (int i = 0; i < KEYS; i++)
        seen[hash_pick(c, 3, i)]++;
    assert_in_range(seen[0], KEYS * 22 / 100, KEYS * 28 / 100);
    assert_in_range(seen[1], KEYS * 46 / 100, KEYS * 54 / 100);
    assert_in_range(seen[2], KEYS * 22 / 100, KEYS * 28 / 100);
}

static void hash_is_stable(void **state)
{
    (void)state;
    sg_candidate_t all[] = {candidate(1, "http://a"), candidate(1, "http://b"), candidate(1, "http://c")};
    sg_candidate_t other[] = {all[2], all[0]};      /* another order, and b is gone */
    sg_candidate_t without[] = {all[0], all[1], all[2]};
    without[1].out = true;
    static const int back[] = {2, 0};
    int moved = 0;
    for (int i = 0; i < KEYS; i++) {
        int before = hash_pick(all, 3, i);
        int after = back[hash_pick(other, 2, i)];
        assert_int_equal(hash_pick(without, 3, i), after);
        if (before != 1)
            assert_int_equal(after, before);        /* only b's keys move */
        else
            moved++;
    }
    assert_true(moved > KEYS / 4);
}

static void tried_out_and_full_in_this_order(void **state)
{
    (void)state;
    for (int how = SG_BALANCE_ROUND_ROBIN; how <= SG_BALANCE_HASH; how++) {
        sg_candidate_t c[] = {candidate(1, "a"), candidate(1, "b"), candidate(1, "c")};
        c[0].tried = c[1].out = true;
        assert_int_equal(sg_balance_pick((sg_balance_t)how, c, 3, 1), 2);
        c[2].full = true;
        assert_int_equal(sg_balance_pick((sg_balance_t)how, c, 3, 1), 0);   /* tried before ejected */
        c[0].full = true;
        assert_int_equal(sg_balance_pick((sg_balance_t)how, c, 3, 1), SG_PICK_FULL);
        c[0] = c[2] = c[1];     /* all out: all are used */
        c[0].tried = c[2].tried = true;
        assert_int_equal(sg_balance_pick((sg_balance_t)how, c, 3, 1), 1);
    }
}

/* --- ejection, over all workers ------------------------------------------------------------- */

static void ejected_after_failures_in_a_row(void **state)
{
    (void)state;
    sg_upstream_shared_t *s = sg_upstream_shared_new();
    sg_shared_target_t *t = sg_shared_target_get(s, "users", "http://a");
    for (int i = 0; i < 2; i++)
        assert_false(sg_shared_target_report(t, false, 3, 1000, 50));
    assert_false(sg_shared_target_report(t, true, 3, 1000, 50));
    for (int i = 0; i < 2; i++)
        assert_false(sg_shared_target_report(t, false, 3, 1000, 50));
    assert_false(sg_shared_target_is_ejected(t, 50));
    assert_true(sg_shared_target_report(t, false, 3, 1000, 50));
    assert_false(sg_shared_target_report(t, false, 3, 1000, 60));   /* already out: told once */
    assert_true(sg_shared_target_is_ejected(t, 1049));
    assert_false(sg_shared_target_is_ejected(t, 1050));
    /* Back on trial: the first failure ends it, a success clears it. */
    assert_true(sg_shared_target_report(t, false, 3, 1000, 1100));
    assert_true(sg_shared_target_is_ejected(t, 2099));
    assert_false(sg_shared_target_report(t, true, 3, 1000, 2200));
    assert_false(sg_shared_target_report(t, false, 3, 1000, 2200));
    assert_false(sg_shared_target_report(t, false, 0, 1000, 2200));
    sg_shared_target_t *again = sg_shared_target_get(s, "users", "http://a");
    assert_ptr_equal(again, t);
    sg_shared_target_put(s, t);
    sg_shared_target_put(s, again);
    sg_upstream_shared_free(s);
}

static void checks_count_in_a_row(void **state)
{
    (void)state;
    sg_upstream_shared_t *s = sg_upstream_shared_new();
    sg_shared_target_t *t = sg_shared_target_get(s, "users", "http://a");
    assert_true(sg_shared_target_claim_check(t, 100, 1000));
    assert_false(sg_shared_target_claim_check(t, 100, 1099));
    assert_true(sg_shared_target_claim_check(t, 100, 1100));
    assert_false(sg_shared_target_checked(t, false, 2, 3));
    assert_false(sg_shared_target_checked(t, false, 2, 3));
    assert_false(sg_shared_target_checked(t, true, 2, 3));
    for (int i = 0; i < 2; i++)
        assert_false(sg_shared_target_checked(t, false, 2, 3));
    assert_true(sg_shared_target_checked(t, false, 2, 3));
    assert_true(atomic_load(&t->down));
    assert_false(sg_shared_target_checked(t, false, 2, 3));
    assert_false(sg_shared_target_checked(t, true, 2, 3));
    assert_true(sg_shared_target_checked(t, true, 2, 3));
    assert_false(atomic_load(&t->down));
    sg_shared_target_put(s, t);
    sg_upstream_shared_free(s);
}

enum { THREADS = 4, ROUNDS = 20000, SLOTS = 2 };

typedef struct {
    sg_upstream_shared_t *shared;
    atomic_int *inside, *most;
} racer_t;

static void *race(void *arg)
{
    const racer_t *r = arg;
    sg_shared_target_t *t = sg_shared_target_get(r->shared, "users", "http://a");
    for (int i = 0; i < ROUNDS; i++) {
        if (!sg_shared_target_enter(t, SLOTS))
            continue;
        int now = atomic_fetch_add(r->inside, 1) + 1;
        int most = atomic_load(r->most);
        while (now > most && !atomic_compare_exchange_weak(r->most, &most, now))
            ;
        atomic_fetch_sub(r->inside, 1);
        sg_shared_target_leave(t);
    }
    sg_shared_target_put(r->shared, t);
    return NULL;
}

static void slots_hold_over_threads(void **state)
{
    (void)state;
    atomic_int inside = 0, most = 0;
    racer_t r = {.shared = sg_upstream_shared_new(), .inside = &inside, .most = &most};
    sg_shared_target_t *t = sg_shared_target_get(r.shared, "users", "http://a");
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, race, &r), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_in_range(most, 1, SLOTS);
    assert_int_equal(atomic_load(&t->in_flight), 0);
    sg_shared_target_put(r.shared, t);
    sg_upstream_shared_free(r.shared);
}

/* --- through the public functions ----------------------------------------------------------- */

typedef struct {
    fixture_t f;
    int listener[3];
    int fds_before;
} three_t;

static int set_up(void **state)
{
    three_t *t = SG_NEW(three_t);
    t->fds_before = count_fds();
    conf_init(&t->f.conf);
    for (int i = 0; i < 3; i++) {
        unsigned port;
        t->listener[i] = listen_on(&port, 64);
        conf_add(&t->f.conf, false, "127.0.0.1", port);
    }
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    three_t *t = *state;
    fixture_stop(&t->f);
    for (int i = 0; i < 3; i++)
        close(t->listener[i]);
    int left = count_fds() - t->fds_before;
    sg_free(t);
    return left == 0 ? 0 : -1;
}

static unsigned index_of_next(fixture_t *f, const sg_dial_request_t *req)
{
    dialed_t d;
    sg_err_t err = dial_request(f, req, &d);
    if (err == SG_ERR_AGAIN) {
        assert_string_equal(sg_dial_target(d.dial)->url, f->conf.urls[sg_dial_target_index(d.dial)]);
        unsigned index = sg_dial_target_index(d.dial);
        TURN_UNTIL(f, d.done);
        assert_int_equal(sg_conn_target_index(d.conn), index);
    }
    unsigned index = sg_conn_target_index(d.conn);
    assert_string_equal(sg_conn_target(d.conn)->url, f->conf.urls[index]);
    sg_conn_give_back(d.conn);
    return index;
}

static void requests_follow_weights(void **state)
{
    three_t *t = *state;
    t->f.conf.targets[1].weight = 2;
    fixture_start(&t->f);
    sg_dial_request_t req = {.upstream = &t->f.conf.upstream};
    int seen[3] = {0};
    for (int i = 0; i < 40; i++)
        seen[index_of_next(&t->f, &req)]++;
    assert_int_equal(seen[0], 10);
    assert_int_equal(seen[1], 20);
    assert_int_equal(seen[2], 10);
    assert_int_equal(status_of(&t->f, 1).idle, 1);
}

static void a_key_stays_at_its_target(void **state)
{
    three_t *t = *state;
    t->f.conf.upstream.balance = SG_BALANCE_HASH;
    fixture_start(&t->f);
    int used[3] = {0};
    for (int k = 0; k < 32; k++) {
        char key[16];
        snprintf(key, sizeof key, "key-%d", k);
        sg_dial_request_t req = {.upstream = &t->f.conf.upstream, .hash_key = sg_str(key)};
        unsigned index = index_of_next(&t->f, &req);
        assert_int_equal(index_of_next(&t->f, &req), index);
        used[index]++;
        req.tried = UINT64_C(1) << index;
        assert_int_not_equal(index_of_next(&t->f, &req), index);
    }
    assert_true(used[0] && used[1] && used[2]);
}

static void tried_targets_come_last(void **state)
{
    three_t *t = *state;
    fixture_start(&t->f);
    sg_dial_request_t req = {.upstream = &t->f.conf.upstream, .tried = 5};
    for (int i = 0; i < 4; i++)
        assert_int_equal(index_of_next(&t->f, &req), 1);
    req.tried = 7;
    (void)index_of_next(&t->f, &req);       /* all have failed: one of them all the same */
}

static void failing_target_is_ejected_and_returns(void **state)
{
    three_t *t = *state;
    t->f.conf.upstream.eject.failures = 2;
    t->f.conf.upstream.eject.for_us = 50000;
    fixture_start(&t->f);
    sg_dial_request_t req = {.upstream = &t->f.conf.upstream};
    sg_upstream_report(t->f.ups, &t->f.conf.upstream, 1, false);
    assert_false(status_of(&t->f, 1).ejected);
    sg_upstream_report(t->f.ups, &t->f.conf.upstream, 1, false);
    assert_true(status_of(&t->f, 1).ejected);
    assert_false(status_of(&t->f, 1).up);
    for (int i = 0; i < 4; i++)
        assert_int_not_equal(index_of_next(&t->f, &req), 1);
    TURN_UNTIL(&t->f, !status_of(&t->f, 1).ejected);
    assert_true(status_of(&t->f, 1).up);
    bool back = false;
    for (int i = 0; i < 3; i++)
        back |= index_of_next(&t->f, &req) == 1;
    assert_true(back);
}

static void all_ejected_means_all_in_use(void **state)
{
    three_t *t = *state;
    t->f.conf.upstream.eject.failures = 1;
    t->f.conf.upstream.eject.for_us = 60000000;
    fixture_start(&t->f);
    sg_dial_request_t req = {.upstream = &t->f.conf.upstream};
    int seen[3] = {0};
    for (unsigned i = 0; i < 3; i++)
        sg_upstream_report(t->f.ups, &t->f.conf.upstream, i, false);
    for (int i = 0; i < 6; i++)
        seen[index_of_next(&t->f, &req)]++;
    assert_true(seen[0] == 2 && seen[1] == 2 && seen[2] == 2);
}

static void max_requests_counts_dials_and_loans_of_all_workers(void **state)
{
    three_t *t = *state;
    t->f.conf.upstream.target_count = 2;
    t->f.conf.upstream.max_requests = 1;
    fixture_start(&t->f);
    sg_upstreams_t *other = sg_upstreams_new(t->f.loop, &t->f.conf.config, t->f.shared, NULL);
    sg_dial_request_t req = {.upstream = &t->f.conf.upstream};
    sg_conn_t *c = dial_new(&t->f);
    dialed_t d, e, g;
    assert_int_equal(dial_start(&t->f, &d), SG_ERR_AGAIN);
    assert_int_equal(dial_start(&t->f, &e), SG_ERR_FULL);
    assert_int_equal(sg_upstream_dial(other, &req, &g.conn, &g.dial, on_dialed, &g), SG_ERR_FULL);
    sg_dial_cancel(d.dial);
    assert_int_equal(sg_upstream_dial(other, &req, &g.conn, &g.dial, on_dialed, &g), SG_ERR_AGAIN);
    assert_int_equal(dial_start(&t->f, &e), SG_ERR_FULL);
    sg_conn_give_back(c);
    assert_int_equal(dial_start(&t->f, &e), SG_OK);
    sg_conn_close(e.conn);
    sg_dial_cancel(g.dial);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(dial_start(&t->f, i ? &d : &e), SG_ERR_AGAIN);
    sg_dial_cancel(d.dial);
    sg_dial_cancel(e.dial);
    sg_upstreams_free(other);
}

/* A failed dial gives its slot back before its callback, which may dial again. */
static void dial_again(void *arg, sg_err_t err, sg_conn_t *conn, const char *text)
{
    three_t *t = arg;
    (void)conn;
    (void)text;
    assert_int_equal(err, SG_ERR_CONNECT);
    static dialed_t d;
    assert_int_equal(dial_start(&t->f, &d), SG_ERR_AGAIN);
    sg_dial_cancel(d.dial);
    sg_loop_stop(t->f.loop);
}

static void a_failed_dial_frees_its_slot_first(void **state)
{
    three_t *t = *state;
    t->f.conf.upstream.target_count = 1;
    t->f.conf.upstream.max_requests = 1;
    close(t->listener[0]);
    fixture_start(&t->f);
    sg_dial_request_t req = {.upstream = &t->f.conf.upstream};
    sg_conn_t *conn;
    sg_dial_t *dial;
    assert_int_equal(sg_upstream_dial(t->f.ups, &req, &conn, &dial, dial_again, t), SG_ERR_AGAIN);
    sg_loop_run(t->f.loop);
    t->listener[0] = socket(AF_INET, SOCK_STREAM, 0);
}

int main(void)
{
#define WITH_THREE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_robin_follows_weights_smoothly),
        cmocka_unit_test(weight_zero_is_never_picked),
        cmocka_unit_test(least_requests_looks_at_load_for_weight),
        cmocka_unit_test(hash_shares_by_weight),
        cmocka_unit_test(hash_is_stable),
        cmocka_unit_test(tried_out_and_full_in_this_order),
        cmocka_unit_test(ejected_after_failures_in_a_row),
        cmocka_unit_test(checks_count_in_a_row),
        cmocka_unit_test(slots_hold_over_threads),
        WITH_THREE(requests_follow_weights),
        WITH_THREE(a_key_stays_at_its_target),
        WITH_THREE(tried_targets_come_last),
        WITH_THREE(failing_target_is_ejected_and_returns),
        WITH_THREE(all_ejected_means_all_in_use),
        WITH_THREE(max_requests_counts_dials_and_loans_of_all_workers),
        WITH_THREE(a_failed_dial_frees_its_slot_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
