/* cli.h - the subcommands that are not the gateway itself. argv[0] is the subcommand's name; the result
 * is the exit status: 0 well, 1 something was found, 64 usage, 78 the config is bad. Main thread; they
 * print to stdout and stderr. */
#ifndef SG_CLI_CLI_H
#define SG_CLI_CLI_H

enum { SG_EXIT_OK = 0, SG_EXIT_FOUND = 1, SG_EXIT_USAGE = 64, SG_EXIT_CONFIG = 78 };

/* explain -c FILE METHOD URL [-H 'Name: value'] [--peer ADDRESS] [--json]: which route, identity, limits
 * and Redis keys a request would use, and what is left. Writes nothing to the store. 1 when the request
 * would be refused. */
int sg_cli_explain(int argc, char **argv);

/* check -c FILE [--print] [--json] | check --schema. With both, the print-out is a member of the JSON. */
int sg_cli_check(int argc, char **argv);

/* key new: make an API key, print it and its config line. key hash: the line of a key read from standard
 * input. */
int sg_cli_key(int argc, char **argv);

/* usage -c FILE TENANT [--json]: what is left of each limit of a tenant and of its keys, in Redis; uses
 * nothing. reset -c FILE TENANT [--json]: forget them. 1 when there is no such tenant, the store is the
 * memory of a gateway, or Redis does not answer. */
int sg_cli_usage(int argc, char **argv);
int sg_cli_reset(int argc, char **argv);

/* doctor -c FILE [--json]: audits the Redis of the config; 1 on a finding. Blocks; writes nothing. */
int sg_cli_doctor(int argc, char **argv);

/* capacity -c FILE --identities N [--active PCT] [--tenants N] [--used PCT] [--json]: keys and memory to
 * expect in Redis. Asks no server. */
int sg_cli_capacity(int argc, char **argv);

#endif
