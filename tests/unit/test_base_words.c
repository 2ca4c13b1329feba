/* Digests against published vectors, addresses, prefixes, endpoints, times, random numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"

static void assert_hex(const uint8_t *got, size_t n, const char *want)
{
    char hex[129] = {0};
    sg_hex(got, n, hex);
    assert_string_equal(hex, want);
}

static void digests(void **state)
{
    uint8_t d[SG_SHA256_BYTES];
    uint8_t key[20];
    (void)state;
    sg_sha256(SG_STR("abc"), d); /* FIPS 180-4 */
    assert_hex(d, sizeof d, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sg_sha256(SG_STR(""), d);
    assert_hex(d, sizeof d, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    memset(key, 0x0b, sizeof key); /* RFC 4231, test case 1 */
    sg_hmac_sha256(sg_str_n((const char *)key, sizeof key), SG_STR("Hi There"), d);
    assert_hex(d, sizeof d, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

static void hexadecimal(void **state)
{
    uint8_t b[3];
    (void)state;
    assert_int_equal(sg_unhex(SG_STR("00fFA0"), b, 3), SG_OK);
    assert_hex(b, 3, "00ffa0");
    assert_int_equal(sg_unhex(SG_STR("00ff"), b, 3), SG_ERR_SYNTAX);
    assert_int_equal(sg_unhex(SG_STR("00ffg0"), b, 3), SG_ERR_SYNTAX);
}

/* The first 22 characters of base64url of the digest: compared with what openssl and base64 print. */
static void tags(void **state)
{
    sg_tag_t t, u;
    (void)state;
    sg_tag(SG_STR(""), SG_STR("abc"), &t);
    assert_string_equal(t.text, "ungWv48Bz-pBQUDeXa4iI7");
    assert_int_equal(strlen(t.text), SG_TAG_CHARS);
    sg_tag(SG_STR("pepper"), SG_STR("abc"), &u);
    assert_string_not_equal(t.text, u.text);
}

/* The vector of the paper's appendix A: key 00..0f, message 00..0e. */
static void siphash(void **state)
{
    uint8_t key[16], message[15];
    (void)state;
    for (uint8_t i = 0; i < 16; i++)
        key[i] = i;
    for (uint8_t i = 0; i < 15; i++)
        message[i] = i;
    assert_true(sg_siphash_keyed(sg_str_n((const char *)message, 15), key) == UINT64_C(0xa129ca6149be45e5));
    assert_true(sg_siphash(SG_STR("x")) == sg_siphash(SG_STR("x")));
    assert_true(sg_siphash(SG_STR("x")) != sg_siphash(SG_STR("y")));
    assert_true(sg_fnv1a(SG_STR("a")) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(sg_ct_equal("abc", "abc", 3) && !sg_ct_equal("abc", "abd", 3));
}

static void addresses(void **state)
{
    static const struct {
        const char *in, *out;
    } good[] = {
        {"1.2.3.4", "1.2.3.4"},
        {"::ffff:1.2.3.4", "1.2.3.4"},
        {"::FFFF:0102:0304", "1.2.3.4"},
        {"2001:DB8:0:0::1", "2001:db8::1"},
        {"::", "::"},
        {"0.0.0.0", "0.0.0.0"},
    };
    static const char *const bad[] = {"",
                                      "1.2.3",
                                      "01.2.3.4",
                                      "1.2.3.4 ",
                                      "1.2.3.4:80",
                                      "[::1]",
                                      "fe80::1%eth0",
                                      ":::",
                                      "1.2.3.256",
                                      "12345678901234567890123456789012345678901234567890"};
    sg_addr_t a;
    char text[SG_ADDR_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(sg_addr_parse(sg_str(good[i].in), &a), SG_OK);
        sg_addr_text(&a, text);
        assert_string_equal(text, good[i].out);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(sg_addr_parse(sg_str(bad[i]), &a), SG_ERR_SYNTAX);
    assert_int_equal(sg_addr_parse(sg_str_n("1.2.3.4\0x", 9), &a), SG_ERR_SYNTAX);
}

static bool in_prefix(const char *prefix, const char *addr)
{
    sg_cidr_t c;
    sg_addr_t a;
    assert_int_equal(sg_cidr_parse(sg_str(prefix), &c), SG_OK);
    assert_int_equal(sg_addr_parse(sg_str(addr), &a), SG_OK);
    return sg_cidr_has(&c, &a);
}

static void prefixes(void **state)
{
    static const char *const bad[] = {"127.0.0.1/33", "::1/129",     "1.2.3",       "01.2.3.4",
                                      "10.0.0.0/",    "10.0.0.0/08", "10.0.0.1/8",  "2001:db8::1/32",
                                      "10.0.0.0/-1",  "/8",          "10.0.0.0/8/8"};
    sg_cidr_t c;
    sg_addr_t a, m;
    char text[SG_ADDR_TEXT];
    (void)state;
    assert_true(in_prefix("10.0.0.0/8", "10.255.1.2") && !in_prefix("10.0.0.0/8", "11.0.0.0"));
    assert_true(in_prefix("10.0.0.0/8", "::ffff:10.1.1.1") && in_prefix("0.0.0.0/0", "9.9.9.9"));
    assert_false(in_prefix("0.0.0.0/0", "2001:db8::1"));
    assert_true(in_prefix("2001:db8::/33", "2001:db8:7fff::") &&
                !in_prefix("2001:db8::/33", "2001:db8:8000::"));
    assert_true(in_prefix("::1", "::1") && !in_prefix("::1", "::2") && in_prefix("1.2.3.4", "1.2.3.4"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_true(sg_cidr_parse(sg_str(bad[i]), &c) != SG_OK);
    assert_int_equal(sg_addr_parse(SG_STR("2001:db8:1:2:3:4:5:6"), &a), SG_OK);
    m = sg_addr_mask_v6(&a, 64);
    sg_addr_text(&m, text);
    assert_string_equal(text, "2001:db8:1:2::");
    assert_int_equal(sg_addr_parse(SG_STR("1.2.3.4"), &a), SG_OK);
    m = sg_addr_mask_v6(&a, 64);
    assert_true(sg_addr_eq(&a, &m)); /* IPv4 stays whole */
}

static void endpoints(void **state)
{
    static const struct {
        const char *text;
        bool loopback, is_unix;
    } good[] = {{"127.0.0.1:80", true, false},   {"localhost:0", true, false},
                {"[::1]:65535", true, false},    {"0.0.0.0:8080", false, false},
                {"*:1", false, false},           {"[2001:db8::1]:80", false, false},
                {"unix:/run/x.sock", true, true}};
    static const char *const bad[] = {"",
                                      "80",
                                      ":80",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:x",
                                      "example.com:80",
                                      "::1:80",
                                      "[::1]80",
                                      "[::1",
                                      "unix:",
                                      "unix:relative",
                                      "unix:/"
                                      "0123456789012345678901234567890123456789012345678901234567890123456789"
                                      "0123456789012345678901234567890123456789"};
    sg_endpoint_t e;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        sg_why_t why = {""};
        assert_int_equal(sg_endpoint_parse(sg_str(good[i].text), &e, &why), SG_OK);
        assert_int_equal(sg_endpoint_is_loopback(&e), good[i].loopback);
        assert_int_equal(e.is_unix, good[i].is_unix);
        assert_string_equal(e.text, good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sg_why_t why = {""};
        assert_int_equal(sg_endpoint_parse(sg_str(bad[i]), &e, &why), SG_ERR_SYNTAX);
        assert_non_null(strstr(why.text, "expected"));
    }
}

static void times(void **state)
{
    char text[SG_RFC3339_BYTES];
    (void)state;
    sg_clock_rfc3339(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000000Z");
    sg_clock_rfc3339(INT64_C(1796044127123456), text);
    assert_string_equal(text, "2026-11-30T13:08:47.123456Z");
    sg_clock_rfc3339(-1, text); /* before the epoch there is nothing to log */
    assert_string_equal(text, "1970-01-01T00:00:00.000000Z");
    sg_clock_rfc3339(INT64_MAX, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000000Z");
    int64_t a = sg_clock_mono_us();
    assert_true(sg_clock_mono_us() >= a);
}

static void random_numbers(void **state)
{
    char a[SG_RANDOM_ID_BYTES], b[SG_RANDOM_ID_BYTES];
    unsigned seen[10] = {0};
    (void)state;
    assert_int_equal(sg_random_below(0), 0);
    assert_int_equal(sg_random_below(1), 0);
    for (int i = 0; i < 10000; i++)
        seen[sg_random_below(10)]++;
    for (int i = 0; i < 10; i++)
        assert_true(seen[i] > 700 && seen[i] < 1300); /* ten standard deviations around 1000 */
    sg_random_id(a);
    sg_random_id(b);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
    uint8_t big[2000] = {0};
    sg_random_bytes(big, sizeof big);
    size_t zeros = 0;
    for (size_t i = 0; i < sizeof big; i++)
        zeros += big[i] == 0;
    assert_true(zeros < 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests),   cmocka_unit_test(hexadecimal), cmocka_unit_test(tags),
        cmocka_unit_test(siphash),   cmocka_unit_test(addresses),   cmocka_unit_test(prefixes),
        cmocka_unit_test(endpoints), cmocka_unit_test(times),       cmocka_unit_test(random_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
