/* sf.c - structured field values. */
#include "http/sf.h"

void sg_sf_string(sg_buf_t *out, sg_str_t s)
{
    sg_buf_char(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '"' || c == '\\')
            sg_buf_char(out, '\\');
        sg_buf_char(out, c >= 0x20 && c <= 0x7e ? c : '?');
    }
    sg_buf_char(out, '"');
}

void sg_sf_param_int(sg_buf_t *out, const char *key, int64_t v)
{
    if (v > SG_SF_INTEGER_MAX)
        v = SG_SF_INTEGER_MAX;
    if (v < -SG_SF_INTEGER_MAX)
        v = -SG_SF_INTEGER_MAX;
    sg_buf_char(out, ';');
    sg_buf_z(out, key);
    sg_buf_char(out, '=');
    sg_buf_i64(out, v);
}
