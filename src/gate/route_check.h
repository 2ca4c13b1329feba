/* route_check.h - is a route's match, rewrite and prefix one that can work? Private to gate/. */
#ifndef SG_GATE_ROUTE_CHECK_H
#define SG_GATE_ROUTE_CHECK_H

#include "gate/pattern.h"
#include "gate/route.h"

/* Fills the parsed pattern. SG_ERR_SYNTAX with a sentence. */
SG_MUST sg_err_t sg_route_check(sg_arena_t *arena, const sg_route_t *route, sg_pattern_t *out, sg_why_t *why);

#endif
