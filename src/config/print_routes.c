/* print_routes.c - routes as YAML. */
#include <inttypes.h>

#include "base/list.h"
#include "config/print.h"

static void print_match(sg_printer_t *p, const sg_route_t *r)
{
    const char *comma = "";
    sg_buf_z(&p->b, "    match:\n");
    sg_print_text(p, 3, "host", r->host);
    if (r->methods != SG_METHODS_ALL) {
        sg_buf_z(&p->b, "      methods: [");
        for (unsigned m = 0; m < SG_METHOD_OTHER; m++) {
            if (r->methods & (1u << m)) {
                sg_buf_printf(&p->b, "%s%s", comma, sg_method_name((sg_method_t)m));
                comma = ", ";
            }
        }
        sg_buf_z(&p->b, "]\n");
    }
    sg_print_text(p, 3, "path", r->pattern);
}

static void print_cost(sg_printer_t *p, const sg_route_t *r)
{
    if (r->cost_from == SG_COST_FIXED) {
        sg_buf_printf(&p->b, "    cost: %" PRId64 "\n", r->cost);
        return;
    }
    sg_buf_printf(&p->b, "    cost: {reserve: %" PRId64 ", from: ", r->cost);
    if (r->cost_from == SG_COST_RESPONSE_KIB)
        sg_buf_z(&p->b, "response_kib}\n");
    else
        sg_buf_printf(&p->b, "{response_header: \"%.*s\"}}\n", SG_STR_ARG(r->cost_header));
}

static void print_edit(sg_printer_t *p, const char *key, const sg_field_edit_t *e)
{
    if (!e->set_count && !e->remove_count)
        return;
    sg_buf_printf(&p->b, "    %s:\n", key);
    if (e->set_count)
        sg_buf_z(&p->b, "      set:\n");
    for (size_t i = 0; i < e->set_count; i++) {
        sg_buf_printf(&p->b, "        \"%.*s\": ", SG_STR_ARG(e->set[i].name));
        sg_print_quoted(p, e->set[i].value, true);
        sg_buf_char(&p->b, '\n');
    }
    for (size_t i = 0; i < e->remove_count; i++)
        sg_buf_printf(&p->b, "%s\"%.*s\"", i ? ", " : "      remove: [", SG_STR_ARG(e->remove[i]));
    if (e->remove_count)
        sg_buf_z(&p->b, "]\n");
}

static void print_respond(sg_printer_t *p, const sg_route_t *r)
{
    sg_buf_printf(&p->b, "    respond:\n      status: %u\n      body: ", r->respond_status);
    sg_print_quoted(p, r->respond_body, false);
    sg_buf_printf(&p->b, "\n%s", r->respond_fields.count ? "      headers:\n" : "");
    SG_FIELDS_EACH(f, &r->respond_fields)
    {
        sg_buf_printf(&p->b, "        \"%.*s\": ", SG_STR_ARG(f->name));
        sg_print_quoted(p, f->value, false);
        sg_buf_char(&p->b, '\n');
    }
}

static void print_rewrite(sg_printer_t *p, const sg_route_t *r)
{
    if (!r->rewrite.n && !r->strip_prefix.n)
        return;
    sg_buf_z(&p->b, "    rewrite:\n");
    sg_print_text(p, 3, r->rewrite.n ? "path" : "strip_prefix",
                  r->rewrite.n ? r->rewrite.p : r->strip_prefix.p);
}

static void print_route(sg_printer_t *p, const sg_route_t *r)
{
    static const char *const auth[] = {"required", "optional", "none"};
    const sg_route_entry_t *e = SG_OWNER(r, sg_route_entry_t, route);
    char size[SG_VALUE_TEXT];
    sg_buf_printf(&p->b, "  - name: \"%s\"\n", r->name);
    print_match(p, r);
    sg_buf_printf(&p->b, "    auth: %s\n    classes: [", auth[r->auth]);
    for (size_t i = 0; i < e->class_count; i++)
        sg_buf_printf(&p->b, "%s\"%s\"", i ? ", " : "", p->c->classes[e->classes[i]].name);
    sg_buf_z(&p->b, "]\n");
    print_cost(p, r);
    if (r->upstream)
        sg_print_text(p, 2, "upstream", r->upstream->name);
    sg_buf_printf(&p->b, "    odd_paths: %s\n", r->odd_paths_pass ? "pass" : "refuse");
    print_rewrite(p, r);
    print_edit(p, "request_headers", &r->request_fields);
    print_edit(p, "response_headers", &r->response_fields);
    sg_value_size_text(r->max_body_bytes, size);
    if (r->max_body_bytes)
        sg_buf_printf(&p->b, "    max_body_size: %s\n", size);
    if (r->timeout_us)
        sg_print_duration(p, 2, "timeout", r->timeout_us);
    if (r->on_failure != SG_FAIL_INHERIT)
        sg_buf_printf(&p->b, "    on_store_failure: %s\n", sg_print_failure_word(r->on_failure));
    if (r->respond)
        print_respond(p, r);
}

void sg_print_routes(sg_printer_t *p)
{
    sg_buf_printf(&p->b, "routes:%s\n", p->c->route_count ? "" : " []");
    for (size_t i = 0; i < p->c->route_count; i++)
        print_route(p, p->c->routes[i]);
}
