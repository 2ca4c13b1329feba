/* rate_headers.c - RateLimit fields of a response. */
#include "gate/rate_headers.h"

#include "http/sf.h"

/* Room for 32 limits; config caps the length of names far below what would fill it. */
#define FIELD_MAX 16384

static bool is_shown(const sg_limit_t *l)
{
    return !l->dry_run && !l->unlimited;
}

static int64_t whole_seconds(int64_t us)
{
    return us <= 0 ? 0 : us / 1000000 + (us % 1000000 != 0);
}

static int64_t at_least_0(int64_t v)
{
    return v < 0 ? 0 : v;
}

static int64_t capped(int64_t v)
{
    return v > SG_SF_INTEGER_MAX ? SG_SF_INTEGER_MAX : at_least_0(v);
}

/* --- draft dialect ---------------------------------------------------------------------------- */

/* Begin a list member: the policy's name. */
static void write_name(sg_buf_t *out, const sg_limit_t *l)
{
    if (sg_buf_len(out))
        sg_buf_z(out, ", ");
    sg_sf_string(out, sg_str(l->name));
}

/* A window shorter than a second cannot be told in whole seconds, and slots in use have none. */
static void write_policy(sg_buf_t *out, const sg_limit_t *l)
{
    write_name(out, l);
    sg_sf_param_int(out, "q", at_least_0(l->limit));
    if (l->algo != SG_ALGO_CONCURRENCY && l->window_us >= 1000000)
        sg_sf_param_int(out, "w", whole_seconds(l->window_us));
}

static void write_state(sg_buf_t *out, const sg_limit_t *l, const sg_limit_result_t *r)
{
    write_name(out, l);
    sg_sf_param_int(out, "r", at_least_0(r->remaining));
    if (r->more_us > 0)
        sg_sf_param_int(out, "t", whole_seconds(r->more_us));
}

/* `text` becomes a field, and is empty again. */
static void add_text(sg_fields_t *out, sg_arena_t *arena, sg_str_t name, sg_buf_t *text)
{
    if (sg_buf_len(text) && !text->failed)
        sg_fields_add(out, arena, name, sg_arena_str(arena, sg_buf_str(text)));
    sg_buf_clear(text);
}

static void add_draft(const sg_limit_t *const *limits, const sg_verdict_t *v, sg_arena_t *arena,
                      sg_fields_t *out)
{
    sg_buf_t text;
    sg_buf_init(&text, FIELD_MAX);
    for (size_t i = 0; i < v->count; i++)
        if (is_shown(limits[i]))
            write_policy(&text, limits[i]);
    add_text(out, arena, SG_STR("RateLimit-Policy"), &text);
    for (size_t i = 0; i < v->count; i++)
        if (is_shown(limits[i]))
            write_state(&text, limits[i], &v->at[i]);
    add_text(out, arena, SG_STR("RateLimit"), &text);
    sg_buf_deinit(&text);
}

/* --- legacy dialect --------------------------------------------------------------------------- */

/* a/b against c/d, exactly: -1, 0, 1. b and d > 0. Compares quotients, then the inverted rests: products
 * would not fit. */
static int compare_ratios(int64_t a, int64_t b, int64_t c, int64_t d)
{
    int sign = 1;
    while (a / b == c / d) {
        a %= b;
        c %= d;
        if (a == 0 || c == 0)
            return sign * ((a > 0) - (c > 0));
        int64_t x = a, y = c;
        a = b;
        b = x;
        c = d;
        d = y;
        sign = -sign;
    }
    return a / b < c / d ? -sign : sign;
}

static int64_t divisor(const sg_limit_t *l)
{
    return l->limit > 0 ? l->limit : 1;
}

static bool is_tighter(const sg_limit_t *const *limits, const sg_verdict_t *v, size_t i, size_t than)
{
    const sg_limit_result_t *a = &v->at[i], *b = &v->at[than];
    int order = compare_ratios(at_least_0(a->remaining), divisor(limits[i]), at_least_0(b->remaining),
                               divisor(limits[than]));
    return order < 0 || (order == 0 && a->reset_us > b->reset_us);
}

static void add_number(sg_fields_t *out, sg_arena_t *arena, sg_str_t name, int64_t v)
{
    sg_fields_add(out, arena, name, sg_arena_printf(arena, "%lld", (long long)capped(v)));
}

static void add_legacy(const sg_limit_t *const *limits, const sg_verdict_t *v, sg_arena_t *arena,
                       sg_fields_t *out)
{
    size_t tightest = v->count;
    for (size_t i = 0; i < v->count; i++) {
        if (is_shown(limits[i]) && (tightest == v->count || is_tighter(limits, v, i, tightest)))
            tightest = i;
    }
    if (tightest == v->count)
        return;
    add_number(out, arena, SG_STR("X-RateLimit-Limit"), limits[tightest]->limit);
    add_number(out, arena, SG_STR("X-RateLimit-Remaining"), v->at[tightest].remaining);
    add_number(out, arena, SG_STR("X-RateLimit-Reset"), whole_seconds(v->at[tightest].reset_us));
}

/* --- what callers see ------------------------------------------------------------------------- */

void sg_rate_headers(sg_dialect_t dialect, const sg_limit_t *const *limits, const sg_verdict_t *v,
                     sg_arena_t *arena, sg_fields_t *out)
{
    if (dialect == SG_DIALECT_DRAFT || dialect == SG_DIALECT_BOTH)
        add_draft(limits, v, arena, out);
    if (dialect == SG_DIALECT_LEGACY || dialect == SG_DIALECT_BOTH)
        add_legacy(limits, v, arena, out);
}

bool sg_is_rate_header(sg_str_t name)
{
    static const sg_str_t names[] = {
        SG_STR("RateLimit"), SG_STR("RateLimit-Policy"), SG_STR("X-RateLimit-Limit"),
        SG_STR("X-RateLimit-Remaining"), SG_STR("X-RateLimit-Reset"),
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (sg_str_ieq(name, names[i]))
            return true;
    }
    return false;
}

int64_t sg_retry_after_s(const sg_limit_t *const *limits, const sg_verdict_t *v)
{
    int64_t longest = 0;
    for (size_t i = 0; i < v->count; i++) {
        const sg_limit_result_t *r = &v->at[i];
        if (!is_shown(limits[i]) || r->allowed)
            continue;
        if (r->never)
            return 0;
        int64_t seconds = whole_seconds(r->retry_us);
        if (seconds < 1)
            seconds = 1;
        if (seconds > longest)
            longest = seconds;
    }
    return longest;
}
