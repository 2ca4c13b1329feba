/* Request targets, hosts and queries. */
#include "fuzz.h"

#include "http/target.h"

static sg_str_t join(sg_arena_t *arena, const sg_str_t *segments, size_t count, bool slash)
{
    size_t n = 2;
    for (size_t i = 0; i < count; i++)
        n += segments[i].n + 1;
    char *to = sg_arena_alloc(arena, n);
    n = 0;
    for (size_t i = 0; i < count; i++) {
        to[n++] = '/';
        if (segments[i].n)
            memcpy(to + n, segments[i].p, segments[i].n);
        n += segments[i].n;
    }
    if (slash || count == 0)
        to[n++] = '/';
    return sg_str_n(to, n);
}

/* A second opinion, the long way round: decode the whole path, cut at every '/', cut off parameters. */
static bool has_dot_segment(sg_arena_t *arena, sg_str_t path)
{
    char *text = sg_arena_alloc(arena, path.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] == '%' && i + 2 < path.n) {
            text[n++] = (char)(sg_hex_digit(path.p[i + 1]) * 16 + sg_hex_digit(path.p[i + 2]));
            i += 2;
        } else {
            text[n++] = path.p[i];
        }
    }
    sg_str_t rest = sg_str_n(text, n), piece, bare;
    while (sg_str_next(&rest, '/', &piece)) {
        bare = piece;
        if (piece.n && memchr(piece.p, ';', piece.n))
            (void)sg_str_next(&piece, ';', &bare);
        if (sg_str_eq(bare, SG_STR(".")) || sg_str_eq(bare, SG_STR("..")))
            return true;
    }
    return false;
}

static void check_taken(sg_arena_t *arena, const sg_target_t *t)
{
    CHECK(sg_str_eq(t->path, SG_STR("/")) || fuzz_within(t->path, t->raw));
    CHECK(fuzz_within(t->query, t->raw) && fuzz_within(t->authority, t->raw));
    CHECK(t->has_query || t->query.n == 0);
    for (size_t i = 0; i < t->raw.n; i++)
        CHECK(t->raw.p[i] > 0x20 && t->raw.p[i] < 0x7f && t->raw.p[i] != '#');
    if (t->form == SG_TARGET_ASTERISK) {
        CHECK(t->raw.n == 1 && t->segment_count == 0);
        return;
    }
    CHECK(t->path.p[0] == '/' && !memchr(t->path.p, '?', t->path.n) && !memchr(t->path.p, '\\', t->path.n));
    CHECK(t->segment_count <= SG_TARGET_SEGMENTS_MAX);
    CHECK(!has_dot_segment(arena, t->path));
    CHECK(sg_str_eq(join(arena, t->raw_segments, t->segment_count, t->trailing_slash), t->path));
    for (size_t i = 0; i < t->segment_count; i++) {
        CHECK(fuzz_within(t->raw_segments[i], t->path));
        CHECK(t->segments[i].n <= t->raw_segments[i].n);
    }
}

/* The normal form of a normal form is itself. */
static void check_normal(sg_arena_t *arena, const sg_target_t *t)
{
    sg_target_t again;
    sg_str_t normal = join(arena, t->segments, t->segment_count, t->trailing_slash);
    CHECK(sg_target_parse(arena, normal, &again) == SG_TARGET_OK);
    CHECK(again.segment_count == t->segment_count && again.trailing_slash == t->trailing_slash);
    CHECK(again.odd == t->odd);
    for (size_t i = 0; i < t->segment_count; i++) {
        CHECK(sg_str_eq(again.segments[i], t->segments[i]));
        CHECK(sg_str_eq(again.raw_segments[i], t->segments[i]));
    }
}

static void check_host(sg_arena_t *arena, sg_str_t value)
{
    sg_str_t host, same;
    unsigned port, none;
    if (sg_host_parse(arena, value, &host, &port))
        return;
    CHECK(host.n > 0 && host.n <= value.n && port <= 65535);
    for (size_t i = 0; i < host.n; i++)
        CHECK(host.p[i] == sg_ascii_lower(host.p[i]) && host.p[i] > 0x20 && host.p[i] < 0x7f);
    CHECK(sg_host_parse(arena, host, &same, &none) == SG_OK);
    CHECK(sg_str_eq(host, same) && none == 0);
}

static void check_query(sg_arena_t *arena, sg_str_t query, sg_str_t name)
{
    sg_str_t rest, value, again;
    size_t count;
    sg_query_take(arena, query, name, &rest, &value, &count);
    CHECK(rest.n <= query.n && value.n <= query.n);
    CHECK(count > 0 || sg_str_eq(rest, query));
    size_t bytes = rest.n;
    sg_query_take(arena, rest, name, &again, &value, &count);
    /* What is left when all is taken reads as one parameter without a name. */
    CHECK(count == 0 || name.n == 0);
    CHECK(name.n == 0 || (again.n == bytes && sg_str_eq(again, rest)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_arena_t *arena = sg_arena_new(4096);
    char *copy = fuzz_copy(data, size);
    sg_str_t raw = sg_str_n(copy, size);
    sg_target_t t;
    sg_target_err_t err = sg_target_parse(arena, raw, &t);
    CHECK(sg_target_err_name(err)[0] != '\0');
    if (err == SG_TARGET_OK) {
        check_taken(arena, &t);
        if (t.form != SG_TARGET_ASTERISK)
            check_normal(arena, &t);
        check_query(arena, t.query, SG_STR("key"));
        check_host(arena, t.authority);
    }
    check_host(arena, raw);
    check_query(arena, raw, SG_STR("a"));
    check_query(arena, raw, SG_STR(""));
    sg_free(copy);
    sg_arena_free(arena);
    return 0;
}
