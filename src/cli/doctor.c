/* doctor.c - slotgate doctor: is the Redis of a config fit to hold its counters? It writes nothing. */
#include "cli/doctor.h"

#include <getopt.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "store/cluster.h"

static const char usage[] = "usage: slotgate doctor -c FILE [--json]\n";

void sg_doctor_add(sg_doctor_t *d, sg_doctor_level_t level, const char *check, const char *place,
                   const char *fmt, ...)
{
    va_list args;
    if (d->row_count == d->row_size) {
        d->row_size = d->row_size ? 2 * d->row_size : 32;
        d->rows = sg_realloc(d->rows, d->row_size * sizeof *d->rows);
    }
    sg_doctor_row_t *row = &d->rows[d->row_count++];
    *row = (sg_doctor_row_t){.level = level, .check = check, .place = place};
    va_start(args, fmt);
    (void)vsnprintf(row->text, sizeof row->text, fmt, args);
    va_end(args);
}

static bool read_options(sg_doctor_t *d, int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'}, {0}};
    int c;
    while ((c = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
        switch (c) {
        case 'c': d->file = optarg; break;
        case 'j': d->json = true; break;
        default: return false;
        }
    }
    return d->file && optind == argc;
}

static int load_config(sg_doctor_t *d)
{
    sg_diags_t diags = {0};
    d->config = sg_config_load(d->file, NULL, &diags);
    if (!d->config)
        sg_diags_print(&diags, stderr);
    sg_diags_deinit(&diags);
    return d->config ? SG_EXIT_OK : SG_EXIT_CONFIG;
}

/* --- what the config alone tells ------------------------------------------------------------------ */

/* The hash of an address stands in key names where a limit is per address, and as the slot tag of callers
 * without a key. */
static bool hashes_addresses(const sg_config_t *c)
{
    if (!c->identity.failures.unlimited && c->identity.failures.limit > 0)
        return true;
    for (size_t i = 0; i < c->limit_count; i++)
        if (c->limits[i]->per == SG_PER_IP)
            return true;
    for (size_t i = 0; i < c->route_count; i++)
        if (c->routes[i]->limit_count > 0 && c->routes[i]->auth != SG_AUTH_REQUIRED)
            return true;
    return false;
}

static void judge_hashes(sg_doctor_t *d)
{
    if (d->config->identity.secret.n)
        sg_doctor_add(d, SG_DOCTOR_OK, "hashes", "", "HMAC with identity.secret_file");
    else if (hashes_addresses(d->config))
        sg_doctor_add(
            d, SG_DOCTOR_FINDING, "hashes", "",
            "key names hold the plain SHA-256 of client addresses, which is found by trying all: set "
            "identity.secret_file");
    else
        sg_doctor_add(d, SG_DOCTOR_OK, "hashes", "", "no client address is in a key name");
}

/* --- the run -------------------------------------------------------------------------------------- */

/* Servers that cannot be asked are a finding like any other: the report says which. */
static void look(sg_doctor_t *d)
{
    sg_why_t why;
    judge_hashes(d);
    if (sg_sync_open(&d->config->store, &d->servers, &why) != SG_OK) {
        sg_doctor_add(d, SG_DOCTOR_FINDING, "connection", "", "%s", why.text);
        return;
    }
    if (d->config->store.mode == SG_REDIS_CLUSTER)
        d->slot_keys = sg_calloc(SG_CLUSTER_SLOTS, sizeof *d->slot_keys);
    bool all = true;
    for (size_t i = 0; i < d->servers.count; i++) {
        sg_sync_t *s = d->servers.at[i];
        if (sg_doctor_look_at_server(d, i) && sg_doctor_count_keys(d, i))
            continue;
        sg_doctor_add(d, SG_DOCTOR_FINDING, "connection", sg_sync_place(s), "lost: %s", sg_sync_error(s));
        all = false;
    }
    if (all)
        sg_doctor_judge_keys(d);
}

static int result(const sg_doctor_t *d)
{
    for (size_t i = 0; i < d->row_count; i++)
        if (d->rows[i].level == SG_DOCTOR_FINDING)
            return SG_EXIT_FOUND;
    return SG_EXIT_OK;
}

static int examine(sg_doctor_t *d)
{
    if (d->config->store.type == SG_STORE_MEMORY) {
        fputs("slotgate doctor: store.type is memory: there is no Redis to look at\n", stderr);
        return SG_EXIT_FOUND;
    }
    look(d);
    if (d->json)
        sg_doctor_print_json(d);
    else
        sg_doctor_print_text(d);
    return result(d);
}

int sg_cli_doctor(int argc, char **argv)
{
    sg_doctor_t d = {0};
    if (!read_options(&d, argc, argv)) {
        fputs(usage, stderr);
        return SG_EXIT_USAGE;
    }
    int status = load_config(&d);
    if (status == SG_EXIT_OK)
        status = examine(&d);
    sg_doctor_free_groups(&d);
    sg_sync_close(&d.servers);
    sg_config_unref(d.config);
    sg_free(d.slot_keys);
    sg_free(d.rows);
    return status;
}
