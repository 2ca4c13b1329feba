/* The table of keys against what people read: docs/configuration.md and etc/slotgate.yaml. */
#include "config_fixture.h"

#include "config/schema.h"

static char *docs, *sample;

static char *read_text(const char *name)
{
    const char *root = getenv("SG_SRCDIR");
    char path[512];
    sg_buf_t b;
    char *text;
    size_t got;
    FILE *in;
    snprintf(path, sizeof path, "%s/%s", root ? root : ".", name);
    in = fopen(path, "r");
    assert_non_null(in);
    sg_buf_init(&b, 1 << 20);
    for (char *room = sg_buf_room(&b, 4096, &got); room; room = sg_buf_room(&b, 4096, &got)) {
        size_t n = fread(room, 1, got, in);
        sg_buf_added(&b, n);
        if (n == 0)
            break;
    }
    fclose(in);
    text = sg_strndup(sg_buf_str(&b));
    sg_buf_deinit(&b);
    return text;
}

typedef struct {
    size_t count, missing;
} tally_t;

/* Each key has its row in the documentation, and the row names the default. */
static void check_docs(const char *path, const sg_key_row_t *row, void *cls)
{
    tally_t *t = cls;
    char want[320], line[2048];
    const char *at;
    t->count++;
    snprintf(want, sizeof want, "\n| `%s` | ", path);
    at = strstr(docs, want);
    snprintf(line, sizeof line, "%.*s", at ? (int)strcspn(at + 1, "\n") : 0, at ? at + 1 : "");
    if (!at || (row->fallback && !strstr(line, row->fallback)) ||
        (row->required && !strstr(line, "| required |"))) {
        print_message("docs/configuration.md: %s%s\n", path,
                      at ? ": another default" : " is missing");
        t->missing++;
    }
}

static void test_documentation(void **state)
{
    tally_t t = {0};
    (void)state;
    sg_schema_walk(check_docs, &t);
    assert_true(t.count > 130);
    assert_int_equal(t.missing, 0);
}

static void check_sample(const char *path, const sg_key_row_t *row, void *cls)
{
    tally_t *t = cls;
    char want[128];
    size_t n = (size_t)snprintf(want, sizeof want, "%s:", row->name);
    for (const char *at = strstr(sample, want); at; at = strstr(at + n, want)) {
        if (at == sample || strchr(" {\n", at[-1]))
            return;
    }
    print_message("etc/slotgate.yaml: %s is missing\n", path);
    t->missing++;
}

static void test_sample_has_every_key(void **state)
{
    tally_t t = {0};
    (void)state;
    sg_schema_walk(check_sample, &t);
    assert_int_equal(t.missing, 0);
}

static void test_sample_is_good(void **state)
{
    fixture_t *f = *state;
    fixture_good(f, sample);
    sg_diags_print(&f->diags, stderr);
    assert_int_equal(f->diags.count, 0);
}

/* Every row has a help text and a type; the printed schema begins each key in the first column. */
static void test_schema_print(void **state)
{
    char *text = NULL;
    size_t n, keys = 0;
    tally_t t = {0};
    FILE *out = open_memstream(&text, &n);
    (void)state;
    sg_config_schema_print(out);
    fclose(out);
    sg_schema_walk(check_docs, &t);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        keys += *line != ' ';
    assert_int_equal(keys, t.count);
    assert_non_null(strstr(
        text, "\nserver.max_header_size\n    type: size\n    default: 32KiB\n    range: 1KiB to 1MiB\n"));
    assert_non_null(strstr(text, "\nupstreams.UPSTREAM.targets[].url\n    type: URL\n    required\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documentation),
        cmocka_unit_test(test_sample_has_every_key),
        cmocka_unit_test(test_sample_is_good),
        cmocka_unit_test(test_schema_print),
    };
    int rc;
    docs = read_text("docs/configuration.md");
    sample = read_text("etc/slotgate.yaml");
    rc = cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
    sg_free(docs);
    sg_free(sample);
    return rc;
}
