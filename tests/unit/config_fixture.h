/* config_fixture.h - a folder for a config file, and what a load says about it. A test includes it once. */
#ifndef CONFIG_FIXTURE_H
#define CONFIG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

typedef struct {
    char dir[64];
    char path[128]; /* of the config file */
    sg_diags_t diags;
    sg_config_t *config; /* NULL after a load with errors */
} fixture_t;

static int fixture_setup(void **state)
{
    fixture_t *f = test_calloc(1, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/slotgate-config-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    snprintf(f->path, sizeof f->path, "%s/c.yaml", f->dir);
    *state = f;
    return 0;
}

static void fixture_clear(fixture_t *f)
{
    sg_config_unref(f->config);
    f->config = NULL;
    sg_diags_deinit(&f->diags);
}

static int fixture_teardown(void **state)
{
    fixture_t *f = *state;
    fixture_clear(f);
    unlink(f->path);
    rmdir(f->dir);
    test_free(f);
    return 0;
}

/* A file in the folder; the caller removes what is not c.yaml with fixture_remove. */
static void fixture_write(fixture_t *f, const char *name, const char *text, size_t n)
{
    char path[128];
    FILE *out;
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

static inline void fixture_remove(fixture_t *f, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    unlink(path);
}

static void fixture_load_n(fixture_t *f, const char *text, size_t n)
{
    fixture_clear(f);
    fixture_write(f, "c.yaml", text, n);
    f->config = sg_config_load(f->path, NULL, &f->diags);
    assert_int_equal(f->config == NULL, f->diags.errors > 0);
}

static inline void fixture_load(fixture_t *f, const char *text)
{
    fixture_load_n(f, text, strlen(text));
}

/* A load that must be good; the findings are shown when it is not. */
static inline const sg_config_t *fixture_good(fixture_t *f, const char *text)
{
    fixture_load(f, text);
    if (!f->config)
        sg_diags_print(&f->diags, stderr);
    assert_non_null(f->config);
    return f->config;
}

/* The finding at this place whose text has this part; NULL when there is none. */
static inline const sg_diag_t *fixture_find(const fixture_t *f, unsigned line, unsigned column,
                                            const char *part)
{
    for (size_t i = 0; i < f->diags.count; i++) {
        const sg_diag_t *d = &f->diags.at[i];
        if (d->line == line && d->column == column && strstr(d->text, part))
            return d;
    }
    return NULL;
}

#endif
