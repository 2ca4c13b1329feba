/* response_head.c - the strict parser for response heads: nothing that two readers could read in two ways. */
#include "http/chars.h"
#include "http/framing.h"

#define VERSION_PREFIX "HTTP/1."

static sg_err_t refuse(const char **why, const char *word)
{
    *why = word;
    return SG_ERR_SYNTAX;
}

/* --- where the head ends ---------------------------------------------------------------------- */

static bool starts_like_http(sg_str_t in)
{
    const sg_str_t prefix = SG_STR(VERSION_PREFIX);
    size_t n = in.n < prefix.n ? in.n : prefix.n;
    return n == 0 || memcmp(in.p, prefix.p, n) == 0;
}

sg_err_t sg_response_head_find(sg_str_t in, size_t *seen, size_t *length, const char **why)
{
    if (!starts_like_http(in))
        return refuse(why, "version");
    size_t limit = in.n < SG_RESPONSE_HEAD_MAX ? in.n : SG_RESPONSE_HEAD_MAX;
    for (size_t i = *seen; i < limit; i++) {
        const char *lf = memchr(in.p + i, '\n', limit - i);
        if (!lf)
            break;
        i = (size_t)(lf - in.p);
        if (in.p[i - 1] != '\r')    /* i > 0: the first byte is an 'H' */
            return refuse(why, "bare-lf");
        if (in.p[i - 2] == '\n') {
            *length = i + 1;
            return SG_OK;
        }
    }
    *seen = limit;
    return in.n < SG_RESPONSE_HEAD_MAX ? SG_ERR_AGAIN : SG_ERR_FULL;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* The next line without its CRLF. The head has been checked to consist of such lines. */
static sg_str_t take_line(sg_str_t *rest)
{
    const char *lf = memchr(rest->p, '\n', rest->n);
    size_t n = lf ? (size_t)(lf - rest->p) + 1 : rest->n;
    sg_str_t line = sg_str_n(rest->p, n >= 2 ? n - 2 : 0);
    *rest = sg_str_n(rest->p + n, rest->n - n);
    return line;
}

static sg_err_t parse_status_line(sg_str_t line, sg_response_head_t *out, const char **why)
{
    const size_t minor = sizeof VERSION_PREFIX - 1, status = minor + 2, after = status + 3;
    if (line.n <= minor || (line.p[minor] != '0' && line.p[minor] != '1'))
        return refuse(why, "version");
    out->version_minor = (unsigned)(line.p[minor] - '0');
    uint64_t code;
    if (line.n < after || line.p[minor + 1] != ' ' || sg_str_u64(sg_str_n(line.p + status, 3), 999, &code) ||
        code < 100 || (line.n > after && line.p[after] != ' '))
        return refuse(why, "status");
    out->status = (unsigned)code;
    size_t reason = line.n > after ? after + 1 : after;
    out->reason = sg_str_n(line.p + reason, line.n - reason);
    return sg_is_field_value(out->reason) ? SG_OK : refuse(why, "reason");
}

static sg_err_t parse_field(sg_arena_t *arena, sg_str_t line, sg_fields_t *fields, const char **why)
{
    if (line.p[0] == ' ' || line.p[0] == '\t')
        return refuse(why, "fold");
    size_t n = 0;
    while (n < line.n && sg_char_is(line.p[n], SG_CHAR_TOKEN))
        n++;
    if (n == 0 || n == line.n || line.p[n] != ':')
        return refuse(why, "name");
    sg_str_t value = sg_str_trim(sg_str_n(line.p + n + 1, line.n - n - 1));
    if (!sg_is_field_value(value))
        return refuse(why, "value");
    if (fields->count == SG_RESPONSE_FIELDS_MAX)
        return refuse(why, "too-many-fields");
    sg_fields_add(fields, arena, sg_str_n(line.p, n), value);
    return SG_OK;
}

static sg_err_t parse_lines(sg_arena_t *arena, sg_str_t head, sg_response_head_t *out, const char **why)
{
    sg_err_t err = parse_status_line(take_line(&head), out, why);
    while (!err) {
        sg_str_t line = take_line(&head);
        if (line.n == 0)
            break;
        err = parse_field(arena, line, &out->fields, why);
    }
    return err;
}

/* --- framing: RFC 9112 section 6.3 ------------------------------------------------------------ */

static sg_err_t read_length(sg_response_head_t *out, const char **why)
{
    SG_FIELDS_EACH(f, &out->fields) {
        if (!sg_str_ieq(f->name, SG_STR("Content-Length")))
            continue;
        uint64_t length;
        if (sg_str_u64(f->value, INT64_MAX, &length))
            return refuse(why, "cl");
        if (out->has_length && length != out->length)
            return refuse(why, "cl-differ");
        out->has_length = true;
        out->length = length;
    }
    return SG_OK;
}

static sg_err_t read_coding(const sg_response_head_t *in, bool *chunked, const char **why)
{
    const sg_str_t name = SG_STR("Transfer-Encoding");
    const sg_field_t *te = sg_fields_get(&in->fields, name);
    *chunked = te != NULL;
    if (!te)
        return SG_OK;
    if (sg_fields_count(&in->fields, name) > 1)
        return refuse(why, "te-twice");
    if (!sg_str_ieq(te->value, SG_STR("chunked")))
        return refuse(why, "te");
    if (in->has_length)
        return refuse(why, "te-cl");
    return in->version_minor == 0 ? refuse(why, "te-http10") : SG_OK;
}

/* 205 is not in RFC 9112's list of heads without a body, but RFC 9110 section 15.3.6 forbids it content. */
static bool never_has_body(const sg_response_head_t *h, bool head_request)
{
    return head_request || h->status < 200 || h->status == 204 || h->status == 205 || h->status == 304;
}

/* RFC 9112 section 9.3. */
static bool wants_keep_alive(const sg_response_head_t *h)
{
    const sg_str_t connection = SG_STR("Connection");
    if (sg_fields_has_token(&h->fields, connection, SG_STR("close")))
        return false;
    return h->version_minor == 1 || sg_fields_has_token(&h->fields, connection, SG_STR("keep-alive"));
}

/* Does the head announce content that its status forbids? Then bytes may follow that nobody reads. */
static bool announces_stray_body(const sg_response_head_t *h, bool chunked, bool head_request)
{
    if (head_request || h->status == 304)
        return false;       /* these fields tell what a GET would have had */
    if (h->status == 205 && !h->has_length)
        return true;
    return chunked || (h->has_length && h->length > 0);
}

static sg_err_t decide_body(bool head_request, sg_response_head_t *out, const char **why)
{
    bool chunked;
    sg_err_t err = read_length(out, why);
    if (!err)
        err = read_coding(out, &chunked, why);
    if (err)
        return err;
    out->keep_alive = wants_keep_alive(out) && out->status != 101;
    if (never_has_body(out, head_request)) {
        out->body = SG_BODY_NONE;
        out->keep_alive = out->keep_alive && !announces_stray_body(out, chunked, head_request);
        return SG_OK;
    }
    out->body = chunked ? SG_BODY_CHUNKED : out->has_length ? SG_BODY_LENGTH : SG_BODY_CLOSE;
    out->keep_alive = out->keep_alive && out->body != SG_BODY_CLOSE;
    return SG_OK;
}

sg_err_t sg_response_head_parse(sg_arena_t *arena, sg_str_t in, bool head_request, sg_response_head_t *out,
                                size_t *used, const char **why)
{
    size_t seen = 0, length;
    sg_err_t err = sg_response_head_find(in, &seen, &length, why);
    if (err)
        return err;
    *out = (sg_response_head_t){0};
    err = parse_lines(arena, sg_str_n(in.p, length), out, why);
    if (!err)
        err = decide_body(head_request, out, why);
    if (!err)
        *used = length;
    return err;
}
