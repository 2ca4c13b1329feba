/* Message framing on the upstream side: heads and chunks out, response heads and bodies in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "http/framing.h"

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

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

/* --- heads out -------------------------------------------------------------------------------- */

static void writes_heads(void **state)
{
    (void)state;
    sg_fields_t fs = {0};
    sg_buf_t out;
    sg_buf_init(&out, 200);
    sg_head_write(&out, SG_STR("GET"), SG_STR("*"), &fs);
    assert_true(sg_str_eq(sg_buf_str(&out), SG_STR("GET * HTTP/1.1\r\n\r\n")));
    sg_buf_clear(&out);
    sg_fields_add(&fs, arena, SG_STR("Host"), SG_STR("h"));
    sg_fields_add(&fs, arena, SG_STR("X-D"), (sg_str_t){0});
    sg_fields_add(&fs, arena, SG_STR("x-d"), SG_STR("2"));
    sg_head_write(&out, SG_STR("M-SEARCH"), SG_STR("/a?b"), &fs);
    assert_true(sg_str_eq(sg_buf_str(&out),
    SG_STR("M-SEARCH /a?b HTTP/1.1\r\nHost: h\r\nX-D: \r\nx-d: 2\r\n\r\n")));
    assert_false(out.failed);
    sg_buf_deinit(&out);
}

/* A head or chunk that does not fit leaves nothing behind but the mark. */
static void writes_all_or_nothing(void **state)
{
    (void)state;
    sg_fields_t fs = {0};
    sg_fields_add(&fs, arena, SG_STR("Host"), SG_STR("h"));
    const size_t whole = sizeof "GET / HTTP/1.1\r\nHost: h\r\n\r\n" - 1;
    for (size_t cap = 0; cap <= whole; cap++) {
        sg_buf_t out;
        sg_buf_init(&out, cap);
        sg_head_write(&out, SG_STR("GET"), SG_STR("/"), &fs);
        assert_int_equal(sg_buf_len(&out), cap == whole ? whole : 0);
        assert_int_equal(out.failed, cap != whole);
        sg_buf_clear(&out);
        sg_chunk_write(&out, "abcdefghijklmnopqrst", 20);
        assert_int_equal(sg_buf_len(&out), cap >= 26 ? 26 : 0);
        assert_int_equal(out.failed, cap < 26);
        sg_chunk_write(&out, "", 0);
        assert_int_equal(out.failed, cap < 26);
        sg_buf_deinit(&out);
    }
}

static void writes_chunks(void **state)
{
    (void)state;
    sg_buf_t out;
    sg_buf_init(&out, 100000);
    sg_chunk_write(&out, "hello", 5);
    sg_chunk_write(&out, "never", 0);
    sg_chunk_write(&out, "0123456789abcdefghi", 19);
    sg_chunk_write_last(&out);
    assert_true(sg_str_eq(sg_buf_str(&out), SG_STR("5\r\nhello\r\n13\r\n0123456789abcdefghi\r\n0\r\n\r\n")));
    sg_buf_clear(&out);
    static char big[0x10000];
    sg_chunk_write(&out, big, sizeof big);
    assert_int_equal(sg_buf_len(&out), sizeof big + 9);
    assert_memory_equal(sg_buf_str(&out).p, "10000\r\n", 7);
    sg_buf_deinit(&out);
}

/* --- heads in: what is taken ------------------------------------------------------------------ */

static size_t used;
static const char *why;

static sg_err_t try_parse(sg_str_t in, bool head_request, sg_response_head_t *out)
{
    used = 0;
    why = "-";
    return sg_response_head_parse(arena, in, head_request, out, &used, &why);
}

static void parse_ok(sg_str_t in, bool head_request, sg_response_head_t *out)
{
    sg_err_t err = try_parse(in, head_request, out);
    if (err)
        fail_msg("%.*s: %s (%s)", SG_STR_ARG(in), sg_err_name(err), why);
    assert_int_equal(used, in.n);
}

static void parses_status_lines(void **state)
{
    static const struct {
        const char *line;
        unsigned minor, status;
        const char *reason;
    } cases[] = {
        {"HTTP/1.1 200 OK", 1, 200, "OK"}, {"HTTP/1.0 404 Not Found", 0, 404, "Not Found"},
        {"HTTP/1.1 200 ", 1, 200, ""},
        {"HTTP/1.1 200", 1, 200, ""}, {"HTTP/1.1 100 Continue", 1, 100, "Continue"},
        {"HTTP/1.1 999 High", 1, 999, "High"},
        {"HTTP/1.1 600 \xc3\xa9\xff\tx", 1, 600, "\xc3\xa9\xff\tx"}, {"HTTP/1.1 345  two", 1, 345, " two"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_response_head_t h;
        parse_ok(sg_arena_printf(arena, "%s\r\n\r\n", cases[i].line), false, &h);
        assert_int_equal(h.version_minor, cases[i].minor);
        assert_int_equal(h.status, cases[i].status);
        assert_true(sg_str_eq(h.reason, sg_str(cases[i].reason)));
        assert_int_equal(h.fields.count, 0);
    }
}

static void parses_fields(void **state)
{
    (void)state;
    sg_response_head_t h;
    parse_ok(SG_STR(OK "A:1\r\nb:  two words \t\r\nSet-Cookie: x=1\r\nSet-Cookie: y=2\r\nE:\r\nF: \xe9\tz\r\n"
                       "!#$%&'*+-.^_`|~: ok\r\n\r\n"), false, &h);
    static const char *const want[][2] = {
        {"A", "1"}, {"b", "two words"}, {"Set-Cookie", "x=1"}, {"Set-Cookie", "y=2"}, {"E", ""},
        {"F", "\xe9\tz"},
        {"!#$%&'*+-.^_`|~", "ok"},
    };
    assert_int_equal(h.fields.count, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < h.fields.count; i++) {
        assert_true(sg_str_eq(h.fields.at[i].name, sg_str(want[i][0])));
        assert_true(sg_str_eq(h.fields.at[i].value, sg_str(want[i][1])));
    }
}

/* RFC 9112 sections 6.3 and 9.3. */
static void decides_the_body(void **state)
{
    static const struct {
        const char *head;
        bool head_request;
        sg_body_kind_t body;
        bool has_length;
        uint64_t length;
        bool keep_alive;
    } cases[] = {
        {OK "Content-Length: 5\r\n", false, SG_BODY_LENGTH, true, 5, true},
        {OK "Content-Length: 0\r\n", false, SG_BODY_LENGTH, true, 0, true},
        {OK "Content-Length:\t 0002 \r\n", false, SG_BODY_LENGTH, true, 2, true},
        {OK "content-length: 5\r\nX: 1\r\nCONTENT-LENGTH: 5\r\n", false, SG_BODY_LENGTH, true, 5, true},
        {OK "Content-Length: 9223372036854775807\r\n", false, SG_BODY_LENGTH, true, INT64_MAX, true},
        {OK CHUNKED, false, SG_BODY_CHUNKED, false, 0, true},
        {OK "transfer-encoding: \t ChUnKeD \r\n", false, SG_BODY_CHUNKED, false, 0, true},
        {OK CHUNKED "Connection: x, Close\r\n", false, SG_BODY_CHUNKED, false, 0, false},
        {OK "Connection: keep-alive\r\nConnection: close\r\nContent-Length: 1\r\n",
         false, SG_BODY_LENGTH, true, 1, false},
        {OK, false, SG_BODY_CLOSE, false, 0, false},
        {OK "Connection: keep-alive\r\n", false, SG_BODY_CLOSE, false, 0, false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n", false, SG_BODY_LENGTH, true, 3, false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: Keep-Alive\r\n",
         false, SG_BODY_LENGTH, true, 3, true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: Keep-Alive, close\r\n",
         false, SG_BODY_LENGTH, true, 3, false},
        {"HTTP/1.0 200 OK\r\n", false, SG_BODY_CLOSE, false, 0, false},
        {OK "Content-Length: 5\r\n", true, SG_BODY_NONE, true, 5, true},
        {OK CHUNKED, true, SG_BODY_NONE, false, 0, true},
        {OK, true, SG_BODY_NONE, false, 0, true},
        {OK "Connection: close\r\n", true, SG_BODY_NONE, false, 0, false},
        {"HTTP/1.1 100 Continue\r\n", false, SG_BODY_NONE, false, 0, true},
        {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\n",
         false, SG_BODY_NONE, true, 9, false},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n",
         false, SG_BODY_NONE, false, 0, false},
        {"HTTP/1.1 204 No Content\r\n", false, SG_BODY_NONE, false, 0, true},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n", false, SG_BODY_NONE, true, 0, true},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n", false, SG_BODY_NONE, true, 4, false},
        {"HTTP/1.1 204 No Content\r\n" CHUNKED, false, SG_BODY_NONE, false, 0, false},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\n", false, SG_BODY_NONE, true, 1234, true},
        {"HTTP/1.1 304 Not Modified\r\n" CHUNKED, false, SG_BODY_NONE, false, 0, true},
        {"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n", false, SG_BODY_NONE, true, 0, true},
        {"HTTP/1.1 205 Reset Content\r\nContent-Length: 4\r\n", false, SG_BODY_NONE, true, 4, false},
        {"HTTP/1.1 205 Reset Content\r\n" CHUNKED, false, SG_BODY_NONE, false, 0, false},
        {"HTTP/1.1 205 Reset Content\r\n", false, SG_BODY_NONE, false, 0, false},
        {"HTTP/1.1 205 Reset Content\r\n", true, SG_BODY_NONE, false, 0, true},
        {"HTTP/1.1 206 Partial\r\nContent-Length: 2\r\n", false, SG_BODY_LENGTH, true, 2, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_response_head_t h;
        parse_ok(sg_arena_printf(arena, "%s\r\n", cases[i].head), cases[i].head_request, &h);
        if (h.body != cases[i].body || h.has_length != cases[i].has_length || h.length != cases[i].length ||
            h.keep_alive != cases[i].keep_alive)
            fail_msg("case %zu, %s: body %d, length %d %ju, keep %d", i, cases[i].head, (int)h.body,
                     h.has_length, (uintmax_t)h.length, h.keep_alive);
    }
}

static void leaves_the_rest(void **state)
{
    (void)state;
    const sg_str_t in = SG_STR("HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nok"
                               "HTTP/1.1 200 EVIL\r\n\r\n");
    sg_response_head_t h;
    assert_int_equal(try_parse(in, false, &h), SG_OK);
    assert_int_equal(h.status, 100);
    assert_int_equal(used, 25);
    assert_int_equal(try_parse(sg_str_n(in.p + used, in.n - used), false, &h), SG_OK);
    assert_int_equal(h.status, 200);
    assert_int_equal(used, sizeof OK "Content-Length: 2\r\n\r\n" - 1);
}

/* --- heads in: what is refused ---------------------------------------------------------------- */

static const struct {
    sg_str_t head;
    const char *why;
} bad_heads[] = {
#define BAD(z, word) {SG_STR(z), word}
    BAD("HTTP/1.2 200 OK\r\n\r\n", "version"), BAD("HTTP/1.10 200 OK\r\n\r\n", "status"),
    BAD("HTTP/2 200 OK\r\n\r\n", "version"),
    BAD("HTTP/1.\r\n\r\n", "version"), BAD("HTTP/1. 200 OK\r\n\r\n", "version"),
    BAD("http/1.1 200 OK\r\n\r\n", "version"),
    BAD("\r\nHTTP/1.1 200 OK\r\n\r\n", "version"), BAD(" HTTP/1.1 200 OK\r\n\r\n", "version"),
    BAD("garbage HTTP/1.1 200 OK\r\n\r\n", "version"), BAD("<html>", "version"),
    BAD("\0HTTP/1.1 200 OK\r\n\r\n", "version"),
    BAD("ICY 200 OK\r\n\r\n", "version"), BAD("HTTP/1.1\r\n\r\n", "status"),
    BAD("HTTP/1.1 \r\n\r\n", "status"),
    BAD("HTTP/1.1 20 OK\r\n\r\n", "status"), BAD("HTTP/1.1 20\r\n\r\n", "status"),
    BAD("HTTP/1.1 2000 OK\r\n\r\n", "status"),
    BAD("HTTP/1.1 abc OK\r\n\r\n", "status"), BAD("HTTP/1.1 000 Zero\r\n\r\n", "status"),
    BAD("HTTP/1.1 099 Low\r\n\r\n", "status"),
    BAD("HTTP/1.1  200 OK\r\n\r\n", "status"), BAD("HTTP/1.1\t200\tOK\r\n\r\n", "status"),
    BAD("HTTP/1.1 200\tOK\r\n\r\n", "status"),
    BAD("HTTP/1.1-200 OK\r\n\r\n", "status"), BAD("HTTP/1.1\t200 OK\r\n\r\n", "status"),
    BAD("HTTP/1.1 200OK\r\n\r\n", "status"), BAD("HTTP/1.1 -20 OK\r\n\r\n", "status"),
    BAD("HTTP/1.1 +20 OK\r\n\r\n", "status"),
    BAD("HTTP/1.1 2 0 OK\r\n\r\n", "status"), BAD("HTTP/1.1 200 O\rK\r\n\r\n", "reason"),
    BAD("HTTP/1.1 200 O\0K\r\n\r\n", "reason"),
    BAD("HTTP/1.1 200 \x1b[1m\r\n\r\n", "reason"), BAD("HTTP/1.1 200 OK\r\r\n\r\n", "reason"),
    BAD("HTTP/1.1 200 OK\n\n", "bare-lf"), BAD("HTTP/1.1 200 OK\nX: 1\r\n\r\n", "bare-lf"),
    BAD(OK "X: 1\nY: 2\r\n\r\n", "bare-lf"),
    BAD(OK "X: 1\r\n\n", "bare-lf"), BAD(OK "X: 1\n\r\n", "bare-lf"), BAD(OK "X: 1\n", "bare-lf"),
    BAD(OK "X: a\rb\r\n\r\n", "value"), BAD(OK "X: a\r\r\n\r\n", "value"),
    BAD(OK "X: a\0b\r\n\r\n", "value"),
    BAD(OK "X: a\x07\r\n\r\n", "value"), BAD(OK "X: \x7f\r\n\r\n", "value"),
    BAD(OK "X: \x0b\r\n\r\n", "value"),
    BAD(OK "X: one\r\n two\r\n\r\n", "fold"), BAD(OK "X: one\r\n\ttwo\r\n\r\n", "fold"),
    BAD(OK " X: one\r\n\r\n", "fold"),
    BAD(OK "X: one\r\n \r\n\r\n", "fold"), BAD(OK "Transfer\r\n -Encoding: chunked\r\n\r\n", "name"),
    BAD(OK "X : a\r\n\r\n", "name"), BAD(OK "X\t: a\r\n\r\n", "name"), BAD(OK "X Y: a\r\n\r\n", "name"),
    BAD(OK ": a\r\n\r\n", "name"),
    BAD(OK "no colon here\r\n\r\n", "name"), BAD(OK "nocolon\r\n\r\n", "name"),
    BAD(OK "X(a): v\r\n\r\n", "name"),
    BAD(OK "X@Y: v\r\n\r\n", "name"), BAD(OK "X\"Y: v\r\n\r\n", "name"), BAD(OK "X/Y: v\r\n\r\n", "name"),
    BAD(OK "X[]: v\r\n\r\n", "name"),
    BAD(OK "X\0Y: v\r\n\r\n", "name"), BAD(OK "X\x01Y: v\r\n\r\n", "name"),
    BAD(OK "X-\xc3\xa9: v\r\n\r\n", "name"),
    BAD(OK "X\r: v\r\n\r\n", "name"),
    BAD(OK "Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n", "name"),
    BAD(OK "Transfer-Encoding: xchunked\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: identity\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: chunked, chunked\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: chunked, identity\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: ,chunked\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: chunked,\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: chunked;x\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: \"chunked\"\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: \\chunked\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding:\r\n\r\n", "te"), BAD(OK "Transfer-Encoding: chunked x\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: cow\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: \xff" "chunked\r\n\r\n", "te"),
    BAD(OK "Transfer-Encoding: chunked\x0c\r\n\r\n", "value"),
    BAD(OK "Transfer-Encoding: \x0b" "chunked\r\n\r\n", "value"),
    BAD(OK "Transfer-Encoding: chunked\rx\r\n\r\n", "value"),
    BAD(OK "Transfer-Encoding: chunked\0\r\n\r\n", "value"),
    BAD(OK CHUNKED CHUNKED "\r\n", "te-twice"),
    BAD(OK CHUNKED "Transfer-Encoding: identity\r\n\r\n", "te-twice"),
    BAD(OK "Transfer-Encoding: identity\r\n" CHUNKED "\r\n", "te-twice"),
    BAD(OK CHUNKED "transfer-encoding:\r\n\r\n", "te-twice"),
    BAD(OK "Content-Length: 3\r\n" CHUNKED "\r\n", "te-cl"),
    BAD(OK CHUNKED "Content-Length: 0\r\n\r\n", "te-cl"),
    BAD("HTTP/1.0 200 OK\r\n" CHUNKED "\r\n", "te-http10"),
    BAD("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" CHUNKED "\r\n", "te-http10"),
    BAD(OK "Content-Length: +2\r\n\r\n", "cl"), BAD(OK "Content-Length: -2\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 0x2\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 2, 2\r\n\r\n", "cl"), BAD(OK "Content-Length: 2, 6\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 2 2\r\n\r\n", "cl"),
    BAD(OK "Content-Length: abc\r\n\r\n", "cl"), BAD(OK "Content-Length: 2abc\r\n\r\n", "cl"),
    BAD(OK "Content-Length:\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 18446744073709551618\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 9999999999999999999\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 9223372036854775808\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 2\r\nContent-Length:\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 2.0\r\n\r\n", "cl"), BAD(OK "Content-Length: \xb2\r\n\r\n", "cl"),
    BAD(OK "Content-Length: 2\r\nContent-Length: 6\r\n\r\n", "cl-differ"),
    BAD(OK "Content-Length: 6\r\nContent-Length: 2\r\n\r\n", "cl-differ"),
    BAD(OK "Content-Length: 2\r\nContent-Length: 2\r\nContent-Length: 0\r\n\r\n", "cl-differ"),
    BAD("HTTP/1.1 204 No Content\r\nTransfer-Encoding: x\r\n\r\n", "te"),
    BAD("HTTP/1.1 304 Not Modified\r\nContent-Length: x\r\n\r\n", "cl"),
#undef BAD
};

static void refuses_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_heads / sizeof bad_heads[0]; i++) {
        for (int head_request = 0; head_request < 2; head_request++) {
            sg_response_head_t h;
            sg_err_t err = try_parse(bad_heads[i].head, head_request, &h);
            if (err != SG_ERR_SYNTAX || strcmp(why, bad_heads[i].why) != 0)
                fail_msg("case %zu, %.*s: %s (%s), want %s", i, SG_STR_ARG(bad_heads[i].head),
                         sg_err_name(err), why, bad_heads[i].why);
        }
    }
}

static void bounds_heads(void **state)
{
    (void)state;
    static char text[SG_RESPONSE_HEAD_MAX + 16];
    const size_t from = sizeof OK "X: " - 1;
    sg_response_head_t h;
    memset(text, 'a', sizeof text);
    memcpy(text, OK "X: ", from);
    assert_int_equal(try_parse(sg_str_n(text, SG_RESPONSE_HEAD_MAX - 1), false, &h), SG_ERR_AGAIN);
    assert_int_equal(try_parse(sg_str_n(text, SG_RESPONSE_HEAD_MAX), false, &h), SG_ERR_FULL);
    memcpy(text + SG_RESPONSE_HEAD_MAX - 4, "\r\n\r\n", 4);
    parse_ok(sg_str_n(text, SG_RESPONSE_HEAD_MAX), false, &h);
    memset(text + SG_RESPONSE_HEAD_MAX - 4, 'a', 4);
    memcpy(text + SG_RESPONSE_HEAD_MAX - 3, "\r\n\r\n", 4);
    assert_int_equal(try_parse(sg_str_n(text, sizeof text), false, &h), SG_ERR_FULL);
    sg_buf_t head;
    sg_buf_init(&head, 65536);
    sg_buf_z(&head, OK);
    for (int i = 0; i < SG_RESPONSE_FIELDS_MAX; i++)
        sg_buf_z(&head, "A: 1\r\n");
    sg_buf_z(&head, "\r\n");
    parse_ok(sg_buf_str(&head), false, &h);
    assert_int_equal(h.fields.count, SG_RESPONSE_FIELDS_MAX);
    head.end -= 2;
    sg_buf_z(&head, "A: 1\r\n\r\n");
    assert_int_equal(try_parse(sg_buf_str(&head), false, &h), SG_ERR_SYNTAX);
    assert_string_equal(why, "too-many-fields");
    sg_buf_deinit(&head);
}

/* Byte by byte: "again" until the last one, and the resumed search agrees with the one from the start. */
static void finds_the_end_at_any_split(void **state)
{
    (void)state;
    const sg_str_t in = SG_STR(OK "A: 1\r\nContent-Length: 2\r\n\r\nok");
    const size_t whole = in.n - 2;
    size_t seen = 0, length = 0;
    for (size_t n = 0; n <= in.n; n++) {
        sg_response_head_t h;
            sg_err_t want = n < whole ? SG_ERR_AGAIN : SG_OK;
        assert_int_equal(try_parse(sg_str_n(in.p, n), false, &h), want);
        assert_int_equal(sg_response_head_find(sg_str_n(in.p, n), &seen, &length, &why), want);
        if (want == SG_OK)
            assert_int_equal(length, whole);
        for (size_t first = 0; first < n; first++) {
            size_t at = 0;
            if (sg_response_head_find(sg_str_n(in.p, first), &at, &length, &why) == SG_ERR_AGAIN)
                assert_int_equal(sg_response_head_find(sg_str_n(in.p, n), &at, &length, &why), want);
        }
    }
    const sg_str_t bad = SG_STR(OK "A: 1\nB: 2\r\n\r\n");
    seen = 0;
    for (size_t n = 0; n <= bad.n; n++)
        assert_int_equal(sg_response_head_find(sg_str_n(bad.p, n), &seen, &length, &why),
                         n < 22 ? SG_ERR_AGAIN : SG_ERR_SYNTAX);
}

/* --- bodies in -------------------------------------------------------------------------------- */

typedef struct {
    char data[4096];
    size_t n;                   /* payload */
    size_t used;                /* of the input */
    sg_err_t err;
    bool done;
    sg_err_t eof;               /* what the end of the connection means here */
} outcome_t;

/* Feed in[from, to) until nothing moves. */
static void feed(sg_body_t *b, outcome_t *o, sg_str_t in, size_t to)
{
    while (!o->err && !b->done) {
        size_t taken;
        sg_str_t data;
        o->err = sg_body_feed(b, sg_str_n(in.p + o->used, to - o->used), &taken, &data);
        if (o->err) {
            assert_int_equal(taken, 0);
            assert_int_equal(data.n, 0);
            return;
        }
        assert_true(taken <= to - o->used && data.n <= taken);
        if (data.n)
            assert_true(data.p + data.n == in.p + o->used + taken);
        assert_true(o->n + data.n <= sizeof o->data);
        if (data.n)
            memcpy(o->data + o->n, data.p, data.n);
        o->n += data.n;
        o->used += taken;
        if (taken == 0)
            return;
    }
}

static void finish(sg_body_t *b, outcome_t *o)
{
    o->done = b->done;
    o->eof = sg_body_eof(b);
}

static void assert_same(const outcome_t *a, const outcome_t *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->data, b->data, a->n);
    assert_int_equal(a->err, b->err);
    assert_int_equal(a->done, b->done);
    assert_int_equal(a->eof, b->eof);
    if (!a->err)
        assert_int_equal(a->used, b->used);
}

/* The whole input at once; then cut in two at each place, and byte by byte: always the same. */
static outcome_t run_body(sg_body_kind_t kind, uint64_t length, sg_str_t in)
{
    outcome_t whole = {0};
    sg_body_t b;
    sg_body_init(&b, kind, length);
    feed(&b, &whole, in, in.n);
    finish(&b, &whole);
    for (size_t cut = 0; cut <= in.n; cut++) {
        outcome_t two = {0};
        sg_body_init(&b, kind, length);
        feed(&b, &two, in, cut);
        feed(&b, &two, in, in.n);
        finish(&b, &two);
        assert_same(&two, &whole);
    }
    outcome_t drip = {0};
    sg_body_init(&b, kind, length);
    for (size_t to = 0; to <= in.n; to++)
        feed(&b, &drip, in, to);
    finish(&b, &drip);
    assert_same(&drip, &whole);
    return whole;
}

static void decodes_chunks(void **state)
{
    static const struct {
        const char *in, *data;
        size_t rest;            /* bytes behind the end */
    } cases[] = {
        {"0\r\n\r\n", "", 0}, {"5\r\nhello\r\n0\r\n\r\n", "hello", 0},
        {"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", 0},
        {"5\r\nhello\r\n0\r\n\r\nGARBAGE", "hello", 7}, {"0\r\n\r\n0\r\n\r\n", "", 5},
        {"00000005\r\nhello\r\n000\r\n\r\n", "hello", 0},
        {"0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n", "hello", 0},
        {"a\r\n0123456789\r\nA\r\nabcdefghij\r\n0\r\n\r\n", "0123456789abcdefghij", 0},
        {"5;a=b;c=\"d;e\"\r\nhello\r\n0;last\r\n\r\n", "hello", 0}, {"5;\r\nhello\r\n0;\r\n\r\n", "hello", 0},
        {"5; a = \t\xff\r\nhello\r\n0\r\n\r\n", "hello", 0}, {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n", 0},
        {"3\r\n0\r\n\r\n0\r\n\r\n", "0\r\n", 0},
        {"5\r\nhello\r\n0\r\nX-T: one\r\nX-U:two \r\nY:\r\n\r\n", "hello", 0},
        {"0\r\nContent-Length: 99\r\nTransfer-Encoding: x\r\nSet-Cookie: t=1\r\n\r\nX", "", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        outcome_t o = run_body(SG_BODY_CHUNKED, 0, sg_str(cases[i].in));
        if (o.err || !o.done || o.eof)
            fail_msg("%s: %s", cases[i].in, sg_err_name(o.err));
        assert_true(sg_str_eq(sg_str_n(o.data, o.n), sg_str(cases[i].data)));
        assert_int_equal(strlen(cases[i].in) - o.used, cases[i].rest);
    }
}

static void refuses_chunks(void **state)
{
    static const struct {
        sg_str_t in;
        const char *data;       /* what may be handed out before the fault */
    } cases[] = {
#define BAD(z, data) {SG_STR(z), data}
        BAD("zz\r\nhello\r\n", ""), BAD("-5\r\nhello\r\n", ""), BAD("+5\r\nhello\r\n", ""),
        BAD("0x5\r\nhello\r\n", ""), BAD("5h\r\nhello\r\n", ""),
        BAD("10000000000000005\r\nhello\r\n", ""), BAD("00000000000000005\r\nhello\r\n", ""),
        BAD("ffffffffffffffff\r\nhello\r\n", ""),
        BAD("8000000000000000\r\nhello\r\n", ""), BAD("5\r\nhelloX", "hello"),
        BAD("5\r\nhello0\r\n\r\n", "hello"), BAD("3\r\nhello\r\n", "hel"),
        BAD("5 \r\nhello\r\n", ""), BAD("5\t\r\nhello\r\n", ""), BAD("5 ;x\r\nhello\r\n", ""),
        BAD(" 5\r\nhello\r\n", ""), BAD("5\nhello\n0\n\n", ""),
        BAD("5\rhello", ""), BAD("5\r\rhello", ""), BAD("\r\nhello\r\n", ""), BAD("\n", ""),
        BAD(";x\r\n", ""), BAD("5\r\nhello\n0\r\n\r\n", "hello"),
        BAD("5\r\nhello\r0\r\n\r\n", "hello"), BAD("5\r\nhello\r\n\r\n", "hello"),
        BAD("5\r\nhello\r\n 0\r\n\r\n", "hello"), BAD("5;a\nhello", ""),
        BAD("5;a\rb\r\nhello", ""), BAD("5;a\0\r\nhello", ""), BAD("5;\x07\r\n", ""), BAD("5;\x7f\r\n", ""),
        BAD("5\0\r\n", ""), BAD("\0", ""),
        BAD("0\r\nno colon here\r\n\r\n", ""), BAD("0\r\nnocolon\r\n\r\n", ""), BAD("0\r\n: v\r\n\r\n", ""),
        BAD("0\r\nX : v\r\n\r\n", ""),
        BAD("0\r\n X: v\r\n\r\n", ""), BAD("0\r\nX: v\r\n fold\r\n\r\n", ""), BAD("0\r\nX: v\n\r\n", ""),
        BAD("0\r\nX: v\rY: w\r\n\r\n", ""),
        BAD("0\r\nX: \0\r\n\r\n", ""), BAD("0\r\nX: v\r\n\n", ""), BAD("0\r\n\rX", ""), BAD("0\r\n\n", ""),
        BAD("0\n\r\n", ""), BAD("0\r\nX\x01: v\r\n\r\n", ""),
        BAD("0 \r\n\r\n", ""), BAD("0\r\n0\r\n\r\n", ""),
#undef BAD
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        outcome_t o = run_body(SG_BODY_CHUNKED, 0, cases[i].in);
        if (o.err != SG_ERR_SYNTAX || o.done || o.eof != SG_ERR_EOF)
            fail_msg("case %zu, %.*s: %s", i, SG_STR_ARG(cases[i].in), sg_err_name(o.err));
        assert_true(sg_str_eq(sg_str_n(o.data, o.n), sg_str(cases[i].data)));
    }
}

/* Every end before the real one is an error that the caller can see. */
static void sees_cut_bodies(void **state)
{
    (void)state;
    const sg_str_t in = SG_STR("5;x\r\nhello\r\n0\r\nX: v\r\n\r\n");
    for (size_t n = 0; n <= in.n; n++) {
        outcome_t o = run_body(SG_BODY_CHUNKED, 0, sg_str_n(in.p, n));
        assert_int_equal(o.err, SG_OK);
        assert_int_equal(o.done, n == in.n);
        assert_int_equal(o.eof, n == in.n ? SG_OK : SG_ERR_EOF);
        assert_int_equal(o.used, n);
    }
}

static void reads_the_other_kinds(void **state)
{
    (void)state;
    outcome_t o = run_body(SG_BODY_LENGTH, 5, SG_STR("helloEXTRA"));
    assert_true(o.done && !o.err && !o.eof);
    assert_int_equal(o.used, 5);
    assert_true(sg_str_eq(sg_str_n(o.data, o.n), SG_STR("hello")));
    o = run_body(SG_BODY_LENGTH, 5, SG_STR("hell"));
    assert_false(o.done);
    assert_int_equal(o.eof, SG_ERR_EOF);
    o = run_body(SG_BODY_LENGTH, 0, SG_STR("EXTRA"));
    assert_true(o.done && !o.eof && o.used == 0);
    o = run_body(SG_BODY_NONE, 7, SG_STR("EXTRA"));
    assert_true(o.done && !o.eof && o.used == 0);
    o = run_body(SG_BODY_CLOSE, 0, SG_STR("until\r\nclose"));
    assert_false(o.done);
    assert_int_equal(o.eof, SG_OK);
    assert_true(sg_str_eq(sg_str_n(o.data, o.n), SG_STR("until\r\nclose")));
    o = run_body(SG_BODY_LENGTH, INT64_MAX, SG_STR("x"));
    assert_false(o.done);
    assert_int_equal(o.n, 1);
}

/* After the end, and after a fault, nothing more is taken. */
static void stays_where_it_ended(void **state)
{
    (void)state;
    sg_body_t b;
    size_t taken;
    sg_str_t data;
    sg_body_init(&b, SG_BODY_CHUNKED, 0);
    assert_int_equal(sg_body_feed(&b, SG_STR("0\r\n\r\n"), &taken, &data), SG_OK);
    assert_true(b.done);
    assert_int_equal(sg_body_feed(&b, SG_STR("5\r\nhello"), &taken, &data), SG_OK);
    assert_int_equal(taken, 0);
    assert_int_equal(data.n, 0);
    sg_body_init(&b, SG_BODY_CHUNKED, 0);
    assert_int_equal(sg_body_feed(&b, SG_STR("x"), &taken, &data), SG_ERR_SYNTAX);
    assert_int_equal(sg_body_feed(&b, SG_STR("5\r\nhello"), &taken, &data), SG_ERR_SYNTAX);
    assert_int_equal(sg_body_feed(&b, SG_STR(""), &taken, &data), SG_ERR_SYNTAX);
}

static sg_err_t feed_repeated(sg_body_t *b, const char *start, char c, size_t times, const char *end)
{
    size_t taken;
    sg_str_t data;
    sg_err_t err = sg_body_feed(b, sg_str(start), &taken, &data);
    for (size_t i = 0; i < times && !err; i++)
        err = sg_body_feed(b, sg_str_n(&c, 1), &taken, &data);
    return err ? err : sg_body_feed(b, sg_str(end), &taken, &data);
}

static void bounds_extensions_and_trailers(void **state)
{
    (void)state;
    sg_body_t b;
    sg_body_init(&b, SG_BODY_CHUNKED, 0);
    assert_int_equal(feed_repeated(&b, "0;", 'a', SG_CHUNK_EXTENSION_MAX, "\r\n\r\n"), SG_OK);
    assert_true(b.done);
    sg_body_init(&b, SG_BODY_CHUNKED, 0);
    assert_int_equal(feed_repeated(&b, "0;", 'a', SG_CHUNK_EXTENSION_MAX + 1, ""), SG_ERR_SYNTAX);
    sg_body_init(&b, SG_BODY_CHUNKED, 0);
    assert_int_equal(feed_repeated(&b, "0\r\nA:", 'a', SG_TRAILERS_MAX - 5, "\r\n\r"), SG_OK);
    sg_body_init(&b, SG_BODY_CHUNKED, 0);
    assert_int_equal(feed_repeated(&b, "0\r\nA:", 'a', SG_TRAILERS_MAX - 1, ""), SG_ERR_SYNTAX);
    /* Each chunk has its own line. */
    sg_body_init(&b, SG_BODY_CHUNKED, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(feed_repeated(&b, "1;", 'a', SG_CHUNK_EXTENSION_MAX, "\r\nx"), SG_OK);
        assert_int_equal(feed_repeated(&b, "\r", '\n', 1, ""), SG_OK);
    }
}

/* What sg_chunk_write writes, the decoder reads. */
static void reads_what_it_writes(void **state)
{
    (void)state;
    sg_buf_t out;
    sg_buf_init(&out, 1 << 20);
    char text[300];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    size_t total = 0;
    for (size_t n = 1; n < 40; n++, total += n - 1)
        sg_chunk_write(&out, text + total % 200, n);
    sg_chunk_write_last(&out);
    outcome_t o = run_body(SG_BODY_CHUNKED, 0, sg_buf_str(&out));
    assert_true(o.done && !o.err);
    assert_int_equal(o.n, total);
    size_t at = 0;
    for (size_t n = 1; n < 40; at += n, n++)
        assert_memory_equal(o.data + at, text + at % 200, n);
    sg_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_heads), cmocka_unit_test(writes_all_or_nothing),
        cmocka_unit_test(writes_chunks),
        cmocka_unit_test(parses_status_lines), cmocka_unit_test(parses_fields),
        cmocka_unit_test(decides_the_body),
        cmocka_unit_test(leaves_the_rest), cmocka_unit_test(refuses_heads), cmocka_unit_test(bounds_heads),
        cmocka_unit_test(finds_the_end_at_any_split), cmocka_unit_test(decodes_chunks),
        cmocka_unit_test(refuses_chunks),
        cmocka_unit_test(sees_cut_bodies), cmocka_unit_test(reads_the_other_kinds),
        cmocka_unit_test(stays_where_it_ended),
        cmocka_unit_test(bounds_extensions_and_trailers), cmocka_unit_test(reads_what_it_writes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
