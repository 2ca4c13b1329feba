/* expand.c - ${NAME} of the environment. */
#include <stdlib.h>

#include "base/buf.h"
#include "config/values.h"

#define EXPANDED_BYTES_MAX ((size_t)1 << 20)

static bool is_env_char(char c, bool first)
{
    return c == '_' || (c >= 'A' && c <= 'Z') || (!first && sg_ascii_digit(c));
}

static bool is_env_name(sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!is_env_char(s.p[i], i == 0))
            return false;
    }
    return s.n > 0;
}

static bool is_var_name(sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '_' && !(s.p[i] >= 'a' && s.p[i] <= 'z'))
            return false;
    }
    return s.n > 0;
}

/* The environment's value; with variables kept, its dollars are doubled, so that no part of it becomes a
 * variable. */
static sg_err_t add_env(sg_buf_t *b, sg_str_t name, sg_expand_t how, sg_why_t *why)
{
    char *z = sg_strndup(name);
    const char *value = getenv(z);
    sg_free(z);
    if (!value) {
        sg_why_set(why, "environment variable %.*s is not set, expected a value in the environment",
                   SG_STR_ARG(name));
        return SG_ERR_NOT_FOUND;
    }
    for (; *value; value++) {
        if (*value == '$' && how == SG_EXPAND_KEEP_VARS)
            sg_buf_char(b, '$');
        sg_buf_char(b, *value);
    }
    return SG_OK;
}

/* What stands between the braces. */
static sg_err_t add_named(sg_buf_t *b, sg_str_t name, sg_expand_t how, sg_why_t *why)
{
    if (is_env_name(name))
        return add_env(b, name, how, why);
    if (!is_var_name(name)) {
        sg_why_set(why, "a bad name in ${...}, expected ${NAME} in capitals for the environment");
        return SG_ERR_SYNTAX;
    }
    if (how == SG_EXPAND_ALL) {
        sg_why_set(why,
                   "${%.*s} is a request variable, expected here only ${NAME} in capitals (the environment); "
                   "request "
                   "variables stand in values of request_headers and response_headers",
                   SG_STR_ARG(name));
        return SG_ERR_SYNTAX;
    }
    sg_buf_printf(b, "${%.*s}", SG_STR_ARG(name));
    return SG_OK;
}

/* Handle the dollar at s[i]; *next is the first byte after what it covers. */
static sg_err_t add_dollar(sg_buf_t *b, sg_str_t s, size_t i, size_t *next, sg_expand_t how, sg_why_t *why)
{
    const char *end;
    if (i + 1 < s.n && s.p[i + 1] == '$') {
        sg_buf_z(b, how == SG_EXPAND_ALL ? "$" : "$$");
        *next = i + 2;
        return SG_OK;
    }
    if (i + 1 >= s.n || s.p[i + 1] != '{') {
        sg_why_set(why, "a lone $, expected ${NAME}, or $$ for a dollar");
        return SG_ERR_SYNTAX;
    }
    end = memchr(s.p + i, '}', s.n - i);
    if (!end) {
        sg_why_set(why, "${ without }, expected ${NAME}, or $$ for a dollar");
        return SG_ERR_SYNTAX;
    }
    *next = (size_t)(end - s.p) + 1;
    return add_named(b, sg_str_n(s.p + i + 2, *next - i - 3), how, why);
}

sg_err_t sg_value_expand(sg_str_t s, sg_expand_t how, sg_arena_t *arena, sg_str_t *out, sg_why_t *why)
{
    sg_buf_t b;
    sg_err_t err = SG_OK;
    if (s.n == 0 || !memchr(s.p, '$', s.n)) {
        *out = s;
        return SG_OK;
    }
    sg_buf_init(&b, EXPANDED_BYTES_MAX);
    for (size_t i = 0; i < s.n && !err;) {
        if (s.p[i] == '$') {
            err = add_dollar(&b, s, i, &i, how, why);
        } else {
            sg_buf_char(&b, s.p[i++]);
        }
    }
    if (!err && b.failed) {
        sg_why_set(why, "too long with the environment put in, expected at most %zu bytes",
                   EXPANDED_BYTES_MAX);
        err = SG_ERR_FULL;
    }
    if (!err)
        *out = sg_arena_str(arena, sg_buf_str(&b));
    sg_buf_deinit(&b);
    return err;
}
