#include "base/err.h"

#include <stdio.h>
#include <string.h>

void sg_why_set(sg_why_t *why, const char *fmt, ...)
{
    if (!why)
        return;
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(why->text, sizeof why->text, fmt, ap) < 0)
        why->text[0] = '\0';
    va_end(ap);
}

const char *sg_err_name(sg_err_t err)
{
    switch (err) {
    case SG_OK: return "ok";
    case SG_ERR_AGAIN: return "again";
    case SG_ERR_EOF: return "eof";
    case SG_ERR_RESET: return "reset";
    case SG_ERR_TIMEOUT: return "timeout";
    case SG_ERR_FULL: return "full";
    case SG_ERR_SYNTAX: return "syntax";
    case SG_ERR_RANGE: return "range";
    case SG_ERR_NOT_FOUND: return "not_found";
    case SG_ERR_EXISTS: return "exists";
    case SG_ERR_IO: return "io";
    case SG_ERR_RESOLVE: return "resolve";
    case SG_ERR_CONNECT: return "connect";
    case SG_ERR_TLS: return "tls";
    case SG_ERR_UNSUPPORTED: return "unsupported";
    case SG_ERR_CANCELLED: return "cancelled";
    }
    return "unknown";
}

const char *sg_errno_text(int errnum)
{
    const char *text = strerrordesc_np(errnum);
    return text ? text : "unknown error";
}
