/* server.h - the front: connections and requests from clients, by libmicrohttpd in external-polling mode.
 *
 * One server per worker; one thread. The server checks that a request is exactly HTTP/1.1, hands it to a
 * handler (proxy/), moves the body in and the answer out with back-pressure, and notices when the client
 * goes. */
#ifndef SG_SERVER_SERVER_H
#define SG_SERVER_SERVER_H

#include <stdatomic.h>

#include "base/addr.h"
#include "config/config.h"
#include "event/loop.h"
#include "http/field.h"
#include "metrics/metrics.h"
#include "server/admission.h"
#include "server/refusal.h"
#include "server/tls.h"

typedef struct sg_server sg_server_t;

typedef enum { SG_UPLOAD_NONE, SG_UPLOAD_LENGTH, SG_UPLOAD_CHUNKED } sg_upload_t;

/* A request from its complete head until `done`. Views live as long as the request. */
typedef struct sg_request {
    uint32_t magic;
    sg_arena_t *arena; /* freed after `done` */
    void *user;        /* the handler's */

    sg_str_t method, target; /* raw */
    unsigned version_minor;  /* 0 or 1 */
    sg_fields_t fields;      /* checked: names are tokens, values clean and trimmed */
    sg_str_t host;           /* value of Host; empty when absent (HTTP/1.0) */
    sg_upload_t upload;
    uint64_t upload_length; /* SG_UPLOAD_LENGTH */
    bool expects_continue;
    sg_addr_t peer;
    bool peer_is_unix;
    bool tls;
    int64_t begun_us;            /* monotonic: when the head was complete */
    const sg_refusal_t *refusal; /* the server's own checks said no; the handler answers with it */
    bool drained;                /* the gateway stops and has cut it; not the client, nor the handler */
} sg_request_t;

typedef enum {
    SG_ANSWER_BYTES,   /* `bytes`, which live until done */
    SG_ANSWER_LENGTH,  /* `length` bytes by pull */
    SG_ANSWER_CHUNKED, /* by pull, end unknown; until close for HTTP/1.0 clients */
    SG_ANSWER_HEAD,    /* no body; Content-Length `length` is told (HEAD, 304) */
    SG_ANSWER_UPGRADE, /* 101: the connection becomes a tunnel; `upgraded` follows */
    SG_ANSWER_BARE,    /* no body and no length (HEAD or 304 of unknown length, 204, 1xx) */
} sg_answer_kind_t;

typedef struct {
    unsigned status;
    const sg_fields_t *fields; /* without framing and connection fields */
    sg_answer_kind_t kind;
    sg_str_t bytes;
    uint64_t length;
    bool close;     /* the connection ends after this answer */
    bool keep_body; /* the handler still takes what comes of the request's body */
} sg_reply_t;

#define SG_PULL_END (-1) /* the body is complete */
#define SG_PULL_CUT (-2) /* it never will be: cut the connection so that the client can tell */

/* All are called in the server's thread. None may free the request. */
typedef struct {
    /* A head is complete. Later, and also from inside: sg_request_admit, sg_request_reply or sg_request_cut.
     */
    void (*begin)(void *arg, sg_request_t *rq);
    /* After admit: body bytes. Returns how many were taken; fewer than given stops the client until
     * sg_request_want_body. */
    size_t (*body)(sg_request_t *rq, sg_str_t data);
    /* After admit: the request is complete. */
    void (*body_end)(sg_request_t *rq);
    /* Up to `max` bytes of the answer's body into out; 0 = none now, call sg_request_have_answer later. */
    ptrdiff_t (*pull)(sg_request_t *rq, char *out, size_t max);
    /* The client closed its connection while the request was open; `done` follows. */
    void (*gone)(sg_request_t *rq);
    /* After an answer of kind UPGRADE: the tunnel is open; `early` is what the client has sent already. */
    void (*upgraded)(sg_request_t *rq, sg_str_t early);
    /* The last call: complete tells whether the whole answer was handed to the kernel. */
    void (*done)(sg_request_t *rq, bool complete);
} sg_handler_t;

/* Let the body come (sends 100 Continue when it was asked for). */
void sg_request_admit(sg_request_t *rq);
void sg_request_want_body(sg_request_t *rq);
/* Answer; once. Before admit, or when the whole request has been received, or later: a body that is still
 * coming is then taken and, but for `keep_body`, dropped up to a bound; the answer goes out after it. What
 * `reply` points to lives until done. */
void sg_request_reply(sg_request_t *rq, const sg_reply_t *reply);
/* How many bytes of field lines an answer may have: what the library's memory of this connection still holds.
 */
size_t sg_request_answer_room(const sg_request_t *rq);
void sg_request_have_answer(sg_request_t *rq);
/* End the connection at once, without an answer or in the middle of one. */
void sg_request_cut(sg_request_t *rq);
/* The same, but in the middle of an upload: the client is told why first (plain HTTP only; libmicrohttpd
 * cannot answer then). */
void sg_request_cut_with(sg_request_t *rq, const sg_refusal_t *why);

/* A tunnel's side towards the client: non-blocking; SG_OK with *n > 0, SG_ERR_AGAIN, SG_ERR_EOF (recv only),
 * SG_ERR_RESET. */
SG_MUST sg_err_t sg_request_tunnel_send(sg_request_t *rq, const void *data, size_t len, size_t *n);
SG_MUST sg_err_t sg_request_tunnel_recv(sg_request_t *rq, void *data, size_t len, size_t *n);
/* Level-triggered; the first call's fn and arg stay. */
void sg_request_tunnel_watch(sg_request_t *rq, unsigned events, sg_watch_fn *fn, void *arg);
/* Close it; `done` follows. */
void sg_request_tunnel_end(sg_request_t *rq);

/* Listens on every address of the config (own sockets with SO_REUSEPORT), or on inherited fds. NULL with a
 * sentence. */
typedef struct {
    sg_loop_t *loop;
    sg_config_t *config;
    sg_tls_t *tls; /* NULL: plain HTTP; whether it is there is fixed for the server's life */
    sg_metrics_block_t *metrics;
    sg_admission_t *admission; /* over all workers */
    const int *fds;            /* listening sockets, ready; owned by the caller */
    size_t fd_count;
    const sg_handler_t *handler;
    void *handler_arg;
} sg_server_setup_t;
sg_server_t *sg_server_new(const sg_server_setup_t *setup, sg_why_t *why);
/* tls: the certificate for connections to come (its client CA counts only at the start). */
void sg_server_reload(sg_server_t *s, sg_config_t *config, sg_tls_t *tls);
/* Stop accepting, close idle connections, mark every further answer as the connection's last. */
void sg_server_drain(sg_server_t *s);
/* Connections that are open. */
size_t sg_server_connections(const sg_server_t *s);
/* Cuts what is still open; every open request gets its `done`. */
void sg_server_free(sg_server_t *s);

#endif
