/* session.h - a config and its store, for subcommands that look into the store of a running gateway. */
#ifndef SG_CLI_SESSION_H
#define SG_CLI_SESSION_H

#include "config/config.h"
#include "store/store.h"

typedef struct {
    const char *command;        /* its name, for messages */
    const char *file, *tenant_name;
    bool json;
    sg_config_t *config;
    const sg_tenant_t *tenant;
    sg_loop_t *loop;
    sg_memory_t *memory;
    sg_store_t *store;
} sg_session_t;

/* Reads -c FILE TENANT [--json], loads the file, finds the tenant, and connects to the Redis that it names.
 * Else says what is wrong and gives the exit status. Close it in any case. */
int sg_session_open(sg_session_t *s, const char *command, int argc, char **argv);
void sg_session_close(sg_session_t *s);

#endif
