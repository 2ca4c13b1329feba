/* key_table.c - API keys by digest: open addressing. A digest is evenly spread as it is, so its first
 * bytes are the place. */
#include "base/mem.h"
#include "gate/identity.h"

struct sg_key_table {
    const sg_api_key_t **slots;
    size_t size, count;         /* size is a power of two; at most half of it is used */
};

static size_t size_for(size_t count)
{
    size_t size = 16;
    while (size < 2 * count)
        size *= 2;
    return size;
}

sg_key_table_t *sg_key_table_new(size_t expected)
{
    sg_key_table_t *t = SG_NEW(sg_key_table_t);
    t->size = size_for(expected);
    t->slots = sg_calloc(t->size, sizeof(*t->slots));
    return t;
}

void sg_key_table_free(sg_key_table_t *t)
{
    if (!t)
        return;
    sg_free(t->slots);
    sg_free(t);
}

/* The slot of this digest, or the free one where it would go. */
static const sg_api_key_t **slot_for(const sg_key_table_t *t, const uint8_t digest[SG_SHA256_BYTES])
{
    uint64_t start;
    memcpy(&start, digest, sizeof start);
    size_t i = (size_t)start & (t->size - 1);
    while (t->slots[i] && !sg_ct_equal(t->slots[i]->digest, digest, SG_SHA256_BYTES))
        i = (i + 1) & (t->size - 1);
    return &t->slots[i];
}

static void grow(sg_key_table_t *t)
{
    sg_key_table_t wider = {.size = 2 * t->size, .count = t->count};
    wider.slots = sg_calloc(wider.size, sizeof(*wider.slots));
    for (size_t i = 0; i < t->size; i++) {
        if (t->slots[i])
            *slot_for(&wider, t->slots[i]->digest) = t->slots[i];
    }
    sg_free(t->slots);
    *t = wider;
}

sg_err_t sg_key_table_add(sg_key_table_t *t, const sg_api_key_t *key, const sg_api_key_t **other)
{
    if (2 * (t->count + 1) > t->size)
        grow(t);
    const sg_api_key_t **slot = slot_for(t, key->digest);
    if (*slot) {
        *other = *slot;
        return SG_ERR_EXISTS;
    }
    *slot = key;
    t->count++;
    return SG_OK;
}

const sg_api_key_t *sg_key_table_find(const sg_key_table_t *t, const uint8_t digest[SG_SHA256_BYTES])
{
    return *slot_for(t, digest);
}
