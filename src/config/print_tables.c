/* print_tables.c - classes, plans, tenants and upstreams as YAML. */
#include <inttypes.h>

#include "base/clock.h"
#include "config/print.h"

static void add_text(sg_printer_t *p, const char *key, void (*text)(int64_t, char *), int64_t v)
{
    char out[SG_VALUE_TEXT];
    text(v, out);
    sg_buf_printf(&p->b, ", %s: %s", key, out);
}

static void add_rate(sg_printer_t *p, const char *key, const sg_limit_t *l)
{
    char out[SG_VALUE_TEXT];
    sg_value_rate_text(l->rate_count, l->rate_us, out);
    sg_buf_printf(&p->b, ", %s: %s", key, out);
}

/* The numbers of a limit, each after a comma. */
static void add_numbers(sg_printer_t *p, const sg_limit_t *l)
{
    switch (l->algo) {
    case SG_ALGO_TOKEN_BUCKET:
        sg_buf_printf(&p->b, ", capacity: %" PRId64, l->limit);
        add_rate(p, "refill", l);
        break;
    case SG_ALGO_GCRA:
        sg_buf_printf(&p->b, ", burst: %" PRId64, l->limit);
        add_rate(p, "rate", l);
        break;
    case SG_ALGO_FIXED_WINDOW:
    case SG_ALGO_SLIDING_WINDOW:
    case SG_ALGO_SLIDING_LOG:
        sg_buf_printf(&p->b, ", limit: %" PRId64, l->limit);
        add_text(p, "window", sg_value_duration_text, l->window_us);
        if (l->algo == SG_ALGO_SLIDING_WINDOW)
            sg_buf_printf(&p->b, ", precision: %u", l->precision);
        break;
    case SG_ALGO_CONCURRENCY:
        sg_buf_printf(&p->b, ", limit: %" PRId64, l->limit);
        add_text(p, "lease", sg_value_duration_text, l->lease_us);
        break;
    case SG_ALGO_COUNT:
    default: break;
    }
    sg_buf_printf(&p->b, ", dry_run: %s", l->dry_run ? "true" : "false");
}

static void print_limit(sg_printer_t *p, const sg_limit_t *l, size_t class_name_length)
{
    static const char *const per[] = {"tenant", "key", "ip", "all"};
    sg_buf_printf(&p->b, "    - {name: \"%s\", algorithm: %s", l->name + class_name_length + 1,
                  sg_algo_name(l->algo));
    add_numbers(p, l);
    sg_buf_printf(&p->b, ", per: %s", per[l->per]);
    if (l->block)
        sg_buf_printf(&p->b, ", block: %" PRId64, l->block);
    sg_buf_z(&p->b, "}\n");
}

void sg_print_classes(sg_printer_t *p)
{
    sg_buf_printf(&p->b, "classes:%s\n", p->c->class_count ? "" : " {}");
    for (size_t i = 0; i < p->c->class_count; i++) {
        const sg_class_t *class = &p->c->classes[i];
        sg_buf_printf(&p->b, "  \"%s\":%s\n", class->name, class->limit_count ? "" : " []");
        for (size_t j = 0; j < class->limit_count; j++)
            print_limit(p, p->c->limits[class->limits[j]], strlen(class->name));
    }
}

/* What differs from the limits that it is laid over. */
static void print_overrides(sg_printer_t *p, unsigned depth, const sg_limit_t *const *limits,
                            const sg_limit_t *const *base)
{
    for (size_t i = 0; limits != base && i < p->c->limit_count; i++) {
        const sg_limit_t *l = limits[i];
        sg_buf_t numbers = {0};
        if (l == base[i])
            continue;
        sg_print_indent(p, depth);
        if (l->unlimited) {
            sg_buf_printf(&p->b, "%s: {limit: unlimited}\n", l->name);
            continue;
        }
        sg_buf_printf(&p->b, "%s: {", l->name);
        sg_printer_t inner = {.c = p->c};
        sg_buf_init(&inner.b, 1024);
        add_numbers(&inner, l);
        numbers = inner.b;
        sg_buf_consume(&numbers, 2);
        sg_buf_str_add(&p->b, sg_buf_str(&numbers));
        sg_buf_deinit(&inner.b);
        sg_buf_z(&p->b, "}\n");
    }
}

static const sg_limit_t *const *base_limits(const sg_printer_t *p)
{
    return (const sg_limit_t *const *)p->c->limits;
}

void sg_print_plans(sg_printer_t *p)
{
    const struct sg_config_own *own = p->c->own;
    sg_buf_printf(&p->b, "plans:%s\n", own->plan_count ? "" : " {}");
    for (size_t i = 0; i < own->plan_count; i++) {
        bool plain = own->plans[i].limits == base_limits(p);
        sg_buf_printf(&p->b, "  \"%s\":%s\n", own->plans[i].name, plain ? " {}" : "");
        print_overrides(p, 2, own->plans[i].limits, base_limits(p));
    }
}

static const sg_limit_t *const *limits_of_plan(const sg_printer_t *p, const char *name)
{
    const struct sg_config_own *own = p->c->own;
    for (size_t i = 0; name && i < own->plan_count; i++) {
        if (own->plans[i].name == name)
            return own->plans[i].limits;
    }
    return base_limits(p);
}

static void print_key(sg_printer_t *p, const sg_api_key_t *key)
{
    char hex[SG_SHA256_HEX], time[SG_RFC3339_BYTES];
    sg_hex(key->digest, SG_SHA256_BYTES, hex);
    sg_buf_printf(&p->b, "      - {id: \"%s\", sha256: \"%.*s\"", key->id, SG_SHA256_HEX, hex);
    if (key->expires_us) {
        sg_clock_rfc3339(key->expires_us, time);
        sg_buf_printf(&p->b, ", expires: %s", time);
    }
    sg_buf_printf(&p->b, ", disabled: %s}\n", key->disabled ? "true" : "false");
}

static void print_tenant(sg_printer_t *p, const sg_tenant_t *t)
{
    const sg_limit_t *const *base = limits_of_plan(p, t->plan);
    sg_print_indent(p, 1);
    sg_buf_json(&p->b, sg_str(t->name));
    if (!t->plan && !t->key_count && t->limits == base) {
        sg_buf_z(&p->b, ": {}\n");
        return;
    }
    sg_buf_z(&p->b, ":\n");
    sg_print_text(p, 2, "plan", t->plan);
    if (t->key_count)
        sg_buf_z(&p->b, "    keys:\n");
    for (size_t i = 0; i < t->key_count; i++)
        print_key(p, &t->keys[i]);
    if (t->limits != base)
        sg_buf_z(&p->b, "    limits:\n");
    print_overrides(p, 3, t->limits, base);
}

void sg_print_tenants(sg_printer_t *p)
{
    sg_buf_z(&p->b, "tenants:\n");
    for (size_t i = 0; i < p->c->tenant_count; i++)
        print_tenant(p, p->c->tenants[i]);
}

static void print_targets(sg_printer_t *p, const sg_upstream_conf_t *u)
{
    sg_buf_z(&p->b, "    targets:\n");
    for (size_t i = 0; i < u->target_count; i++) {
        sg_buf_z(&p->b, "      - {url: ");
        sg_print_quoted(p, sg_str(u->targets[i].url), false);
        sg_buf_printf(&p->b, ", weight: %u}\n", u->targets[i].weight);
    }
}

static void print_retry_on(sg_printer_t *p, unsigned bits)
{
    static const char *const words[] = {"connect", "reset", "502", "503", "504"};
    const char *comma = "";
    sg_buf_z(&p->b, "    retry_on: [");
    for (unsigned i = 0; i < 5; i++) {
        if (bits & (1u << i)) {
            sg_buf_printf(&p->b, "%s%s", comma, words[i]);
            comma = ", ";
        }
    }
    sg_buf_z(&p->b, "]\n");
}

void sg_print_upstreams(sg_printer_t *p)
{
    sg_buf_printf(&p->b, "upstreams:%s\n", p->c->upstream_count ? "" : " {}");
    for (size_t i = 0; i < p->c->upstream_count; i++) {
        const sg_upstream_conf_t *u = &p->c->upstreams[i];
        sg_buf_printf(&p->b, "  \"%s\":\n", u->name);
        print_targets(p, u);
        print_retry_on(p, u->retry_on);
        sg_print_rows(p, 2, &sg_shape_upstream, u);
        if (u->health.path) {
            sg_buf_z(&p->b, "    health:\n");
            sg_print_text(p, 3, "path", u->health.path);
            sg_buf_printf(&p->b, "      status: %u-%u\n", u->health.status_min, u->health.status_max);
            sg_print_rows(p, 3, sg_shape_row(&sg_shape_upstream, SG_STR("health"))->shape, u);
        }
        if (u->eject.failures) {
            sg_buf_z(&p->b, "    eject:\n");
            sg_print_rows(p, 3, sg_shape_row(&sg_shape_upstream, SG_STR("eject"))->shape, u);
        }
        sg_buf_z(&p->b, "    tls:\n");
        sg_print_rows(p, 3, sg_shape_row(&sg_shape_upstream, SG_STR("tls"))->shape, u);
    }
}
