/* print.c - the effective config as YAML: every key with the value that holds, secrets left out. Loading what
 * was printed gives the same config again. */
#include "config/print.h"

#define OUT_BYTES_MAX ((size_t)1 << 30)

void sg_print_indent(sg_printer_t *p, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++)
        sg_buf_z(&p->b, "  ");
}

const sg_written_t *sg_config_written(const struct sg_config_own *own, sg_str_t text, bool vars)
{
    const sg_written_t *w = own->written;
    while (w && (w->vars != vars || !sg_str_eq(w->text, text)))
        w = w->next;
    return w;
}

/* A double-quoted text of YAML; JSON's are. Dollars are doubled unless they begin request variables. */
void sg_print_quoted(sg_printer_t *p, sg_str_t s, bool vars)
{
    const sg_written_t *w = sg_config_written(p->c->own, s, vars);
    sg_buf_t plain;
    if (w) {
        sg_buf_json(&p->b, w->written);
        return;
    }
    sg_buf_init(&plain, OUT_BYTES_MAX);
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '$' && !vars)
            sg_buf_char(&plain, '$');
        sg_buf_char(&plain, s.p[i]);
    }
    sg_buf_json(&p->b, sg_buf_str(&plain));
    sg_buf_deinit(&plain);
}

static void add_key(sg_printer_t *p, unsigned depth, const char *key)
{
    sg_print_indent(p, depth);
    sg_buf_printf(&p->b, "%s: ", key);
}

void sg_print_text(sg_printer_t *p, unsigned depth, const char *key, const char *z)
{
    if (!z)
        return;
    add_key(p, depth, key);
    sg_print_quoted(p, sg_str(z), false);
    sg_buf_char(&p->b, '\n');
}

static void add_word(sg_printer_t *p, const char *words, int index)
{
    sg_str_t rest = sg_str(words), word = {0};
    for (int i = 0; i <= index && sg_str_next(&rest, ' ', &word); i++)
        ;
    sg_buf_str_add(&p->b, word);
}

/* Numbers and words; false for types that have no one form. */
static bool add_number(sg_printer_t *p, const sg_key_row_t *row, const void *field)
{
    char text[SG_VALUE_TEXT] = "";
    switch (row->type) {
    case SG_TYPE_BOOL: sg_buf_z(&p->b, *(const bool *)field ? "true" : "false"); return true;
    case SG_TYPE_INT: sg_buf_i64(&p->b, *(const int64_t *)field); return true;
    case SG_TYPE_UINT: sg_buf_u64(&p->b, *(const unsigned *)field); return true;
    case SG_TYPE_COUNT: sg_buf_u64(&p->b, *(const size_t *)field); return true;
    case SG_TYPE_WORD: add_word(p, row->words, *(const int *)field); return true;
    case SG_TYPE_DURATION: sg_value_duration_text(*(const int64_t *)field, text); break;
    case SG_TYPE_SIZE: sg_value_size_text(*(const int64_t *)field, text); break;
    case SG_TYPE_RATE:
        sg_value_rate_text(((const int64_t *)field)[0], ((const int64_t *)field)[1], text);
        break;
    case SG_TYPE_STRING:
    case SG_TYPE_FILE:
    case SG_TYPE_SECRET:
    case SG_TYPE_MAP:
    case SG_TYPE_OWN:
    default: return false;
    }
    sg_buf_z(&p->b, text);
    return true;
}

/* The rows of a section that the table itself can print; the rest is left to the section. */
void sg_print_rows(sg_printer_t *p, unsigned depth, const sg_shape_t *shape, const void *from)
{
    for (size_t i = 0; i < shape->count; i++) {
        const sg_key_row_t *row = &shape->rows[i];
        const void *field = (const char *)from + row->offset;
        if (row->type == SG_TYPE_STRING || row->type == SG_TYPE_FILE) {
            sg_print_text(p, depth, row->name, *(char *const *)field);
        } else if (row->type != SG_TYPE_MAP && row->type != SG_TYPE_OWN && row->type != SG_TYPE_SECRET) {
            add_key(p, depth, row->name);
            add_number(p, row, field);
            sg_buf_char(&p->b, '\n');
        }
    }
}

static void print_endpoints(sg_printer_t *p, const sg_endpoints_t *list)
{
    add_key(p, 1, "listen");
    for (size_t i = 0; i < list->count; i++) {
        sg_buf_z(&p->b, i ? ", " : "[");
        sg_print_quoted(p, sg_str(list->at[i].text), false);
    }
    sg_buf_z(&p->b, "]\n");
}

static void print_trusted(sg_printer_t *p, const sg_identity_conf_t *c)
{
    char text[SG_ADDR_TEXT];
    add_key(p, 1, "trusted_proxies");
    sg_buf_char(&p->b, '[');
    for (size_t i = 0; i < c->trusted_count; i++) {
        const sg_cidr_t *t = &c->trusted[i];
        bool v4 = sg_addr_is_v4(&t->net) && t->bits >= 96;
        sg_addr_text(&t->net, text);
        sg_buf_printf(&p->b, "%s\"%s/%u\"", i ? ", " : "", text, v4 ? t->bits - 96 : t->bits);
    }
    sg_buf_z(&p->b, "]\n");
}

static void print_tls(sg_printer_t *p, const sg_server_conf_t *s)
{
    if (!s->tls_certificate)
        return;
    sg_buf_z(&p->b, "  tls:\n");
    sg_print_text(p, 2, "certificate", s->tls_certificate);
    sg_print_text(p, 2, "key", s->tls_key);
    if (s->tls_client_ca)
        sg_print_text(p, 2, "client_ca", s->tls_client_ca);
}

static void print_server(sg_printer_t *p)
{
    const sg_server_conf_t *s = &p->c->server;
    sg_buf_z(&p->b, "server:\n");
    print_endpoints(p, &s->listen);
    if (s->workers)
        sg_buf_printf(&p->b, "  workers: %u\n", s->workers);
    else
        sg_buf_z(&p->b, "  workers: auto\n");
    print_tls(p, s);
    print_trusted(p, &p->c->identity);
    sg_print_rows(p, 1, &sg_shape_server, s);
    sg_buf_z(&p->b, "admin:\n");
    print_endpoints(p, &p->c->admin.listen);
    sg_print_text(p, 1, "token_file", p->c->own->admin_token_file);
    sg_buf_z(&p->b, "log:\n");
    sg_print_rows(p, 1, &sg_shape_log, &p->c->log);
    sg_buf_printf(&p->b, "  format: %s\n", p->c->log.json ? "json" : "text");
    sg_print_text(p, 1, "access", p->c->log.access);
    sg_buf_z(&p->b, "metrics:\n");
    sg_print_rows(p, 1, &sg_shape_metrics, p->c);
}

const char *sg_print_failure_word(sg_on_failure_t f)
{
    return f == SG_FAIL_OPEN ? "open" : f == SG_FAIL_CLOSED ? "closed" : "local";
}

static void print_store(sg_printer_t *p)
{
    sg_store_raw_t raw = {.conf = p->c->store};
    char share[SG_VALUE_TEXT];
    sg_buf_z(&p->b, "store:\n");
    sg_print_text(p, 1, "url", p->c->own->store_url);
    sg_print_rows(p, 1, &sg_shape_store, &raw);
    for (size_t i = 0; i < raw.conf.node_count; i++) {
        sg_buf_z(&p->b, i ? ", " : "  nodes: [");
        sg_print_quoted(p, sg_str(raw.conf.nodes[i]), false);
    }
    if (raw.conf.node_count)
        sg_buf_z(&p->b, "]\n");
    sg_print_text(p, 1, "password_file", p->c->own->password_file);
    sg_value_share_text(raw.conf.local_share_ppm, share);
    sg_buf_printf(&p->b, "  on_failure: %s\n  local_share: %s\n", sg_print_failure_word(raw.conf.on_failure),
                  share);
    sg_print_text(p, 1, "key_prefix", raw.conf.key_prefix.p);
    sg_print_text(p, 1, "key_version", raw.conf.key_version.p);
}

static void print_identity(sg_printer_t *p)
{
    const sg_identity_conf_t *c = &p->c->identity;
    char window[SG_VALUE_TEXT];
    sg_buf_printf(&p->b, "identity:\n  api_key:%s\n", c->source_count ? "" : " []");
    for (size_t i = 0; i < c->source_count; i++) {
        const sg_key_source_t *s = &c->sources[i];
        sg_buf_printf(&p->b, "    - {%s: ", s->kind == SG_KEY_FROM_QUERY ? "query" : "header");
        sg_print_quoted(p, s->name, false);
        if (s->scheme.n) {
            sg_buf_z(&p->b, ", scheme: ");
            sg_print_quoted(p, s->scheme, false);
        }
        sg_buf_z(&p->b, "}\n");
    }
    sg_buf_printf(&p->b, "  forward_key: %s\n", c->forward_key ? "true" : "false");
    sg_print_text(p, 1, "secret_file", p->c->own->secret_file);
    sg_value_duration_text(c->failures.window_us, window);
    sg_buf_printf(&p->b, "  ipv6_prefix: %u\n  failures: {limit: ", c->ipv6_prefix);
    if (c->failures.unlimited)
        sg_buf_z(&p->b, "unlimited");
    else
        sg_buf_i64(&p->b, c->failures.limit);
    sg_buf_printf(&p->b, ", window: %s}\n", window);
}

void sg_print_duration(sg_printer_t *p, unsigned depth, const char *key, int64_t us)
{
    char text[SG_VALUE_TEXT];
    sg_value_duration_text(us, text);
    add_key(p, depth, key);
    sg_buf_printf(&p->b, "%s\n", text);
}

void sg_config_text(const sg_config_t *c, sg_buf_t *out)
{
    sg_printer_t p = {.c = c};
    sg_buf_init(&p.b, OUT_BYTES_MAX);
    sg_buf_printf(&p.b, "# %s, hash %s\n", c->source, c->hash);
    print_server(&p);
    print_store(&p);
    print_identity(&p);
    sg_print_classes(&p);
    sg_print_plans(&p);
    sg_print_tenants(&p);
    sg_print_upstreams(&p);
    sg_print_routes(&p);
    *out = p.b;
}

void sg_config_print(const sg_config_t *c, FILE *out)
{
    sg_buf_t text;
    sg_config_text(c, &text);
    fwrite(sg_buf_str(&text).p, 1, sg_buf_len(&text), out);
    sg_buf_deinit(&text);
}
