/* redis_link.h - one socket to Redis: hiredis connects, frames and buffers; the queue of what is
 * out, and when to write, are ours (hiredis' own async part has no time limits in 0.14 and aborts
 * on a reply nobody asked for).
 *
 * Commands of one loop turn go out in one write. Callbacks run in the loop's thread, never from
 * inside _open or _send. */
#ifndef SG_STORE_REDIS_LINK_H
#define SG_STORE_REDIS_LINK_H

#include "event/loop.h"
#include "store/reply.h"

typedef struct sg_redis_link sg_redis_link_t;

/* NULL: the link went before the reply came. The reply holds during the call. */
typedef void sg_redis_reply_fn(void *arg, const redisReply *reply);
/* The link broke; called once, before the outstanding callbacks get their NULL. Follow with
 * sg_redis_link_close, also from inside. */
typedef void sg_redis_broken_fn(void *arg, sg_store_err_t kind, const char *why);

/* Most commands that may be out at once. */
#define SG_REDIS_OUT_MAX 65536

/* TCP when host is not NULL (a numeric address), else a unix socket. Always gives a link; what
 * fails at once is reported later. */
sg_redis_link_t *sg_redis_link_open(sg_loop_t *loop, const char *host, unsigned port, const char *unix_path,
                                    sg_redis_broken_fn *broken, void *arg);
/* Right after _open: the connection speaks TLS, with a server whose certificate is for `host`. What fails is
 * reported as SG_STORE_ERR_CONNECT; where the program has no TLS, it always does, and nothing is sent. */
void sg_redis_link_use_tls(sg_redis_link_t *l, const char *host);
/* A whole command in RESP; copied. It may be sent before the link is connected. fn may be NULL.
 * False when the link is broken or SG_REDIS_OUT_MAX are out; fn is not called then. */
bool sg_redis_link_send(sg_redis_link_t *l, sg_str_t command, sg_redis_reply_fn *fn, void *arg);
/* The same, for a reply that may have more or longer parts than the arena of a link holds (up to
 * SG_REPLY_BUFFER_BYTES). */
bool sg_redis_link_send_large(sg_redis_link_t *l, sg_str_t command, sg_redis_reply_fn *fn, void *arg);
/* Write now what would be written at the end of the turn; errors are left for later. */
void sg_redis_link_flush(sg_redis_link_t *l);
/* Outstanding callbacks get NULL before it returns (`broken` does not come); freed at the end of
 * the turn. NULL is fine. */
void sg_redis_link_close(sg_redis_link_t *l);

#endif
