/* Structured field values: strings and integer parameters. RFC 9651 section 4.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "http/sf.h"

static void assert_text(sg_buf_t *out, const char *want)
{
    sg_buf_char(out, '\0');
    assert_false(out->failed);
    assert_string_equal(sg_buf_str(out).p, want);
    sg_buf_clear(out);
}

static void writes_strings(void **state)
{
    static const struct {
        sg_str_t in;
        const char *out;
    } cases[] = {
        {SG_STR(""), "\"\""}, {SG_STR("search.burst"), "\"search.burst\""}, {SG_STR("a b~"), "\"a b~\""},
        {SG_STR("a\"b\\c"), "\"a\\\"b\\\\c\""}, {SG_STR("\t\r\n\0\x7f\xc3\xa9"), "\"???????\""},
        {SG_STR(";=,"), "\";=,\""},
    };
    (void)state;
    sg_buf_t out;
    sg_buf_init(&out, 1000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_sf_string(&out, cases[i].in);
        assert_text(&out, cases[i].out);
    }
    for (unsigned c = 0; c < 256; c++) {
        char byte = (char)c;
        sg_sf_string(&out, sg_str_n(&byte, 1));
        bool escaped = c == '"' || c == '\\', plain = c >= 0x20 && c <= 0x7e;
        assert_int_equal(sg_buf_len(&out), escaped ? 4 : 3);
        assert_int_equal(sg_buf_str(&out).p[escaped ? 2 : 1], plain ? byte : '?');
        sg_buf_clear(&out);
    }
    sg_buf_deinit(&out);
}

static void writes_integers(void **state)
{
    static const struct {
        int64_t v;
        const char *out;
    } cases[] = {
        {0, ";q=0"}, {7, ";q=7"}, {-7, ";q=-7"}, {SG_SF_INTEGER_MAX, ";q=999999999999999"},
        {SG_SF_INTEGER_MAX + 1, ";q=999999999999999"}, {INT64_MAX, ";q=999999999999999"},
        {-SG_SF_INTEGER_MAX - 1, ";q=-999999999999999"}, {INT64_MIN, ";q=-999999999999999"},
    };
    (void)state;
    sg_buf_t out;
    sg_buf_init(&out, 1000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_sf_param_int(&out, "q", cases[i].v);
        assert_text(&out, cases[i].out);
    }
    sg_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes_strings), cmocka_unit_test(writes_integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
