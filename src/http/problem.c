/* problem.c - problem details, and the phrases of status codes. */
#include "http/problem.h"

typedef struct {
    unsigned status;
    const char *phrase;
} phrase_t;

/* RFC 9110 section 15 and the registry's other entries; in order of status. */
static const phrase_t phrases[] = {
    {100, "Continue"}, {101, "Switching Protocols"}, {102, "Processing"}, {103, "Early Hints"},
    {200, "OK"}, {201, "Created"}, {202, "Accepted"}, {203, "Non-Authoritative Information"},
    {204, "No Content"}, {205, "Reset Content"}, {206, "Partial Content"}, {207, "Multi-Status"},
    {208, "Already Reported"}, {226, "IM Used"},
    {300, "Multiple Choices"}, {301, "Moved Permanently"}, {302, "Found"}, {303, "See Other"},
    {304, "Not Modified"}, {305, "Use Proxy"}, {307, "Temporary Redirect"}, {308, "Permanent Redirect"},
    {400, "Bad Request"}, {401, "Unauthorized"}, {402, "Payment Required"}, {403, "Forbidden"},
    {404, "Not Found"}, {405, "Method Not Allowed"}, {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"}, {408, "Request Timeout"}, {409, "Conflict"}, {410, "Gone"},
    {411, "Length Required"}, {412, "Precondition Failed"}, {413, "Content Too Large"}, {414, "URI Too Long"},
    {415, "Unsupported Media Type"}, {416, "Range Not Satisfiable"}, {417, "Expectation Failed"},
    {421, "Misdirected Request"}, {422, "Unprocessable Content"}, {423, "Locked"}, {424, "Failed Dependency"},
    {425, "Too Early"}, {426, "Upgrade Required"}, {428, "Precondition Required"}, {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"}, {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"}, {505, "HTTP Version Not Supported"}, {506, "Variant Also Negotiates"},
    {507, "Insufficient Storage"}, {508, "Loop Detected"}, {511, "Network Authentication Required"},
};

const char *sg_status_phrase(unsigned status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (phrases[i].status == status)
            return phrases[i].phrase;
    }
    return "Unknown";
}

static void member(sg_buf_t *out, const char *name, const char *value)
{
    if (!value)
        return;
    sg_buf_char(out, ',');
    sg_buf_json(out, sg_str(name));
    sg_buf_char(out, ':');
    sg_buf_json(out, sg_str(value));
}

static bool is_plain_uuid(const char *z)
{
    size_t n = 0;
    while (sg_hex_digit(z[n]) >= 0)
        n++;
    return n == 32 && z[n] == '\0';
}

/* RFC 9562 section 4: 8-4-4-4-12. */
static void instance_member(sg_buf_t *out, const char *id)
{
    if (!id || !is_plain_uuid(id)) {
        member(out, "instance", id);
        return;
    }
    char urn[sizeof "urn:uuid:" + 36] = "urn:uuid:";
    size_t n = sizeof "urn:uuid:" - 1;
    for (size_t i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20)
            urn[n++] = '-';
        urn[n++] = sg_ascii_lower(id[i]);
    }
    urn[n] = '\0';
    member(out, "instance", urn);
}

void sg_problem_write(sg_buf_t *out, const sg_problem_t *p)
{
    sg_buf_z(out, "{\"type\":");
    sg_buf_json(out, sg_str(p->type ? p->type : "about:blank"));
    member(out, "title", p->title ? p->title : sg_status_phrase(p->status));
    sg_buf_z(out, ",\"status\":");
    sg_buf_u64(out, p->status);
    member(out, "detail", p->detail);
    instance_member(out, p->instance);
    for (size_t i = 0; i < p->violated_count; i++) {
        sg_buf_z(out, i ? "," : ",\"violated-policies\":[");
        sg_buf_json(out, p->violated[i]);
    }
    sg_buf_z(out, p->violated_count ? "]}\n" : "}\n");
}
