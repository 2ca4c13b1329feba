/* test_gate_client_addr.c - the client's address behind trusted proxies, and what it is hashed to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "gate/identity.h"

#define LINES_MAX 4

typedef struct {
    const char *peer;               /* NULL: unix socket */
    const char *lines[LINES_MAX];   /* X-Forwarded-For, in order */
    const char *client;
    bool trusted;
} row_t;

/* Trusted: 127.0.0.0/8, 192.128.0.0/16, ::1, 2001:db8:ff::/48 */
static const row_t rows[] = {
    /* A peer that is not trusted is the client, whatever it says. */
    {"9.9.9.9", {NULL}, "9.9.9.9", false},
    {"9.9.9.9", {"1.1.1.1"}, "9.9.9.9", false},
    {"9.9.9.9", {"127.0.0.1", "::1"}, "9.9.9.9", false},
    {"2001:db8::1", {"1.1.1.1"}, "2001:db8::1", false},
    {"126.255.255.255", {"1.1.1.1"}, "126.255.255.255", false},
    /* A trusted one without the field. */
    {"127.0.0.1", {NULL}, "127.0.0.1", true},
    {"::1", {NULL}, "::1", true},
    {NULL, {NULL}, "127.0.0.1", true},
    /* From the right, past trusted ones. */
    {"127.0.0.1", {"1.1.1.1"}, "1.1.1.1", true},
    {"::ffff:127.0.0.1", {"1.1.1.1"}, "1.1.1.1", true},
    {NULL, {"1.1.1.1"}, "1.1.1.1", true},
    {"2001:db8:ff::7", {"1.1.1.1"}, "1.1.1.1", true},
    {"127.0.0.1", {"6.6.6.6, 9.9.9.9"}, "9.9.9.9", true},
    {"127.0.0.1", {"6.6.6.6", "9.9.9.9"}, "9.9.9.9", true},
    {"127.0.0.1", {"6.6.6.6", "9.9.9.9", "192.128.1.1"}, "9.9.9.9", true},
    {"127.0.0.1", {"6.6.6.6, 9.9.9.9, 192.128.1.1, 127.0.0.2"}, "9.9.9.9", true},
    {"127.0.0.1", {"6.6.6.6, 9.9.9.9", "192.128.1.1, ::1"}, "9.9.9.9", true},
    /* All trusted: the leftmost. */
    {"127.0.0.1", {"127.0.0.3, 192.128.1.1"}, "127.0.0.3", true},
    {"127.0.0.1", {"192.128.0.9", "127.0.0.3"}, "192.128.0.9", true},
    /* Forms. */
    {"127.0.0.1", {"1.1.1.1:80"}, "1.1.1.1", true},
    {"127.0.0.1", {"1.1.1.1:65535"}, "1.1.1.1", true},
    {"127.0.0.1", {"[2001:db8::1]:80"}, "2001:db8::1", true},
    {"127.0.0.1", {"[2001:db8::1]"}, "2001:db8::1", true},
    {"127.0.0.1", {"2001:db8::1"}, "2001:db8::1", true},
    {"127.0.0.1", {"2001:DB8:0:0::1"}, "2001:db8::1", true},
    {"127.0.0.1", {"::ffff:9.9.9.9"}, "9.9.9.9", true},
    {"127.0.0.1", {"[::ffff:9.9.9.9]:1"}, "9.9.9.9", true},
    {"127.0.0.1", {"1.1.1.1,192.128.0.1:8080,[::1]:80"}, "1.1.1.1", true},
    {"127.0.0.1", {" \t1.1.1.1\t , \t127.0.0.1  "}, "1.1.1.1", true},
    /* Empty elements are no elements. */
    {"127.0.0.1", {""}, "127.0.0.1", true},
    {"127.0.0.1", {","}, "127.0.0.1", true},
    {"127.0.0.1", {"1.1.1.1,, ,"}, "1.1.1.1", true},
    {"127.0.0.1", {"1.1.1.1", ""}, "1.1.1.1", true},
    /* A malformed one: nothing left of it is believed. */
    {"127.0.0.1", {"unknown"}, "127.0.0.1", true},
    {"127.0.0.1", {"1.1.1.1, unknown"}, "127.0.0.1", true},
    {"127.0.0.1", {"1.1.1.1, unknown, 192.128.0.1"}, "192.128.0.1", true},
    {"127.0.0.1", {"1.1.1.1", "unknown", "192.128.0.1"}, "192.128.0.1", true},
    {"127.0.0.1", {"1.1.1.1, x, 9.9.9.9"}, "9.9.9.9", true},
    {"127.0.0.1", {"x, 127.0.0.1"}, "127.0.0.1", true},
};

/* None of these is an address; a walk stops at each. */
static const char *const malformed[] = {
    "1.1.1", "1.1.1.1.1", "01.1.1.1", "1.1.1.256", "1.1.1.1:", "1.1.1.1:65536", "1.1.1.1:000080", "1.1.1.1:x",
    "1.1.1.1:-1", "1.1.1.1 2.2.2.2", "1.1.1.1/32", ":80", ":", "[]", "[", "]", "[]:80", "[2001:db8::1",
    "[2001:db8::1]80", "[2001:db8::1]:", "[2001:db8::1]:65536", "[2001:db8::1]x", "[1.1.1.1]", "[1.1.1.1]:80",
    "[[2001:db8::1]]", "2001:db8::1%eth0", "[fe80::1%25eth0]:80", "2001:db8:::1", "2001:db8::1::2", "g::1",
    "1:2:3:4:5:6:7:8:9", "\"1.1.1.1\"", "for=1.1.1.1", "_hidden", "a:b", "1.1.1.1;2.2.2.2", "0x7f.1",
    "2130706433", "localhost",
};

typedef struct {
    sg_cidr_t trusted[4];
    sg_identity_conf_t conf;
    sg_arena_t *arena;
} fixture_t;

static void setup(fixture_t *f)
{
    static const char *const nets[] = {"127.0.0.0/8", "192.128.0.0/16", "::1", "2001:db8:ff::/48"};
    *f = (fixture_t){.arena = sg_arena_new(1024)};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sg_cidr_parse(sg_str(nets[i]), &f->trusted[i]), SG_OK);
    f->conf.trusted = f->trusted;
    f->conf.trusted_count = 4;
    f->conf.ipv6_prefix = 64;
}

static sg_addr_t addr(const char *text)
{
    sg_addr_t a = {{0}};
    assert_int_equal(sg_addr_parse(sg_str(text), &a), SG_OK);
    return a;
}

static void check(fixture_t *f, const row_t *row, const char *field)
{
    char got[SG_ADDR_TEXT];
    sg_fields_t fields = {0};
    sg_addr_t peer = row->peer ? addr(row->peer) : (sg_addr_t){{0}};
    bool trusted = !row->trusted;
    sg_fields_add(&fields, f->arena, SG_STR("Forwarded"), SG_STR("for=7.7.7.7"));
    sg_fields_add(&fields, f->arena, SG_STR("X-Real-IP"), SG_STR("7.7.7.7"));
    for (size_t i = 0; i < LINES_MAX && row->lines[i]; i++)
        sg_fields_add(&fields, f->arena, sg_str(field), sg_str(row->lines[i]));
    sg_fields_add(&fields, f->arena, SG_STR("X-Forwarded-For-Not"), SG_STR("7.7.7.7"));
    sg_addr_t client = sg_client_addr(&f->conf, row->peer ? &peer : NULL, &fields, &trusted);
    sg_addr_text(&client, got);
    if (strcmp(got, row->client) != 0 || trusted != row->trusted)
        fail_msg("%s, \"%s\": %s, expected %s", row->peer ? row->peer : "unix",
                 row->lines[0] ? row->lines[0] : "", got, row->client);
}

static void test_walk(void **state)
{
    (void)state;
    fixture_t f;
    setup(&f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(&f, &rows[i], "X-Forwarded-For");
        check(&f, &rows[i], "x-fOrwarded-for");
    }
    sg_arena_free(f.arena);
}

static void test_malformed_elements_stop(void **state)
{
    (void)state;
    fixture_t f;
    setup(&f);
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        char line[128];
        row_t row = {"127.0.0.1", {line}, "192.128.3.3", true};
        snprintf(line, sizeof line, "6.6.6.6, %s, 192.128.3.3", malformed[i]);
        check(&f, &row, "X-Forwarded-For");
        snprintf(line, sizeof line, "6.6.6.6, %s", malformed[i]);
        row.client = "127.0.0.1";
        check(&f, &row, "X-Forwarded-For");
    }
    sg_arena_free(f.arena);
}

static void test_nobody_is_trusted(void **state)
{
    (void)state;
    fixture_t f;
    setup(&f);
    f.conf.trusted_count = 0;
    check(&f, &(row_t){"127.0.0.1", {"1.1.1.1"}, "127.0.0.1", false}, "X-Forwarded-For");
    check(&f, &(row_t){NULL, {"6.6.6.6, 9.9.9.9"}, "9.9.9.9", true}, "X-Forwarded-For");
    sg_arena_free(f.arena);
}

/* --- hashes -------------------------------------------------------------------------------------- */

static bool same_tag(const sg_identity_conf_t *c, const char *a, const char *b)
{
    sg_addr_t x = addr(a), y = addr(b);
    sg_tag_t s, t;
    sg_ip_tag(c, &x, &s);
    sg_ip_tag(c, &y, &t);
    assert_int_equal(strlen(s.text), SG_TAG_CHARS);
    return strcmp(s.text, t.text) == 0;
}

static void test_ip_tags(void **state)
{
    (void)state;
    fixture_t f;
    setup(&f);
    assert_true(same_tag(&f.conf, "9.9.9.9", "::ffff:9.9.9.9"));
    assert_false(same_tag(&f.conf, "9.9.9.9", "9.9.9.8"));
    assert_true(same_tag(&f.conf, "2001:db8::1", "2001:DB8:0:0::1"));
    assert_true(same_tag(&f.conf, "2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"));
    assert_false(same_tag(&f.conf, "2001:db8::1", "2001:db8:0:1::1"));
    f.conf.ipv6_prefix = 128;
    assert_false(same_tag(&f.conf, "2001:db8::1", "2001:db8::2"));
    f.conf.ipv6_prefix = 48;
    assert_true(same_tag(&f.conf, "2001:db8::1", "2001:db8:0:1::1"));
    sg_arena_free(f.arena);
}

static void test_ip_tag_is_of_the_masked_text(void **state)
{
    (void)state;
    fixture_t f;
    setup(&f);
    sg_addr_t v6 = addr("2001:db8:1:2:3:4:5:6"), v4 = addr("192.0.2.7");
    sg_tag_t want, got;
    sg_tag((sg_str_t){0}, SG_STR("ip:2001:db8:1:2::"), &want);
    sg_ip_tag(&f.conf, &v6, &got);
    assert_string_equal(got.text, want.text);
    sg_tag((sg_str_t){0}, SG_STR("ip:192.0.2.7"), &want);
    sg_ip_tag(&f.conf, &v4, &got);
    assert_string_equal(got.text, want.text);
    f.conf.secret = SG_STR("pepper");
    sg_ip_tag(&f.conf, &v4, &got);
    assert_string_not_equal(got.text, want.text);
    sg_tag(SG_STR("pepper"), SG_STR("ip:192.0.2.7"), &want);
    assert_string_equal(got.text, want.text);
    sg_arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_malformed_elements_stop),
        cmocka_unit_test(test_nobody_is_trusted),
        cmocka_unit_test(test_ip_tags),
        cmocka_unit_test(test_ip_tag_is_of_the_masked_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
