/* What a Redis server may send: bytes -> replies -> a verdict or the class of an error. The first
 * byte picks the check, and where the bytes are cut into two reads. */
#include "fuzz.h"

#include "store/reply.h"
#include "store/script.h"

static sg_reply_arena_t arena;

static const sg_limit_t limits[] = {
    {.name = "a.b",
     .algo = SG_ALGO_TOKEN_BUCKET,
     .limit = 10,
     .rate_count = 1,
     .rate_us = 1000000,
     .window_us = 10000000},
    {.name = "a.c", .algo = SG_ALGO_FIXED_WINDOW, .limit = 10, .window_us = 60000000},
    {.name = "a.d", .algo = SG_ALGO_CONCURRENCY, .limit = 10, .lease_us = 60000000},
};

static void check_verdict(const redisReply *reply, size_t count)
{
    const sg_limit_t *at[] = {&limits[0], &limits[1], &limits[2]};
    const sg_check_t check = {.limits = at, .count = count, .cost = 1};
    int64_t numbers[SG_SCRIPT_REPLY_MAX];
    sg_verdict_t verdict;
    if (reply->elements > SG_SCRIPT_REPLY_MAX)
        return;
    for (size_t i = 0; i < reply->elements; i++)
        numbers[i] = reply->element[i] ? reply->element[i]->integer : 0;
    if (sg_script_decode(&check, numbers, reply->elements, &verdict) != SG_SCRIPT_OK)
        return;
    CHECK(verdict.count == count);
    for (size_t i = 0; i < count; i++) {
        CHECK(verdict.at[i].remaining >= 0 && verdict.at[i].reset_us >= 0);
        CHECK(verdict.at[i].retry_us >= 0 && verdict.at[i].more_us >= 0);
    }
}

static void look_at(const redisReply *reply, size_t count)
{
    if (reply->type == REDIS_REPLY_ARRAY)
        check_verdict(reply, count);
    sg_str_t text = sg_reply_error_text(reply);
    CHECK(text.n < SG_REPLY_TEXT_BYTES);
    CHECK(sg_reply_error_kind(text) < SG_STORE_ERR_COUNT);
    CHECK(!sg_reply_error_closes(text) || text.n > 0);
    CHECK(sg_reply_error_word(reply).n <= text.n);
    (void)sg_reply_is_noscript(reply);
}

static bool read_all(redisReader *reader, size_t count)
{
    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK)
            return false;
        if (!reply)
            return true;
        look_at(reply, count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t count = data[0] % 4, cut = data[0] / 4 % size;
    const char *bytes = (const char *)data + 1;
    size--;
    if (cut > size)
        cut = size;
    redisReader *reader = redisReaderCreate();
    sg_reply_use_arena(reader, &arena);
    if (redisReaderFeed(reader, bytes, cut) == REDIS_OK && read_all(reader, count) &&
        redisReaderFeed(reader, bytes + cut, size - cut) == REDIS_OK)
        (void)read_all(reader, count);
    redisReaderFree(reader);
    return 0;
}
