/* field.h - header fields: names, values, lists. RFC 9110 section 5. */
#ifndef SG_HTTP_FIELD_H
#define SG_HTTP_FIELD_H

#include "base/mem.h"
#include "base/str.h"

typedef struct {
    sg_str_t name, value;       /* as received; value without surrounding OWS */
} sg_field_t;

/* In the order received, duplicates kept. Views into memory of the owner's arena. */
typedef struct {
    sg_field_t *at;
    size_t count, size;
} sg_fields_t;

#define SG_FIELDS_EACH(f, fields)                                                                  \
    for (sg_field_t *f = (fields)->at, *f##_end = (fields)->count ? f + (fields)->count : f;       \
         f != f##_end; f++)

/* Grows in the arena; zeroed memory is an empty list. */
void sg_fields_add(sg_fields_t *fs, sg_arena_t *arena, sg_str_t name, sg_str_t value);
/* First field of that name (any case), NULL when absent. */
const sg_field_t *sg_fields_get(const sg_fields_t *fs, sg_str_t name);
size_t sg_fields_count(const sg_fields_t *fs, sg_str_t name);
/* All of that name go; order of the rest stays. */
void sg_fields_remove(sg_fields_t *fs, sg_str_t name);

bool sg_is_token(sg_str_t s);               /* RFC 9110 section 5.6.2, not empty */
bool sg_is_token_char(char c);
/* No NUL, CR, LF or other control byte but HTAB; 8-bit bytes are fine (obs-text, section 5.5). */
bool sg_is_field_value(sg_str_t s);

/* Next member of a comma-separated list (RFC 9110 section 5.6.1; empty members skipped, quoted strings
 * kept whole, OWS trimmed). False at the end. */
bool sg_list_next(sg_str_t *rest, sg_str_t *member);
/* Is `token` a member of any field of that name, in any case? */
bool sg_fields_has_token(const sg_fields_t *fs, sg_str_t name, sg_str_t token);

/* Hop-by-hop fields of RFC 9110 section 7.6.1 and their old friends: Connection, Keep-Alive,
 * Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade, HTTP2-Settings, Proxy-Authenticate,
 * Proxy-Authorization. */
bool sg_field_is_hop_by_hop(sg_str_t name);
/* Remove the hop-by-hop fields and all that Connection names, but never Host, Content-Length or a field of
 * `keep` (NULL-terminated; may be NULL). Content-Length is left for the caller's framing. */
void sg_fields_strip_hops(sg_fields_t *fs, const char *const *keep);
/* Equal when `_` counts as `-`, in any case, but not equal as they stand: "X_Tenant" for "X-Tenant". */
bool sg_field_is_underscore_twin(sg_str_t name, sg_str_t own);

#endif
