/* cluster.h - decisions by a Redis Cluster: one connection (and breaker) per node, and a map of
 * slots.
 *
 * All keys of a request lie in one slot, so one node decides it. The map is learned from MOVED, one
 * slot at a time: a slot that is not known is asked for at any node that is up. ASK is followed for
 * the one decision. A node that is down is not asked while another one is up; after a failover that
 * one names the new master, and with the first slot that it names all of the old one are forgotten,
 * and itself, when it is none of the config's. */
#ifndef SG_STORE_CLUSTER_H
#define SG_STORE_CLUSTER_H

#include "store/redis.h"

#define SG_CLUSTER_SLOTS 16384
/* Nodes beyond these are not asked; decisions of their slots are made by policy. */
#define SG_CLUSTER_NODES_MAX 64

typedef struct sg_cluster sg_cluster_t;

/* hooks.moved and hooks.changed are not used. Connects to the nodes of the config (store.nodes). */
sg_cluster_t *sg_cluster_new(sg_loop_t *loop, sg_config_t *config, sg_metrics_block_t *metrics,
                             const sg_redis_hooks_t *hooks);
/* As sg_redis_reload, _retire, _free, _check, _release, _settle and _status. */
bool sg_cluster_reload(sg_cluster_t *c, sg_config_t *config);
void sg_cluster_retire(sg_cluster_t *c);
void sg_cluster_free(sg_cluster_t *c);
sg_ticket_t *sg_cluster_check(sg_cluster_t *c, const sg_check_t *check, sg_answer_fn *fn, void *arg);
/* The node that decides for this tag, as far as is known: true of a tag that was asked for. */
sg_redis_t *sg_cluster_node(const sg_cluster_t *c, const char *tag);
void sg_cluster_release(sg_cluster_t *c, const sg_check_t *check);
void sg_cluster_settle(sg_cluster_t *c, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost);
void sg_cluster_status(const sg_cluster_t *c, sg_store_status_t *out);

/* CRC-16/XMODEM of the text, modulo the number of slots (Redis Cluster specification, "Keys
 * distribution model"). */
unsigned sg_cluster_slot(sg_str_t tag);

#endif
