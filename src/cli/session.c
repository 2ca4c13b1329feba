#include "cli/session.h"

#include <getopt.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"

#define CONNECT_US 3000000

static int usage(const sg_session_t *s)
{
    fprintf(stderr, "usage: slotgate %s -c FILE TENANT [--json]\n", s->command);
    return SG_EXIT_USAGE;
}

static int read_options(sg_session_t *s, int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'}, {0}};
    int c;
    while ((c = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
        switch (c) {
        case 'c': s->file = optarg; break;
        case 'j': s->json = true; break;
        default: return usage(s);
        }
    }
    if (!s->file || optind + 1 != argc)
        return usage(s);
    s->tenant_name = argv[optind];
    return SG_EXIT_OK;
}

static int load_config(sg_session_t *s)
{
    sg_diags_t diags = {0};
    s->config = sg_config_load(s->file, NULL, &diags);
    if (!s->config)
        sg_diags_print(&diags, stderr);
    sg_diags_deinit(&diags);
    return s->config ? SG_EXIT_OK : SG_EXIT_CONFIG;
}

static int find_tenant(sg_session_t *s)
{
    s->tenant = sg_config_tenant(s->config, sg_str(s->tenant_name));
    if (!s->tenant)
        fprintf(stderr, "slotgate %s: the config has no tenant \"%s\"\n", s->command, s->tenant_name);
    else if (s->tenant->anonymous)
        fprintf(stderr, "slotgate %s: anonymous callers are counted by address, not as a tenant\n",
                s->command);
    return s->tenant && !s->tenant->anonymous ? SG_EXIT_OK : SG_EXIT_FOUND;
}

static int connect_store(sg_session_t *s)
{
    sg_store_status_t status = {0};
    if (s->config->store.type == SG_STORE_MEMORY) {
        fprintf(stderr,
                "slotgate %s: the memory store's counters lie in the running gateway; "
                "ask its admin listener: /tenants/NAME/%s\n",
                s->command, s->command);
        return SG_EXIT_FOUND;
    }
    sg_log_set(SG_LOG_ERROR, false);    /* what goes wrong is said below */
    s->loop = sg_loop_new();
    s->memory = sg_memory_new(1);
    s->store = sg_store_new(s->loop, s->config, s->memory, NULL, NULL);
    int64_t end_us = sg_clock_mono_us() + CONNECT_US;
    while (!status.up && sg_clock_mono_us() < end_us) {
        sg_loop_turn(s->loop, 50000);
        sg_store_status(s->store, &status);
    }
    if (!status.up)
        fprintf(stderr, "slotgate %s: no connection to the store: %s\n", s->command,
                status.error[0] ? status.error : "no answer");
    return status.up ? SG_EXIT_OK : SG_EXIT_FOUND;
}

int sg_session_open(sg_session_t *s, const char *command, int argc, char **argv)
{
    *s = (sg_session_t){.command = command};
    int status = read_options(s, argc, argv);
    if (status == SG_EXIT_OK)
        status = load_config(s);
    if (status == SG_EXIT_OK)
        status = find_tenant(s);
    if (status == SG_EXIT_OK)
        status = connect_store(s);
    return status;
}

void sg_session_close(sg_session_t *s)
{
    if (s->store)
        sg_store_free(s->store);
    sg_memory_free(s->memory);
    if (s->loop)
        sg_loop_free(s->loop);
    sg_config_unref(s->config);
}
