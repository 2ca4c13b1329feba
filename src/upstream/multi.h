/* multi.h - libcurl's multi interface driven by the loop. Private to upstream/. */
#ifndef SG_UPSTREAM_MULTI_H
#define SG_UPSTREAM_MULTI_H

#include <curl/curl.h>

#include "event/loop.h"

typedef struct sg_multi sg_multi_t;

/* A transfer ended; `owner` is the easy handle's CURLOPT_PRIVATE. Called from the loop with no libcurl
 * function on the stack; may add and remove handles, also its own. */
typedef void sg_multi_done_fn(void *owner, CURLcode result);

sg_multi_t *sg_multi_new(sg_loop_t *loop, sg_multi_done_fn *done);
/* All handles must have been removed. Memory goes at the end of the turn: safe inside `done`. */
void sg_multi_free(sg_multi_t *m);
/* The transfer starts later in this turn. False: libcurl refused it. */
SG_MUST bool sg_multi_add(sg_multi_t *m, CURL *easy);
void sg_multi_remove(sg_multi_t *m, CURL *easy);

#endif
