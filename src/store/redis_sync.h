/* redis_sync.h - a blocking connection to Redis, for subcommands that look at a server. Never in a gateway's
 * threads: every call may wait, at most SG_SYNC_TIMEOUT_US for one reply. */
#ifndef SG_STORE_REDIS_SYNC_H
#define SG_STORE_REDIS_SYNC_H

#include "config/config.h"

#define SG_SYNC_TIMEOUT_US 5000000
/* Most servers of one cluster. */
#define SG_SYNC_SERVERS_MAX 256
/* Most arguments of a command. */
#define SG_SYNC_ARGS_MAX 8

typedef struct sg_sync sg_sync_t;
/* A reply, or a part of one. */
typedef struct redisReply sg_sync_value_t;

typedef struct {
    sg_sync_t *at[SG_SYNC_SERVERS_MAX];
    unsigned slots[SG_SYNC_SERVERS_MAX]; /* cluster: how many it serves */
    size_t count;
} sg_sync_servers_t;

/* Connects to all masters that the config's store means: the one server, the one that the sentinels name,
 * or each of a cluster. SG_ERR_CONNECT with a sentence (without secrets) when one of them cannot be
 * reached; what is open is closed then. */
SG_MUST sg_err_t sg_sync_open(const sg_store_conf_t *conf, sg_sync_servers_t *out, sg_why_t *why);
void sg_sync_close(sg_sync_servers_t *servers);
/* "10.0.0.1:6379", "unix:/run/redis.sock". */
const char *sg_sync_place(const sg_sync_t *s);

/* A command: `count` strings, separated by blanks in `line`, then each of `args` as one more. Several may be
 * sent before their replies are read, in the same order. False when the connection is lost. */
bool sg_sync_send(sg_sync_t *s, const char *line, const sg_str_t *args, size_t count);
/* The next reply; it holds until the next one is read. NULL when the connection is lost, or was before. */
const sg_sync_value_t *sg_sync_read(sg_sync_t *s);
/* Both. */
const sg_sync_value_t *sg_sync_ask(sg_sync_t *s, const char *line);
/* Why the connection was lost. */
const char *sg_sync_error(const sg_sync_t *s);

/* These take NULL as well: a value without content. */
sg_str_t sg_sync_text(const sg_sync_value_t *v); /* a string, a status or an error; else empty */
bool sg_sync_is_error(const sg_sync_value_t *v);
bool sg_sync_integer(const sg_sync_value_t *v, int64_t *out); /* an integer, or a string that is one */
size_t sg_sync_count(const sg_sync_value_t *v);               /* of an array; else 0 */
const sg_sync_value_t *sg_sync_at(const sg_sync_value_t *v, size_t i); /* NULL beyond the end */

#endif
