/* Names to addresses: numeric ones without a thread, others in one; cancelled at any moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "event/resolver.h"

typedef struct {
    sg_resolve_t *r;
    int calls;
    sg_err_t err;
    sg_addr_t first;
    size_t count;
} result_t;

static void on_resolved(void *arg, sg_err_t err, const sg_addr_t *addr)
{
    result_t *res = arg;
    res->calls++;
    res->err = err;
    if (err != SG_OK)
        return;
    res->first = *addr;
    const sg_addr_t *all = sg_resolve_all(res->r, &res->count);
    assert_true(sg_addr_eq(&all[0], addr));
    for (size_t i = 0; i < res->count; i++)
        for (size_t k = 0; k < i; k++)
            assert_false(sg_addr_eq(&all[i], &all[k]));
}

static result_t resolve(const char *host)
{
    sg_loop_t *loop = sg_loop_new();
    result_t res = {0};
    res.r = sg_resolve_start(loop, host, on_resolved, &res);
    assert_int_equal(res.calls, 0);
    int64_t end_us = sg_clock_mono_us() + 20000000;
    while (res.calls == 0 && sg_clock_mono_us() < end_us)
        sg_loop_turn(loop, 10000);
    sg_loop_turn(loop, 0);
    assert_int_equal(res.calls, 1);
    sg_loop_free(loop);
    return res;
}

static void assert_text(const sg_addr_t *a, const char *expected)
{
    char text[SG_ADDR_TEXT];
    sg_addr_text(a, text);
    assert_string_equal(text, expected);
}

static void test_numeric(void **state)
{
    (void)state;
    result_t res = resolve("192.0.2.7");
    assert_int_equal(res.err, SG_OK);
    assert_int_equal(res.count, 1);
    assert_text(&res.first, "192.0.2.7");
    res = resolve("2001:db8::7");
    assert_int_equal(res.err, SG_OK);
    assert_text(&res.first, "2001:db8::7");
}

static void test_localhost(void **state)
{
    (void)state;
    result_t res = resolve("localhost");
    assert_int_equal(res.err, SG_OK);
    assert_true(res.count >= 1);
    assert_true(sg_addr_is_loopback(&res.first));
}

/* A label of 70 characters: refused without a question to anybody. */
static void test_no_such_name(void **state)
{
    (void)state;
    result_t res = resolve("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid");
    assert_int_equal(res.err, SG_ERR_RESOLVE);
}

static void count_only(void *arg, sg_err_t err, const sg_addr_t *addr)
{
    (void)err, (void)addr;
    ((result_t *)arg)->calls++;
}

static void test_cancel(void **state)
{
    (void)state;
    sg_loop_t *loop = sg_loop_new();
    result_t res = {0};
    for (int i = 0; i < 50; i++) {
        sg_resolve_t *numeric = sg_resolve_start(loop, "192.0.2.7", count_only, &res);
        sg_resolve_t *named = sg_resolve_start(loop, "localhost", count_only, &res);
        if (i % 2)
            sg_loop_turn(loop,
                         0); /* the numeric one is delivered; the named one may be anywhere on its way */
        else
            sg_resolve_cancel(numeric);
        if (res.calls == (i + 1) / 2)
            sg_resolve_cancel(named);
        res.calls = (i + 1) / 2;
    }
    sg_resolve_cancel(NULL);
    sg_loop_turn(loop, 0);
    assert_int_equal(res.calls, 25);
    sg_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numeric),
        cmocka_unit_test(test_localhost),
        cmocka_unit_test(test_no_such_name),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
