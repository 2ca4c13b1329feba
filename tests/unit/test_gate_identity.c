/* test_gate_identity.c - keys, sources, tenants, and what is stripped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "gate/identity.h"

#define NOW INT64_C(1800000000000000)

typedef struct {
    sg_arena_t *arena;
    sg_tenant_t acme, anonymous;
    sg_api_key_t keys[4];           /* good, disabled, expiring, odd */
    sg_key_source_t sources[3];
    sg_key_table_t *table;
    sg_identity_conf_t conf;
    sg_identity_t got;
} fixture_t;

static const char *const clear_keys[] = {"good", "disabled", "expiring", "k:{x}*% \"\xe4"};

static int setup(void **state)
{
    static fixture_t f;
    f = (fixture_t){.arena = sg_arena_new(4096), .table = sg_key_table_new(4)};
    f.acme = (sg_tenant_t){.name = "acme", .keys = f.keys, .key_count = 4};
    sg_tag((sg_str_t){0}, SG_STR("tenant:acme"), &f.acme.tag);
    f.anonymous = (sg_tenant_t){.name = "anonymous", .anonymous = true};
    for (size_t i = 0; i < 4; i++) {
        const sg_api_key_t *other;
        f.keys[i] = (sg_api_key_t){.id = clear_keys[i], .tenant = &f.acme};
        sg_sha256(sg_str(clear_keys[i]), f.keys[i].digest);
        assert_int_equal(sg_key_table_add(f.table, &f.keys[i], &other), SG_OK);
    }
    f.keys[1].disabled = true;
    f.keys[2].expires_us = NOW;
    f.sources[0] = (sg_key_source_t){.kind = SG_KEY_FROM_HEADER, .name = SG_STR("X-API-Key")};
    f.sources[1] = (sg_key_source_t){SG_KEY_FROM_SCHEME, SG_STR("Authorization"), SG_STR("Bearer")};
    f.sources[2] = (sg_key_source_t){.kind = SG_KEY_FROM_QUERY, .name = SG_STR("api_key")};
    f.conf = (sg_identity_conf_t){.sources = f.sources, .source_count = 3, .ipv6_prefix = 64, .keys = f.table,
                                  .anonymous = &f.anonymous};
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture_t *f = *state;
    sg_key_table_free(f->table);
    sg_arena_free(f->arena);
    return 0;
}

/* "Name: value" lines, each ended by a newline. */
static sg_fields_t fields_of(fixture_t *f, const char *text)
{
    sg_fields_t fields = {0};
    sg_str_t rest = sg_str(text), line;
    while (rest.n > 0 && sg_str_next(&rest, '\n', &line)) {
        const char *colon = memchr(line.p, ':', line.n);
        size_t n = (size_t)(colon - line.p);
        sg_fields_add(&fields, f->arena, sg_str_n(line.p, n), sg_str_n(colon + 2, line.n - n - 2));
    }
    return fields;
}

static sg_id_err_t resolve_at(fixture_t *f, sg_auth_t auth, const char *head, const char *raw, int64_t now_us)
{
    sg_fields_t fields = fields_of(f, head);
    sg_target_t target;
    sg_addr_t client;
    assert_int_equal(sg_target_parse(f->arena, sg_str(raw), &target), SG_TARGET_OK);
    assert_int_equal(sg_addr_parse(SG_STR("192.0.2.1"), &client), SG_OK);
    memset(&f->got, 0x5a, sizeof f->got);
    return sg_identity_resolve(&f->conf, auth, &fields, &target, &client, now_us, f->arena, &f->got);
}

static sg_id_err_t resolve(fixture_t *f, sg_auth_t auth, const char *head, const char *raw)
{
    return resolve_at(f, auth, head, raw, NOW);
}

/* --- sources ------------------------------------------------------------------------------------- */

static const struct {
    const char *head, *target;
    sg_id_err_t want;               /* with auth: required */
} sources[] = {
    {"", "/", SG_ID_MISSING},
    {"X-API-Key: good\n", "/", SG_ID_OK},
    {"x-aPi-kEY: good\n", "/", SG_ID_OK},
    {"X-API-Key:  good\n", "/", SG_ID_OK},
    {"X-API-Key: good \n", "/", SG_ID_OK},
    {"X-API-Key: \tgood\t \n", "/", SG_ID_OK},
    {"X-API-Key: Good\n", "/", SG_ID_UNKNOWN},
    {"X-API-Key: goo\n", "/", SG_ID_UNKNOWN},
    {"X-API-Key: good,good\n", "/", SG_ID_UNKNOWN},
    {"X-API-Key: Bearer good\n", "/", SG_ID_UNKNOWN},
    {"X-API-Key: k:{x}*% \"\xe4\n", "/", SG_ID_OK},
    {"X_API_Key: good\n", "/", SG_ID_MISSING},
    /* An empty value is no key. */
    {"X-API-Key: \n", "/", SG_ID_MISSING},
    {"X-API-Key:  \t \n", "/", SG_ID_MISSING},
    {"X-API-Key: \nAuthorization: Bearer good\n", "/", SG_ID_OK},
    /* The scheme. */
    {"Authorization: Bearer good\n", "/", SG_ID_OK},
    {"Authorization: bEARER good\n", "/", SG_ID_OK},
    {"Authorization:  Bearer   good \n", "/", SG_ID_OK},
    {"Authorization: Bearer\tgood\n", "/", SG_ID_OK},
    {"Authorization: Bearer bad\n", "/", SG_ID_UNKNOWN},
    {"Authorization: Bearer\n", "/", SG_ID_MISSING},
    {"Authorization: Bearer  \n", "/", SG_ID_MISSING},
    {"Authorization: Bearergood\n", "/", SG_ID_MISSING},
    {"Authorization: Bear good\n", "/", SG_ID_MISSING},
    {"Authorization: Basic good\n", "/", SG_ID_MISSING},
    {"Authorization: good\n", "/", SG_ID_MISSING},
    {"Authorization: \n", "/", SG_ID_MISSING},
    {"Authorization: Basic x\nX-API-Key: good\n", "/", SG_ID_OK},
    /* The query. */
    {"", "/?api_key=good", SG_ID_OK},
    {"", "/?a=b&api_key=good&c", SG_ID_OK},
    {"", "/?api_key=%67ood", SG_ID_OK},
    {"", "/?api%5fkey=good", SG_ID_OK},
    {"", "/?API_KEY=good", SG_ID_MISSING},
    {"", "/?api_key=", SG_ID_MISSING},
    {"", "/?api_key", SG_ID_MISSING},
    {"", "/?api_key=go%20od", SG_ID_UNKNOWN},
    {"", "/api_key=good", SG_ID_MISSING},
    {"", "/?x=api_key=good", SG_ID_MISSING},
    {"", "/?api_key=good%00zz", SG_ID_UNKNOWN},
    /* The same source twice. */
    {"X-API-Key: good\nX-API-Key: good\n", "/", SG_ID_AMBIGUOUS},
    {"X-API-Key: good\nX-API-Key: other\n", "/", SG_ID_AMBIGUOUS},
    {"X-API-Key: other\nx-api-key: good\n", "/", SG_ID_AMBIGUOUS},
    {"X-API-Key: good\nX-API-Key: \n", "/", SG_ID_AMBIGUOUS},
    {"X-API-Key: \nX-API-Key: good\n", "/", SG_ID_AMBIGUOUS},
    {"Authorization: Bearer good\nAuthorization: Bearer good\n", "/", SG_ID_AMBIGUOUS},
    {"Authorization: Basic x\nAuthorization: Bearer good\n", "/", SG_ID_AMBIGUOUS},
    {"Authorization: Basic a\nAuthorization: Basic b\n", "/", SG_ID_AMBIGUOUS},
    {"X-API-Key: good\nAuthorization: Bearer good\nAuthorization: Bearer good\n", "/", SG_ID_AMBIGUOUS},
    {"", "/?api_key=good&api_key=good", SG_ID_AMBIGUOUS},
    {"", "/?api_key=good&api_key=", SG_ID_AMBIGUOUS},
    {"", "/?api_key=other&x&api%5Fkey=good", SG_ID_AMBIGUOUS},
    /* Two sources. */
    {"X-API-Key: good\nAuthorization: Bearer good\n", "/?api_key=good", SG_ID_OK},
    {"X-API-Key: good\nAuthorization: Bearer other\n", "/", SG_ID_AMBIGUOUS},
    {"X-API-Key: other\nAuthorization: Bearer good\n", "/", SG_ID_AMBIGUOUS},
    {"X-API-Key: good\n", "/?api_key=other", SG_ID_AMBIGUOUS},
    {"X-API-Key: good\n", "/?api_key=good%20", SG_ID_AMBIGUOUS},
    {"X-API-Key: good\n", "/?api_key=", SG_ID_OK},
    {"Authorization: Bearer a\n", "/?api_key=b", SG_ID_AMBIGUOUS},
    /* State. */
    {"X-API-Key: disabled\n", "/", SG_ID_DISABLED},
    {"X-API-Key: expiring\n", "/", SG_ID_EXPIRED},
};

static void check_identity(fixture_t *f, sg_id_err_t err, const char *ip_tag)
{
    assert_string_equal(f->got.ip.text, ip_tag);
    if (err != SG_ID_OK) {
        assert_null(f->got.tenant);
        assert_null(f->got.key);
        assert_string_equal(f->got.tag, ip_tag);
        return;
    }
    assert_ptr_equal(f->got.tenant, &f->acme);
    assert_non_null(f->got.key);
    assert_string_equal(f->got.tag, f->acme.tag.text);
}

static void test_sources(void **state)
{
    fixture_t *f = *state;
    sg_tag_t ip;
    sg_tag((sg_str_t){0}, SG_STR("ip:192.0.2.1"), &ip);
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        sg_id_err_t err = resolve(f, SG_AUTH_REQUIRED, sources[i].head, sources[i].target);
        if (err != sources[i].want)
            fail_msg("%s%s: %s, expected %s", sources[i].head, sources[i].target, sg_id_err_name(err),
                     sg_id_err_name(sources[i].want));
        check_identity(f, err, ip.text);
    }
}

/* `optional` differs in one thing: no key goes on as anonymous. */
static void test_optional(void **state)
{
    fixture_t *f = *state;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        sg_id_err_t want = sources[i].want == SG_ID_MISSING ? SG_ID_OK : sources[i].want;
        assert_int_equal(resolve(f, SG_AUTH_OPTIONAL, sources[i].head, sources[i].target), want);
        if (sources[i].want != SG_ID_MISSING)
            continue;
        assert_ptr_equal(f->got.tenant, &f->anonymous);
        assert_null(f->got.key);
        assert_string_equal(f->got.tag, f->got.ip.text);
    }
}

static void test_none_ignores_keys(void **state)
{
    fixture_t *f = *state;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        assert_int_equal(resolve(f, SG_AUTH_NONE, sources[i].head, sources[i].target), SG_ID_OK);
        assert_ptr_equal(f->got.tenant, &f->anonymous);
        assert_null(f->got.key);
        assert_string_equal(f->got.tag, f->got.ip.text);
    }
}

static void test_the_right_key_is_found(void **state)
{
    fixture_t *f = *state;
    assert_int_equal(resolve(f, SG_AUTH_REQUIRED, "X-API-Key: good\n", "/"), SG_ID_OK);
    assert_ptr_equal(f->got.key, &f->keys[0]);
    assert_int_equal(resolve(f, SG_AUTH_REQUIRED, "", "/?api_key=k:%7Bx%7D*%25%20%22%E4"), SG_ID_OK);
    assert_ptr_equal(f->got.key, &f->keys[3]);
    assert_true(sg_addr_is_v4(&f->got.client));
}

static void test_expiry_instant(void **state)
{
    fixture_t *f = *state;
    assert_int_equal(resolve_at(f, SG_AUTH_REQUIRED, "X-API-Key: expiring\n", "/", NOW - 1), SG_ID_OK);
    assert_int_equal(resolve_at(f, SG_AUTH_REQUIRED, "X-API-Key: expiring\n", "/", NOW), SG_ID_EXPIRED);
    assert_int_equal(resolve_at(f, SG_AUTH_REQUIRED, "X-API-Key: good\n", "/", INT64_MAX), SG_ID_OK);
    f->keys[2].disabled = true;
    assert_int_equal(resolve_at(f, SG_AUTH_REQUIRED, "X-API-Key: expiring\n", "/", NOW - 1), SG_ID_DISABLED);
}

static void test_a_digest_is_no_key(void **state)
{
    fixture_t *f = *state;
    char head[128], hex[SG_SHA256_HEX + 1] = "";
    sg_hex(f->keys[0].digest, SG_SHA256_BYTES, hex);
    snprintf(head, sizeof head, "X-API-Key: %s\n", hex);
    assert_int_equal(resolve(f, SG_AUTH_REQUIRED, head, "/"), SG_ID_UNKNOWN);
    snprintf(head, sizeof head, "/?api_key=%s", hex);
    assert_int_equal(resolve(f, SG_AUTH_OPTIONAL, "", head), SG_ID_UNKNOWN);
}

static void test_without_sources_or_keys(void **state)
{
    fixture_t *f = *state;
    f->conf.keys = NULL;
    assert_int_equal(resolve(f, SG_AUTH_REQUIRED, "X-API-Key: good\n", "/"), SG_ID_UNKNOWN);
    f->conf.source_count = 0;
    assert_int_equal(resolve(f, SG_AUTH_REQUIRED, "X-API-Key: good\n", "/?api_key=good"), SG_ID_MISSING);
    assert_int_equal(resolve(f, SG_AUTH_OPTIONAL, "X-API-Key: good\n", "/?api_key=good"), SG_ID_OK);
}

static void test_error_names(void **state)
{
    (void)state;
    for (int a = SG_ID_OK; a <= SG_ID_AMBIGUOUS; a++) {
        for (int b = SG_ID_OK; b < a; b++)
            assert_string_not_equal(sg_id_err_name((sg_id_err_t)a), sg_id_err_name((sg_id_err_t)b));
    }
}

/* --- strip --------------------------------------------------------------------------------------- */

static const struct {
    const char *head, *query;       /* query: NULL = none */
    const char *head_left, *query_left;
} strips[] = {
    {"A: 1\n", "x=%41&y", "A: 1\n", "x=%41&y"},
    {"A: 1\nX-API-Key: k\nB: 2\nA: 3\n", NULL, "A: 1\nB: 2\nA: 3\n", NULL},
    {"x-api-KEY: k\nX-API-Key: k\n", NULL, "", NULL},
    {"X-API-Key: \n", NULL, "", NULL},
    {"Authorization: Bearer k\nA: 1\n", NULL, "A: 1\n", NULL},
    {"Authorization: bearer\n", NULL, "", NULL},
    {"Authorization: Basic k\n", NULL, "Authorization: Basic k\n", NULL},
    {"Authorization: Bearerk\n", NULL, "Authorization: Bearerk\n", NULL},
    {"Authorization: Basic a\nAuthorization: Bearer b\n", NULL, "Authorization: Basic a\n", NULL},
    {"", "api_key=k", "", NULL},
    {"", "api_key", "", NULL},
    {"", "a=%7e&api_key=k&b=+&&c", "", "a=%7e&b=+&&c"},
    {"", "api_key=k&a", "", "a"},
    {"", "a&api%5Fkey=k", "", "a"},
    {"", "a&api_key=1&api_key=2", "", "a"},
    {"", "api_keys=1&xapi_key=2", "", "api_keys=1&xapi_key=2"},
    {"", "", "", ""},
    {"X-API-Key-Id: 1\n", "q=api_key", "X-API-Key-Id: 1\n", "q=api_key"},
};

static void check_strip(fixture_t *f, size_t i, bool forward)
{
    const char *head_left = forward ? strips[i].head : strips[i].head_left;
    const char *query_left = forward ? strips[i].query : strips[i].query_left;
    sg_fields_t fields = fields_of(f, strips[i].head), want = fields_of(f, head_left);
    sg_str_t query = sg_str(strips[i].query);
    bool has_query = strips[i].query != NULL;
    f->conf.forward_key = forward;
    sg_identity_strip(&f->conf, f->arena, &fields, &query, &has_query);
    assert_int_equal(fields.count, want.count);
    for (size_t j = 0; j < want.count; j++) {
        assert_true(sg_str_eq(fields.at[j].name, want.at[j].name));
        assert_true(sg_str_eq(fields.at[j].value, want.at[j].value));
    }
    if (has_query != (query_left != NULL) || (query_left && !sg_str_eq(query, sg_str(query_left))))
        fail_msg("%s: %d \"%.*s\", expected \"%s\"", strips[i].query, has_query, SG_STR_ARG(query),
                 query_left ? query_left : "none");
}

static void test_strip(void **state)
{
    for (size_t i = 0; i < sizeof strips / sizeof strips[0]; i++) {
        check_strip(*state, i, false);
        check_strip(*state, i, true);
    }
}

/* --- table --------------------------------------------------------------------------------------- */

static void number_key(sg_api_key_t *k, size_t i)
{
    char text[32];
    snprintf(text, sizeof text, "key-%zu", i);
    sg_sha256(sg_str(text), k->digest);
}

static void test_hundred_thousand_keys(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    sg_key_table_t *t = sg_key_table_new(0);        /* grows */
    sg_api_key_t *keys = sg_calloc(MANY, sizeof *keys), probe;
    const sg_api_key_t *other = NULL;
    for (size_t i = 0; i < MANY; i++) {
        number_key(&keys[i], i);
        assert_int_equal(sg_key_table_add(t, &keys[i], &other), SG_OK);
    }
    assert_null(other);
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(sg_key_table_find(t, keys[i].digest), &keys[i]);
        number_key(&probe, MANY + i);
        assert_null(sg_key_table_find(t, probe.digest));
    }
    sg_key_table_free(t);
    sg_free(keys);
}

/* Digests that share their first bytes lie side by side; the whole digest decides. */
static void test_equal_beginnings(void **state)
{
    (void)state;
    sg_key_table_t *t = sg_key_table_new(2);
    sg_api_key_t keys[300], probe = {.digest = {7}};
    const sg_api_key_t *other = NULL;
    memset(keys, 0, sizeof keys);
    for (size_t i = 0; i < 300; i++) {
        keys[i].digest[0] = 7;
        keys[i].digest[30] = (uint8_t)(i / 256);
        keys[i].digest[31] = (uint8_t)i;
        assert_int_equal(sg_key_table_add(t, &keys[i], &other), SG_OK);
    }
    for (size_t i = 0; i < 300; i++)
        assert_ptr_equal(sg_key_table_find(t, keys[i].digest), &keys[i]);
    probe.digest[29] = 1;
    assert_null(sg_key_table_find(t, probe.digest));
    sg_key_table_free(t);
}

static void test_duplicate_digest(void **state)
{
    (void)state;
    sg_key_table_t *t = sg_key_table_new(2);
    sg_api_key_t a = {.id = "a", .digest = {1}}, b = {.id = "b", .digest = {1}};
    const sg_api_key_t *other = NULL;
    assert_null(sg_key_table_find(t, a.digest));
    assert_int_equal(sg_key_table_add(t, &a, &other), SG_OK);
    assert_int_equal(sg_key_table_add(t, &b, &other), SG_ERR_EXISTS);
    assert_ptr_equal(other, &a);
    assert_ptr_equal(sg_key_table_find(t, b.digest), &a);
    sg_key_table_free(t);
    sg_key_table_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optional, setup, teardown),
        cmocka_unit_test_setup_teardown(test_none_ignores_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_right_key_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expiry_instant, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_digest_is_no_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_sources_or_keys, setup, teardown),
        cmocka_unit_test(test_error_names),
        cmocka_unit_test_setup_teardown(test_strip, setup, teardown),
        cmocka_unit_test(test_hundred_thousand_keys),
        cmocka_unit_test(test_equal_beginnings),
        cmocka_unit_test(test_duplicate_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
