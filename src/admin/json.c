#include "admin/json.h"

#include "base/clock.h"

static int append(const char *text, size_t n, void *arg)
{
    sg_buf_t *out = arg;
    sg_buf_add(out, text, n);
    return out->failed ? -1 : 0;
}

void sg_admin_json(sg_admin_request_t *r, unsigned status, json_t *body)
{
    if (!body || json_dump_callback(body, append, &r->body, JSON_COMPACT) != 0)
        r->body.failed = true;
    sg_buf_char(&r->body, '\n');
    json_decref(body);
    sg_admin_reply(r, status, "application/json");
}

json_t *sg_json_view(sg_str_t s)
{
    json_t *text = s.p ? json_stringn(s.p, s.n) : NULL;
    return text ? text : json_null();
}

json_t *sg_json_text(const char *z)
{
    return sg_json_view(sg_str(z));
}

json_t *sg_json_time(int64_t wall_us)
{
    char text[SG_RFC3339_BYTES];
    sg_clock_rfc3339(wall_us, text);
    return json_string(text);
}

void sg_json_set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}
