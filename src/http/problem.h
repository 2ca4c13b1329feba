/* problem.h - problem details for errors. RFC 9457. */
#ifndef SG_HTTP_PROBLEM_H
#define SG_HTTP_PROBLEM_H

#include "base/buf.h"

#define SG_PROBLEM_QUOTA "https://iana.org/assignments/http-problem-types#quota-exceeded"
#define SG_PROBLEM_CAPACITY "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

typedef struct {
    const char *type;           /* NULL: about:blank */
    unsigned status;
    const char *title;          /* NULL: the status' reason phrase */
    const char *detail;         /* NULL: left out; constant, safe text */
    const char *instance;       /* request id, as urn:uuid: when it is 32 hex digits; NULL: left out */
    const sg_str_t *violated;   /* names of violated limits -> "violated-policies" */
    size_t violated_count;
} sg_problem_t;

void sg_problem_write(sg_buf_t *out, const sg_problem_t *p);
/* RFC 9110 section 15; "Unknown" for a code without a phrase. */
const char *sg_status_phrase(unsigned status);

#endif
