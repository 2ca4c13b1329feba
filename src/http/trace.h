/* trace.h - W3C Trace Context: traceparent version 00. */
#ifndef SG_HTTP_TRACE_H
#define SG_HTTP_TRACE_H

#include "base/str.h"

typedef struct {
    char trace_id[33];      /* 32 lower-case hex digits and NUL */
    char span_id[17];       /* this gateway's span */
    char flags[3];
    bool continued;         /* the trace id came from the client */
} sg_trace_t;

/* A valid traceparent is continued with a new span id; an invalid or absent one (n == 0) starts a trace,
 * not sampled. */
void sg_trace_start(sg_str_t traceparent, sg_trace_t *out);
#define SG_TRACEPARENT_BYTES 56
void sg_trace_text(const sg_trace_t *t, char out[SG_TRACEPARENT_BYTES]);

#endif
