/* main.c - options and subcommands. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "gateway.h"

static const char usage[] =
    "usage: slotgate -c FILE                                   run the gateway\n"
    "       slotgate check -c FILE [--print] [--json]          check a config file\n"
    "       slotgate check --schema                            every key of the config file\n"
    "       slotgate explain -c FILE METHOD URL [-H 'Name: value'] [--peer ADDRESS] [--json]\n"
    "                                                          what a request would meet\n"
    "       slotgate usage -c FILE TENANT [--json]             what is left of a tenant's limits in Redis\n"
    "       slotgate reset -c FILE TENANT [--json]             give a tenant a fresh budget in Redis\n"
    "       slotgate key new | slotgate key hash               make an API key | hash one from standard "
    "input\n"
    "       slotgate doctor -c FILE [--json]                   audit its Redis\n"
    "       slotgate capacity -c FILE --identities N [--active PCT] [--tenants N] [--used PCT] [--json]\n"
    "                                                          keys and memory to expect in Redis\n"
    "       slotgate -V | -h                                   version and build | this text\n";

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
} command_t;

static const command_t commands[] = {
    {"capacity", sg_cli_capacity},
    {"check", sg_cli_check},
    {"doctor", sg_cli_doctor},
    {"explain", sg_cli_explain},
    {"key", sg_cli_key},
    {"reset", sg_cli_reset},
    {"usage", sg_cli_usage},
};

static int usage_error(void)
{
    fputs(usage, stderr);
    return SG_EXIT_USAGE;
}

/* "slotgate chekc": the usage alone would not say what is wrong. */
static int unknown_command(const char *word)
{
    fprintf(stderr, "slotgate: there is no subcommand \"%s\"\n", word);
    return usage_error();
}

static int run_gateway(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const char *path = NULL;
    int c;
    while ((c = getopt_long(argc, argv, "c:Vh", options, NULL)) != -1) {
        switch (c) {
        case 'c': path = optarg; break;
        case 'V': printf("slotgate %s\n%s\n", PACKAGE_VERSION, SG_BUILD_SUMMARY); return SG_EXIT_OK;
        case 'h': fputs(usage, stdout); return SG_EXIT_OK;
        default: return usage_error();
        }
    }
    if (!path || optind != argc)
        return usage_error();
    return sg_gateway_run(path);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (argc > 1 && argv[1][0] != '-')
        return unknown_command(argv[1]);
    return run_gateway(argc, argv);
}
