/* head.c - is this exactly HTTP/1.1? The checks that libmicrohttpd leaves to the application. */
#include "server/server_internal.h"

#include "http/target.h"

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

static const sg_refusal_t *check_start(const sg_request_t *rq, const char *version)
{
    if (rq->method.n > SG_METHOD_BYTES_MAX || !sg_is_token(rq->method))
        return sg_refusal(SG_REFUSE_BAD_METHOD);
    if (sg_str_eq(rq->method, SG_STR("CONNECT")) || sg_str_eq(rq->method, SG_STR("TRACE")))
        return sg_refusal(SG_REFUSE_METHOD_NOT_SUPPORTED);
    if (strlen(version) != 8 || strncmp(version, "HTTP/1.", 7) != 0 || !sg_ascii_digit(version[7]))
        return sg_refusal(SG_REFUSE_BAD_VERSION);
    return NULL;
}

static const sg_refusal_t *check_fields(const sg_request_t *rq)
{
    SG_FIELDS_EACH(f, &rq->fields)
    if (!sg_is_token(f->name) || !sg_is_field_value(f->value))
        return sg_refusal(SG_REFUSE_BAD_FIELD);
    return NULL;
}

/* The library's memory for a head is larger than what the config allows, so that its own structures fit. Very
 * many small fields fill it all the same: refused here, for later there would be no room for an answer. */
static const sg_refusal_t *check_size(const sg_client_t *client, const sg_request_t *rq)
{
    enum { ANSWER_BYTES = 6 * 1024 };
    size_t max = (size_t)client->server->config->server.max_header_bytes;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(client->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (client->target_len > max)
        return sg_refusal(SG_REFUSE_TARGET_TOO_LONG);
    if ((info && info->header_size > max) || sg_request_answer_room(rq) < ANSWER_BYTES)
        return sg_refusal(SG_REFUSE_HEADER_TOO_LARGE);
    return NULL;
}

/* RFC 9112 section 3.2: one Host in HTTP/1.1, at most one in 1.0, and valid. */
static const sg_refusal_t *check_host(sg_request_t *rq)
{
    size_t n = sg_fields_count(&rq->fields, SG_STR("Host"));
    if (n == 0 && rq->version_minor == 0)
        return NULL;
    const sg_field_t *f = sg_fields_get(&rq->fields, SG_STR("Host"));
    sg_str_t host;
    unsigned port;
    if (n != 1 || sg_host_parse(rq->arena, f->value, &host, &port))
        return sg_refusal(SG_REFUSE_BAD_HOST);
    rq->host = f->value;
    return NULL;
}

/* libmicrohttpd 0.9 does not take "chunked " for chunked, and would read the body until the connection
 * closes. */
static bool library_sees_chunked(const sg_client_t *client)
{
    const char *raw = MHD_lookup_connection_value(client->mhd, MHD_HEADER_KIND, "Transfer-Encoding");
    return SG_MHD_STRICT || (raw && sg_str_ieq(sg_str(raw), SG_STR("chunked")));
}

static const sg_refusal_t *check_coding(const sg_client_t *client, sg_request_t *rq, const sg_field_t *te,
                                        size_t lengths)
{
    if (lengths || rq->version_minor == 0 || sg_fields_count(&rq->fields, SG_STR("Transfer-Encoding")) != 1)
        return sg_refusal(SG_REFUSE_BAD_FRAMING);
    if (!sg_str_ieq(te->value, SG_STR("chunked")))
        return sg_refusal(sg_is_token(te->value) ? SG_REFUSE_BAD_CODING : SG_REFUSE_BAD_FRAMING);
    if (!library_sees_chunked(client))
        return sg_refusal(SG_REFUSE_BAD_FRAMING);
    rq->upload = SG_UPLOAD_CHUNKED;
    return NULL;
}

/* RFC 9112 section 6.3: one way only to say how long the body is. */
static const sg_refusal_t *check_framing(const sg_client_t *client, sg_request_t *rq)
{
    size_t lengths = sg_fields_count(&rq->fields, SG_STR("Content-Length"));
    const sg_field_t *te = sg_fields_get(&rq->fields, SG_STR("Transfer-Encoding"));
    if (te)
        return check_coding(client, rq, te, lengths);
    if (lengths == 0)
        return NULL;
    const sg_field_t *cl = sg_fields_get(&rq->fields, SG_STR("Content-Length"));
    if (lengths != 1 || sg_str_u64(cl->value, INT64_MAX, &rq->upload_length))
        return sg_refusal(SG_REFUSE_BAD_FRAMING);
    rq->upload = SG_UPLOAD_LENGTH;
    return NULL;
}

static const sg_refusal_t *check_expect(sg_request_t *rq)
{
    const sg_field_t *f = sg_fields_get(&rq->fields, SG_STR("Expect"));
    if (!f || rq->version_minor == 0) /* RFC 9110 section 10.1.1: ignored in HTTP/1.0 */
        return NULL;
    if (!sg_str_ieq(f->value, SG_STR("100-continue")) || sg_fields_count(&rq->fields, SG_STR("Expect")) != 1)
        return sg_refusal(SG_REFUSE_BAD_EXPECT);
    rq->expects_continue = rq->upload != SG_UPLOAD_NONE;
    return NULL;
}

static const sg_refusal_t *check_all(sg_client_t *client, const char *method, const char *version,
                                     sg_request_t *rq)
{
    const sg_refusal_t *why =
        sg_tls_client_is_trusted(client) ? check_size(client, rq) : sg_refusal(SG_REFUSE_CERTIFICATE);
    if (!why)
        why = check_start(rq, version);
    if (!why && sg_layout_check(client, method, version))
        why = sg_refusal(SG_REFUSE_BAD_LAYOUT);
    if (!why)
        why = check_fields(rq);
    if (!why)
        why = check_host(rq);
    if (!why)
        why = check_framing(client, rq);
    return why ? why : check_expect(rq);
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
