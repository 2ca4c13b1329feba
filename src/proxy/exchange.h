/* exchange.h - one exchange: its states, what it holds, and the steps. What the files of this room share.
 *
 *   NEW ──► LIMITING ──► SENDING ──► WAITING ──► RELAYING ──► DONE
 *    │          │           │  ▲        │ │          │
 *    │          │           │  └─retry──┘ │          │  upstream broke: the client's connection is cut
 *    └──────────┴───────────┴─────────────┴──► REFUSING ──► DONE
 *
 * Only sg_exchange_go changes the state. The exchange lies in its request's arena; `done` from the server is
 * its end: all that is still out (a ticket of the store, a connection being made or in use) is cancelled
 * there. */
#ifndef SG_PROXY_EXCHANGE_H
#define SG_PROXY_EXCHANGE_H

#include "base/random.h"
#include "http/framing.h"
#include "http/target.h"
#include "http/trace.h"
#include "proxy/proxy.h"

enum { SG_EXCHANGE_MAGIC = 0x53474558 };

/* Above HIGH the side that sends is not read any more; below LOW it is again. */
enum {
    SG_RELAY_HIGH = 128 * 1024,
    SG_RELAY_LOW = 32 * 1024,
    SG_UPLOAD_HIGH = 64 * 1024,
    SG_SCRATCH_BYTES = 64 * 1024
};

typedef enum {
    SG_EX_NEW,
    SG_EX_LIMITING,
    SG_EX_SENDING,
    SG_EX_WAITING,
    SG_EX_RELAYING,
    SG_EX_REFUSING,
    SG_EX_DONE
} sg_ex_state_t;

struct sg_proxy {
    sg_loop_t *loop;
    sg_config_t *config;
    sg_store_t *store;
    sg_upstreams_t *upstreams;
    sg_metrics_block_t *metrics;
    sg_access_log_t *log;
    sg_buf_t log_lines; /* of this turn */
    sg_hook_t log_hook;
    size_t in_flight;
    char scratch[SG_SCRATCH_BYTES]; /* what one recv brings; used up before the call returns */
};

typedef struct {
    uint32_t magic;
    sg_ex_state_t state;
    sg_proxy_t *proxy;
    sg_request_t *rq;
    sg_config_t *config; /* counted; the one this exchange began with */

    /* what is asked, and by whom */
    sg_method_t method;
    sg_target_t target;
    sg_str_t host;      /* lower case, without port; empty when there is none */
    sg_str_t authority; /* what Host says, or the target's authority */
    sg_match_t match;
    sg_identity_t identity;
    sg_id_err_t id_err;
    bool peer_trusted;
    sg_addr_t client;               /* who it is for: the peer, or what trusted proxies say */
    char lease[SG_RANDOM_ID_BYTES]; /* names this exchange in the store */
    sg_str_t request_id;            /* the same, or the id that a trusted peer gave */
    sg_trace_t trace;

    /* limits */
    const sg_limit_t *limits[SG_LIMITS_MAX];
    sg_check_t check;
    sg_answer_t answer;
    bool answered;          /* `answer` holds a decision */
    bool holds_slots;       /* concurrency slots are ours to give back */
    bool checking_failures; /* the check is about bad keys, not about the route's limits */
    sg_ticket_t *ticket;
    bool cost_told;     /* the answer said it: */
    int64_t cost;       /* units */
    bool cost_reserved; /* at the end: units were reserved, and this became of them */
    sg_settled_t settled;

    /* to the upstream */
    sg_dial_t *dial;
    sg_conn_t *conn;
    uint64_t tried; /* bits of targets */
    unsigned attempts, target_index;
    bool stale_retry_done;
    bool attempt_failed;   /* this attempt's failure has been reported */
    sg_buf_t out;          /* head and body; all of it is kept while it may have to be sent again */
    size_t head_len, sent; /* of `out` */
    bool replayable;       /* `out` still begins with the head */
    bool upload_done;      /* the client's body is complete and in `out` */
    bool upload_blocked;   /* the client waits until `out` has room */
    uint64_t upload_bytes;
    sg_task_t flush_task;
    int64_t upstream_begun_us, upstream_us; /* us: -1 = no upstream was asked */
    const char *target_text;

    /* from the upstream */
    sg_buf_t head_in;  /* an incomplete head */
    size_t head_seen;  /* of it: searched for its end */
    unsigned interim;  /* 1xx answers so far */
    bool answer_begun; /* a byte of the answer has come */
    sg_response_head_t head;
    sg_body_t body;
    sg_buf_t down;                     /* body bytes that the client has not taken yet */
    bool tunnel;                       /* upgraded: tunnel.c moves the bytes */
    bool client_ended, upstream_ended; /* that side of the tunnel will send no more */
    bool upstream_done, upstream_cut, paused;
    sg_up_outcome_t outcome;

    /* to the client */
    sg_fields_t fields;
    sg_reply_t reply;
    sg_buf_t problem;
    const sg_refusal_t *refusal;
    unsigned status;
    uint64_t response_bytes;

    sg_timer_t timer;
    int64_t active_us; /* last byte, for idle time-outs */
} sg_exchange_t;

void sg_exchange_go(sg_exchange_t *ex, sg_ex_state_t to);
/* What ${...} stands for in this exchange. */
void sg_exchange_vars(const sg_exchange_t *ex, sg_vars_t *out);

/* admit.c: target, route, identity, limits; ends in sg_exchange_forward or sg_exchange_refuse. */
void sg_exchange_admit(sg_exchange_t *ex);
void sg_exchange_release_slots(sg_exchange_t *ex);

/* forward.c: the request's head as the upstream gets it. */
void sg_exchange_edit_fields(sg_exchange_t *ex, sg_fields_t *fs, const sg_field_edit_t *e);
void sg_forward_head(sg_exchange_t *ex, const sg_target_conf_t *target, sg_buf_t *out);

/* relay.c: to and from the upstream. */
void sg_exchange_forward(sg_exchange_t *ex);
size_t sg_relay_body(sg_exchange_t *ex, sg_str_t data);
void sg_relay_body_end(sg_exchange_t *ex);
bool sg_relay_wants_upload(const sg_exchange_t *ex);
ptrdiff_t sg_relay_pull(sg_exchange_t *ex, char *out, size_t max);
/* Give up whatever is open towards the upstream; safe at any time. */
void sg_relay_abandon(sg_exchange_t *ex);

/* The tunnel's upstream side ends in order. */
void sg_relay_end_tunnel(sg_exchange_t *ex);

/* tunnel.c: after a 101. */
bool sg_tunnel_asked(const sg_request_t *rq);    /* a WebSocket handshake (RFC 6455 section 4.1) */
bool sg_tunnel_granted(const sg_exchange_t *ex); /* the upstream's 101 answers it */
void sg_tunnel_begin(sg_exchange_t *ex, sg_str_t early);

/* reply.c: what the client gets. */
void sg_exchange_refuse(sg_exchange_t *ex, const sg_refusal_t *why);
void sg_exchange_refuse_why(sg_exchange_t *ex, sg_refuse_t why);
void sg_reply_local(sg_exchange_t *ex);    /* the route's own `respond` */
void sg_reply_upgrade(sg_exchange_t *ex);  /* ex->head is a 101 */
void sg_reply_upstream(sg_exchange_t *ex); /* ex->head and what there is of the body */

/* cost.c: a cost that is known only after the answer. */
void sg_cost_note(sg_exchange_t *ex);   /* ex->head is what the client gets */
void sg_cost_settle(sg_exchange_t *ex); /* at the end, once */

/* account.c: metrics and the access log, once per exchange. */
void sg_account_decisions(sg_exchange_t *ex);
void sg_account_done(sg_exchange_t *ex, bool complete);

#endif
