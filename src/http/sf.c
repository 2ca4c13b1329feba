/* sf.c - structured field values. */
#include "http/sf.h"

void sg_sf_string(sg_buf_t *out, sg_str_t s)
{
    size_t plain = 0; /* first byte that is not written yet */
    sg_buf_char(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool printable = c >= 0x20 && c <= 0x7e;
        if (printable && c != '"' && c != '\\')
            continue;
        sg_buf_add(out, s.p + plain, i - plain);
        if (printable)
            sg_buf_char(out, '\\');
        sg_buf_char(out, printable ? c : '?');
        plain = i + 1;
    }
    sg_buf_add(out, s.p + plain, s.n - plain);
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
