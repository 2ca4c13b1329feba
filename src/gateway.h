/* gateway.h - the running process: workers, admin listener, reload, drain. */
#ifndef SG_GATEWAY_H
#define SG_GATEWAY_H

/* Runs until a signal ends it. Returns the exit code: 0, 1 (cannot start), 78 (config error). */
int sg_gateway_run(const char *config_path);

#endif
