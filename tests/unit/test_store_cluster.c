/* Decisions by a Redis Cluster of two real nodes: slots learned, on their way, moved; a node that is gone. */
#include "store/cluster.h"
#include "store_fixture.h"

#define MANY 40

typedef struct {
    fixture_t *f;
    fixture_t node[2];
    char id[2][41];
    char names[2][32];
    char *seeds[2];
} cluster_t;

static void id_of(cluster_t *c, int i)
{
    char *id = say(&c->node[i], "CLUSTER MYID");
    (void)snprintf(c->id[i], sizeof c->id[i], "%s", id);
    sg_free(id);
}

static bool cluster_is_ok(fixture_t *node)
{
    char *info = say(node, "CLUSTER INFO");
    bool ok = strstr(info, "cluster_state:ok") && strstr(info, "cluster_known_nodes:2");
    sg_free(info);
    return ok;
}

static int setup(void **state)
{
    cluster_t *c = SG_NEW(cluster_t);
    c->f = fixture_new();
    for (int i = 0; i < 2; i++) {
        fixture_t *n = &c->node[i];
        place_new(n);
        free_port(n->port);
        free_port(n->bus_port);
        server_start(n);
        id_of(c, i);
        (void)snprintf(c->names[i], sizeof c->names[i], "127.0.0.1:%s", n->port);
        c->seeds[i] = c->names[i];
    }
    say_expect(&c->node[0], "OK", "CLUSTER ADDSLOTSRANGE 0 8191");
    say_expect(&c->node[1], "OK", "CLUSTER ADDSLOTSRANGE 8192 16383");
    say_expect(&c->node[0], "OK", "CLUSTER MEET 127.0.0.1 %s %s", c->node[1].port, c->node[1].bus_port);
    int64_t end_us = sg_clock_mono_us() + 2 * PATIENCE_US;
    while (!cluster_is_ok(&c->node[0]) || !cluster_is_ok(&c->node[1])) {
        assert_true(sg_clock_mono_us() < end_us);
        (void)usleep(10000);
    }
    c->f->conf.store.mode = SG_REDIS_CLUSTER;
    c->f->conf.store.unix_path = NULL;
    c->f->conf.store.nodes = c->seeds;
    c->f->conf.store.node_count = 1;        /* the other one is heard of */
    *state = c;
    return 0;
}

static int end(void **state)
{
    cluster_t *c = *state;
    close_store(c->f);
    place_free(&c->node[0]);
    place_free(&c->node[1]);
    fixture_free(c->f);
    sg_free(c);
    return 0;
}

static const char *tag_of(int i, char out[24])
{
    (void)snprintf(out, 24, "%022d", i);
    return out;
}

static void connect_store(cluster_t *c)
{
    char tag[24];
    sg_limit_t l = bucket(1000000);
    open_store(c->f);
    decide_until(c->f, tag_of(9999, tag), &l, SG_FROM_STORE);
}

/* Slots as the specification's example and as a server says. */
static void test_slots(void **state)
{
    cluster_t *c = *state;
    char tag[24];
    assert_int_equal(sg_cluster_slot(SG_STR("123456789")), 0x31c3);
    for (int i = 0; i < MANY; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "CLUSTER KEYSLOT a:{%s}:b", tag_of(i, tag));
        char *slot = say(&c->node[0], line);
        assert_int_equal(sg_cluster_slot(sg_str(tag)), strtol(slot, NULL, 10));
        sg_free(slot);
    }
}

/* Callers on both nodes, all of them exact, though only one node was named. */
static void test_exact_on_both_nodes(void **state)
{
    cluster_t *c = *state;
    sg_limit_t l = bucket(2);
    char tag[24];
    connect_store(c);
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < 3; k++) {
            sg_answer_t a = decide_one(c->f, tag_of(i, tag), &l);
            assert_int_equal(a.source, SG_FROM_STORE);
            assert_int_equal(a.verdict.allowed, k < 2);
        }
    }
    for (int i = 0; i < 2; i++) {
        char *keys = say(&c->node[i], "DBSIZE");
        assert_true(strtol(keys, NULL, 10) > 0);
        sg_free(keys);
    }
    assert_true(metrics_say(c->f, "slotgate_store_up 1"));
    assert_true(metrics_say(c->f, "slotgate_store_errors_total{kind=\"moved\"} 0"));
}

static void settle_one(cluster_t *c, const char *tag, const sg_limit_t *l, const sg_answer_t *a, int64_t cost)
{
    asked_t q;
    ask_for(c->f, &q, tag, l);
    sg_store_settle(c->f->store, &q.check, a, cost);
}

static int64_t left_of(cluster_t *c, const char *tag, const sg_limit_t *l)
{
    asked_t q;
    ask_for(c->f, &q, tag, l);
    q.check.cost = 0;
    sg_answer_t a = decide(c->f, &q);
    assert_int_equal(a.source, SG_FROM_STORE);
    return a.verdict.at[0].remaining;
}

/* Where the decision was; and where nobody knows the slots yet, by way of the wrong node. */
static void test_settlements(void **state)
{
    cluster_t *c = *state;
    sg_limit_t l = fixed_window(100);
    sg_answer_t made_here[MANY];
    char tag[24];
    connect_store(c);
    for (int i = 0; i < MANY; i++) {
        made_here[i] = decide_one(c->f, tag_of(i, tag), &l);
        assert_int_equal(made_here[i].source, SG_FROM_STORE);
        settle_one(c, tag, &l, &made_here[i], 7);
        assert_int_equal(left_of(c, tag, &l), 93);
    }
    close_store(c->f);
    connect_store(c);
    for (int i = 0; i < MANY; i++)
        settle_one(c, tag_of(i, tag), &l, &made_here[i], 3);
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    for (int i = 0; i < MANY; i++)
        while (left_of(c, tag_of(i, tag), &l) != 91)
            assert_true(sg_clock_mono_us() < end_us);
    assert_true(metrics_say(c->f, "slotgate_cost_settlements_total{outcome=\"lost\"} 0"));
}

static unsigned owner(unsigned slot)
{
    return slot < 8192 ? 0 : 1;
}

/* The slot goes to the other node with its keys: nothing is given back to the caller. */
static void test_a_slot_moves(void **state)
{
    cluster_t *c = *state;
    sg_limit_t l = bucket(2);
    char tag[24];
    unsigned slot = sg_cluster_slot(sg_str(tag_of(1, tag)));
    unsigned from = owner(slot), to = 1 - from;
    connect_store(c);
    assert_int_equal(decide_one(c->f, tag, &l).source, SG_FROM_STORE);
    say_expect(&c->node[to], "OK", "CLUSTER SETSLOT %u IMPORTING %s", slot, c->id[from]);
    say_expect(&c->node[from], "OK", "CLUSTER SETSLOT %u MIGRATING %s", slot, c->id[to]);
    /* On its way, a caller who is new in it: ASK leads to the new node, for this once. */
    sg_limit_t other = fixed_window(5);
    sg_answer_t a = decide_one(c->f, tag, &other);
    assert_int_equal(a.source, SG_FROM_STORE);
    assert_true(a.verdict.allowed);
    say_expect(&c->node[from], "OK", "MIGRATE 127.0.0.1 %s rl:tb:v1:{%s}:all.burst 0 1000", c->node[to].port,
               tag);
    say_expect(&c->node[to], "OK", "CLUSTER SETSLOT %u NODE %s", slot, c->id[to]);
    say_expect(&c->node[from], "OK", "CLUSTER SETSLOT %u NODE %s", slot, c->id[to]);
    a = decide_one(c->f, tag, &l);
    assert_int_equal(a.source, SG_FROM_STORE);
    assert_true(a.verdict.allowed);
    a = decide_one(c->f, tag, &l);
    assert_int_equal(a.source, SG_FROM_STORE);
    assert_false(a.verdict.allowed);
}

/* Turns the loop until nobody holds a slot. */
static void slots_become_free(cluster_t *c, unsigned node, const char *tag)
{
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    char line[96];
    (void)snprintf(line, sizeof line, "ZCARD rl:cc:v1:{%s}:all.slots", tag);
    for (bool done = false; !done;) {
        assert_true(sg_clock_mono_us() < end_us);
        turn(c->f);
        char *got = say(&c->node[node], line);
        done = strcmp(got, "0") == 0;
        sg_free(got);
    }
}

/* What is given back follows the caller: to where the slot is going, and to where it has gone. */
static void test_releases_follow_a_slot(void **state)
{
    cluster_t *c = *state;
    sg_limit_t l = concurrency(2);
    char tag[24];
    asked_t first, second;
    unsigned slot = sg_cluster_slot(sg_str(tag_of(1, tag)));
    unsigned from = owner(slot), to = 1 - from;
    connect_store(c);
    sg_limit_t other = bucket(1000);
    assert_int_equal(decide_one(c->f, tag, &other).source, SG_FROM_STORE);
    say_expect(&c->node[to], "OK", "CLUSTER SETSLOT %u IMPORTING %s", slot, c->id[from]);
    say_expect(&c->node[from], "OK", "CLUSTER SETSLOT %u MIGRATING %s", slot, c->id[to]);
    ask_for(c->f, &first, tag, &l);
    assert_int_equal(decide(c->f, &first).source, SG_FROM_STORE);
    ask_for(c->f, &second, tag, &l);
    assert_int_equal(decide(c->f, &second).source, SG_FROM_STORE);
    assert_false(decide_one(c->f, tag, &l).verdict.allowed);
    sg_store_release(c->f->store, &first.check, SG_FROM_STORE);
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    ask_for(c->f, &first, tag, &l);
    while (!decide(c->f, &first).verdict.allowed) {
        assert_true(sg_clock_mono_us() < end_us);
        turn(c->f);
    }
    say_expect(&c->node[from], "OK", "MIGRATE 127.0.0.1 %s rl:tb:v1:{%s}:all.burst 0 1000", c->node[to].port,
               tag);
    say_expect(&c->node[to], "OK", "CLUSTER SETSLOT %u NODE %s", slot, c->id[to]);
    say_expect(&c->node[from], "OK", "CLUSTER SETSLOT %u NODE %s", slot, c->id[to]);
    sg_store_release(c->f->store, &second.check, SG_FROM_STORE);
    sg_store_release(c->f->store, &first.check, SG_FROM_STORE);
    slots_become_free(c, to, tag);
}

/* Its callers get the policy, those of the other node are not touched. */
static void test_a_node_is_gone(void **state)
{
    cluster_t *c = *state;
    sg_limit_t l = bucket(1000000);
    char here[24], gone[24];
    int i = 0;
    while (owner(sg_cluster_slot(sg_str(tag_of(i, here)))) != 0)
        i++;
    for (i = 0; owner(sg_cluster_slot(sg_str(tag_of(i, gone)))) != 1;)
        i++;
    say_expect(&c->node[0], "OK", "CONFIG SET cluster-require-full-coverage no");
    connect_store(c);
    decide_until(c->f, gone, &l, SG_FROM_STORE);
    server_stop(&c->node[1]);
    for (i = 0; i < 20; i++) {
        assert_int_equal(decide_one(c->f, gone, &l).source, SG_FROM_LOCAL);
        assert_int_equal(decide_one(c->f, here, &l).source, SG_FROM_STORE);
    }
    assert_true(metrics_say(c->f, "slotgate_store_up 0"));
    server_start(&c->node[1]);
    decide_until(c->f, gone, &l, SG_FROM_STORE);
    assert_true(metrics_say(c->f, "slotgate_store_up 1"));
}

static void test_reload(void **state)
{
    cluster_t *c = *state;
    sg_limit_t l = bucket(9);
    char tag[24];
    connect_store(c);
    assert_int_equal(decide_one(c->f, tag_of(1, tag), &l).verdict.at[0].remaining, 8);
    sg_config_t next = c->f->conf;
    next.refs = 1;
    sg_store_reload(c->f->store, &next);
    asked_t q;
    got_t g;
    ask_for(c->f, &q, tag, &l);
    assert_non_null(begin(c->f, &q, &g));
    sg_config_t last = next;
    last.refs = 1;
    last.store.node_count = 2;
    sg_store_reload(c->f->store, &last);    /* what is out is still answered */
    wait_for(c->f, &g);
    assert_int_equal(g.a.source, SG_FROM_STORE);
    assert_int_equal(g.a.verdict.at[0].remaining, 7);
    decide_until(c->f, tag, &l, SG_FROM_STORE);
    turn(c->f);
    assert_int_equal(next.refs, 1);         /* the old connections are gone */
    close_store(c->f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_slots, setup, end),
        cmocka_unit_test_setup_teardown(test_exact_on_both_nodes, setup, end),
        cmocka_unit_test_setup_teardown(test_settlements, setup, end),
        cmocka_unit_test_setup_teardown(test_a_slot_moves, setup, end),
        cmocka_unit_test_setup_teardown(test_releases_follow_a_slot, setup, end),
        cmocka_unit_test_setup_teardown(test_a_node_is_gone, setup, end),
        cmocka_unit_test_setup_teardown(test_reload, setup, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
