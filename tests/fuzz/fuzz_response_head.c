/* Response heads. First byte: bit 0 HEAD request; the rest of it picks where the input is cut in two. */
#include "fuzz.h"

#include "http/framing.h"

static bool same_head(const sg_response_head_t *a, const sg_response_head_t *b)
{
    if (a->version_minor != b->version_minor || a->status != b->status || !sg_str_eq(a->reason, b->reason))
        return false;
    if (a->body != b->body || a->has_length != b->has_length || a->length != b->length)
        return false;
    if (a->keep_alive != b->keep_alive || a->fields.count != b->fields.count)
        return false;
    for (size_t i = 0; i < a->fields.count; i++) {
        const sg_field_t *x = &a->fields.at[i], *y = &b->fields.at[i];
        if (!sg_str_eq(x->name, y->name) || !sg_str_eq(x->value, y->value))
            return false;
    }
    return true;
}

static void check_fields(const sg_response_head_t *h, sg_str_t in)
{
    CHECK(h->fields.count <= SG_RESPONSE_FIELDS_MAX);
    SG_FIELDS_EACH(f, &h->fields) {
        CHECK(fuzz_within(f->name, in) && fuzz_within(f->value, in));
        CHECK(sg_is_token(f->name) && sg_is_field_value(f->value));
        CHECK(sg_str_trim(f->value).n == f->value.n);
    }
}

static void check_framing(const sg_response_head_t *h, bool head_request)
{
    size_t codings = sg_fields_count(&h->fields, SG_STR("Transfer-Encoding"));
    CHECK(h->version_minor <= 1 && h->status >= 100 && h->status <= 999);
    CHECK(codings <= 1 && !(codings && h->has_length) && !(codings && h->version_minor == 0));
    CHECK(h->has_length == (sg_fields_count(&h->fields, SG_STR("Content-Length")) > 0));
    CHECK(h->length <= INT64_MAX);
    CHECK(!head_request || h->body == SG_BODY_NONE);
    CHECK(h->body != SG_BODY_CHUNKED || codings == 1);
    CHECK(h->body != SG_BODY_LENGTH || h->has_length);
    CHECK(h->body != SG_BODY_CLOSE || (!h->has_length && !codings));
    CHECK(!h->keep_alive || h->body != SG_BODY_CLOSE);
    CHECK(!h->keep_alive || !sg_fields_has_token(&h->fields, SG_STR("Connection"), SG_STR("close")));
}

/* Written anew it means the same. */
static void check_rewritten(sg_arena_t *arena, const sg_response_head_t *h, bool head_request)
{
    sg_buf_t out;
    sg_buf_init(&out, 2 * SG_RESPONSE_HEAD_MAX);
    sg_buf_printf(&out, "HTTP/1.%u %u ", h->version_minor, h->status);
    sg_buf_str_add(&out, h->reason);
    SG_FIELDS_EACH(f, &h->fields) {
        sg_buf_z(&out, "\r\n");
        sg_buf_str_add(&out, f->name);
        sg_buf_z(&out, ":");
        sg_buf_str_add(&out, f->value);
    }
    sg_buf_z(&out, "\r\n\r\n");
    CHECK(!out.failed);
    sg_response_head_t again;
    size_t used = 0;
    const char *why = "";
    sg_err_t err = sg_response_head_parse(arena, sg_buf_str(&out), head_request, &again, &used, &why);
    CHECK(err == SG_OK && used == sg_buf_len(&out) && same_head(h, &again));
    sg_buf_deinit(&out);
}

/* A search that stops at `cut` and goes on says what one from the start says. */
static void check_resumed(sg_str_t in, size_t cut)
{
    size_t seen = 0, length = 0, whole_seen = 0, whole_length = 0;
    const char *why = "";
    sg_err_t whole = sg_response_head_find(in, &whole_seen, &whole_length, &why);
    sg_err_t first = sg_response_head_find(sg_str_n(in.p, cut), &seen, &length, &why);
    if (first == SG_ERR_AGAIN) {
        CHECK(seen == cut);
        CHECK(sg_response_head_find(in, &seen, &length, &why) == whole);
    } else {
        CHECK(first == whole);
    }
    CHECK(whole || (length == whole_length && length <= in.n));
    CHECK(whole || cut < whole_length || first == SG_OK);
    CHECK(whole || cut >= whole_length || first == SG_ERR_AGAIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bool head_request = data[0] & 1;
    sg_arena_t *arena = sg_arena_new(4096);
    char *copy = fuzz_copy(data + 1, size - 1);
    sg_str_t in = sg_str_n(copy, size - 1);
    sg_response_head_t h;
    size_t used = 0;
    const char *why = NULL;
    sg_err_t err = sg_response_head_parse(arena, in, head_request, &h, &used, &why);
    CHECK(err == SG_OK || err == SG_ERR_AGAIN || err == SG_ERR_FULL || err == SG_ERR_SYNTAX);
    CHECK(err != SG_ERR_SYNTAX || why != NULL);
    if (err == SG_OK) {
        CHECK(used <= in.n && used >= 16 && memcmp(in.p + used - 4, "\r\n\r\n", 4) == 0);
        check_fields(&h, sg_str_n(in.p, used));
        check_framing(&h, head_request);
        check_rewritten(arena, &h, head_request);
    }
    check_resumed(in, in.n * (size_t)(data[0] >> 1) / 128);
    if (in.n < 512) {
        for (size_t cut = 0; cut <= in.n; cut++)
            check_resumed(in, cut);
    }
    sg_free(copy);
    sg_arena_free(arena);
    return 0;
}
