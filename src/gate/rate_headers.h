/* rate_headers.h - RateLimit fields of a response, in every dialect. The one place that writes them. */
#ifndef SG_GATE_RATE_HEADERS_H
#define SG_GATE_RATE_HEADERS_H

#include "gate/limit.h"
#include "http/field.h"

typedef enum { SG_DIALECT_DRAFT, SG_DIALECT_LEGACY, SG_DIALECT_BOTH, SG_DIALECT_NONE } sg_dialect_t;

/* Append the fields for the enforced (neither dry-run nor unlimited) limits of a verdict: draft-ietf-
 * httpapi-ratelimit-headers-10 RateLimit-Policy and RateLimit; X-RateLimit-Limit, -Remaining, -Reset of the
 * tightest limit (least of it remaining; among equals the one that resets last). Nothing when there is no
 * such limit.
 *
 * * q = the limit, w = window or time to fill (left out below 1 s and for concurrency), r = remaining, t =
 * seconds until more is there (left out when nothing more will come, as with a full bucket). Times are
 * whole seconds, rounded up; X-RateLimit-Reset counts from now. All numbers have at most 15 digits.
 * limits[i] belongs to v->at[i]; names and values are constant or in the arena. */
void sg_rate_headers(sg_dialect_t dialect, const sg_limit_t *const *limits, const sg_verdict_t *v,
                     sg_arena_t *arena, sg_fields_t *out);
/* Is this a field that sg_rate_headers may write, in any dialect? Such fields of an upstream are replaced. */
bool sg_is_rate_header(sg_str_t name);

/* Retry-After in whole seconds: the maximum over the violated, enforced limits, rounded up, at least 1. 0
 * when no waiting helps (one of them is `never`) or none is violated, so no field is sent. */
int64_t sg_retry_after_s(const sg_limit_t *const *limits, const sg_verdict_t *v);

#endif
