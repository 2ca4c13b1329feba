/* err.h - the errors that functions return, and a sentence for people.
 *
 * On the request path an enum is enough. Start-up, config and admin code
 * also fills an sg_why_t, which says what failed, where, and what was expected. */
#ifndef SG_BASE_ERR_H
#define SG_BASE_ERR_H

#include <stdarg.h>

typedef enum {
    SG_OK = 0,
    SG_ERR_AGAIN,       /* nothing can be done now; wait for readiness */
    SG_ERR_EOF,         /* the peer ended its stream in an orderly way */
    SG_ERR_RESET,       /* the connection died */
    SG_ERR_TIMEOUT,     /* a deadline passed */
    SG_ERR_FULL,        /* a cap was reached */
    SG_ERR_SYNTAX,      /* input does not have the form it must have */
    SG_ERR_RANGE,       /* a number is out of its range */
    SG_ERR_NOT_FOUND,
    SG_ERR_EXISTS,
    SG_ERR_IO,          /* the operating system said no; errno tells */
    SG_ERR_RESOLVE,     /* a name has no address */
    SG_ERR_CONNECT,     /* nobody accepted the connection */
    SG_ERR_TLS,
    SG_ERR_UNSUPPORTED, /* this build or library cannot do it */
    SG_ERR_CANCELLED,
} sg_err_t;

/* A result that must be looked at. */
#define SG_MUST __attribute__((warn_unused_result))
#define SG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* A sentence for people. Always NUL-terminated; longer text is cut. */
typedef struct {
    char text[512];
} sg_why_t;

/* Write the sentence; `why` may be NULL. */
void sg_why_set(sg_why_t *why, const char *fmt, ...) SG_PRINTF(2, 3);

/* A constant, lower-case name of an error: "timeout". */
const char *sg_err_name(sg_err_t err);

/* strerror without its shared buffer; the text is constant. */
const char *sg_errno_text(int errnum);

#endif
