/* resp.h - commands in Redis' wire form (RESP2): an array of bulk strings. */
#ifndef SG_STORE_RESP_H
#define SG_STORE_RESP_H

#include "base/buf.h"

static inline void sg_resp_array(sg_buf_t *out, size_t count)
{
    sg_buf_char(out, '*');
    sg_buf_u64(out, count);
    sg_buf_add(out, "\r\n", 2);
}

static inline void sg_resp_bulk(sg_buf_t *out, sg_str_t s)
{
    sg_buf_char(out, '$');
    sg_buf_u64(out, s.n);
    sg_buf_add(out, "\r\n", 2);
    sg_buf_str_add(out, s);
    sg_buf_add(out, "\r\n", 2);
}

#endif
