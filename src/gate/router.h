/* router.h - what the tests of the match tree look at. Private to gate/. */
#ifndef SG_GATE_ROUTER_H
#define SG_GATE_ROUTER_H

#include "gate/route.h"

/* sg_router_match, and how many nodes of the tree it looked at. Whatever the path, a node is looked at
 * once at most: the tree has one way to each. Literals are found by hash, so their number does not
 * count. */
void sg_router_match_counted(const sg_router_t *r, sg_str_t host, sg_method_t method,
                             const sg_target_t *target, sg_match_t *out, size_t *steps);

#endif
