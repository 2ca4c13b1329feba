/* The config file: any bytes load as a snapshot, or end in findings that say where and what. A snapshot's
 * print-out loads again and prints the same. */
#include <unistd.h>

#include "fuzz.h"

#include "config/config.h"

static char folder[] = "/dev/shm/slotgate-fuzz-XXXXXX", fallback[] = "/tmp/slotgate-fuzz-XXXXXX";
static char *path;

static void clean_up(void)
{
    char *slash = strrchr(path, '/');
    (void)unlink(path);
    *slash = '\0';
    (void)rmdir(path);
    sg_free(path);
}

static void prepare(void)
{
    const char *in = mkdtemp(folder);
    if (!in)
        in = mkdtemp(fallback);
    CHECK(in != NULL);
    path = sg_asprintf("%s/c.yaml", in);
    CHECK(atexit(clean_up) == 0);
}

static void check_findings(const sg_diags_t *diags)
{
    size_t errors = 0;
    for (size_t i = 0; i < diags->count; i++) {
        const sg_diag_t *d = &diags->at[i];
        CHECK(d->file && d->text && d->text[0]);
        CHECK((d->line == 0) == (d->column == 0));
        for (const char *c = d->text; *c; c++)
            CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
        errors += d->level == SG_DIAG_ERROR;
    }
    CHECK(errors <= diags->errors && (errors > 0) == (diags->errors > 0));
}

static sg_config_t *load(const char *text, size_t n)
{
    sg_diags_t diags = {0};
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK(fwrite(text, 1, n, file) == n);
    CHECK(fclose(file) == 0);
    sg_config_t *config = sg_config_load(path, NULL, &diags);
    CHECK((config == NULL) == (diags.errors > 0));
    check_findings(&diags);
    sg_diags_deinit(&diags);
    return config;
}

/* Caller: free. */
static char *print(const sg_config_t *config, size_t *n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n);
    CHECK(out != NULL);
    sg_config_print(config, out);
    CHECK(fclose(out) == 0);
    return text;
}

/* Secrets are left out of a print-out: what needs one cannot load again. */
static bool names_a_file(const char *text, size_t n)
{
    return memmem(text, n, "_file", 5) != NULL;
}

static void check_print(const sg_config_t *config)
{
    size_t n, again_n;
    char *text = print(config, &n);
    CHECK(memchr(text, '\n', n) != NULL && strlen(text) == n);
    sg_config_t *again = load(text, n);
    CHECK(again != NULL);
    char *again_text = print(again, &again_n);
    CHECK(strcmp(strchr(text, '\n'), strchr(again_text, '\n')) == 0); /* the first line has the file's hash */
    sg_config_unref(again);
    (free)(text);
    (free)(again_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!path)
        prepare();
    char *copy = fuzz_copy(data, size);
    sg_config_t *config = load(copy, size);
    if (config && !names_a_file(copy, size))
        check_print(config);
    sg_config_unref(config);
    sg_free(copy);
    return 0;
}
