/* vars.c - request variables in field values. */
#include "gate/route.h"
#include "http/field.h"

static const struct {
    const char *name;
    size_t offset;
} known[] = {
    {"tenant", offsetof(sg_vars_t, tenant)},       {"key_id", offsetof(sg_vars_t, key_id)},
    {"plan", offsetof(sg_vars_t, plan)},           {"route", offsetof(sg_vars_t, route)},
    {"request_id", offsetof(sg_vars_t, request_id)}, {"client_ip", offsetof(sg_vars_t, client_ip)},
    {"host", offsetof(sg_vars_t, host)},
};

typedef enum { PIECE_TEXT, PIECE_DOLLAR, PIECE_VAR, PIECE_OPEN /* "${" without '}' */ } piece_t;

/* Cut the next piece off *rest; *out gets its text, or the variable's name. False at the end. */
static bool next_piece(sg_str_t *rest, piece_t *kind, sg_str_t *out)
{
    const char *p = rest->p;
    size_t n = rest->n, used = 1;
    if (n == 0)
        return false;
    *kind = PIECE_TEXT;
    if (p[0] != '$') {
        const char *dollar = memchr(p, '$', n);
        used = dollar ? (size_t)(dollar - p) : n;
        *out = sg_str_n(p, used);
    } else if (n > 1 && p[1] == '{') {
        const char *close = memchr(p, '}', n);
        *kind = close ? PIECE_VAR : PIECE_OPEN;
        used = close ? (size_t)(close - p) + 1 : n;
        *out = sg_str_n(p + 2, close ? used - 3 : n - 2);
    } else {
        *kind = PIECE_DOLLAR;
        used = n > 1 && p[1] == '$' ? 2 : 1;
        *out = SG_STR("$");
    }
    *rest = sg_str_n(p + used, n - used);
    return true;
}

static const sg_str_t *find(const sg_vars_t *v, sg_str_t name)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (sg_str_eq(name, sg_str(known[i].name)))
            return (const sg_str_t *)(const void *)((const char *)v + known[i].offset);
    }
    return NULL;
}

/* A byte that would break the field becomes '?', wherever it came from. */
static size_t put(char *out, size_t n, sg_str_t s)
{
    for (size_t i = 0; out && i < s.n; i++)
        out[n + i] = sg_is_field_value(sg_str_n(s.p + i, 1)) ? s.p[i] : '?';
    return n + s.n;
}

static size_t expand(const sg_vars_t *v, sg_str_t text, char *out)
{
    size_t n = 0;
    piece_t kind;
    sg_str_t piece;
    while (next_piece(&text, &kind, &piece)) {
        const sg_str_t *value = kind == PIECE_VAR ? find(v, piece) : NULL;
        if (kind == PIECE_TEXT || kind == PIECE_DOLLAR)
            n = put(out, n, piece);
        else if (value)
            n = put(out, n, *value);
    }
    return n;
}

sg_str_t sg_vars_expand(const sg_vars_t *v, sg_str_t text, sg_arena_t *arena)
{
    if (text.n == 0 || !memchr(text.p, '$', text.n))
        return text;
    char *out = sg_arena_alloc(arena, expand(v, text, NULL) + 1);
    return sg_str_n(out, expand(v, text, out));
}

sg_err_t sg_vars_check(sg_str_t text, sg_str_t *bad)
{
    static const sg_vars_t none;
    piece_t kind;
    sg_str_t piece;
    while (next_piece(&text, &kind, &piece)) {
        if (kind == PIECE_OPEN || (kind == PIECE_VAR && !find(&none, piece))) {
            *bad = piece;
            return SG_ERR_SYNTAX;
        }
    }
    return SG_OK;
}
