/* place.h - "host:port" texts: of the config's nodes, of MOVED, of a sentinel. */
#ifndef SG_STORE_PLACE_H
#define SG_STORE_PLACE_H

#include "config/config.h"

/* "10.0.0.1:6379", "[::1]:6379" or "::1:6379" (as MOVED writes it): the port stands after the last
 * colon. The host may be empty; it is a view of `text`. */
bool sg_place_split(sg_str_t text, sg_str_t *host, unsigned *port);

/* The same store.nodes, in the same order. */
bool sg_place_same_nodes(const sg_store_conf_t *a, const sg_store_conf_t *b);

/* The same server or servers, user and database. */
bool sg_place_same_server(const sg_store_conf_t *a, const sg_store_conf_t *b);

#endif
