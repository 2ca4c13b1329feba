/* script.c - see script.h; the protocol is at the top of lua/head.lua. */
#include "store/script.h"

#include "base/random.h"

/* Numbers of the algorithms in ARGV. */
static const int numbers[SG_ALGO_COUNT] = {
    [SG_ALGO_TOKEN_BUCKET] = 1,   [SG_ALGO_GCRA] = 2,        [SG_ALGO_FIXED_WINDOW] = 3,
    [SG_ALGO_SLIDING_WINDOW] = 4, [SG_ALGO_SLIDING_LOG] = 5, [SG_ALGO_CONCURRENCY] = 6,
};

static void add(sg_script_call_t *c, const char *p, size_t n)
{
    c->argv[c->argc] = p;
    c->len[c->argc++] = n;
}

/* What was just written at the end of `text` becomes an argument. */
static void add_text(sg_script_call_t *c, size_t n)
{
    add(c, c->text + c->text_used, n);
    c->text_used += n;
}

/* Write v in decimal at `at`; returns how long it is. */
static size_t put_number(char *at, int64_t v)
{
    char digits[24], *end = digits + sizeof(digits), *p = end;
    uint64_t left = v < 0 ? (uint64_t)-v : (uint64_t)v;

    do {
        *--p = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (v < 0)
        *--p = '-';
    memcpy(at, p, (size_t)(end - p));
    return (size_t)(end - p);
}

static void add_number(sg_script_call_t *c, int64_t v)
{
    add_text(c, put_number(c->text + c->text_used, v));
}

/* The numbers of a refill as the script stores them. */
static void add_rule(sg_script_call_t *c, const sg_limit_t *l)
{
    char *begin = c->text + c->text_used, *at = begin;

    if (l->algo != SG_ALGO_GCRA) {
        at += put_number(at, l->limit);
        *at++ = '/';
    }
    at += put_number(at, l->rate_count);
    *at++ = '/';
    at += put_number(at, l->rate_us);
    add_text(c, (size_t)(at - begin));
}

static void add_group(sg_script_call_t *c, const sg_limit_t *l, int64_t bucket, int64_t ttl_ms)
{
    add_number(c, l->dry_run ? -numbers[l->algo] : numbers[l->algo]);
    add_number(c, l->limit);
    switch (l->algo) {
    case SG_ALGO_TOKEN_BUCKET:
    case SG_ALGO_GCRA:
        add_number(c, l->rate_count);
        add_number(c, l->rate_us);
        add_rule(c, l);
        break;
    case SG_ALGO_FIXED_WINDOW:
        add_number(c, l->window_us);
        add_number(c, bucket);
        break;
    case SG_ALGO_SLIDING_WINDOW:
        add_number(c, (l->window_us + l->precision - 1) / l->precision);
        add_number(c, l->precision);
        break;
    case SG_ALGO_SLIDING_LOG: add_number(c, l->window_us); break;
    case SG_ALGO_CONCURRENCY: add_number(c, l->lease_us); break;
    case SG_ALGO_COUNT: break;
    }
    add_number(c, ttl_ms);
}

/* Without a name of its own a request gets one, so that the units of two requests never fall together. */
static void add_lease(sg_script_call_t *c, const char *lease)
{
    if (lease) {
        add(c, lease, strlen(lease));
    } else {
        sg_random_id(c->text + c->text_used);
        add_text(c, SG_RANDOM_ID_BYTES - 1);
    }
}

/* The script finds the end of a fixed window itself: at time 0 a window is still whole. */
static int64_t ttl_ms(const sg_limit_t *l, sg_str_t key)
{
    int64_t us = sg_limit_ttl_us(l, key, 0);

    return (l->algo == SG_ALGO_FIXED_WINDOW ? us - l->window_us : us) / 1000;
}

void sg_script_args(const sg_check_t *check, int64_t predicted_now_us, sg_script_call_t *out)
{
    int64_t bucket[SG_LIMITS_MAX];
    sg_str_t key[SG_LIMITS_MAX];

    out->argc = 2;
    out->text_used = 0;
    add_number(out, (int64_t)check->count);
    for (size_t i = 0; i < check->count; i++) {
        char *room = out->text + out->text_used;
        key[i] = sg_limit_key(&check->scope, check->limits[i], predicted_now_us, room, &bucket[i]);
        add_text(out, key[i].n);
    }
    add_number(out, check->cost);
    add_lease(out, check->lease);
    for (size_t i = 0; i < check->count; i++)
        add_group(out, check->limits[i], bucket[i], ttl_ms(check->limits[i], key[i]));
}

void sg_script_settle_args(const sg_check_t *check, const sg_settlement_t *what, int64_t predicted_now_us,
                           sg_script_call_t *out)
{
    int64_t bucket[SG_LIMITS_MAX];
    sg_str_t key[SG_LIMITS_MAX];

    out->argc = 2;
    out->text_used = 0;
    add_number(out, (int64_t)check->count);
    for (size_t i = 0; i < check->count; i++) {
        char *room = out->text + out->text_used;
        int64_t at_us = sg_limit_settle_at_us(&what[i], predicted_now_us);
        key[i] = sg_limit_key(&check->scope, check->limits[i], at_us, room, &bucket[i]);
        add_text(out, key[i].n);
    }
    add(out, "settle", 6);
    add_lease(out, check->lease);
    add_number(out, what->reserve);
    add_number(out, what->delta);
    add_number(out, what->decided_us);
    for (size_t i = 0; i < check->count; i++) {
        add_group(out, check->limits[i], bucket[i], ttl_ms(check->limits[i], key[i]));
        add_number(out, what[i].level);
        add_number(out, what[i].given);
    }
}

static bool read_limit(const int64_t *from, sg_limit_result_t *out)
{
    if (from[0] < 0 || from[0] > 2)
        return false;
    for (size_t i = 1; i < 5; i++)
        if (from[i] < 0 || from[i] > SG_LIMIT_NUMBER_MAX)
            return false;
    *out = (sg_limit_result_t){
        .allowed = from[0] == 1,
        .never = from[0] == 2,
        .remaining = from[1],
        .reset_us = from[2] * 1000,
        .retry_us = from[0] == 1 ? 0 : from[3] * 1000,
        .given = from[0] == 1 ? from[3] : 0,
        .more_us = from[4] * 1000,
    };
    return true;
}

sg_script_reply_t sg_script_decode(const sg_check_t *check, const int64_t *reply, size_t count,
                                   sg_verdict_t *out)
{
    if (count < 2 || reply[0] < 0 || reply[0] > SG_LIMIT_NUMBER_MAX)
        return SG_SCRIPT_BAD;
    out->now_us = reply[0];
    out->count = 0;
    out->allowed = false;
    if (count == 2 && reply[1] == 2)
        return SG_SCRIPT_WRONG_BUCKET;
    if (count != 2 + 5 * check->count || reply[1] < 0 || reply[1] > 1)
        return SG_SCRIPT_BAD;
    for (size_t i = 0; i < check->count; i++)
        if (!read_limit(reply + 2 + 5 * i, &out->at[i]))
            return SG_SCRIPT_BAD;
    out->allowed = reply[1] == 1;
    out->count = check->count;
    return SG_SCRIPT_OK;
}

sg_script_reply_t sg_script_decode_settled(const int64_t *reply, size_t count, int64_t *now_us)
{
    if (count != 2 || reply[0] < 0 || reply[0] > SG_LIMIT_NUMBER_MAX || reply[1] < 1 || reply[1] > 2)
        return SG_SCRIPT_BAD;
    *now_us = reply[0];
    return reply[1] == 1 ? SG_SCRIPT_OK : SG_SCRIPT_WRONG_BUCKET;
}

bool sg_script_release(const sg_check_t *check, size_t i, sg_script_call_t *out)
{
    sg_str_t key;
    int64_t bucket;

    if (check->limits[i]->algo != SG_ALGO_CONCURRENCY || !check->lease)
        return false;
    out->argc = 0;
    out->text_used = 0;
    add(out, "ZREM", 4);
    key = sg_limit_key(&check->scope, check->limits[i], 0, out->text, &bucket);
    add_text(out, key.n);
    add(out, check->lease, strlen(check->lease));
    return true;
}
