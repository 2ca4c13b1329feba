/* Buffers with a cap, arenas, views, heap and list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/random.h"

static void assert_str(sg_str_t got, const char *want)
{
    assert_int_equal(got.n, strlen(want));
    assert_memory_equal(got.p ? got.p : "", want, got.n);
}

static void buffer_writes_all_or_nothing(void **state)
{
    sg_buf_t b;
    (void)state;
    sg_buf_init(&b, 10);
    sg_buf_z(&b, "12345678");
    sg_buf_z(&b, "abc"); /* does not fit */
    assert_true(b.failed);
    assert_str(sg_buf_str(&b), "12345678");
    sg_buf_z(&b, "ab");
    assert_true(b.failed); /* stays set, so that a series can be checked at its end */
    assert_str(sg_buf_str(&b), "12345678ab");
    sg_buf_clear(&b);
    assert_false(b.failed);
    assert_int_equal(sg_buf_len(&b), 0);
    sg_buf_deinit(&b);
}

static void buffer_keeps_its_content_when_it_moves(void **state)
{
    sg_buf_t b;
    char expected[5000];
    size_t from = 0, to = 0;
    (void)state;
    sg_buf_init(&b, sizeof expected);
    for (size_t i = 0; i < sizeof expected; i++)
        expected[i] = (char)('a' + i % 26);
    while (to < sizeof expected) {
        size_t more = sg_random_below(200), less;
        if (more > sizeof expected - to)
            more = sizeof expected - to;
        sg_buf_add(&b, expected + to, more);
        to += more;
        less = sg_random_below(to - from + 1);
        sg_buf_consume(&b, less);
        from += less;
        assert_false(b.failed);
        assert_int_equal(sg_buf_len(&b), to - from);
        if (to > from)
            assert_memory_equal(sg_buf_str(&b).p, expected + from, to - from);
    }
    sg_buf_deinit(&b);
}

static void buffer_writes_numbers(void **state)
{
    sg_buf_t b;
    (void)state;
    sg_buf_init(&b, 200);
    sg_buf_u64(&b, 0);
    sg_buf_char(&b, ' ');
    sg_buf_u64(&b, UINT64_MAX);
    sg_buf_char(&b, ' ');
    sg_buf_i64(&b, INT64_MIN);
    sg_buf_printf(&b, " %d%s", -7, "x");
    assert_str(sg_buf_str(&b), "0 18446744073709551615 -9223372036854775808 -7x");
    sg_buf_deinit(&b);
}

static void buffer_writes_json_strings(void **state)
{
    static const struct {
        sg_str_t in;
        const char *out;
    } cases[] = {
        {SG_STR(""), "\"\""},
        {SG_STR("plain"), "\"plain\""},
        {SG_STR("\"\\/"), "\"\\\"\\\\/\""},
        {SG_STR("\n\r\t\b\0\x1f\x7f"), "\"\\n\\r\\t\\u0008\\u0000\\u001f\\u007f\""},
        {SG_STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {SG_STR("a\xff"
                "b"),
         "\"a\xef\xbf\xbd"
         "b\""},                                                              /* no UTF-8 at all */
        {SG_STR("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* overlong */
        {SG_STR("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* a surrogate */
        {SG_STR("\xe2\x82"), "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* cut off */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_buf_t b;
        sg_buf_init(&b, 100);
        sg_buf_json(&b, cases[i].in);
        assert_str(sg_buf_str(&b), cases[i].out);
        sg_buf_deinit(&b);
    }
}

static void buffer_gives_room_for_reading(void **state)
{
    sg_buf_t b;
    size_t got;
    (void)state;
    sg_buf_init(&b, 300);
    char *room = sg_buf_room(&b, 256, &got);
    assert_non_null(room);
    assert_true(got >= 256 && got <= 300);
    memset(room, 'r', 256);
    sg_buf_added(&b, 256);
    assert_null(sg_buf_room(&b, 45, &got));
    assert_non_null(sg_buf_room(&b, 44, &got));
    assert_true(got <= 44);
    sg_buf_deinit(&b);
}

static void arena_pieces_are_apart_and_aligned(void **state)
{
    (void)state;
    sg_arena_t *a = sg_arena_new(64);
    for (int round = 0; round < 2; round++) {
        char *pieces[300];
        for (size_t i = 0; i < 300; i++) {
            pieces[i] = sg_arena_alloc(a, i);
            assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
            memset(pieces[i], (int)(i & 0xff), i);
        }
        for (size_t i = 0; i < 300; i++)
            for (size_t j = 0; j < i; j++)
                assert_int_equal((unsigned char)pieces[i][j], i & 0xff);
        char *zeroed = sg_arena_calloc(a, 100000);
        for (size_t i = 0; i < 100000; i++)
            assert_int_equal(zeroed[i], 0);
        sg_arena_reset(a);
    }
    assert_str(sg_arena_printf(a, "%s-%03d", "x", 7), "x-007");
    sg_str_t copy = sg_arena_str(a, sg_str_n("abcdef", 3));
    assert_str(copy, "abc");
    assert_int_equal(copy.p[3], '\0');
    sg_arena_free(a);
    sg_arena_free(NULL);
}

static void views(void **state)
{
    sg_str_t rest = SG_STR("a,,b"), part;
    const char *want[] = {"a", "", "b"};
    uint64_t n;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_true(sg_str_next(&rest, ',', &part));
        assert_str(part, want[i]);
    }
    assert_false(sg_str_next(&rest, ',', &part));
    assert_str(sg_str_trim(SG_STR(" \t a b\t ")), "a b");
    assert_str(sg_str_trim(SG_STR(" \t")), "");
    assert_true(sg_str_ieq(SG_STR("Content-LENGTH"), SG_STR("content-length")));
    assert_false(sg_str_ieq(SG_STR("a_"), SG_STR("a\x7f")));
    assert_false(sg_str_ieq(SG_STR("@"), SG_STR("`"))); /* only letters fold */
    assert_true(sg_str_starts(SG_STR("abc"), SG_STR("")) && sg_str_starts(SG_STR("abc"), SG_STR("ab")));
    assert_false(sg_str_starts(SG_STR("ab"), SG_STR("abc")));
    assert_true(sg_str_ends(SG_STR("abc"), SG_STR("bc")));
    assert_int_equal(sg_str_u64(SG_STR("18446744073709551615"), UINT64_MAX, &n), SG_OK);
    assert_true(n == UINT64_MAX);
    assert_int_equal(sg_str_u64(SG_STR("18446744073709551616"), UINT64_MAX, &n), SG_ERR_RANGE);
    assert_int_equal(sg_str_u64(SG_STR("11"), 10, &n), SG_ERR_RANGE);
    const char *bad[] = {"", "+1", "-1", " 1", "1 ", "0x1", "1e3", "99999999999999999999x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(sg_str_u64(sg_str(bad[i]), UINT64_MAX, &n), SG_ERR_SYNTAX);
}

enum { NODES = 500 };

static void heap_gives_the_smallest_whatever_comes_and_goes(void **state)
{
    static sg_heap_node_t nodes[NODES];
    sg_heap_t h = {0};
    (void)state;
    for (int step = 0; step < 20000; step++) {
        sg_heap_node_t *n = &nodes[sg_random_below(NODES)];
        if (n->index)
            sg_heap_remove(&h, n);
        else
            sg_heap_push(&h, n, (int64_t)sg_random_below(1000) - 500);
        int64_t least = INT64_MAX;
        for (size_t i = 0; step % 50 == 0 && i < NODES; i++)
            if (nodes[i].index && nodes[i].key < least)
                least = nodes[i].key;
        if (step % 50 == 0 && sg_heap_top(&h))
            assert_true(sg_heap_top(&h)->key == least);
    }
    int64_t last = INT64_MIN;
    for (sg_heap_node_t *n; (n = sg_heap_top(&h)); sg_heap_remove(&h, n)) {
        assert_true(n->key >= last);
        last = n->key;
    }
    sg_heap_remove(&h, &nodes[0]); /* on no heap: nothing happens */
    sg_heap_deinit(&h);
}

static void list_keeps_order_and_allows_removal_while_walking(void **state)
{
    sg_link_t head, l[4] = {{0}};
    size_t i = 0;
    (void)state;
    sg_list_init(&head);
    assert_true(sg_list_empty(&head));
    for (size_t k = 1; k < 4; k++)
        sg_list_push_back(&head, &l[k]);
    sg_list_push_front(&head, &l[0]);
    SG_LIST_EACH(it, &head)
    {
        assert_ptr_equal(it, &l[i]);
        if (i++ % 2)
            sg_list_remove(it);
    }
    assert_int_equal(i, 4);
    assert_false(sg_list_linked(&l[1]));
    sg_list_remove(&l[1]);
    assert_ptr_equal(sg_list_pop(&head), &l[0]);
    assert_ptr_equal(sg_list_pop(&head), &l[2]);
    assert_null(sg_list_pop(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_writes_all_or_nothing),
        cmocka_unit_test(buffer_keeps_its_content_when_it_moves),
        cmocka_unit_test(buffer_writes_numbers),
        cmocka_unit_test(buffer_writes_json_strings),
        cmocka_unit_test(buffer_gives_room_for_reading),
        cmocka_unit_test(arena_pieces_are_apart_and_aligned),
        cmocka_unit_test(views),
        cmocka_unit_test(heap_gives_the_smallest_whatever_comes_and_goes),
        cmocka_unit_test(list_keeps_order_and_allows_removal_while_walking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
