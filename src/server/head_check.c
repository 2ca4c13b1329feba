/* head_check.c - the checks of a head that ask for nothing but what it says: for the gateway, and for whoever
 * foretells what the gateway will do. */
#include "server/head.h"

const sg_refusal_t *sg_head_check_size(size_t max, size_t target, size_t head)
{
    if (target > max)
        return sg_refusal(SG_REFUSE_TARGET_TOO_LONG);
    return head > max ? sg_refusal(SG_REFUSE_HEADER_TOO_LARGE) : NULL;
}

const sg_refusal_t *sg_head_check_method(sg_str_t method)
{
    if (method.n > SG_METHOD_BYTES_MAX || !sg_is_token(method))
        return sg_refusal(SG_REFUSE_BAD_METHOD);
    if (sg_str_eq(method, SG_STR("CONNECT")) || sg_str_eq(method, SG_STR("TRACE")))
        return sg_refusal(SG_REFUSE_METHOD_NOT_SUPPORTED);
    return NULL;
}

static const sg_refusal_t *check_fields(const sg_request_t *rq)
{
    SG_FIELDS_EACH(f, &rq->fields)
    if (!sg_is_token(f->name) || !sg_is_field_value(f->value))
        return sg_refusal(SG_REFUSE_BAD_FIELD);
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

static const sg_refusal_t *check_coding(sg_request_t *rq, const sg_field_t *te, size_t lengths)
{
    if (lengths || rq->version_minor == 0 || sg_fields_count(&rq->fields, SG_STR("Transfer-Encoding")) != 1)
        return sg_refusal(SG_REFUSE_BAD_FRAMING);
    if (!sg_str_ieq(te->value, SG_STR("chunked")))
        return sg_refusal(sg_is_token(te->value) ? SG_REFUSE_BAD_CODING : SG_REFUSE_BAD_FRAMING);
    rq->upload = SG_UPLOAD_CHUNKED;
    return NULL;
}

/* RFC 9112 section 6.3: one way only to say how long the body is. */
static const sg_refusal_t *check_framing(sg_request_t *rq)
{
    size_t lengths = sg_fields_count(&rq->fields, SG_STR("Content-Length"));
    const sg_field_t *te = sg_fields_get(&rq->fields, SG_STR("Transfer-Encoding"));
    if (te)
        return check_coding(rq, te, lengths);
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

const sg_refusal_t *sg_head_check_fields(sg_request_t *rq)
{
    const sg_refusal_t *why = check_fields(rq);
    if (!why)
        why = check_host(rq);
    if (!why)
        why = check_framing(rq);
    return why ? why : check_expect(rq);
}
