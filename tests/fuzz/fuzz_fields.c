/* Header fields, lists and trace parents. Input: lines "name: value", LF between them. */
#include "fuzz.h"

#include "http/field.h"
#include "http/sf.h"
#include "http/trace.h"

static const char *const kept[] = {"X-Keep", NULL};

static sg_fields_t read_fields(sg_arena_t *arena, sg_str_t in)
{
    sg_fields_t fs = {0};
    sg_str_t line, name;
    while (in.n && sg_str_next(&in, '\n', &line)) {
        sg_str_t value = line;
        if (!sg_str_next(&value, ':', &name))
            continue;
        sg_fields_add(&fs, arena, name, sg_str_trim(value));
    }
    return fs;
}

/* The rule as it is written, with no thought of cost. */
static bool should_stay(const sg_fields_t *all, sg_str_t name)
{
    if (sg_str_ieq(name, SG_STR("X-Keep")) || sg_str_ieq(name, SG_STR("Host")) ||
        sg_str_ieq(name, SG_STR("Content-Length")))
        return true;
    if (sg_field_is_hop_by_hop(name))
        return false;
    return name.n == 0 || !sg_fields_has_token(all, SG_STR("Connection"), name);
}

static void check_strip(sg_arena_t *arena, const sg_fields_t *all)
{
    sg_fields_t fs = {0};
    SG_FIELDS_EACH(f, all)
        sg_fields_add(&fs, arena, f->name, f->value);
    sg_fields_strip_hops(&fs, kept);
    size_t at = 0;
    SG_FIELDS_EACH(f, all) {
        if (!should_stay(all, f->name))
            continue;
        CHECK(at < fs.count && fs.at[at].name.p == f->name.p && fs.at[at].value.p == f->value.p);
        at++;
    }
    CHECK(at == fs.count);
}

static void check_list(sg_str_t value)
{
    sg_str_t rest = value, member;
    const char *from = value.p;
    while (sg_list_next(&rest, &member)) {
        CHECK(member.n > 0 && fuzz_within(member, value) && member.p >= from);
        CHECK(sg_str_trim(member).n == member.n);
        CHECK(rest.n < value.n);
        from = member.p + member.n;
    }
    CHECK(rest.n == 0);
}

static void check_remove(sg_arena_t *arena, const sg_fields_t *all, sg_str_t name)
{
    sg_fields_t fs = {0};
    SG_FIELDS_EACH(f, all)
        sg_fields_add(&fs, arena, f->name, f->value);
    size_t count = sg_fields_count(&fs, name);
    sg_fields_remove(&fs, name);
    CHECK(fs.count + count == all->count && !sg_fields_get(&fs, name));
}

static void check_trace(sg_str_t in)
{
    sg_trace_t t, again;
    char text[SG_TRACEPARENT_BYTES];
    sg_trace_start(in, &t);
    CHECK(!t.continued || (in.n >= 55 && memcmp(t.trace_id, in.p + 3, 32) == 0));
    sg_trace_text(&t, text);
    sg_trace_start(sg_str(text), &again);
    CHECK(again.continued && strcmp(again.trace_id, t.trace_id) == 0 && strcmp(again.flags, t.flags) == 0);
}

static void check_string(sg_str_t in)
{
    sg_buf_t out;
    sg_buf_init(&out, 2 * in.n + 2);
    sg_sf_string(&out, in);
    CHECK(!out.failed && sg_buf_len(&out) >= in.n + 2);
    for (size_t i = 0; i < sg_buf_len(&out); i++)
        CHECK(sg_buf_str(&out).p[i] >= 0x20 && sg_buf_str(&out).p[i] <= 0x7e);
    sg_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_arena_t *arena = sg_arena_new(4096);
    char *copy = fuzz_copy(data, size);
    sg_str_t in = sg_str_n(copy, size);
    sg_fields_t all = read_fields(arena, in);
    check_strip(arena, &all);
    SG_FIELDS_EACH(f, &all) {
        check_list(f->value);
        CHECK(!sg_field_is_underscore_twin(f->name, f->name));
        if (sg_is_token(f->name))
            CHECK(sg_is_field_value(f->name));
    }
    if (all.count)
        check_remove(arena, &all, all.at[all.count / 2].name);
    check_list(in);
    check_trace(in);
    check_string(in);
    sg_free(copy);
    sg_arena_free(arena);
    return 0;
}
