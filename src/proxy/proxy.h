/* proxy.h - the exchange: a request and its response on their way through the gateway. One proxy per worker,
 * one thread. */
#ifndef SG_PROXY_PROXY_H
#define SG_PROXY_PROXY_H

#include "proxy/access_log.h"
#include "server/server.h"
#include "store/store.h"
#include "upstream/upstream.h"

typedef struct sg_proxy sg_proxy_t;

typedef struct {
    sg_loop_t *loop;
    sg_config_t *config;
    sg_store_t *store; /* these four outlive the proxy */
    sg_upstreams_t *upstreams;
    sg_metrics_block_t *metrics;
    sg_access_log_t *log;
} sg_proxy_setup_t;

sg_proxy_t *sg_proxy_new(const sg_proxy_setup_t *setup);
/* New requests use the new config; those in flight end on the one they began with. */
void sg_proxy_reload(sg_proxy_t *p, sg_config_t *config);
/* All requests must have ended (sg_server_free sees to it). */
void sg_proxy_free(sg_proxy_t *p);
size_t sg_proxy_in_flight(const sg_proxy_t *p);

/* What the server calls; its arg is the proxy. */
extern const sg_handler_t sg_proxy_handler;

#endif
