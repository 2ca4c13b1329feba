/* layout.c - find, after libmicrohttpd parsed a request head, the raw anomalies that its API hides: folded
 * lines, NUL, bare LF, dropped empty names, extra spaces in the request line.
 *
 * libmicrohttpd 0.9.x leaves method, target, version, names and values as pointers into one contiguous
 * receive buffer, so the gaps between them give the raw layout back. Only differences of pointers are used,
 * and no byte outside a gap is read. A library that lays things out in another way fails closed: every
 * request is refused. */
#include "server/server_internal.h"

#if SG_MHD_STRICT

const char *sg_layout_check(const sg_client_t *client, const char *method, const char *version)
{
    (void)client;
    (void)method;
    (void)version;
    return NULL; /* the library refuses these itself */
}

#else

typedef struct {
    uintptr_t end; /* of the previous token */
    const char *why;
} walk_t;

/* Between the colon and the value there may be blanks and nothing else. */
static bool only_blanks(const char *from, const char *to)
{
    for (; from < to; from++)
        if (*from != ' ' && *from != '\t')
            return false;
    return true;
}

static enum MHD_Result check_field(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                   const char *value, size_t value_len)
{
    walk_t *w = cls;
    uintptr_t at = (uintptr_t)name, colon = at + name_len, val = (uintptr_t)value;
    (void)kind;
    if (at != w->end + 2) /* exactly CR LF since the previous token */
        w->why = "line_end";
    else if (!value || val < colon + 1)
        w->why = "folded_line";
    else if (!only_blanks(name + name_len + 1, value))
        w->why = "value_gap";
    else if (memchr(value, '\0', value_len))
        w->why = "nul";
    w->end = val + value_len;
    return w->why ? MHD_NO : MHD_YES;
}

const char *sg_layout_check(const sg_client_t *client, const char *method, const char *version)
{
    if (!client->target_at)
        return "no_target";
    if ((uintptr_t)client->target_at != (uintptr_t)method + strlen(method) + 1)
        return "request_line";
    if ((uintptr_t)version != (uintptr_t)client->target_at + client->target_len + 1)
        return "request_line";
    if (strlen(version) != 8)
        return "version";
    walk_t w = {.end = (uintptr_t)version + 8};
    (void)MHD_get_connection_values_n(client->mhd, MHD_HEADER_KIND, check_field, &w);
    if (w.why)
        return w.why;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(client->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!info)
        return "no_size";
    /* CR LF CR LF ends the head */
    return (uintptr_t)method + info->header_size == w.end + 4 ? NULL : "head_end";
}

#endif
