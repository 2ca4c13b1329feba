/* Message bodies. First byte: two bits the kind, the rest the size of the pieces that the input is fed in. */
#include "fuzz.h"

#include "http/framing.h"

typedef struct {
    sg_body_t body;
    sg_buf_t data;
    size_t used;
    sg_err_t err;
} run_t;

static void feed(run_t *r, sg_str_t in, size_t to)
{
    while (!r->err) {
        sg_str_t part = sg_str_n(in.p + r->used, to - r->used), data;
        size_t used;
        r->err = sg_body_feed(&r->body, part, &used, &data);
        CHECK(used <= part.n && data.n <= used && fuzz_within(data, part));
        CHECK(!r->err || (used == 0 && data.n == 0));
        CHECK(data.n == 0 || data.p + data.n == part.p + used);
        sg_buf_str_add(&r->data, data);
        r->used += used;
        if (used == 0)
            break;
    }
}

static void run(run_t *r, sg_body_kind_t kind, uint64_t length, sg_str_t in, size_t piece)
{
    *r = (run_t){0};
    sg_body_init(&r->body, kind, length);
    sg_buf_init(&r->data, in.n + 1);
    for (size_t to = 0; to < in.n; to += piece)
        feed(r, in, to);
    feed(r, in, in.n);
    CHECK(!r->data.failed);
    CHECK(r->err || r->body.done || r->used == in.n);
    CHECK(!r->err || !r->body.done);
}

static void check_same(const run_t *a, const run_t *b)
{
    sg_body_t x = a->body, y = b->body;
    CHECK(a->err == b->err && a->body.done == b->body.done);
    CHECK(a->err || a->used == b->used);
    CHECK(sg_str_eq(sg_buf_str(&a->data), sg_buf_str(&b->data)));
    CHECK(sg_body_eof(&x) == sg_body_eof(&y));
}

/* What was decoded, written as chunks and decoded again. */
static void check_rewritten(run_t *r)
{
    sg_str_t data = sg_buf_str(&r->data);
    sg_buf_t out;
    sg_buf_init(&out, data.n * 8 + 64);
    for (size_t at = 0, n = 1; at < data.n; at += n, n = n * 2 < data.n - at ? n * 2 : data.n - at)
        sg_chunk_write(&out, data.p + at, n);
    sg_chunk_write_last(&out);
    CHECK(!out.failed);
    run_t again;
    run(&again, SG_BODY_CHUNKED, 0, sg_buf_str(&out), 7);
    CHECK(!again.err && again.body.done && again.used == sg_buf_len(&out));
    CHECK(sg_str_eq(sg_buf_str(&again.data), data));
    sg_buf_deinit(&again.data);
    sg_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const sg_body_kind_t kinds[] = {SG_BODY_CHUNKED, SG_BODY_LENGTH, SG_BODY_CLOSE, SG_BODY_NONE};
    if (size == 0)
        return 0;
    sg_body_kind_t kind = kinds[data[0] & 3];
    uint64_t length = kind == SG_BODY_LENGTH ? size / 2 : 0;
    char *copy = fuzz_copy(data + 1, size - 1);
    sg_str_t in = sg_str_n(copy, size - 1);
    run_t whole, pieces, bytes;
    run(&whole, kind, length, in, SIZE_MAX / 2);
    run(&pieces, kind, length, in, (size_t)(data[0] >> 2) + 1);
    run(&bytes, kind, length, in, 1);
    if (!whole.err && whole.body.done)
        check_rewritten(&whole);
    check_same(&whole, &pieces);
    check_same(&whole, &bytes);
    sg_buf_deinit(&whole.data);
    sg_buf_deinit(&pieces.data);
    sg_buf_deinit(&bytes.data);
    sg_free(copy);
    return 0;
}
