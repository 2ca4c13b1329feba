/* Problem details (RFC 9457) and status phrases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>

#include "http/problem.h"

/* Written, and read back by another JSON reader. Caller: json_decref. */
static json_t *written(const sg_problem_t *p)
{
    sg_buf_t out;
    sg_buf_init(&out, 10000);
    sg_problem_write(&out, p);
    assert_false(out.failed);
    assert_int_equal(sg_buf_str(&out).p[sg_buf_len(&out) - 1], '\n');
    json_t *json = json_loadb(sg_buf_str(&out).p, sg_buf_len(&out), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    sg_buf_deinit(&out);
    return json;
}

static void assert_member(json_t *json, const char *name, const char *want)
{
    assert_string_equal(json_string_value(json_object_get(json, name)), want);
}

static void writes_the_least(void **state)
{
    (void)state;
    json_t *json = written(&(sg_problem_t){.status = 404});
    assert_int_equal(json_object_size(json), 3);
    assert_member(json, "type", "about:blank");
    assert_member(json, "title", "Not Found");
    assert_int_equal(json_integer_value(json_object_get(json, "status")), 404);
    json_decref(json);
}

static void writes_all_members(void **state)
{
    (void)state;
    const sg_str_t violated[] = {SG_STR("search.burst"), SG_STR("a\"b")};
    json_t *json = written(&(sg_problem_t){
        .type = SG_PROBLEM_QUOTA, .status = 429, .title = "Quota exceeded",
        .detail = "try \"later\"",
        .instance = "0123456789abcdef0123456789ABCDEF", .violated = violated, .violated_count = 2,
    });
    assert_int_equal(json_object_size(json), 6);
    assert_member(json, "type", "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_member(json, "title", "Quota exceeded");
    assert_member(json, "detail", "try \"later\"");
    assert_member(json, "instance", "urn:uuid:01234567-89ab-cdef-0123-456789abcdef");
    json_t *names = json_object_get(json, "violated-policies");
    assert_int_equal(json_array_size(names), 2);
    assert_string_equal(json_string_value(json_array_get(names, 0)), "search.burst");
    assert_string_equal(json_string_value(json_array_get(names, 1)), "a\"b");
    json_decref(json);
}

/* Only 32 hex digits are a UUID; other ids of trusted peers stay as they are. */
static void writes_instances(void **state)
{
    static const char *const others[] = {
        "", "x", "0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcdef0",
        "0123456789abcdef0123456789abcdeg", "req/1?\"",
    };
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        json_t *json = written(&(sg_problem_t){.status = 400, .instance = others[i]});
        assert_member(json, "instance", others[i]);
        json_decref(json);
    }
}

static void writes_exact_bytes(void **state)
{
    (void)state;
    const sg_str_t violated = SG_STR("all.daily");
    sg_buf_t out;
    sg_buf_init(&out, 1000);
    sg_problem_write(&out, &(sg_problem_t){.status = 429, .violated = &violated, .violated_count = 1});
    const sg_str_t want = SG_STR("{\"type\":\"about:blank\",\"title\":\"Too Many Requests\",\"status\":429,"
                                 "\"violated-policies\":[\"all.daily\"]}\n");
    assert_true(sg_str_eq(sg_buf_str(&out), want));
    sg_buf_deinit(&out);
}

static void knows_phrases(void **state)
{
    static const struct {
        unsigned status;
        const char *phrase;
    } cases[] = {
        {100, "Continue"}, {200, "OK"}, {203, "Non-Authoritative Information"}, {205, "Reset Content"},
        {304, "Not Modified"}, {308, "Permanent Redirect"}, {400, "Bad Request"}, {408, "Request Timeout"},
        {413, "Content Too Large"}, {414, "URI Too Long"}, {422, "Unprocessable Content"},
        {429, "Too Many Requests"}, {431, "Request Header Fields Too Large"}, {501, "Not Implemented"},
        {502, "Bad Gateway"}, {503, "Service Unavailable"}, {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"}, {306, "Unknown"}, {418, "Unknown"}, {0, "Unknown"},
        {999, "Unknown"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(sg_status_phrase(cases[i].status), cases[i].phrase);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_the_least), cmocka_unit_test(writes_all_members),
        cmocka_unit_test(writes_instances), cmocka_unit_test(writes_exact_bytes),
        cmocka_unit_test(knows_phrases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
