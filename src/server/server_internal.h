/* server_internal.h - what the files of this room share. */
#ifndef SG_SERVER_INTERNAL_H
#define SG_SERVER_INTERNAL_H

#include <microhttpd.h>

#include "base/list.h"
#include "event/pace.h"
#include "server/server.h"

/* libmicrohttpd 1.0 refuses malformed heads itself at its strict level; before, the gateway looks at the raw
 * layout (layout.c). */
#define SG_MHD_STRICT (MHD_VERSION >= 0x01000000)

enum { SG_CLIENT_MAGIC = 0x5347434c, SG_LIVE_MAGIC = 0x53474c56, SG_REQUEST_MAGIC = 0x53475251 };

/* Where a request is in libmicrohttpd's eyes. */
typedef enum {
    SG_PHASE_HEAD,   /* the head is here, nothing was read after it */
    SG_PHASE_BODY,   /* the body is coming */
    SG_PHASE_END,    /* the whole request is here */
    SG_PHASE_TUNNEL, /* upgraded: no HTTP any more */
    SG_PHASE_ANSWER, /* the answer is queued */
} sg_phase_t;

/* One connection from a client. */
typedef struct sg_client {
    uint32_t magic;
    sg_server_t *server;
    sg_link_t link; /* server->clients */
    int fd;
    sg_addr_t peer;
    bool peer_is_unix, counted;
    sg_tls_t *tls; /* counted; the credentials it began with; NULL: plain HTTP */
    bool certificate_checked;
    struct MHD_Connection *mhd;
    sg_watch_t hangup;
    sg_timer_t deadline;   /* for the next complete head */
    sg_buf_t target;       /* raw request target of the request being parsed */
    const char *target_at; /* where libmicrohttpd holds it: for the layout check */
    size_t target_len;
    struct sg_live *live; /* the request that is open; NULL between requests */
    uint64_t requests;
    int64_t waiting_since_us; /* when the last request ended, or the connection was opened */
    bool linger;              /* unread bytes may be on their way: close gently */
    bool hung_up;
    bool idle;                /* no byte of a next request has to be there yet */
} sg_client_t;

/* A request together with what only this room needs. */
typedef struct sg_live {
    uint32_t magic;
    sg_request_t rq; /* the public part */
    sg_server_t *server;
    sg_client_t *client; /* gone before this when the connection ends */
    sg_phase_t phase;
    bool admitted, suspended, cut, close;
    bool tried_raw, written_raw; /* the answer went out past the library */
    bool calling; /* the library is in its call of us: it learns from what we return */
    bool replied, queued;
    bool drop_body; /* the answer is there; what comes of the body is dropped */
    uint64_t dropped_bytes;
    uint64_t body_bytes;      /* that have come */
    sg_timer_t body_timer;
    int64_t body_begun_us;    /* moves on while the client is not asked for more */
    int64_t body_paused_us;   /* while suspended: since when */
    sg_reply_t reply;
    /* upgraded */
    bool tunnel_open, tunnel_ended, tunnel_blocked;
    struct MHD_UpgradeResponseHandle *tunnel_handle; /* plain */
    sg_buf_t tunnel_head;                            /* TLS: the 101 that has not gone out yet */
    int tunnel_fd;
    sg_watch_t tunnel_watch;
    sg_task_t tunnel_task;
    sg_task_t dead;
    sg_link_t spare; /* server->spares, once dead */
} sg_live_t;

typedef struct {
    sg_watch_t watch;
    int fd;
    sg_server_t *server;
} sg_listener_t;

struct sg_server {
    sg_loop_t *loop;
    sg_config_t *config;
    sg_tls_t *tls; /* counted; for new connections */
    sg_metrics_block_t *metrics;
    sg_admission_t *admission;
    const sg_handler_t *handler;
    void *handler_arg;
    struct MHD_Daemon *daemon;
    sg_watch_t mhd_watch;
    sg_hook_t mhd_hook;
    sg_timer_t mhd_timer;
    sg_task_t mhd_again;
    sg_pace_t pace;
    size_t memory_bytes; /* libmicrohttpd's for one connection */
    bool dirty;          /* libmicrohttpd has work */
    bool draining;
    sg_listener_t *listeners;
    size_t listener_count;
    sg_link_t clients, lingerers;
    sg_link_t spares; /* memory of ended requests */
    size_t spare_count;
    sg_task_t dead;
    size_t client_count;
    sg_client_t *arriving; /* handed to libmicrohttpd right now */
};

/* server.c */
sg_client_t *sg_client_of(struct MHD_Connection *mhd);

/* tls.c: libmicrohttpd's options (none for NULL), and the check of the client's certificate when one is asked
 * for. */
enum { SG_TLS_OPTIONS = 4 };
void sg_tls_options(const sg_tls_t *t, struct MHD_OptionItem out[SG_TLS_OPTIONS]);
bool sg_tls_client_is_trusted(sg_client_t *c);

/* request.c */
enum MHD_Result sg_request_handle(sg_server_t *s, struct MHD_Connection *c, const char *method,
                                  const char *version, const char *data, size_t *size, void **state);
void sg_request_completed(sg_live_t *live, enum MHD_RequestTerminationCode how);
void sg_request_client_gone(sg_live_t *live);
void sg_spares_free(sg_server_t *s);
/* Let libmicrohttpd go on with a suspended connection; safe when it is not suspended. */
void sg_live_resume(sg_live_t *live);
void sg_live_suspend(sg_live_t *live);

/* head.c: fill rq from the connection and check it; rq->refusal is set when it is not exactly HTTP/1.1. */
void sg_head_read(sg_client_t *client, const char *method, const char *version, sg_request_t *rq);

/* layout.c: NULL, or a constant word: the raw head is not in canonical form. */
const char *sg_layout_check(const sg_client_t *client, const char *method, const char *version);

/* answer.c: hand the reply to libmicrohttpd. False: it could not be; the connection must be cut. */
bool sg_answer_queue(sg_live_t *live);

/* upgrade.c */
struct MHD_Response *sg_upgrade_response(sg_live_t *live);
void sg_upgrade_tls(sg_live_t *live);  /* in place of an answer through the library */
void sg_tunnel_close(sg_live_t *live); /* safe when there is none */

/* client.c */
bool sg_client_accept(sg_server_t *s, int fd, const struct sockaddr *sa, socklen_t len);
void sg_client_started(sg_client_t *c, struct MHD_Connection *mhd);
void sg_client_closed(sg_client_t *c);
/* The head of the next request must be complete in time. */
void sg_client_expect_head(sg_client_t *c);
void sg_client_shut(sg_client_t *c);
/* Close what is left of connections that were being closed gently. */
void sg_lingerers_free(sg_server_t *s);

/* Write a small answer straight to the socket, past libmicrohttpd: only while nothing of an answer has been
 * sent. */
void sg_client_write_raw(sg_client_t *c, const sg_refusal_t *why);
/* The same for an answer whose body is `bytes`; the connection must end after it. False: nothing was sent. */
bool sg_client_write_reply(sg_client_t *c, const sg_reply_t *reply);

void sg_server_run_soon(sg_server_t *s);

#endif
