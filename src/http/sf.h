/* sf.h - structured field values, serialising only. RFC 9651. */
#ifndef SG_HTTP_SF_H
#define SG_HTTP_SF_H

#include "base/buf.h"

#define SG_SF_INTEGER_MAX INT64_C(999999999999999)     /* 15 digits, RFC 9651 section 3.3.1 */

void sg_sf_string(sg_buf_t *out, sg_str_t s);           /* quoted; bytes outside 0x20..0x7e become '?' */
void sg_sf_param_int(sg_buf_t *out, const char *key, int64_t v);    /* ;key=v, capped to 15 digits */

#endif
