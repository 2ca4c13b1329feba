/* capacity.c - slotgate capacity: keys and memory that a config will need in Redis, before there are any. */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/footprint.h"

#define IDENTITIES_MAX UINT64_C(1000000000000)

static const char usage[] =
    "usage: slotgate capacity -c FILE --identities N [--active PCT] [--tenants N] [--used PCT] [--json]\n";

typedef struct {
    const char *file;
    bool json;
    uint64_t identities, tenants;
    double active, used; /* of 1 */
    sg_config_t *config;
    bool *asked; /* by index of limit: some route has it */
    int64_t keys, bytes;
} capacity_t;

typedef struct {
    int64_t keys, each_bytes;
} need_t;

static bool read_number(const char *text, uint64_t *out)
{
    return sg_str_u64(sg_str(text), IDENTITIES_MAX, out) == SG_OK && *out > 0;
}

/* More than 0, at most 100. */
static bool read_percent(const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);
    *out = value / 100;
    return sg_ascii_digit(text[0]) && *end == '\0' && value > 0 && value <= 100;
}

static bool wrong(const char *option, const char *expected)
{
    fprintf(stderr, "slotgate capacity: %s: expected %s\n", option, expected);
    return false;
}

static bool take_option(capacity_t *x, int c)
{
    static const char count[] = "a number from 1 to 1000000000000", share[] = "a number above 0, at most 100";
    switch (c) {
    case 'c': x->file = optarg; return true;
    case 'j': x->json = true; return true;
    case 'i': return read_number(optarg, &x->identities) || wrong("--identities", count);
    case 't': return read_number(optarg, &x->tenants) || wrong("--tenants", count);
    case 'a': return read_percent(optarg, &x->active) || wrong("--active", share);
    case 'u': return read_percent(optarg, &x->used) || wrong("--used", share);
    default: return false;
    }
}

static bool read_options(capacity_t *x, int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"identities", required_argument, NULL, 'i'},
                                            {"tenants", required_argument, NULL, 't'},
                                            {"active", required_argument, NULL, 'a'},
                                            {"used", required_argument, NULL, 'u'},
                                            {0}};
    int c;
    while ((c = getopt_long(argc, argv, "c:", options, NULL)) != -1)
        if (!take_option(x, c))
            return false;
    if (x->tenants == 0)
        x->tenants = x->identities;
    return x->file && x->identities && optind == argc;
}

/* --- what is needed ------------------------------------------------------------------------------- */

static void mark_asked(capacity_t *x)
{
    x->asked = sg_calloc(x->config->limit_count + 1, sizeof *x->asked);
    for (size_t i = 0; i < x->config->route_count; i++)
        for (size_t k = 0; k < x->config->routes[i]->limit_count; k++)
            x->asked[x->config->routes[i]->limits[k]] = true;
}

/* At most one tenant for each identity. */
static double owners(const capacity_t *x, const sg_limit_t *l)
{
    uint64_t tenants = x->tenants < x->identities ? x->tenants : x->identities;
    switch (l->per) {
    case SG_PER_ALL: return 1;
    case SG_PER_TENANT: return (double)tenants * x->active;
    case SG_PER_KEY:
    case SG_PER_IP: break;
    }
    return (double)x->identities * x->active;
}

/* A limit that is 0 or switched off writes nothing. */
static need_t need(const capacity_t *x, const sg_limit_t *l)
{
    if (!x->asked[l->index] || l->unlimited || l->limit == 0)
        return (need_t){0, 0};
    int64_t units = (int64_t)ceil((double)l->limit * x->used);
    return (need_t){(int64_t)ceil(owners(x, l)),
                    sg_footprint_key_bytes(&x->config->store, sg_limit_kept(l), units < 1 ? 1 : units)};
}

/* --- output --------------------------------------------------------------------------------------- */

static void print_text(const capacity_t *x)
{
    printf("%-32s %-16s %-8s %14s %12s %14s\n", "LIMIT", "ALGORITHM", "PER", "KEYS", "BYTES EACH", "MEMORY");
    for (size_t i = 0; i < x->config->limit_count; i++) {
        const sg_limit_t *l = x->config->limits[i];
        need_t n = need(x, l);
        printf("%-32s %-16s %-8s %14" PRId64 " %12" PRId64 " %10.1f MiB\n", l->name, sg_algo_name(l->algo),
               sg_scope_name(l->per), n.keys, n.each_bytes, (double)(n.keys * n.each_bytes) / (1 << 20));
    }
    printf("%-32s %-16s %-8s %14" PRId64 " %12s %10.1f MiB\n", "hash tables", "", "", x->keys, "",
           (double)sg_footprint_table_bytes(x->keys) / (1 << 20));
    printf("%-32s %-16s %-8s %14" PRId64 " %12s %10.1f MiB\n", "total", "", "", x->keys, "",
           (double)x->bytes / (1 << 20));
}

static void print_json(const capacity_t *x)
{
    json_t *limits = json_array();
    for (size_t i = 0; i < x->config->limit_count; i++) {
        const sg_limit_t *l = x->config->limits[i];
        need_t n = need(x, l);
        (void)json_array_append_new(limits,
                                    json_pack("{s:s, s:s, s:s, s:I, s:I}", "limit", l->name, "algorithm",
                                              sg_algo_name(l->algo), "per", sg_scope_name(l->per), "keys",
                                              (json_int_t)n.keys, "bytes_each", (json_int_t)n.each_bytes));
    }
    json_t *all = json_pack("{s:I, s:I, s:I, s:I, s:o}", "identities", (json_int_t)x->identities, "tenants",
                            (json_int_t)x->tenants, "keys", (json_int_t)x->keys, "bytes",
                            (json_int_t)x->bytes, "limits", limits);
    (void)json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

static int estimate(capacity_t *x)
{
    sg_diags_t diags = {0};
    x->config = sg_config_load(x->file, NULL, &diags);
    if (!x->config)
        sg_diags_print(&diags, stderr);
    sg_diags_deinit(&diags);
    if (!x->config)
        return SG_EXIT_CONFIG;
    mark_asked(x);
    for (size_t i = 0; i < x->config->limit_count; i++) {
        need_t n = need(x, x->config->limits[i]);
        x->keys += n.keys;
        x->bytes += n.keys * n.each_bytes;
    }
    x->bytes += sg_footprint_table_bytes(x->keys);
    if (x->json)
        print_json(x);
    else
        print_text(x);
    return SG_EXIT_OK;
}

int sg_cli_capacity(int argc, char **argv)
{
    capacity_t x = {.active = 1, .used = 1};
    int status = SG_EXIT_USAGE;
    if (read_options(&x, argc, argv))
        status = estimate(&x);
    else
        fputs(usage, stderr);
    sg_config_unref(x.config);
    sg_free(x.asked);
    return status;
}
