/* refusal.h - why a request is refused before or instead of being forwarded: one table for status, problem,
 * log word and metric label. */
#ifndef SG_SERVER_REFUSAL_H
#define SG_SERVER_REFUSAL_H

#include <stdbool.h>

#include "http/target.h"

#define SG_METHOD_BYTES_MAX 32u

typedef struct {
    const char *word; /* log word and metric label */
    unsigned status;
    const char *detail; /* safe text for the client */
    bool close;         /* the connection cannot be trusted any more */
    bool malformed;     /* counts in slotgate_refused_requests_total */
} sg_refusal_t;

typedef enum {
    SG_REFUSE_BAD_METHOD,
    SG_REFUSE_METHOD_NOT_SUPPORTED,
    SG_REFUSE_BAD_VERSION,
    SG_REFUSE_BAD_TARGET,
    SG_REFUSE_DOT_SEGMENT,
    SG_REFUSE_NUL,
    SG_REFUSE_BAD_PERCENT,
    SG_REFUSE_ODD_PATH,
    SG_REFUSE_BAD_HOST,
    SG_REFUSE_BAD_FIELD,
    SG_REFUSE_BAD_FRAMING,
    SG_REFUSE_BAD_CODING,
    SG_REFUSE_BAD_LAYOUT,
    SG_REFUSE_BAD_EXPECT,
    SG_REFUSE_TARGET_TOO_LONG,
    SG_REFUSE_HEADER_TOO_LARGE,
    SG_REFUSE_CERTIFICATE,
    SG_REFUSE_BODY_TOO_LARGE,
    SG_REFUSE_AMBIGUOUS_KEY,
    SG_REFUSE_NO_ROUTE,
    SG_REFUSE_METHOD_NOT_ALLOWED,
    SG_REFUSE_NO_KEY,
    SG_REFUSE_BAD_KEY,
    SG_REFUSE_TOO_MANY_BAD_KEYS,
    SG_REFUSE_LIMITED,
    SG_REFUSE_STORE_AWAY,
    SG_REFUSE_UPSTREAM_CONNECT,
    SG_REFUSE_UPSTREAM_TIMEOUT,
    SG_REFUSE_UPSTREAM_RESET,
    SG_REFUSE_UPSTREAM_PROTOCOL,
    SG_REFUSE_UPSTREAM_BUSY,
    SG_REFUSE_BODY_TIMEOUT,
    SG_REFUSE_COUNT
} sg_refuse_t;

const sg_refusal_t *sg_refusal(sg_refuse_t why);

/* What a target that cannot be read is refused for; not for SG_TARGET_OK. */
sg_refuse_t sg_refusal_of_target(sg_target_err_t err);

#endif
