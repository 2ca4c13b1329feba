/* fingerprint.c - has a file that the config was read from changed? By looking, not by events: whatever way a
 * file was replaced (in place, mv, a symlink swap anywhere in its path), what stat says of it differs. */
#include <glob.h>
#include <sys/stat.h>

#include "config/load.h"

static void add_file(sg_buf_t *out, const char *path)
{
    struct stat st = {0};
    if (!path)
        return;
    if (stat(path, &st) < 0)
        st = (struct stat){0};
    sg_buf_printf(out, "%s %ju %ju %jd %jd.%ld %jd.%ld\n", path, (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
                  (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                  (intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

static void add_pattern(sg_buf_t *out, const char *pattern)
{
    glob_t g = {0};
    int rc = glob(pattern, 0, NULL, &g);
    for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
        add_file(out, g.gl_pathv[i]);
    globfree(&g);
}

uint64_t sg_config_fingerprint(const sg_config_t *c)
{
    enum { TEXT_MAX = 64 * 1024 * 1024 };
    const struct sg_config_own *own = c->own;
    sg_buf_t text;
    sg_buf_init(&text, TEXT_MAX);
    add_file(&text, c->source);
    for (size_t i = 0; i < own->pattern_count; i++)
        add_pattern(&text, own->patterns[i]);
    add_file(&text, own->admin_token_file);
    add_file(&text, own->password_file);
    add_file(&text, own->secret_file);
    add_file(&text, c->server.tls_certificate);
    add_file(&text, c->server.tls_key);
    add_file(&text, c->server.tls_client_ca);
    uint64_t fingerprint = sg_fnv1a(sg_buf_str(&text));
    sg_buf_deinit(&text);
    return fingerprint;
}
