/* The request target: forms, what is refused, segments, hosts, and taking a query parameter out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "http/target.h"

static sg_arena_t *arena;

static int setup(void **state)
{
    (void)state;
    arena = sg_arena_new(4096);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sg_arena_free(arena);
    return 0;
}

static void assert_view(sg_str_t got, const char *want, const char *what)
{
    if (!sg_str_eq(got, sg_str(want)))
        fail_msg("%s: got \"%.*s\", want \"%s\"", what, SG_STR_ARG(got), want);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void refuses(void **state)
{
    static const struct {
        const char *target;
        sg_target_err_t err;
    } cases[] = {
        {"", SG_TARGET_EMPTY},
        {"/a b", SG_TARGET_BAD_BYTE}, {"/a\tb", SG_TARGET_BAD_BYTE}, {"/a\rb", SG_TARGET_BAD_BYTE},
        {"/a\nb", SG_TARGET_BAD_BYTE}, {"/\x7f", SG_TARGET_BAD_BYTE}, {"/\x80", SG_TARGET_BAD_BYTE},
        {"/\xc3\xa9", SG_TARGET_BAD_BYTE}, {"/\x01", SG_TARGET_BAD_BYTE}, {"/a#b", SG_TARGET_BAD_BYTE},
        {"/a?b#c", SG_TARGET_BAD_BYTE}, {"/a?b c", SG_TARGET_BAD_BYTE}, {"/a?\xff", SG_TARGET_BAD_BYTE},
        {"/a\\b", SG_TARGET_BAD_BYTE}, {"\\a", SG_TARGET_BAD_FORM}, {"/a%5Cb", SG_TARGET_BAD_BYTE},
        {"/a%5cb", SG_TARGET_BAD_BYTE}, {"/..%5c", SG_TARGET_BAD_BYTE}, {"http://h/a\\b", SG_TARGET_BAD_BYTE},
        {"/%", SG_TARGET_BAD_PERCENT}, {"/%4", SG_TARGET_BAD_PERCENT}, {"/%zz", SG_TARGET_BAD_PERCENT},
        {"/%4g", SG_TARGET_BAD_PERCENT}, {"/%g4", SG_TARGET_BAD_PERCENT}, {"/a%/b", SG_TARGET_BAD_PERCENT},
        {"/%4/1", SG_TARGET_BAD_PERCENT}, {"/%%41", SG_TARGET_BAD_PERCENT}, {"/a%4?x", SG_TARGET_BAD_PERCENT},
        {"/%u0041", SG_TARGET_BAD_PERCENT}, {"/%+1", SG_TARGET_BAD_PERCENT},
        {"/%00", SG_TARGET_NUL}, {"/a/b%00c", SG_TARGET_NUL}, {"/..%00", SG_TARGET_NUL},
        {"/.", SG_TARGET_DOT_SEGMENT}, {"/..", SG_TARGET_DOT_SEGMENT}, {"/./a", SG_TARGET_DOT_SEGMENT},
        {"/../a", SG_TARGET_DOT_SEGMENT}, {"/a/.", SG_TARGET_DOT_SEGMENT}, {"/a/..", SG_TARGET_DOT_SEGMENT},
        {"/a/../b", SG_TARGET_DOT_SEGMENT}, {"/a/./b", SG_TARGET_DOT_SEGMENT},
        {"/a//../b", SG_TARGET_DOT_SEGMENT},
        {"/%2e", SG_TARGET_DOT_SEGMENT}, {"/%2E", SG_TARGET_DOT_SEGMENT}, {"/%2e%2e", SG_TARGET_DOT_SEGMENT},
        {"/%2E%2e/x", SG_TARGET_DOT_SEGMENT}, {"/.%2e/x", SG_TARGET_DOT_SEGMENT},
        {"/%2e./x", SG_TARGET_DOT_SEGMENT},
        {"/a%2F..%2Fb", SG_TARGET_DOT_SEGMENT}, {"/a%2f..%2fb", SG_TARGET_DOT_SEGMENT},
        {"/..%2f", SG_TARGET_DOT_SEGMENT}, {"/%2f..", SG_TARGET_DOT_SEGMENT},
        {"/..%2fadmin", SG_TARGET_DOT_SEGMENT},
        {"/a%2f%2e%2e", SG_TARGET_DOT_SEGMENT}, {"/a%2F.%2Fb", SG_TARGET_DOT_SEGMENT},
        {"/.%2Fb", SG_TARGET_DOT_SEGMENT},
        {"/..;/login", SG_TARGET_DOT_SEGMENT}, {"/a/..;x=1/b", SG_TARGET_DOT_SEGMENT},
        {"/.;/b", SG_TARGET_DOT_SEGMENT},
        {"/..%3bx/b", SG_TARGET_DOT_SEGMENT}, {"/%2e%2e;x", SG_TARGET_DOT_SEGMENT},
        {"/..;a;b", SG_TARGET_DOT_SEGMENT},
        {"/a%2F..;x%2Fb", SG_TARGET_DOT_SEGMENT}, {"/a;x%2F..%2Fb", SG_TARGET_DOT_SEGMENT},
        {"/a;x/../b", SG_TARGET_DOT_SEGMENT},
        {"/a/..?x", SG_TARGET_DOT_SEGMENT}, {"http://h/..", SG_TARGET_DOT_SEGMENT},
        {"a", SG_TARGET_BAD_FORM}, {"?x", SG_TARGET_BAD_FORM}, {"a:80", SG_TARGET_BAD_FORM},
        {"gw.test:80", SG_TARGET_BAD_FORM},
        {"**", SG_TARGET_BAD_FORM}, {"*?", SG_TARGET_BAD_FORM}, {"*/", SG_TARGET_BAD_FORM},
        {"ftp://h/", SG_TARGET_BAD_FORM},
        {"http:/h/", SG_TARGET_BAD_FORM}, {"http:h", SG_TARGET_BAD_FORM}, {"http", SG_TARGET_BAD_FORM},
        {"httpss://h/", SG_TARGET_BAD_FORM}, {"%2Fa", SG_TARGET_BAD_FORM}, {".", SG_TARGET_BAD_FORM},
        {"http://", SG_TARGET_BAD_AUTHORITY}, {"http:///a", SG_TARGET_BAD_AUTHORITY},
        {"http://?x", SG_TARGET_BAD_AUTHORITY},
        {"http://u@h/", SG_TARGET_BAD_AUTHORITY}, {"http://u:p@h/", SG_TARGET_BAD_AUTHORITY},
        {"http://h:x/", SG_TARGET_BAD_AUTHORITY}, {"http://h:/", SG_TARGET_BAD_AUTHORITY},
        {"http://h\\@x/", SG_TARGET_BAD_AUTHORITY}, {"http://h%2f/", SG_TARGET_BAD_AUTHORITY},
        {"https://[::1/", SG_TARGET_BAD_AUTHORITY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_target_t t;
        sg_target_err_t err = sg_target_parse(arena, sg_str(cases[i].target), &t);
        if (err != cases[i].err)
            fail_msg("%s: got %s, want %s", cases[i].target, sg_target_err_name(err),
                     sg_target_err_name(cases[i].err));
    }
    sg_target_t t;
    assert_int_equal(sg_target_parse(arena, SG_STR("/a\0b"), &t), SG_TARGET_BAD_BYTE);
}

/* Every byte, in the path and in the query. */
static void judges_every_byte(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char text[] = "/a?b/c";
        sg_target_t t;
        bool visible = c > 0x20 && c < 0x7f && c != '#';
        text[1] = (char)c;
        sg_target_err_t err = sg_target_parse(arena, sg_str_n(text, 6), &t);
        bool path_ok = visible && c != '\\' && c != '%' && c != '.';
        assert_int_equal(err == SG_TARGET_OK, path_ok);
        text[1] = 'a';
        text[3] = (char)c;
        err = sg_target_parse(arena, sg_str_n(text, 6), &t);
        assert_int_equal(err, visible ? SG_TARGET_OK : SG_TARGET_BAD_BYTE);
    }
}

/* --- what is taken ---------------------------------------------------------------------------- */

/* The segments in one line: "a|b". */
static const char *join(const sg_str_t *segments, size_t count)
{
    static char text[512];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", i ? "|" : "", SG_STR_ARG(segments[i]));
    return text;
}

static void splits_into_segments(void **state)
{
    static const struct {
        const char *target, *path, *segments, *raw;
        size_t count;
        bool slash, odd;
    } cases[] = {
        {"/", "/", "", "", 0, false, false},
        {"/a", "/a", "a", "a", 1, false, false},
        {"/a/", "/a/", "a", "a", 1, true, false},
        {"/a/b", "/a/b", "a|b", "a|b", 2, false, false},
        {"/a/b/?q/r", "/a/b/", "a|b", "a|b", 2, true, false},
        {"/%7Euser/%41%2d%5F", "/%7Euser/%41%2d%5F", "~user|A-_", "%7Euser|%41%2d%5F", 2, false, false},
        {"/a%2fb/c", "/a%2fb/c", "a%2Fb|c", "a%2fb|c", 2, false, false},
        {"/%e4%BD%a0", "/%e4%BD%a0", "%E4%BD%A0", "%e4%BD%a0", 1, false, false},
        {"/%20%25%2541", "/%20%25%2541", "%20%25%2541", "%20%25%2541", 1, false, false},
        {"/a%3Ab:c%40@", "/a%3Ab:c%40@", "a:b:c@@", "a%3Ab:c%40@", 1, false, false},
        {"/%21%22%24%26%27%28%29%2a%2B", "/%21%22%24%26%27%28%29%2a%2B", "!\"$&'()*+",
         "%21%22%24%26%27%28%29%2a%2B", 1, false, false},
        {"/%2c%3C%3D%3e%5b%5D%5E%60%7B%7c%7D", "/%2c%3C%3D%3e%5b%5D%5E%60%7B%7c%7D", ",<=>[]^`{|}",
         "%2c%3C%3D%3e%5b%5D%5E%60%7B%7c%7D", 1, false, false},
        {"/%2f%3f%23%25%20%7f%80%ff%01", "/%2f%3f%23%25%20%7f%80%ff%01", "%2F%3F%23%25%20%7F%80%FF%01",
         "%2f%3f%23%25%20%7f%80%ff%01", 1, false, false},
        {"//", "//", "", "", 1, true, true},
        {"//a", "//a", "|a", "|a", 2, false, true},
        {"/a//b", "/a//b", "a||b", "a||b", 3, false, true},
        {"/a//", "/a//", "a|", "a|", 2, true, true},
        {"/a;x=1/b", "/a;x=1/b", "a;x=1|b", "a;x=1|b", 2, false, true},
        {"/a%3bx", "/a%3bx", "a%3Bx", "a%3bx", 1, false, true},
        {"/;..", "/;..", ";..", ";..", 1, false, true},
        {"/...", "/...", "...", "...", 1, false, false},
        {"/..a/.a/a..", "/..a/.a/a..", "..a|.a|a..", "..a|.a|a..", 3, false, false},
        {"/%2e%2e%2e", "/%2e%2e%2e", "...", "%2e%2e%2e", 1, false, false},
        {"/%252e%252e/", "/%252e%252e/", "%252e%252e", "%252e%252e", 1, true, false},
        {"/?..", "/", "", "", 0, false, false},
        {"/a?;//", "/a", "a", "a", 1, false, false},
        {"/*", "/*", "*", "*", 1, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_target_t t;
        assert_int_equal(sg_target_parse(arena, sg_str(cases[i].target), &t), SG_TARGET_OK);
        assert_int_equal(t.form, SG_TARGET_ORIGIN);
        assert_view(t.raw, cases[i].target, "raw");
        assert_view(t.path, cases[i].path, cases[i].target);
        assert_int_equal(t.segment_count, cases[i].count);
        assert_string_equal(join(t.segments, t.segment_count), cases[i].segments);
        assert_string_equal(join(t.raw_segments, t.segment_count), cases[i].raw);
        assert_int_equal(t.trailing_slash, cases[i].slash);
        assert_int_equal(t.odd, cases[i].odd);
    }
}

static void knows_the_forms(void **state)
{
    static const struct {
        const char *target;
        sg_target_form_t form;
        const char *authority, *path, *query;
        bool https, has_query;
    } cases[] = {
        {"*", SG_TARGET_ASTERISK, "", "*", "", false, false},
        {"/a?", SG_TARGET_ORIGIN, "", "/a", "", false, true},
        {"/a?b?c=/d//e", SG_TARGET_ORIGIN, "", "/a", "b?c=/d//e", false, true},
        {"/a?%zz%00\\..", SG_TARGET_ORIGIN, "", "/a", "%zz%00\\..", false, true},
        {"/http://h/", SG_TARGET_ORIGIN, "", "/http://h/", "", false, false},
        {"http://gw.test", SG_TARGET_ABSOLUTE, "gw.test", "/", "", false, false},
        {"http://gw.test/", SG_TARGET_ABSOLUTE, "gw.test", "/", "", false, false},
        {"HTTP://GW.test:8080/a?x", SG_TARGET_ABSOLUTE, "GW.test:8080", "/a", "x", false, true},
        {"https://gw.test?x=1", SG_TARGET_ABSOLUTE, "gw.test", "/", "x=1", true, true},
        {"hTTps://[::1]:8/a", SG_TARGET_ABSOLUTE, "[::1]:8", "/a", "", true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_target_t t;
        assert_int_equal(sg_target_parse(arena, sg_str(cases[i].target), &t), SG_TARGET_OK);
        assert_int_equal(t.form, cases[i].form);
        assert_view(t.authority, cases[i].authority, cases[i].target);
        assert_view(t.path, cases[i].path, cases[i].target);
        assert_view(t.query, cases[i].query, cases[i].target);
        assert_int_equal(t.https, cases[i].https);
        assert_int_equal(t.has_query, cases[i].has_query);
    }
}

static void bounds_the_segments(void **state)
{
    (void)state;
    char text[2 * (SG_TARGET_SEGMENTS_MAX + 1)];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 2 ? 'a' : '/';
    sg_target_t t;
    assert_int_equal(sg_target_parse(arena, sg_str_n(text, 2 * SG_TARGET_SEGMENTS_MAX), &t), SG_TARGET_OK);
    assert_int_equal(t.segment_count, SG_TARGET_SEGMENTS_MAX);
    assert_int_equal(sg_target_parse(arena, sg_str_n(text, sizeof text), &t), SG_TARGET_TOO_MANY_SEGMENTS);
    memset(text, '/', sizeof text);
    assert_int_equal(sg_target_parse(arena, sg_str_n(text, sizeof text), &t), SG_TARGET_TOO_MANY_SEGMENTS);
}

static void names_every_error(void **state)
{
    (void)state;
    for (int e = SG_TARGET_OK; e <= SG_TARGET_TOO_MANY_SEGMENTS; e++) {
        const char *name = sg_target_err_name((sg_target_err_t)e);
        assert_string_not_equal(name, "unknown");
        for (int other = SG_TARGET_OK; other < e; other++)
            assert_string_not_equal(name, sg_target_err_name((sg_target_err_t)other));
    }
    assert_string_equal(sg_target_err_name(SG_TARGET_DOT_SEGMENT), "dot_segment");
}

/* --- host ------------------------------------------------------------------------------------- */

static void reads_hosts(void **state)
{
    static const struct {
        const char *value, *host;   /* host NULL: refused */
        unsigned port;
    } cases[] = {
        {"gw.test", "gw.test", 0}, {"GW.Test", "gw.test", 0}, {"gw.test.", "gw.test", 0},
        {"gw.test:8080", "gw.test", 8080},
        {"gw.test.:1", "gw.test", 1}, {"a", "a", 0}, {"127.0.0.1:80", "127.0.0.1", 80},
        {"a_b-c.d", "a_b-c.d", 0},
        {"[::1]", "[::1]", 0}, {"[2001:DB8::1]:443", "[2001:db8::1]", 443},
        {"[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]", 0},
        {"h:65535", "h", 65535}, {"h:00080", "h", 80},
        {"", NULL, 0}, {".", NULL, 0}, {":80", NULL, 0}, {"h:", NULL, 0}, {"h:0", NULL, 0},
        {"h:65536", NULL, 0},
        {"h:99999", NULL, 0}, {"h:000080", NULL, 0}, {"h:80x", NULL, 0}, {"h:+80", NULL, 0},
        {"h:-1", NULL, 0},
        {"h: 80", NULL, 0}, {"h:80:90", NULL, 0}, {"h 80", NULL, 0}, {" h", NULL, 0}, {"h ", NULL, 0},
        {"h\t", NULL, 0},
        {"u@h", NULL, 0}, {"h/", NULL, 0}, {"h/a", NULL, 0}, {"h?", NULL, 0}, {"h#", NULL, 0},
        {"a,b", NULL, 0},
        {"h%41", NULL, 0}, {"h\x02", NULL, 0}, {"h\xc3\xa9", NULL, 0}, {"a..b", NULL, 0}, {".a", NULL, 0},
        {"a..", NULL, 0},
        {"h*", NULL, 0}, {"h;x", NULL, 0}, {"h\\x", NULL, 0},
        {"[::1", NULL, 0}, {"::1", NULL, 0}, {"[]", NULL, 0}, {"[::1]x", NULL, 0}, {"[::1]:", NULL, 0},
        {"[1.2.3.4]", NULL, 0},
        {"[fe80::1%25eth0]", NULL, 0}, {"[v1.x]", NULL, 0}, {"[::1].", NULL, 0}, {"]", NULL, 0},
        {"[", NULL, 0}, {"a[::1]", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_str_t host = {0};
        unsigned port = 7;
        sg_err_t err = sg_host_parse(arena, sg_str(cases[i].value), &host, &port);
        if (err != (cases[i].host ? SG_OK : SG_ERR_SYNTAX))
            fail_msg("\"%s\": got %s", cases[i].value, sg_err_name(err));
        if (cases[i].host) {
            assert_view(host, cases[i].host, cases[i].value);
            assert_int_equal(port, cases[i].port);
        }
    }
    sg_str_t host;
    unsigned port;
    assert_int_equal(sg_host_parse(arena, SG_STR("h\0"), &host, &port), SG_ERR_SYNTAX);
}

static void bounds_the_host(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'a', sizeof text);
    text[253] = '.';
    sg_str_t host;
    unsigned port;
    assert_int_equal(sg_host_parse(arena, sg_str_n(text, 254), &host, &port), SG_OK);
    assert_int_equal(host.n, 253);
    text[253] = 'a';
    assert_int_equal(sg_host_parse(arena, sg_str_n(text, 254), &host, &port), SG_ERR_SYNTAX);
}

/* --- query ------------------------------------------------------------------------------------ */

static void takes_a_parameter(void **state)
{
    static const struct {
        const char *query, *rest, *value;
        size_t count;
    } cases[] = {
        {"", "", "", 0}, {"a=1", "a=1", "", 0}, {"key=x", "", "x", 1}, {"key", "", "", 1},
        {"key=", "", "", 1},
        {"a=1&key=x&b=2", "a=1&b=2", "x", 1}, {"key=x&a=1", "a=1", "x", 1}, {"a=1&key=x", "a=1", "x", 1},
        {"key=x&key=y", "", "x", 2}, {"key=x&a&key=y&&b", "a&&b", "x", 2}, {"k%65y=x", "", "x", 1},
        {"%6B%65%79=x", "", "x", 1},
        {"key=a%2Bb+c%20d", "", "a+b+c d", 1}, {"key=a=b", "", "a=b", 1}, {"KEY=x", "KEY=x", "", 0},
        {"keys=x", "keys=x", "", 0},
        {"ke=x", "ke=x", "", 0}, {"xkey=1", "xkey=1", "", 0}, {"a;key=x", "a;key=x", "", 0},
        {"%", "%", "", 0},
        {"key=%zz%4", "", "%zz%4", 1}, {"k%6=x&ke%79=y", "k%6=x", "y", 1}, {"&&key=x&&", "&&&", "x", 1},
        {"a=1&a=1&b&c=&d=x+y&key=1&e=%20%2b&f;g=1&&h==", "a=1&a=1&b&c=&d=x+y&e=%20%2b&f;g=1&&h==", "1", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_str_t rest, value;
        size_t count;
        sg_query_take(arena, sg_str(cases[i].query), SG_STR("key"), &rest, &value, &count);
        assert_view(rest, cases[i].rest, cases[i].query);
        assert_view(value, cases[i].value, cases[i].query);
        assert_int_equal(count, cases[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses), cmocka_unit_test(judges_every_byte),
        cmocka_unit_test(splits_into_segments),
        cmocka_unit_test(knows_the_forms), cmocka_unit_test(bounds_the_segments),
        cmocka_unit_test(names_every_error),
        cmocka_unit_test(reads_hosts), cmocka_unit_test(bounds_the_host), cmocka_unit_test(takes_a_parameter),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
