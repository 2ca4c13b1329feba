/* What is written about metrics names metrics that exist: docs/metrics.md, the alerting rules, the dashboard,
 * the runbook. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/mem.h"
#include "metrics/block.h"
#include "metrics/writer.h"
#include "server/refusal.h"

static char *path_of(const char *name)
{
    const char *root = getenv("SG_SRCDIR");
    return sg_asprintf("%s/%s", root ? root : ".", name);
}

static char *read_file(const char *name)
{
    char *path = path_of(name), chunk[4096];
    FILE *f = fopen(path, "r");
    size_t n;
    sg_buf_t b = {0};
    if (!f)
        fail_msg("%s cannot be read", path);
    sg_buf_init(&b, 4 << 20);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        sg_buf_add(&b, chunk, n);
    fclose(f);
    assert_false(b.failed);
    char *text = sg_strndup(sg_buf_str(&b));
    sg_buf_deinit(&b);
    sg_free(path);
    return text;
}

/* Is `name` a sample's name: a family's, or one of a histogram's three? In prose a histogram goes by its
 * family's. */
static bool exists(sg_str_t name, bool prose)
{
    for (size_t i = 0; i < SG_M_COUNT; i++) {
        const sg_metric_def_t *d = &sg_metric_defs[i];
        sg_str_t family = sg_str(d->name);
        if ((prose || d->type != SG_TYPE_HISTOGRAM) && sg_str_eq(name, family))
            return true;
        if (d->type != SG_TYPE_HISTOGRAM || !sg_str_starts(name, family))
            continue;
        sg_str_t suffix = sg_str_n(name.p + family.n, name.n - family.n);
        if (sg_str_eq(suffix, SG_STR("_bucket")) || sg_str_eq(suffix, SG_STR("_sum")) ||
            sg_str_eq(suffix, SG_STR("_count")))
            return true;
    }
    return false;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == ':';
}

/* Every word that begins like a metric's name must be one. Returns how many there were. */
static size_t check_names(const char *text, const char *where, bool prose)
{
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        size_t len = 0;
        while (is_word(p[len]))
            len++;
        sg_str_t word = sg_str_n(p, len);
        bool metric = sg_str_starts(word, SG_STR("slotgate_")) || sg_str_starts(word, SG_STR("process_"));
        if (metric && !exists(word, prose))
            fail_msg("%s: %.*s is no metric", where, SG_STR_ARG(word));
        n += metric;
        p += len > 0 ? len - 1 : 0;
    }
    return n;
}

/* --- the list ------------------------------------------------------------------------------------------ */

static char *row_of(const sg_metric_def_t *d)
{
    static const char *const types[] = {
        [SG_TYPE_COUNTER] = "counter", [SG_TYPE_GAUGE] = "gauge", [SG_TYPE_HISTOGRAM] = "histogram",
        [SG_TYPE_INFO] = "info"};
    char labels[100] = "\xe2\x80\x93";      /* a dash for none */
    size_t n = 0;
    for (const char *p = d->labels; *p && n < sizeof labels - 3; p++) {
        labels[n++] = *p;
        if (*p == ',')
            labels[n++] = ' ';
        labels[n] = '\0';
    }
    return sg_asprintf("| `%s` | %s | %s | %s |\n", d->name, types[d->type], labels, d->help);
}

static void test_the_list_is_the_table(void **state)
{
    (void)state;
    char *text = read_file("docs/metrics.md");
    size_t rows = 0;
    for (size_t i = 0; i < SG_M_COUNT; i++) {
        char *row = row_of(&sg_metric_defs[i]);
        if (!strstr(text, row))
            fail_msg("docs/metrics.md lacks the row\n%s", row);
        sg_free(row);
    }
    for (const char *p = text; (p = strstr(p, "\n| `")); p++) {
        sg_str_t row = sg_str(p + 4);
        rows += sg_str_starts(row, SG_STR("slotgate_")) || sg_str_starts(row, SG_STR("process_"));
    }
    assert_int_equal(rows, SG_M_COUNT);
    for (size_t i = 0; i < SG_REASON_COUNT; i++) {
        char *word = sg_asprintf("`%s`", sg_reason_words[i]);
        if (!strstr(text, word))
            fail_msg("docs/metrics.md does not name the reason %s", word);
        sg_free(word);
    }
    sg_free(text);
}

static bool is_reason(const char *word)
{
    for (size_t i = 0; i < SG_REASON_COUNT; i++) {
        if (strcmp(sg_reason_words[i], word) == 0)
            return true;
    }
    return false;
}

static void test_each_refusal_has_a_reason_of_its_own(void **state)
{
    (void)state;
    for (sg_refuse_t r = 0; r < SG_REFUSE_COUNT; r++) {
        const sg_refusal_t *refusal = sg_refusal(r);
        if (refusal->malformed && !is_reason(refusal->word))
            fail_msg("metrics.def lacks the reason %s", refusal->word);
    }
}

/* --- the rules ----------------------------------------------------------------------------------------- */

static void test_rules_use_metrics_that_exist(void **state)
{
    (void)state;
    char *text = read_file("etc/prometheus-rules.yaml");
    assert_true(check_names(text, "etc/prometheus-rules.yaml", false) > 20);
    sg_free(text);
}

static void lower(char *z)
{
    for (; *z; z++)
        *z = sg_ascii_lower(*z);
}

static void check_alert(const char *rules, const char *runbook, const char *cases, const char *name)
{
    char *section = sg_asprintf("\n## %s\n", name), *anchor = sg_asprintf("docs/runbook.md#%s\n", name);
    char *fires = sg_asprintf("name: %s fires\n", name), *quiet = sg_asprintf("name: %s stays quiet\n", name);
    lower(anchor);
    if (!strstr(runbook, section))
        fail_msg("docs/runbook.md has no section %s", name);
    if (!strstr(rules, anchor))
        fail_msg("%s does not link to its section of the runbook", name);
    if (!strstr(cases, fires) || !strstr(cases, quiet))
        fail_msg("tests/prometheus/rules-test.yaml lacks a case of %s", name);
    sg_free(section);
    sg_free(anchor);
    sg_free(fires);
    sg_free(quiet);
}

static void test_each_alert_has_a_runbook_section_and_cases(void **state)
{
    (void)state;
    char *rules = read_file("etc/prometheus-rules.yaml"), *runbook = read_file("docs/runbook.md");
    char *cases = read_file("tests/prometheus/rules-test.yaml");
    size_t alerts = 0, sections = 0;
    for (const char *p = rules; (p = strstr(p, "- alert: ")); alerts++) {
        p += strlen("- alert: ");
        char *name = sg_strndup(sg_str_n(p, strcspn(p, "\n")));
        check_alert(rules, runbook, cases, name);
        sg_free(name);
    }
    for (const char *p = runbook; (p = strstr(p, "\n## ")); p++)
        sections++;
    assert_true(alerts > 10);
    assert_int_equal(sections, alerts);
    sg_free(rules);
    sg_free(runbook);
    sg_free(cases);
}

static void test_the_runbook_names_metrics_that_exist(void **state)
{
    (void)state;
    char *text = read_file("docs/runbook.md");
    assert_true(check_names(text, "docs/runbook.md", true) > 10);
    sg_free(text);
}

/* --- the dashboard ------------------------------------------------------------------------------------- */

static size_t check_queries(const json_t *at)
{
    const char *key;
    json_t *value;
    size_t n = 0, i;
    if (json_is_array(at)) {
        json_array_foreach((json_t *)(uintptr_t)at, i, value)
            n += check_queries(value);
    }
    if (!json_is_object(at))
        return n;
    json_object_foreach((json_t *)(uintptr_t)at, key, value) {
        bool query = strcmp(key, "expr") == 0 || strcmp(key, "query") == 0;
        if (query && json_is_string(value))
            n += check_names(json_string_value(value), "etc/grafana-dashboard.json", false);
        else
            n += check_queries(value);
    }
    return n;
}

static void test_the_dashboard_uses_metrics_that_exist(void **state)
{
    (void)state;
    json_error_t error;
    char *path = path_of("etc/grafana-dashboard.json");
    json_t *board = json_load_file(path, JSON_REJECT_DUPLICATES, &error), *panel;
    size_t i, rows = 0;
    if (!board)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    assert_string_equal(json_string_value(json_object_get(board, "uid")), "slotgate");
    assert_true(check_queries(board) > 40);
    json_array_foreach(json_object_get(board, "panels"), i, panel) {
        const char *source = NULL;
        if (strcmp(json_string_value(json_object_get(panel, "type")), "row") == 0)
            rows++;
        else
            assert_int_equal(json_unpack(panel, "{s:{s:s}}", "datasource", "uid", &source), 0);
        assert_true(!source || strcmp(source, "${DS_PROMETHEUS}") == 0);
        assert_int_equal(json_integer_value(json_object_get(panel, "id")), i + 1);
    }
    assert_int_equal(rows, 6);
    json_decref(board);
    sg_free(path);
}

static void test_every_metric_is_on_the_dashboard_or_in_a_rule(void **state)
{
    (void)state;
    static const char *const neither[] = {"process_virtual_memory_bytes"};
    char *board = read_file("etc/grafana-dashboard.json"), *rules = read_file("etc/prometheus-rules.yaml");
    for (size_t i = 0; i < SG_M_COUNT; i++) {
        const char *name = sg_metric_defs[i].name;
        if (!strstr(board, name) && !strstr(rules, name) && strcmp(name, neither[0]) != 0)
            fail_msg("nobody looks at %s", name);
    }
    sg_free(board);
    sg_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_is_the_table),
        cmocka_unit_test(test_each_refusal_has_a_reason_of_its_own),
        cmocka_unit_test(test_rules_use_metrics_that_exist),
        cmocka_unit_test(test_each_alert_has_a_runbook_section_and_cases),
        cmocka_unit_test(test_the_runbook_names_metrics_that_exist),
        cmocka_unit_test(test_the_dashboard_uses_metrics_that_exist),
        cmocka_unit_test(test_every_metric_is_on_the_dashboard_or_in_a_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
