/* W3C Trace Context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "http/trace.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define ZEROS "00000000000000000000000000000000"

static void assert_hex(const char *z, size_t digits)
{
    bool zero = true;
    assert_int_equal(strlen(z), digits);
    for (size_t i = 0; i < digits; i++) {
        assert_true((z[i] >= '0' && z[i] <= '9') || (z[i] >= 'a' && z[i] <= 'f'));
        zero = zero && z[i] == '0';
    }
    assert_false(zero);
}

static void continues_valid_parents(void **state)
{
    static const struct {
        const char *parent, *flags;
    } cases[] = {
        {"00-" TRACE "-" SPAN "-01", "01"}, {"00-" TRACE "-" SPAN "-00", "00"},
        {"00-" TRACE "-" SPAN "-03", "03"},
        {"00-" TRACE "-" SPAN "-ff", "03"}, {"00-" TRACE "-" SPAN "-f4", "00"},
        {"01-" TRACE "-" SPAN "-01", "01"},
        {"cc-" TRACE "-" SPAN "-01-what-the-future", "01"}, {"fe-" TRACE "-" SPAN "-01-", "01"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_trace_t t;
        sg_trace_start(sg_str(cases[i].parent), &t);
        assert_true(t.continued);
        assert_string_equal(t.trace_id, TRACE);
        assert_hex(t.span_id, 16);
        assert_string_not_equal(t.span_id, SPAN);
        assert_string_equal(t.flags, cases[i].flags);
    }
}

static void starts_a_trace_otherwise(void **state)
{
    static const char *const parents[] = {
        "", "00", "00-" TRACE "-" SPAN "-0", "00-" TRACE "-" SPAN "-01-", "00-" TRACE "-" SPAN "-01-x",
        "00-" TRACE "-" SPAN "-011", "ff-" TRACE "-" SPAN "-01", "FE-" TRACE "-" SPAN "-01",
        "0x-" TRACE "-" SPAN "-01", "01-" TRACE "-" SPAN "-01x", "00-" ZEROS "-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00-" TRACE "-00F067AA0BA902B7-01", "00-" TRACE "-" SPAN "-0A",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-" SPAN "-01", "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01", "00-" TRACE "-" SPAN "_01", " 00-" TRACE "-" SPAN "-01",
        "00-" TRACE SPAN "-01", "-" TRACE "-" SPAN "-01000",
    };
    (void)state;
    for (size_t i = 0; i < sizeof parents / sizeof parents[0]; i++) {
        sg_trace_t t;
        sg_trace_start(sg_str(parents[i]), &t);
        if (t.continued)
            fail_msg("taken: %s", parents[i]);
        assert_hex(t.trace_id, 32);
        assert_hex(t.span_id, 16);
        assert_string_equal(t.flags, "00");
        assert_string_not_equal(t.trace_id, TRACE);
    }
    sg_trace_t t;
    sg_trace_start((sg_str_t){0}, &t);
    assert_false(t.continued);
}

/* Ids are new each time, and the text of one gateway is a valid parent for the next. */
static void writes_what_it_reads(void **state)
{
    (void)state;
    sg_trace_t first, second;
    char text[SG_TRACEPARENT_BYTES], again[SG_TRACEPARENT_BYTES];
    sg_trace_start((sg_str_t){0}, &first);
    sg_trace_text(&first, text);
    assert_int_equal(strlen(text), SG_TRACEPARENT_BYTES - 1);
    sg_trace_start(sg_str(text), &second);
    assert_true(second.continued);
    assert_string_equal(second.trace_id, first.trace_id);
    assert_string_not_equal(second.span_id, first.span_id);
    sg_trace_t fixed = {.trace_id = TRACE, .span_id = SPAN, .flags = "01"};
    sg_trace_text(&fixed, again);
    assert_string_equal(again, "00-" TRACE "-" SPAN "-01");
    sg_trace_start((sg_str_t){0}, &second);
    assert_string_not_equal(second.trace_id, first.trace_id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(continues_valid_parents), cmocka_unit_test(starts_a_trace_otherwise),
        cmocka_unit_test(writes_what_it_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
