/* The pure parts of the Redis store: the breaker, replies without memory of their own, denials that
 * are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/breaker.h"
#include "store/deny_cache.h"
#include "store/reply.h"

/* --- breaker ---------------------------------------------------------------------------------- */

static void open_breaker(sg_breaker_t *b)
{
    for (int i = 1; i < SG_BREAKER_FAILURES; i++)
        assert_false(sg_breaker_failed(b));
    assert_int_equal(b->state, SG_BREAKER_CLOSED);
    assert_true(sg_breaker_failed(b));
    assert_int_equal(b->state, SG_BREAKER_OPEN);
}

static void test_breaker_opens_after_failures_in_a_row(void **state)
{
    (void)state;
    sg_breaker_t b = {0};
    for (int i = 0; i < 10; i++) {      /* never enough in a row */
        assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_YES);
        for (int k = 1; k < SG_BREAKER_FAILURES; k++)
            assert_false(sg_breaker_failed(&b));
        assert_true(sg_breaker_succeeded(&b));
        assert_false(sg_breaker_succeeded(&b));
    }
    open_breaker(&b);
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_NO);
    assert_false(sg_breaker_failed(&b));        /* is open already */
}

static void test_breaker_tries_one(void **state)
{
    (void)state;
    sg_breaker_t b = {0};
    open_breaker(&b);
    sg_breaker_probed(&b);
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_TRIAL);
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_NO);
    assert_true(sg_breaker_succeeded(&b));
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_YES);
}

static void test_breaker_trial_fails_or_goes(void **state)
{
    (void)state;
    sg_breaker_t b = {0};
    open_breaker(&b);
    sg_breaker_probed(&b);
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_TRIAL);
    sg_breaker_trial_gone(&b);
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_TRIAL);
    assert_true(sg_breaker_failed(&b));         /* one failure is enough now */
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_NO);
    sg_breaker_probed(&b);
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_TRIAL);
}

static void test_breaker_probe_while_closed(void **state)
{
    (void)state;
    sg_breaker_t b = {0};
    sg_breaker_probed(&b);
    assert_int_equal(b.state, SG_BREAKER_CLOSED);
}

/* --- replies ---------------------------------------------------------------------------------- */

static sg_reply_arena_t arena;

/* NULL: not complete, or refused (then *refused). */
static const redisReply *read_reply(redisReader *reader, const char *bytes, bool *refused)
{
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    *refused = redisReaderGetReply(reader, &reply) != REDIS_OK;
    return reply;
}

static redisReader *new_reader(void)
{
    redisReader *reader = redisReaderCreate();
    sg_reply_use_arena(reader, &arena);
    return reader;
}

/* Without traffic the trial ends by itself, but not while one is out. */
static void test_breaker_rests(void **state)
{
    (void)state;
    sg_breaker_t b = {0};
    (void)sg_breaker_failed(&b);
    assert_true(sg_breaker_rested(&b));         /* a failure less in the row */
    assert_int_equal(b.failures, 0);
    assert_false(sg_breaker_rested(&b));
    b = (sg_breaker_t){0};
    open_breaker(&b);
    assert_false(sg_breaker_rested(&b));        /* no probe was answered */
    sg_breaker_probed(&b);
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_TRIAL);
    assert_false(sg_breaker_rested(&b));
    sg_breaker_trial_gone(&b);
    assert_true(sg_breaker_rested(&b));
    assert_int_equal(sg_breaker_admit(&b), SG_ADMIT_YES);
}

static void test_reply_values(void **state)
{
    (void)state;
    bool refused;
    redisReader *reader = new_reader();
    assert_null(read_reply(reader, "*4\r\n:1\r\n$3\r\nab", &refused));
    assert_false(refused);
    const redisReply *r = read_reply(reader, "c\r\n$-1\r\n*1\r\n:-9007199254740991\r\n", &refused);
    assert_non_null(r);
    assert_int_equal(r->elements, 4);
    assert_int_equal(r->element[0]->integer, 1);
    assert_string_equal(r->element[1]->str, "abc");
    assert_int_equal(r->element[2]->type, REDIS_REPLY_NIL);
    assert_int_equal(r->element[3]->element[0]->integer, -9007199254740991);
    r = read_reply(reader, "+OK\r\n", &refused);        /* the next one takes the same place */
    assert_string_equal(r->str, "OK");
    redisReaderFree(reader);
}

static void test_reply_too_many_values(void **state)
{
    (void)state;
    bool refused;
    redisReader *reader = new_reader();
    assert_null(read_reply(reader, "*257\r\n", &refused));
    assert_true(refused);
    redisReaderFree(reader);
    reader = new_reader();
    assert_null(read_reply(reader, "*200\r\n*200\r\n", &refused));
    assert_true(refused);
    redisReaderFree(reader);
}

static void test_reply_long_text_is_cut(void **state)
{
    (void)state;
    bool refused;
    char *bytes = sg_calloc(1, 5000 + 16);
    memset(bytes, 'x', 5000);
    bytes[0] = '-';
    memcpy(bytes + 5000, "\r\n", 2);
    redisReader *reader = new_reader();
    const redisReply *r = read_reply(reader, bytes, &refused);
    assert_non_null(r);
    assert_int_equal(sg_reply_error_text(r).n, SG_REPLY_TEXT_BYTES - 1);
    redisReaderFree(reader);
    sg_free(bytes);
}

static void test_reply_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sg_store_err_t kind;
        bool closes;
    } cases[] = {
        {"LOADING Redis is loading the dataset in memory", SG_STORE_ERR_LOADING, true},
        {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
         SG_STORE_ERR_LOADING, true},
        {"READONLY You can't write against a read only replica. script: 0123, on @user_script:7.",
         SG_STORE_ERR_READONLY, true},
        {"NOAUTH Authentication required.", SG_STORE_ERR_AUTH, true},
        {"WRONGPASS invalid username-password pair or user is disabled.", SG_STORE_ERR_AUTH, true},
        {"NOPERM this user has no permissions to run the 'eval' command", SG_STORE_ERR_AUTH, false},
        {"OOM command not allowed when used memory > 'maxmemory'.", SG_STORE_ERR_OOM, false},
        {"WRONGTYPE Operation against a key holding the wrong kind of value", SG_STORE_ERR_WRONGTYPE, false},
        {"MOVED 3999 127.0.0.1:6381", SG_STORE_ERR_MOVED, false},
        {"ASK 3999 127.0.0.1:6381", SG_STORE_ERR_MOVED, false},
        {"CROSSSLOT Keys in request don't hash to the same slot", SG_STORE_ERR_MOVED, false},
        {"ERR Error running script (call to f_01): @user_script:7: WRONGTYPE Operation against",
         SG_STORE_ERR_WRONGTYPE, false},
        {"ERR Error running script (call to f_01): @user_script:7: @user_script: 7: -READONLY You",
         SG_STORE_ERR_READONLY, true},
        {"ERR value is not an integer or out of range", SG_STORE_ERR_OTHER, false},
        {"BUSY Redis is busy running a script.", SG_STORE_ERR_OTHER, false},
        {"OOMPH", SG_STORE_ERR_OTHER, false},
        {"", SG_STORE_ERR_OTHER, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sg_reply_error_kind(sg_str(cases[i].text)), cases[i].kind);
        assert_int_equal(sg_reply_error_closes(sg_str(cases[i].text)), cases[i].closes);
    }
}

static void test_reply_error_word(void **state)
{
    (void)state;
    bool refused;
    redisReader *reader = new_reader();
    const redisReply *r =
        read_reply(reader, "-ERR unknown command 'AUTH', with args beginning with: 'secret'\r\n", &refused);
    sg_str_t word = sg_reply_error_word(r);
    assert_true(sg_str_eq(word, SG_STR("ERR")));
    assert_false(sg_reply_is_noscript(r));
    r = read_reply(reader, "-NOSCRIPT No matching script. Please use EVAL.\r\n", &refused);
    assert_true(sg_reply_is_noscript(r));
    r = read_reply(reader, "-\r\n", &refused);
    assert_true(sg_reply_is_error(r));
    assert_false(sg_reply_is_error(NULL));
    redisReaderFree(reader);
}

/* --- denials that are kept -------------------------------------------------------------------- */

typedef struct {
    sg_limit_t limits[2];
    const sg_limit_t *at[2];
    sg_check_t check;
    sg_verdict_t verdict;
} denial_case_t;

/* Two limits; the second one denies for retry_us. */
static void denied(denial_case_t *c, int64_t retry_us)
{
    *c = (denial_case_t){.limits = {{.name = "a.a"}, {.name = "a.b"}}};
    c->at[0] = &c->limits[0];
    c->at[1] = &c->limits[1];
    c->check = (sg_check_t){
        .limits = c->at, .count = 2, .cost = 1, .scope = {.tag = "tag", .key = "key", .ip = "ip"}};
    c->verdict.count = 2;
    c->verdict.now_us = 1000000000;
    c->verdict.at[0] = (sg_limit_result_t){.allowed = true, .remaining = 7, .reset_us = 400000};
    c->verdict.at[1] = (sg_limit_result_t){.retry_us = retry_us, .reset_us = 5000000, .more_us = 100000};
}

static bool kept(const denial_case_t *c, int64_t now_us)
{
    sg_deny_cache_t *cache = sg_deny_cache_new();
    sg_verdict_t v;
    sg_deny_cache_put(cache, &c->check, &c->verdict, 100);
    bool found = sg_deny_cache_get(cache, &c->check, now_us, &v);
    sg_deny_cache_free(cache);
    return found;
}

static void test_denial_times(void **state)
{
    (void)state;
    denial_case_t c;
    denied(&c, 600000);
    assert_true(kept(&c, 100));
    assert_true(kept(&c, 600099));
    assert_false(kept(&c, 600100));     /* from here on it may pass */
    denied(&c, INT64_C(3600000000));
    assert_true(kept(&c, 100 + SG_DENY_CACHE_MAX_US - SG_DENY_CACHE_AHEAD_US - 1));
    assert_false(kept(&c, 100 + SG_DENY_CACHE_MAX_US));
}

/* Before a denial ends by its age one request asks, and the others need not; the answer keeps it for another
 * second. Without an answer it ends in time, and where it ends because the request may pass nobody asks. */
static void test_one_asks_for_all(void **state)
{
    (void)state;
    denial_case_t c;
    sg_verdict_t v;
    int64_t ahead_us = SG_DENY_CACHE_MAX_US - SG_DENY_CACHE_AHEAD_US, retry_us[] = {5000000, 600000};
    for (int i = 0; i < 2; i++) {
        sg_deny_cache_t *cache = sg_deny_cache_new();
        int64_t until_us = i == 0 ? SG_DENY_CACHE_MAX_US : retry_us[i];
        denied(&c, retry_us[i]);
        sg_deny_cache_put(cache, &c.check, &c.verdict, 0);
        assert_true(sg_deny_cache_get(cache, &c.check, until_us - SG_DENY_CACHE_AHEAD_US - 1, &v));
        assert_int_equal(sg_deny_cache_get(cache, &c.check, until_us - SG_DENY_CACHE_AHEAD_US, &v), i == 1);
        for (int64_t t = until_us - SG_DENY_CACHE_AHEAD_US; t < until_us; t += 1000)
            assert_true(sg_deny_cache_get(cache, &c.check, t, &v));
        assert_false(sg_deny_cache_get(cache, &c.check, until_us, &v));
        sg_deny_cache_put(cache, &c.check, &c.verdict, ahead_us + 500);
        assert_true(sg_deny_cache_get(cache, &c.check, until_us, &v));
        sg_deny_cache_free(cache);
    }
}

static void test_denial_moves_on(void **state)
{
    (void)state;
    denial_case_t c;
    sg_verdict_t v;
    denied(&c, 600000);
    sg_deny_cache_t *cache = sg_deny_cache_new();
    sg_deny_cache_put(cache, &c.check, &c.verdict, 0);
    assert_true(sg_deny_cache_get(cache, &c.check, 500000, &v));
    assert_false(v.allowed);
    assert_int_equal(v.count, 2);
    assert_int_equal(v.now_us, 1000500000);
    assert_int_equal(v.at[0].remaining, 7);
    assert_int_equal(v.at[0].reset_us, 0);
    assert_int_equal(v.at[1].retry_us, 100000);
    assert_int_equal(v.at[1].reset_us, 4500000);
    assert_int_equal(v.at[1].more_us, 0);
    sg_deny_cache_free(cache);
}

/* Some hundred callers that hammer do not push each other out. */
static void test_denials_of_many_callers(void **state)
{
    (void)state;
    denial_case_t c;
    sg_verdict_t v;
    char key[24];
    int kept_now = 0;
    denied(&c, 600000);
    sg_deny_cache_t *cache = sg_deny_cache_new();
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 500; i++) {
            (void)snprintf(key, sizeof key, "k%d", i);
            c.check.scope.key = key;
            if (turn == 0)
                sg_deny_cache_put(cache, &c.check, &c.verdict, 0);
            else
                kept_now += sg_deny_cache_get(cache, &c.check, 0, &v);
        }
    }
    assert_true(kept_now > 492);
    sg_deny_cache_free(cache);
}

static void test_denial_is_the_caller_s_own(void **state)
{
    (void)state;
    denial_case_t c;
    sg_verdict_t v;
    denied(&c, 600000);
    sg_deny_cache_t *cache = sg_deny_cache_new();
    sg_deny_cache_put(cache, &c.check, &c.verdict, 0);
    sg_check_t other = c.check;
    other.scope.key = "kez";
    assert_false(sg_deny_cache_get(cache, &other, 0, &v));
    other = c.check;
    other.scope.key = NULL;
    assert_false(sg_deny_cache_get(cache, &other, 0, &v));
    other = c.check;
    other.cost = 2;
    assert_false(sg_deny_cache_get(cache, &other, 0, &v));
    other = c.check;
    other.count = 1;
    assert_false(sg_deny_cache_get(cache, &other, 0, &v));
    assert_true(sg_deny_cache_get(cache, &c.check, 0, &v));
    sg_deny_cache_free(cache);
}

static void test_denials_that_are_not_kept(void **state)
{
    (void)state;
    denial_case_t c;
    denied(&c, 600000);
    c.verdict.allowed = true;
    assert_false(kept(&c, 100));
    denied(&c, 600000);
    c.limits[1].algo = SG_ALGO_CONCURRENCY;
    assert_false(kept(&c, 100));
    denied(&c, 600000);
    c.check.cost = 0;
    assert_false(kept(&c, 100));
    denied(&c, 0);
    assert_false(kept(&c, 100));
    denied(&c, 0);
    c.verdict.at[1].never = true;       /* no waiting helps: kept for as long as any */
    assert_true(kept(&c, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_breaker_opens_after_failures_in_a_row),
        cmocka_unit_test(test_breaker_tries_one),
        cmocka_unit_test(test_breaker_trial_fails_or_goes),
        cmocka_unit_test(test_breaker_probe_while_closed),
        cmocka_unit_test(test_breaker_rests),
        cmocka_unit_test(test_reply_values),
        cmocka_unit_test(test_reply_too_many_values),
        cmocka_unit_test(test_reply_long_text_is_cut),
        cmocka_unit_test(test_reply_errors),
        cmocka_unit_test(test_reply_error_word),
        cmocka_unit_test(test_denial_times),
        cmocka_unit_test(test_one_asks_for_all),
        cmocka_unit_test(test_denial_moves_on),
        cmocka_unit_test(test_denials_of_many_callers),
        cmocka_unit_test(test_denial_is_the_caller_s_own),
        cmocka_unit_test(test_denials_that_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
