#include "base/hash.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <pthread.h>

#include "base/random.h"

void sg_sha256(sg_str_t in, uint8_t out[SG_SHA256_BYTES])
{
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    sha256_update(&ctx, in.n, (const uint8_t *)in.p);
    sha256_digest(&ctx, SG_SHA256_BYTES, out);
}

void sg_sha1(sg_str_t in, uint8_t out[SG_SHA1_BYTES])
{
    struct sha1_ctx ctx;
    sha1_init(&ctx);
    sha1_update(&ctx, in.n, (const uint8_t *)in.p);
    sha1_digest(&ctx, SG_SHA1_BYTES, out);
}

void sg_hmac_sha256(sg_str_t secret, sg_str_t in, uint8_t out[SG_SHA256_BYTES])
{
    struct hmac_sha256_ctx ctx;
    hmac_sha256_set_key(&ctx, secret.n, (const uint8_t *)secret.p);
    hmac_sha256_update(&ctx, in.n, (const uint8_t *)in.p);
    hmac_sha256_digest(&ctx, SG_SHA256_BYTES, out);
}

void sg_hex(const uint8_t *in, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
}

sg_err_t sg_unhex(sg_str_t in, uint8_t *out, size_t n)
{
    if (in.n != 2 * n)
        return SG_ERR_SYNTAX;
    for (size_t i = 0; i < n; i++) {
        int hi = sg_hex_digit(in.p[2 * i]), lo = sg_hex_digit(in.p[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return SG_ERR_SYNTAX;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return SG_OK;
}

void sg_tag(sg_str_t secret, sg_str_t in, sg_tag_t *out)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t digest[SG_SHA256_BYTES];
    if (secret.n)
        sg_hmac_sha256(secret, in, digest);
    else
        sg_sha256(in, digest);
    for (unsigned i = 0; i < SG_TAG_CHARS; i++) {   /* 6 bits a character, most significant first */
        unsigned bit = i * 6, byte = bit / 8, shift = bit % 8;
        unsigned two = (unsigned)digest[byte] << 8 | digest[byte + 1];
        out->text[i] = alphabet[two >> (10 - shift) & 63];
    }
    out->text[SG_TAG_CHARS] = '\0';
}

bool sg_ct_equal(const void *a, const void *b, size_t n)
{
    return memeql_sec(a, b, n);
}

/* --- SipHash-2-4 ----------------------------------------------------------------------------------- */

static uint64_t rotl(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static uint64_t load64(const uint8_t *p)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static void sip_rounds(uint64_t v[4], unsigned n)
{
    while (n--) {
        v[0] += v[1];
        v[1] = rotl(v[1], 13) ^ v[0];
        v[0] = rotl(v[0], 32);
        v[2] += v[3];
        v[3] = rotl(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotl(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotl(v[1], 17) ^ v[2];
        v[2] = rotl(v[2], 32);
    }
}

uint64_t sg_siphash_keyed(sg_str_t in, const uint8_t key[16])
{
    uint64_t k0 = load64(key), k1 = load64(key + 8);
    uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                     k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    const uint8_t *p = (const uint8_t *)in.p;
    size_t whole = in.n & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t m = load64(p + i);
        v[3] ^= m;
        sip_rounds(v, 2);
        v[0] ^= m;
    }
    uint64_t last = (uint64_t)in.n << 56;
    for (size_t i = whole; i < in.n; i++)
        last |= (uint64_t)p[i] << (8 * (i - whole));
    v[3] ^= last;
    sip_rounds(v, 2);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint8_t process_key[16];
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void make_process_key(void)
{
    sg_random_bytes(process_key, sizeof process_key);
}

uint64_t sg_siphash(sg_str_t in)
{
    (void)pthread_once(&process_key_once, make_process_key);
    return sg_siphash_keyed(in, process_key);
}

uint64_t sg_fnv1a(sg_str_t in)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < in.n; i++) {
        h ^= (uint8_t)in.p[i];
        h *= UINT64_C(0x100000001b3);
    }
    return h;
}
