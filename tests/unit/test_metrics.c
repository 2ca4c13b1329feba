/* The registry, the blocks and the exposition. SG_GOLDEN=write renews tests/unit/golden/metrics.*. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "metrics/block.h"
#include "metrics/writer.h"

#define WALL_US INT64_C(1796000000000000)
#define HOUR_US INT64_C(3600000000)

static const sg_process_t process = {1234567, 8 << 20, 64 << 20, 12, 1024};

static sg_buf_t expose(sg_metrics_t *m, sg_expose_t how, int64_t wall_us)
{
    sg_buf_t out = {0};
    sg_buf_init(&out, 64 << 20);
    sg_metrics_write_at(m, how, wall_us, &process, &out);
    assert_false(out.failed);
    sg_buf_char(&out, '\0');
    return out;
}

/* The value of one sample, as text after "name{labels} "; NULL when the sample is not there. */
static char *value_at(sg_metrics_t *m, int64_t wall_us, const char *sample)
{
    sg_buf_t out = expose(m, SG_EXPOSE_PROMETHEUS, wall_us);
    char *line = sg_asprintf("\n%s ", sample), *found = strstr(out.data + out.start, line), *value = NULL;
    if (found) {
        found += strlen(line);
        value = sg_strndup(sg_str_n(found, strcspn(found, "\n")));
    }
    sg_free(line);
    sg_buf_deinit(&out);
    return value;
}

static void assert_sample_at(sg_metrics_t *m, int64_t wall_us, const char *sample, const char *expected)
{
    char *value = value_at(m, wall_us, sample);
    if (!value || !expected) {
        if (value != expected)
            fail_msg("%s is %s, not %s", sample, value ? value : "absent", expected ? expected : "absent");
        return;
    }
    if (strcmp(value, expected) != 0)
        fail_msg("%s is %s, not %s", sample, value, expected);
    sg_free(value);
}

static void assert_sample(sg_metrics_t *m, const char *sample, const char *expected)
{
    assert_sample_at(m, WALL_US, sample, expected);
}

static void count(sg_metrics_block_t *b, unsigned route, unsigned tenant, unsigned method, unsigned status,
                  sg_result_t result)
{
    sg_count_request(b, &(sg_request_sample_t){.route = route, .tenant = tenant, .method = method,
                                               .status = status, .result = result, .duration_us = 7000,
                                               .upstream_us = 6000, .request_bytes = 10,
                                               .response_bytes = 300});
}

/* --- the whole output ---------------------------------------------------------------------------------- */

/* A small gateway with two workers, one value of each kind at least. */
static sg_metrics_t *example(void)
{
    sg_metrics_t *m = sg_metrics_new();
    m->start_us = WALL_US - HOUR_US;
    unsigned route = sg_metrics_route(m, "search"), acme = sg_metrics_tenant(m, "acme");
    unsigned odd = sg_metrics_tenant(m, "a\"b\n\\");
    unsigned burst = sg_metrics_limit(m, "search.burst"), users = sg_metrics_upstream(m, "users");
    unsigned target = sg_metrics_target(m, users, "http://10.0.1.1:8000");
    sg_metrics_target(m, users, "http://10.0.1.2:8000");
    sg_set_config_info(m, "0123456789abcdef", true, WALL_US - 1500000);
    sg_metrics_block_t *one = sg_metrics_block(m), *two = sg_metrics_block(m);
    count(one, route, acme, SG_METHOD_GET, 200, SG_RESULT_ALLOWED);
    count(two, route, acme, SG_METHOD_GET, 200, SG_RESULT_ALLOWED);
    count(two, route, acme, SG_METHOD_POST, 429, SG_RESULT_LIMITED);
    count(two, 0, odd, SG_METHOD_OTHER, 404, SG_RESULT_REFUSED);
    sg_count_decision(one, burst, false, true, SG_FROM_STORE);
    sg_count_decision(two, burst, false, false, SG_FROM_DENY_CACHE);
    sg_count_decision(two, burst, true, false, SG_FROM_LOCAL);
    sg_count_quota(one, acme, burst, 0.25, WALL_US + HOUR_US);
    sg_count_quota(two, acme, burst, 0.75, WALL_US + HOUR_US);
    sg_count_store_request(one, 180);
    sg_count_store_error(two, SG_STORE_ERR_TIMEOUT);
    sg_set_store_up(one, true);
    sg_set_store_up(two, false);
    sg_set_breaker_open(two, true);
    sg_count_upstream_attempt(one, users);
    sg_count_upstream_attempt(one, users);
    sg_count_upstream_request(one, users, SG_UP_OK, 2500000);
    sg_set_target_up(one, target, true);
    sg_set_target_up(two, target, false);
    sg_count_refused(one, "dot_segment");
    sg_add_connections(one, SG_CONN_ACTIVE, 2);
    sg_add_connections(two, SG_CONN_IDLE, 1);
    sg_add_in_flight(one, 3);
    sg_add_in_flight(two, -1);
    sg_add_leases(one, burst, 4);
    return m;
}

/* What differs from build to build is replaced by a word. */
static void hide_build(sg_buf_t *out)
{
    char *at = strstr(out->data + out->start, "\nslotgate_build_info{version=");
    assert_non_null(at);
    char *brace = strchr(at, '{'), *end = strchr(at + 1, '\n');
    size_t rest = strlen(end);
    memmove(brace + 1, "} 1", 3);
    memmove(brace + 4, end, rest + 1);
}

static char *read_file(const char *path)
{
    sg_buf_t b = {0};
    size_t got;
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    sg_buf_init(&b, 1 << 20);
    for (;;) {
        char *room = sg_buf_room(&b, 4096, &got);
        size_t n = fread(room, 1, got, f);
        sg_buf_added(&b, n);
        if (n == 0)
            break;
    }
    fclose(f);
    char *text = sg_strndup(sg_buf_str(&b));
    sg_buf_deinit(&b);
    return text;
}

static void check_golden(sg_expose_t how, const char *name)
{
    const char *root = getenv("SG_SRCDIR"), *mode = getenv("SG_GOLDEN");
    char *path = sg_asprintf("%s/tests/unit/golden/%s", root ? root : ".", name);
    sg_metrics_t *m = example();
    sg_buf_t out = expose(m, how, WALL_US);
    hide_build(&out);
    if (mode && strcmp(mode, "write") == 0) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(out.data + out.start, f);
        fclose(f);
    }
    char *expected = read_file(path);
    assert_non_null(expected);
    assert_string_equal(out.data + out.start, expected);
    sg_free(expected);
    sg_free(path);
    sg_buf_deinit(&out);
    sg_metrics_free(m);
}

static void test_golden_prometheus(void **state)
{
    (void)state;
    check_golden(SG_EXPOSE_PROMETHEUS, "metrics.prometheus");
}

static void test_golden_openmetrics(void **state)
{
    (void)state;
    check_golden(SG_EXPOSE_OPENMETRICS, "metrics.openmetrics");
}

/* --- the table ----------------------------------------------------------------------------------------- */

static void test_table_follows_the_naming_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < SG_M_COUNT; i++) {
        const sg_metric_def_t *d = &sg_metric_defs[i];
        sg_str_t name = sg_str(d->name), base = name, unit = sg_str(d->unit);
        assert_int_equal(sg_str_ends(name, SG_STR("_total")), d->type == SG_TYPE_COUNTER);
        assert_int_equal(sg_str_ends(name, SG_STR("_info")), d->type == SG_TYPE_INFO);
        assert_true(sg_str_starts(name, SG_STR("slotgate_")) || sg_str_starts(name, SG_STR("process_")));
        if (d->type == SG_TYPE_COUNTER)
            base.n -= strlen("_total");
        assert_true(sg_str_ends(base, unit));
        bool has_unit = sg_str_ends(base, SG_STR("_seconds")) || sg_str_ends(base, SG_STR("_bytes")) ||
                        sg_str_ends(base, SG_STR("_ratio"));
        assert_int_equal(unit.n > 0, has_unit);
        assert_null(strpbrk(d->help, "\\\"\n"));
        assert_true(sg_str_ends(sg_str(d->help), SG_STR(".")));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(d->name, sg_metric_defs[j].name);
    }
    assert_string_equal(sg_reason_words[SG_REASON_COUNT - 1], "other");
}

static void test_each_family_has_help_and_type_once(void **state)
{
    (void)state;
    sg_metrics_t *m = example();
    sg_buf_t out = expose(m, SG_EXPOSE_PROMETHEUS, WALL_US);
    for (size_t i = 0; i < SG_M_COUNT; i++) {
        for (size_t f = 0; f < 2; f++) {
            char line[200];
            snprintf(line, sizeof line, f ? "# TYPE %s " : "# HELP %s ", sg_metric_defs[i].name);
            char *first = strstr(out.data + out.start, line);
            assert_non_null(first);
            assert_null(strstr(first + 1, line));
        }
    }
    sg_buf_deinit(&out);
    sg_metrics_free(m);
}

/* --- names --------------------------------------------------------------------------------------------- */

static void test_label_values_are_escaped(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *b = sg_metrics_block(m);
    count(b, 0, sg_metrics_tenant(m, "a\"b\n"), SG_METHOD_GET, 200, SG_RESULT_ALLOWED);
    assert_sample(m, "slotgate_tenant_requests_total{tenant=\"a\\\"b\\n\",result=\"allowed\"}", "1");
    count(b, sg_metrics_route(m, "c\\d"), 0, SG_METHOD_GET, 204, SG_RESULT_ALLOWED);
    assert_sample(m, "slotgate_http_requests_total{route=\"c\\\\d\",method=\"GET\",code=\"204\"}", "1");
    sg_metrics_free(m);
}

static void test_names_keep_their_ids(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    unsigned a = sg_metrics_route(m, "a"), b = sg_metrics_route(m, "b");
    assert_int_equal(sg_metrics_route(m, "_none"), 0);
    assert_int_equal(sg_metrics_tenant(m, "_other"), 0);
    assert_int_equal(sg_metrics_limit(m, "_other"), 0);
    assert_int_equal(sg_metrics_upstream(m, "_none"), 0);
    assert_int_not_equal(a, b);
    for (int i = 0; i < 1000; i++) {
        char name[20];
        snprintf(name, sizeof name, "r%d", i);
        sg_metrics_route(m, name);
    }
    assert_int_equal(sg_metrics_route(m, "a"), a);
    assert_int_equal(sg_metrics_route(m, "b"), b);
    unsigned u1 = sg_metrics_upstream(m, "u1"), u2 = sg_metrics_upstream(m, "u2");
    assert_int_not_equal(sg_metrics_target(m, u1, "http://t"), sg_metrics_target(m, u2, "http://t"));
    assert_int_equal(sg_metrics_target(m, u1, "http://t"), sg_metrics_target(m, u1, "http://t"));
    sg_metrics_free(m);
}

static void test_tenants_beyond_the_bound_are_other(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *b = sg_metrics_block(m);
    sg_metrics_set_max_tenants(m, 2);
    unsigned one = sg_metrics_tenant(m, "one");
    assert_int_not_equal(one, 0);
    assert_int_not_equal(sg_metrics_tenant(m, "two"), 0);
    assert_sample(m, "slotgate_metrics_tenant_overflow_total", "0");
    assert_int_equal(sg_metrics_tenant(m, "three"), 0);
    assert_int_equal(sg_metrics_tenant(m, "one"), one);
    assert_sample(m, "slotgate_metrics_tenant_overflow_total", "1");
    count(b, 0, sg_metrics_tenant(m, "four"), SG_METHOD_GET, 200, SG_RESULT_ALLOWED);
    assert_sample(m, "slotgate_tenant_requests_total{tenant=\"_other\",result=\"allowed\"}", "1");
    assert_sample(m, "slotgate_metrics_tenant_overflow_total", "2");
    sg_metrics_free(m);
}

/* --- values -------------------------------------------------------------------------------------------- */

static void test_label_sets_begin_with_zero(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_tenant(m, "t");
    sg_metrics_limit(m, "c.l");
    sg_metrics_target(m, sg_metrics_upstream(m, "u"), "http://h");
    assert_sample(m, "slotgate_tenant_requests_total{tenant=\"t\",result=\"aborted\"}", "0");
    assert_sample(m, "slotgate_tenant_response_bytes_total{tenant=\"t\"}", "0");
    assert_sample(m, "slotgate_limit_decisions_total{limit=\"c.l\",mode=\"dry_run\",outcome=\"denied\","
                     "source=\"local\"}", "0");
    assert_sample(m, "slotgate_limit_decisions_total{limit=\"c.l\",mode=\"enforced\",outcome=\"denied\","
                     "source=\"deny_cache\"}", "0");
    assert_sample(m, "slotgate_limit_decisions_total{limit=\"c.l\",mode=\"enforced\",outcome=\"allowed\","
                     "source=\"deny_cache\"}", NULL);
    assert_sample(m, "slotgate_upstream_requests_total{upstream=\"u\",outcome=\"busy\"}", "0");
    assert_sample(m, "slotgate_upstream_target_up{upstream=\"u\",target=\"http://h\"}", "1");
    assert_sample(m, "slotgate_concurrency_leases{limit=\"c.l\"}", "0");
    assert_sample(m, "slotgate_refused_requests_total{reason=\"bad_framing\"}", "0");
    assert_sample(m, "slotgate_store_errors_total{kind=\"oom\"}", "0");
    assert_sample(m, "slotgate_store_request_duration_seconds_count", "0");
    sg_metrics_free(m);
}

static void test_buckets_are_inclusive_and_cumulative(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *b = sg_metrics_block(m);
    const int64_t us[] = {-5, 0, 100, 101, 1000000, 1000001, INT64_C(60000000)};
    for (size_t i = 0; i < sizeof us / sizeof us[0]; i++)
        sg_count_store_request(b, us[i]);
    assert_sample(m, "slotgate_store_request_duration_seconds_bucket{le=\"0.0001\"}", "3");
    assert_sample(m, "slotgate_store_request_duration_seconds_bucket{le=\"0.00025\"}", "4");
    assert_sample(m, "slotgate_store_request_duration_seconds_bucket{le=\"1.0\"}", "5");
    assert_sample(m, "slotgate_store_request_duration_seconds_bucket{le=\"+Inf\"}", "7");
    assert_sample(m, "slotgate_store_request_duration_seconds_count", "7");
    assert_sample(m, "slotgate_store_request_duration_seconds_sum", "62.000202");
    sg_metrics_free(m);
}

static void test_overhead_is_total_less_upstream(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *b = sg_metrics_block(m);
    sg_count_request(b, &(sg_request_sample_t){.duration_us = 5000, .upstream_us = 4900, .status = 200});
    assert_sample(m, "slotgate_gateway_overhead_seconds_sum", "0.000100");
    sg_count_request(b, &(sg_request_sample_t){.duration_us = 5000, .upstream_us = -1, .status = 404});
    assert_sample(m, "slotgate_gateway_overhead_seconds_sum", "0.005100");
    sg_metrics_free(m);
}

static void test_every_request_counts_once(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *b[2] = {sg_metrics_block(m), sg_metrics_block(m)};
    unsigned route = sg_metrics_route(m, "r"), tenant = sg_metrics_tenant(m, "t");
    for (unsigned i = 0; i < 600; i++)
        count(b[i % 2], i % 3 ? route : 0, i % 5 ? tenant : 0, i % SG_METHOD_COUNT, 100 + i,
              i % SG_RESULT_COUNT);
    /* Neither this method nor this status exists. */
    count(b[0], route, tenant, SG_METHOD_COUNT + 7, 4711, SG_RESULT_FAILED);
    assert_sample(m, "slotgate_http_requests_total{route=\"r\",method=\"_OTHER\",code=\"000\"}", "1");
    assert_int_equal(sg_metrics_requests(m), 601);
    uint64_t results = 0, samples = 0;
    for (unsigned t = 0; t < 2; t++) {
        sg_tenant_totals_t totals;
        sg_metrics_tenant_totals(m, t, &totals);
        for (unsigned r = 0; r < SG_RESULT_COUNT; r++)
            results += totals.results[r];
        assert_int_equal(totals.response_bytes, totals.request_bytes * 30);
    }
    assert_int_equal(results, 601);
    sg_buf_t out = expose(m, SG_EXPOSE_PROMETHEUS, WALL_US);
    for (char *p = out.data + out.start; (p = strstr(p, "\nslotgate_http_requests_total{")); p++)
        samples += strtoull(strstr(p, "} ") + 2, NULL, 10);
    assert_int_equal(samples, 601);
    sg_buf_deinit(&out);
    sg_metrics_free(m);
}

static void test_quota_shows_the_highest_use_of_the_window(void **state)
{
    (void)state;
    const char *sample = "slotgate_tenant_quota_used_ratio{tenant=\"t\",limit=\"l\"}";
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *one = sg_metrics_block(m), *two = sg_metrics_block(m);
    unsigned t = sg_metrics_tenant(m, "t"), l = sg_metrics_limit(m, "l");
    int64_t end = WALL_US + HOUR_US;
    assert_sample(m, sample, NULL);
    sg_count_quota(one, t, l, 0.5, end);
    sg_count_quota(one, t, l, 0.3, end);
    assert_sample(m, sample, "0.5000");
    sg_count_quota(two, t, l, 0.9, end);
    assert_sample(m, sample, "0.9000");
    assert_sample_at(m, end + 1000000, sample, "0.0000");
    sg_count_quota(two, t, l, 0.1, end + HOUR_US);
    assert_sample_at(m, end + 1000000, sample, "0.1000");
    sg_count_quota(two, t, l, 0.8, end);        /* late news of a window that is over */
    assert_sample_at(m, end + 1000000, sample, "0.1000");
    sg_forget_quotas(one, t);
    assert_sample_at(m, end + 1000000, sample, "0.1000");
    sg_forget_quotas(two, t);
    assert_sample_at(m, end + 1000000, sample, "0.0000");
    sg_forget_quotas(two, t + 100);             /* has counted nothing */
    sg_count_quota(two, t, l, 0.05, end + HOUR_US);
    assert_sample_at(m, end + 1000000, sample, "0.0500");
    sg_metrics_free(m);
}

static void test_quota_word_keeps_both_halves(void **state)
{
    (void)state;
    uint64_t w = sg_quota_pack(WALL_US + 1000, 0.1);
    assert_int_equal(sg_quota_end_s(w), WALL_US / 1000000);
    assert_true(w == sg_quota_pack(WALL_US - 1000, 0.1));
    assert_true(sg_quota_ratio(w) > 0.0999 && sg_quota_ratio(w) < 0.1001);
    assert_int_equal(sg_quota_pack(-1, -0.5), 0);
    assert_true(sg_quota_pack(WALL_US, 0.2) < sg_quota_pack(WALL_US, 0.21));
    assert_true(sg_quota_pack(WALL_US, 1) < sg_quota_pack(WALL_US + 1000000, 0));
}

static void test_flags_show_the_worst_block(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *one = sg_metrics_block(m), *two = sg_metrics_block(m);
    assert_sample(m, "slotgate_store_up", "1");
    sg_set_store_up(one, true);
    sg_set_store_up(two, false);
    assert_sample(m, "slotgate_store_up", "0");
    sg_set_store_up(two, true);
    assert_sample(m, "slotgate_store_up", "1");
    sg_set_breaker_open(one, true);
    assert_sample(m, "slotgate_store_breaker_open", "1");
    sg_set_breaker_open(one, false);
    assert_sample(m, "slotgate_store_breaker_open", "0");
    sg_metrics_free(m);
}

static void test_a_target_that_is_gone_is_not_shown(void **state)
{
    (void)state;
    const char *sample = "slotgate_upstream_target_up{upstream=\"u\",target=\"http://a\"}";
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *b = sg_metrics_block(m);
    unsigned u = sg_metrics_upstream(m, "u"), a = sg_metrics_target(m, u, "http://a");
    sg_set_target_up(b, a, false);
    sg_set_config_info(m, "1", true, WALL_US);
    sg_set_config_info(m, "1", true, WALL_US);      /* said twice: nothing was named in between */
    assert_sample(m, sample, "0");
    sg_metrics_target(m, u, "http://b");
    sg_set_config_info(m, "1", false, WALL_US);     /* a file that was refused takes nothing away */
    assert_sample(m, sample, "0");
    assert_sample(m, "slotgate_config_last_reload_successful", "0");
    sg_metrics_target(m, u, "http://b");
    sg_set_config_info(m, "2", true, WALL_US);
    assert_sample(m, sample, NULL);
    assert_sample(m, "slotgate_upstream_target_up{upstream=\"u\",target=\"http://b\"}", "1");
    assert_sample(m, "slotgate_config_info{hash=\"2\"}", "1");
    assert_sample(m, "slotgate_config_info{hash=\"1\"}", NULL);
    assert_int_equal(sg_metrics_target(m, u, "http://a"), a);
    sg_metrics_free(m);
}

static void test_unknown_reasons_are_other(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    sg_metrics_block_t *b = sg_metrics_block(m);
    sg_count_refused(b, "no such reason");
    sg_count_refused(b, NULL);
    sg_count_refused(b, "bad_host");
    assert_sample(m, "slotgate_refused_requests_total{reason=\"other\"}", "2");
    assert_sample(m, "slotgate_refused_requests_total{reason=\"bad_host\"}", "1");
    sg_metrics_free(m);
}

static void test_no_block_counts_nothing(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    count(NULL, 0, 0, 0, 200, SG_RESULT_ALLOWED);
    sg_count_decision(NULL, 1, false, true, SG_FROM_STORE);
    sg_count_store_request(NULL, 1);
    sg_add_in_flight(NULL, 1);
    assert_int_equal(sg_metrics_requests(m), 0);
    sg_metrics_free(m);
}

static void test_a_buffer_that_is_too_small_says_so(void **state)
{
    (void)state;
    sg_metrics_t *m = example();
    sg_buf_t out = {0};
    sg_buf_init(&out, 1000);
    sg_metrics_write(m, SG_EXPOSE_PROMETHEUS, &out);
    assert_true(out.failed);
    sg_buf_deinit(&out);
    sg_metrics_free(m);
}

static void test_process_is_this_one(void **state)
{
    (void)state;
    sg_process_t p;
    sg_process_read(&p);
    assert_true(p.resident_bytes > 100000 && p.virtual_bytes >= p.resident_bytes);
    assert_true(p.open_fds >= 3 && p.open_fds < p.max_fds);
    int64_t age_us = sg_clock_wall_us() - sg_process_start_us();
    assert_true(age_us > -1000000 && age_us < INT64_C(600) * 1000000);
}

/* --- growing while somebody reads ---------------------------------------------------------------------- */

static void test_chunks_never_move(void **state)
{
    (void)state;
    const unsigned at[] = {0, 31, 32, 95, 96, 100000, UINT32_MAX / 4096};
    enum { N = sizeof at / sizeof at[0] };
    sg_chunks_t c = {.part = {NULL}};
    char *seen[N];
    for (size_t i = 0; i < N; i++) {
        assert_true(at[i] == 31 || at[i] == 95 || !sg_chunks_peek(&c, 1, at[i]));
        seen[i] = sg_chunks_at(&c, 1, at[i]);
        assert_int_equal(*seen[i], 0);
        *seen[i] = (char)(i + 1);
    }
    for (size_t i = 0; i < N; i++) {
        assert_ptr_equal(sg_chunks_peek(&c, 1, at[i]), seen[i]);
        assert_int_equal(*seen[i], i + 1);
    }
    sg_chunks_deinit(&c);
}

enum { NAMES = 300, ROUNDS = 40 };

typedef struct {
    sg_metrics_block_t *b;
    unsigned routes[NAMES], tenants[NAMES], limits[NAMES];
} writer_t;

static void *write_all(void *arg)
{
    writer_t *w = arg;
    for (unsigned r = 0; r < ROUNDS; r++) {
        for (unsigned i = 0; i < NAMES; i++) {
            count(w->b, w->routes[i], w->tenants[i], i % SG_METHOD_COUNT, 200 + r, SG_RESULT_ALLOWED);
            sg_count_quota(w->b, w->tenants[i], w->limits[r], 0.5, WALL_US + HOUR_US);
            sg_count_decision(w->b, w->limits[i], false, true, SG_FROM_STORE);
            sg_count_upstream_request(w->b, i, SG_UP_OK, 10);
            sg_set_target_up(w->b, i, i % 2);
            sg_add_leases(w->b, w->limits[i], 1);
        }
    }
    return NULL;
}

/* Run it under ThreadSanitizer too (./configure --enable-sanitizers=thread). */
static void test_a_scrape_while_a_worker_counts(void **state)
{
    (void)state;
    sg_metrics_t *m = sg_metrics_new();
    writer_t w = {.b = sg_metrics_block(m)};
    for (unsigned i = 0; i < NAMES; i++) {
        char name[20];
        snprintf(name, sizeof name, "n%u", i);
        w.routes[i] = sg_metrics_route(m, name);
        w.tenants[i] = sg_metrics_tenant(m, name);
        w.limits[i] = sg_metrics_limit(m, name);
        sg_metrics_upstream(m, name);
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_all, &w), 0);
    uint64_t before = 0, now;
    for (unsigned i = 0; i < 6; i++) {
        sg_buf_t out = expose(m, SG_EXPOSE_OPENMETRICS, WALL_US);
        sg_buf_deinit(&out);
        sg_metrics_route(m, i % 2 ? "more" : "and more");   /* a reload */
        now = sg_metrics_requests(m);
        assert_true(now >= before);
        before = now;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sg_metrics_requests(m), NAMES * ROUNDS);
    assert_sample(m, "slotgate_http_requests_total{route=\"n1\",method=\"HEAD\",code=\"239\"}", "1");
    assert_sample(m, "slotgate_concurrency_leases{limit=\"n299\"}", "40");
    sg_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_prometheus),
        cmocka_unit_test(test_golden_openmetrics),
        cmocka_unit_test(test_table_follows_the_naming_rules),
        cmocka_unit_test(test_each_family_has_help_and_type_once),
        cmocka_unit_test(test_label_values_are_escaped),
        cmocka_unit_test(test_names_keep_their_ids),
        cmocka_unit_test(test_tenants_beyond_the_bound_are_other),
        cmocka_unit_test(test_label_sets_begin_with_zero),
        cmocka_unit_test(test_buckets_are_inclusive_and_cumulative),
        cmocka_unit_test(test_overhead_is_total_less_upstream),
        cmocka_unit_test(test_every_request_counts_once),
        cmocka_unit_test(test_quota_shows_the_highest_use_of_the_window),
        cmocka_unit_test(test_quota_word_keeps_both_halves),
        cmocka_unit_test(test_flags_show_the_worst_block),
        cmocka_unit_test(test_a_target_that_is_gone_is_not_shown),
        cmocka_unit_test(test_unknown_reasons_are_other),
        cmocka_unit_test(test_no_block_counts_nothing),
        cmocka_unit_test(test_a_buffer_that_is_too_small_says_so),
        cmocka_unit_test(test_process_is_this_one),
        cmocka_unit_test(test_chunks_never_move),
        cmocka_unit_test(test_a_scrape_while_a_worker_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
