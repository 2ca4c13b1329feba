/* relay.h - what the three files of the upstream side share: relay.c (connections, attempts, endings),
 * relay_request.c (out) and relay_answer.c (in). */
#ifndef SG_PROXY_RELAY_H
#define SG_PROXY_RELAY_H

#include "proxy/exchange.h"

static inline const sg_upstream_conf_t *sg_relay_upstream(const sg_exchange_t *ex)
{
    return ex->match.route->upstream;
}

/* Bytes of the request that the connection has not taken yet. */
static inline size_t sg_relay_unsent(const sg_exchange_t *ex)
{
    return sg_buf_len(&ex->out) - ex->sent;
}

/* relay.c */

/* Metrics of the upstream request, once; later outcomes change nothing. */
void sg_relay_count(sg_exchange_t *ex, sg_up_outcome_t outcome);
/* This attempt's target is tried last from now on, and balancing learns of it: once for each attempt. */
void sg_relay_target_failed(sg_exchange_t *ex);
/* The end of the upstream side: a refusal, or a cut when the answer's head has gone out. */
void sg_relay_fail(sg_exchange_t *ex, sg_up_outcome_t outcome, sg_refuse_t why);
/* The answer's head has gone out: the client can only be told by a cut. */
void sg_relay_cut(sg_exchange_t *ex, sg_up_outcome_t outcome);
/* The connection broke before a byte of the answer: another attempt if there may be one, else fail. */
void sg_relay_broken(sg_exchange_t *ex, sg_up_outcome_t outcome, sg_refuse_t why);
/* Another attempt, now. `fresh`: on a new connection. */
void sg_relay_again(sg_exchange_t *ex, bool fresh);
/* In the middle of the client's body. */
void sg_relay_refuse_upload(sg_exchange_t *ex, sg_refuse_t why);
/* Bytes moved. */
void sg_relay_still_alive(sg_exchange_t *ex);
/* Start the clock of the state that the exchange is in now. */
void sg_relay_expect_progress(sg_exchange_t *ex);
/* Wait for what the connection is needed for. */
void sg_relay_watch(sg_exchange_t *ex);
/* sg_relay_flush, later in this turn: what the client sends meanwhile goes out in the same write. */
void sg_relay_flush_soon(sg_exchange_t *ex);

/* relay_request.c: send what there is. The connection may be gone afterwards. */
void sg_relay_flush(sg_exchange_t *ex);

/* relay_answer.c: take what has come. The connection may be gone afterwards. */
void sg_relay_receive(sg_exchange_t *ex);

#endif
