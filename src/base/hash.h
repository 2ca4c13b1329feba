/* hash.h - digests for identities, a keyed hash for tables, comparison in constant time. */
#ifndef SG_BASE_HASH_H
#define SG_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define SG_SHA256_BYTES 32
#define SG_SHA256_HEX 64

/* FIPS 180-4. */
void sg_sha256(sg_str_t in, uint8_t out[SG_SHA256_BYTES]);
/* FIPS 180-4 as well; for names only (Redis knows a script by its SHA-1), never where somebody may
 * want a collision. */
#define SG_SHA1_BYTES 20
void sg_sha1(sg_str_t in, uint8_t out[SG_SHA1_BYTES]);
/* HMAC-SHA-256, RFC 2104. */
void sg_hmac_sha256(sg_str_t secret, sg_str_t in, uint8_t out[SG_SHA256_BYTES]);

void sg_hex(const uint8_t *in, size_t n, char *out);    /* 2n lower-case digits, no NUL */
SG_MUST sg_err_t sg_unhex(sg_str_t in, uint8_t *out, size_t n);     /* exactly 2n digits, any case */

/* What stands in key names: base64url (RFC 4648 section 5) of SHA-256, or of HMAC-SHA-256 when
 * `secret` is not empty; the first 22 characters (132 bits) and a NUL. */
#define SG_TAG_CHARS 22
typedef struct {
    char text[SG_TAG_CHARS + 1];
} sg_tag_t;
void sg_tag(sg_str_t secret, sg_str_t in, sg_tag_t *out);

bool sg_ct_equal(const void *a, const void *b, size_t n);

/* SipHash-2-4 (Aumasson and Bernstein, 2012) under a key made at process start: for tables whose
 * keys a client chooses. Any thread. */
uint64_t sg_siphash(sg_str_t in);
/* The same under a given 16-byte key (test vectors). */
uint64_t sg_siphash_keyed(sg_str_t in, const uint8_t key[16]);
/* FNV-1a, 64 bit: a fixed value for the same bytes in every process (jitter, consistent hashing). */
uint64_t sg_fnv1a(sg_str_t in);

#endif
