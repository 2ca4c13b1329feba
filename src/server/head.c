/* head.c - is this exactly HTTP/1.1? The checks that libmicrohttpd leaves to the application. */
#include "server/head.h"
#include "server/server_internal.h"

static enum MHD_Result collect(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_len,
                               const char *value, size_t value_len)
{
    sg_request_t *rq = cls;
    (void)kind;
    sg_str_t v = value ? sg_str_trim(sg_str_n(value, value_len)) : SG_STR("");
    sg_fields_add(&rq->fields, rq->arena, sg_arena_str(rq->arena, sg_str_n(name, name_len)),
                  sg_arena_str(rq->arena, v));
    return MHD_YES;
}

static bool is_version(const char *version)
{
    return strlen(version) == 8 && strncmp(version, "HTTP/1.", 7) == 0 && sg_ascii_digit(version[7]);
}

/* The library's memory for a head is larger than what the config allows, so that its own structures fit. Very
 * many small fields fill it all the same: refused here, for later there would be no room for an answer. */
static const sg_refusal_t *check_size(const sg_client_t *client, const sg_request_t *rq)
{
    enum { ANSWER_BYTES = 6 * 1024 };
    size_t max = (size_t)client->server->config->server.max_header_bytes;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(client->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const sg_refusal_t *why = sg_head_check_size(max, client->target_len, info ? info->header_size : 0);
    if (!why && sg_request_answer_room(rq) < ANSWER_BYTES)
        why = sg_refusal(SG_REFUSE_HEADER_TOO_LARGE);
    return why;
}

/* libmicrohttpd 0.9 does not take "chunked " for chunked, and would read the body until the connection
 * closes. */
static bool library_sees_chunked(const sg_client_t *client)
{
    const char *raw = MHD_lookup_connection_value(client->mhd, MHD_HEADER_KIND, "Transfer-Encoding");
    return SG_MHD_STRICT || (raw && sg_str_ieq(sg_str(raw), SG_STR("chunked")));
}

static const sg_refusal_t *check_all(sg_client_t *client, const char *method, const char *version,
                                     sg_request_t *rq)
{
    const sg_refusal_t *why =
        sg_tls_client_is_trusted(client) ? check_size(client, rq) : sg_refusal(SG_REFUSE_CERTIFICATE);
    if (!why)
        why = sg_head_check_method(rq->method);
    if (!why && !is_version(version))
        why = sg_refusal(SG_REFUSE_BAD_VERSION);
    if (!why && sg_layout_check(client, method, version))
        why = sg_refusal(SG_REFUSE_BAD_LAYOUT);
    if (!why)
        why = sg_head_check_fields(rq);
    if (!why && rq->upload == SG_UPLOAD_CHUNKED && !library_sees_chunked(client))
        why = sg_refusal(SG_REFUSE_BAD_FRAMING);
    return why;
}

void sg_head_read(sg_client_t *client, const char *method, const char *version, sg_request_t *rq)
{
    rq->method = sg_arena_str(rq->arena, sg_str(method));
    rq->target = sg_arena_str(rq->arena, sg_buf_str(&client->target));
    rq->version_minor = strcmp(version, "HTTP/1.0") == 0 ? 0 : 1;
    rq->peer = client->peer;
    rq->peer_is_unix = client->peer_is_unix;
    (void)MHD_get_connection_values_n(client->mhd, MHD_HEADER_KIND, collect, rq);
    rq->refusal = check_all(client, method, version, rq);
}
