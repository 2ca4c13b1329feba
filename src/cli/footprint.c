#include "cli/footprint.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

#define OBJECT      16 /* what a value that is no short string has in front */
#define DICT_ENTRY  24
#define SLOT_LINKS  16    /* cluster: an entry is also in the list of its slot */
#define EMBEDDED    44    /* longest string that lies in one piece with its object */
#define LISTPACK    7     /* an empty one */
#define SHARED_INTS 10000 /* integers below take nothing */
#define LEASE       32    /* length of a member, the request's id */
#define COMPACT_MAX 128   /* members of a sorted set that is a listpack */

/* jemalloc: multiples of 16 up to 128, then four classes to each power of two. */
static int64_t allocated(int64_t bytes)
{
    int64_t step = 16;
    if (bytes <= 8)
        return 8;
    while (bytes > step * 8)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

/* A string with its header and end. */
static int64_t string_bytes(int64_t n)
{
    return allocated(n + (n < 32 ? 2 : n < 256 ? 4 : 6));
}

/* --- listpacks ------------------------------------------------------------------------------------ */

static int64_t packed_text(int64_t n)
{
    return n < 64 ? n + 2 : n + 3;
}

static int64_t packed_number(int64_t v)
{
    static const struct {
        int bits, bytes;
    } form[] = {{7, 2}, {12, 3}, {15, 4}, {23, 5}, {31, 6}};
    for (size_t i = 0; i < sizeof form / sizeof form[0]; i++)
        if (v < INT64_C(1) << form[i].bits)
            return form[i].bytes;
    return 10;
}

static int64_t packed(int64_t content)
{
    return OBJECT + allocated(LISTPACK + content);
}

/* --- values --------------------------------------------------------------------------------------- */

static int64_t rule_chars(const sg_limit_t *l, bool with_limit)
{
    char text[80];
    int n = snprintf(text, sizeof text, "%" PRId64 "/%" PRId64, l->rate_count, l->rate_us);
    if (with_limit)
        n += snprintf(text, sizeof text, "%" PRId64 "/", l->limit);
    return n;
}

/* tokens, ts, rule; frac where the rate's units do not come at whole µs. */
static int64_t token_bucket(const sg_limit_t *l, int64_t units, int64_t now_us)
{
    int64_t left = units < l->limit ? l->limit - units : 0;
    int64_t content = packed_text(6) + packed_number(left) + packed_text(2) + packed_number(now_us) +
                      packed_text(4) + packed_text(rule_chars(l, true));
    if (l->rate_count > 1)
        content += packed_text(4) + packed_number(l->rate_count / 2);
    return packed(content);
}

static int64_t gcra(const sg_limit_t *l)
{
    int64_t chars = 16 + 1 + rule_chars(l, false);
    if (l->rate_count > 1)
        chars += 1 + rule_chars(l, false) / 4;
    return chars <= EMBEDDED ? allocated(OBJECT + chars + 4) : OBJECT + string_bytes(chars);
}

static int64_t sliding_window(const sg_limit_t *l, int64_t units, int64_t now_us)
{
    int64_t width = (l->window_us + l->precision - 1) / l->precision;
    int64_t fields = units < l->precision + 1 ? units : l->precision + 1;
    int64_t each = packed_number(now_us / width) + packed_number(units / fields);
    return packed(packed_text(1) + packed_number(width) + fields * each);
}

/* Few members are one listpack; many are a skip list (a node has 4/3 levels) and a table. */
static int64_t sorted_set(int64_t members, int64_t now_us)
{
    if (members <= COMPACT_MAX)
        return packed(members * (packed_text(LEASE) + packed_number(now_us)));
    int64_t node = allocated(24 + 16) + 16 / 3;
    return OBJECT + 16 + allocated(56) + 32 + allocated(24 + 32 * 16) +
           sg_footprint_table_bytes(members) / 2 +
           members * (node + string_bytes(LEASE) + allocated(DICT_ENTRY));
}

static int64_t value_bytes(const sg_limit_t *l, int64_t units, int64_t now_us)
{
    switch (l->algo) {
    case SG_ALGO_TOKEN_BUCKET: return token_bucket(l, units, now_us);
    case SG_ALGO_GCRA: return gcra(l);
    case SG_ALGO_FIXED_WINDOW: return units < SHARED_INTS ? 0 : OBJECT;
    case SG_ALGO_SLIDING_WINDOW: return sliding_window(l, units, now_us);
    case SG_ALGO_SLIDING_LOG:
    case SG_ALGO_CONCURRENCY: return sorted_set(units, now_us);
    case SG_ALGO_COUNT: break;
    }
    return 0;
}

/* --- keys ----------------------------------------------------------------------------------------- */

size_t sg_footprint_name_bytes(const sg_store_conf_t *conf, const sg_limit_t *l)
{
    static const char hash[] = "0123456789012345678901";
    const sg_key_scope_t scope = {conf->key_prefix, conf->key_version, hash, hash, hash};
    char room[SG_KEY_BYTES];
    int64_t bucket;
    return sg_limit_key(&scope, l, sg_clock_wall_us(), room, &bucket).n;
}

int64_t sg_footprint_key_bytes(const sg_store_conf_t *conf, const sg_limit_t *l, int64_t units)
{
    int64_t entry = allocated(DICT_ENTRY + (conf->mode == SG_REDIS_CLUSTER ? SLOT_LINKS : 0));
    return entry + allocated(DICT_ENTRY) + string_bytes((int64_t)sg_footprint_name_bytes(conf, l)) +
           value_bytes(l, units, sg_clock_wall_us());
}

/* One table of keys, one of expiries; each has the next power of two of places. */
int64_t sg_footprint_table_bytes(int64_t keys)
{
    int64_t places = 4;
    while (places < keys)
        places *= 2;
    return keys > 0 ? 2 * 8 * places : 0;
}
