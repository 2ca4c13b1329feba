/* Tenants by the hundred thousand, and in files of their own. */
#include "config_fixture.h"

static const char head[] = "classes: {a: [{name: d, algorithm: fixed_window, limit: 5, window: 1d}]}\n"
                           "plans: {gold: {a.d: {limit: 10}}}\n"
                           "routes: [{name: r, match: {path: /}, classes: [a], respond: {}}]\n"
                           "tenants: {anonymous: {plan: gold}, base: {}}\n"
                           "tenants_files: ['t*.yaml']\n";

static void write_tenants(fixture_t *f, const char *name, unsigned from, unsigned to)
{
    sg_buf_t b;
    sg_buf_init(&b, 10u << 20);
    for (unsigned i = from; i < to; i++)
        sg_buf_printf(&b, "tenant-%u: {plan: gold, keys: [{id: k, sha256: %08x%056x}]}\n", i,
                      (i + 1) * 2654435761u, 0u);
    assert_false(b.failed);
    fixture_write(f, name, sg_buf_str(&b).p, sg_buf_len(&b));
    sg_buf_deinit(&b);
}

static int teardown(void **state)
{
    fixture_remove(*state, "t1.yaml");
    fixture_remove(*state, "t2.yaml");
    return fixture_teardown(state);
}

/* Tenants without overrides share one array of limits; all are found, and all their keys. */
static void test_many_tenants(void **state)
{
    fixture_t *f = *state;
    const sg_config_t *c;
    const sg_limit_t *const *gold;
    uint8_t digest[SG_SHA256_BYTES] = {0};
    write_tenants(f, "t1.yaml", 0, 50000);
    write_tenants(f, "t2.yaml", 50000, 100000);
    c = fixture_good(f, head);
    assert_int_equal(f->diags.count, 0);
    assert_int_equal(c->tenant_count, 100002);
    gold = sg_config_tenant(c, SG_STR("anonymous"))->limits;
    assert_int_equal(gold[0]->limit, 10);
    for (size_t i = 2; i < c->tenant_count; i++)
        assert_ptr_equal(c->tenants[i]->limits, gold);
    assert_ptr_equal(sg_config_tenant(c, SG_STR("base"))->limits, c->limits);
    assert_string_equal(sg_config_tenant(c, SG_STR("tenant-99999"))->name, "tenant-99999");
    for (unsigned i = 0, v = 100000u * 2654435761u; i < 4;
         i++) /* digests are spread evenly, so these are too */
        digest[i] = (uint8_t)(v >> (24 - 8 * i));
    assert_string_equal(sg_key_table_find(c->identity.keys, digest)->tenant->name, "tenant-99999");
}

/* The same tenant, and the same key, in two files. */
static void test_duplicates_over_files(void **state)
{
    fixture_t *f = *state;
    static const char one[] = "x: {}\ny: {keys: [{id: k, sha256: "
                              "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]}\n";
    static const char two[] = "z: {keys: [{id: k, sha256: "
                              "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]}\nx: {}\n";
    fixture_write(f, "t1.yaml", one, sizeof one - 1);
    fixture_write(f, "t2.yaml", two, sizeof two - 1);
    fixture_load(f, head);
    assert_int_equal(f->diags.errors, 2);
    assert_non_null(strstr(f->diags.at[0].file, "t2.yaml"));
    assert_non_null(strstr(fixture_find(f, 1, 28, "of tenant \"y\"")->text, "t1.yaml on line 2"));
    assert_non_null(strstr(fixture_find(f, 2, 1, "tenant \"x\" twice")->text, "t1.yaml on line 1"));
}

/* Each file is read with the rest, in the order of names, and counts in the hash. */
static void test_files(void **state)
{
    fixture_t *f = *state;
    char hash[17];
    write_tenants(f, "t1.yaml", 0, 2);
    write_tenants(f, "t2.yaml", 2, 4);
    fixture_good(f, head);
    assert_int_equal(f->config->tenant_count, 6);
    memcpy(hash, f->config->hash, sizeof hash);
    write_tenants(f, "t2.yaml", 2, 5);
    fixture_good(f, head);
    assert_int_equal(f->config->tenant_count, 7);
    assert_string_not_equal(f->config->hash, hash);
    fixture_write(f, "t2.yaml", "bad: {plna: gold}\n", 18);
    fixture_load(f, head);
    assert_non_null(fixture_find(f, 1, 7, "did you mean \"plan\""));
    assert_non_null(strstr(f->diags.at[0].file, "/t2.yaml"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_tenants),
        cmocka_unit_test(test_duplicates_over_files),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, fixture_setup, teardown);
}
