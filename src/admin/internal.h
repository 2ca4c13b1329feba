/* internal.h - what the files of admin/ share. */
#ifndef SG_ADMIN_INTERNAL_H
#define SG_ADMIN_INTERNAL_H

#include <microhttpd.h>

#include "admin/admin.h"
#include "base/mem.h"
#include "event/pace.h"

#define SG_ADMIN_REPLY_MAX ((size_t)512 << 20)      /* the exposition of some million series */

typedef struct sg_admin_listener sg_admin_listener_t;
typedef struct sg_admin_request sg_admin_request_t;

struct sg_admin {
    sg_loop_t *loop;
    sg_admin_host_t host;
    sg_link_t listeners, retired;       /* sg_admin_listener_t.link */
    sg_link_t waiting;                  /* sg_admin_request_t.link: suspended */
    bool has_token;
    uint8_t token_digest[SG_SHA256_BYTES];
    bool closing;
};

/* --- listener.c: a socket and its libmicrohttpd daemon ------------------------------------------------- */

struct sg_admin_listener {
    uint32_t magic;
    sg_link_t link;
    sg_admin_t *admin;
    sg_endpoint_t endpoint;             /* as asked */
    char address[160];                  /* as it is */
    struct MHD_Daemon *daemon;
    sg_watch_t watch;
    sg_timer_t timer;
    sg_hook_t hook;
    sg_task_t bury;
    sg_pace_t pace;
    bool dirty;                         /* the daemon has something to do in this turn */
    bool retired;
};

/* NULL and a sentence when it cannot be had. */
sg_admin_listener_t *sg_admin_listen(sg_admin_t *a, const sg_endpoint_t *e, sg_why_t *why);
void sg_admin_run_soon(sg_admin_listener_t *l);     /* a resumed connection moves only when the daemon runs */
void sg_admin_retire(sg_admin_listener_t *l);       /* accept no more; goes with its last connection */
void sg_admin_unlisten(sg_admin_listener_t *l);     /* now; nothing may be suspended */
int sg_admin_bind(const sg_endpoint_t *e, sg_why_t *why);    /* bind.c: a listening socket, -1 on error */
void sg_admin_bound_text(int fd, const sg_endpoint_t *e, char *out, size_t size);

/* --- request.c: one request ---------------------------------------------------------------------------- */

typedef enum { SG_ADMIN_GET = 1, SG_ADMIN_HEAD = 2, SG_ADMIN_POST = 4, SG_ADMIN_OTHER = 8 } sg_admin_method_t;

/* What runs while a request is suspended. `abandon` stops it at once and frees it: no call of it comes after.
 */
typedef struct {
    void (*abandon)(void *arg);
    void *arg;
} sg_admin_job_t;

struct sg_admin_request {
    uint32_t magic;
    sg_admin_t *admin;
    sg_admin_listener_t *listener;
    struct MHD_Connection *connection;
    sg_link_t link;
    char *path;                         /* raw, without the query */
    char *query;                        /* NULL = none */
    char *name;                         /* decoded {name} of the path; NULL = none */
    size_t body_bytes;
    sg_admin_method_t method;
    bool needs_host, started, waiting, done;
    sg_admin_job_t job;
    /* the answer */
    unsigned status;
    const char *type;
    unsigned allow;                     /* methods, with 405 */
    sg_buf_t body;
};

/* The callbacks that a daemon is started with. */
void sg_admin_on_connection(void *cls, struct MHD_Connection *c, void **peer,
                            enum MHD_ConnectionNotificationCode code);
void *sg_admin_on_uri(void *cls, const char *uri, struct MHD_Connection *c);
enum MHD_Result sg_admin_on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                    const char *version, const char *data, size_t *data_bytes, void **state);
void sg_admin_on_end(void *cls, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode how);

/* Answers: set the status and type; the text is appended to r->body by the caller. */
void sg_admin_reply(sg_admin_request_t *r, unsigned status, const char *type);
/* A problem document (RFC 9457) takes the place of whatever stands in the body. `detail` may be NULL. */
void sg_admin_problem(sg_admin_request_t *r, unsigned status, const char *detail);
/* The request waits for a job; its handler returns after this. */
void sg_admin_wait(sg_admin_request_t *r, void (*abandon)(void *arg), void *arg);
/* The job is over (it has freed itself) and the answer stands. */
void sg_admin_done(sg_admin_request_t *r);
/* For an open endpoint that has more to say: false, and the answer stands, without the token. */
bool sg_admin_authorized(sg_admin_request_t *r);
/* Does the query have this parameter (bare, =1 or =true)? */
bool sg_admin_query_flag(const sg_admin_request_t *r, const char *name);
/* An integer of at most `max`; *value stays when the parameter is not there. False: it is something else. */
bool sg_admin_query_u64(const sg_admin_request_t *r, const char *name, uint64_t max, uint64_t *value);

/* --- the endpoints ------------------------------------------------------------------------------------- */

void sg_admin_metrics(sg_admin_request_t *r);       /* health.c */
void sg_admin_healthz(sg_admin_request_t *r);
void sg_admin_readyz(sg_admin_request_t *r);
void sg_admin_status(sg_admin_request_t *r);        /* status.c */
void sg_admin_tenants(sg_admin_request_t *r);       /* tenants.c */
void sg_admin_usage(sg_admin_request_t *r);         /* usage.c */
void sg_admin_reset(sg_admin_request_t *r);         /* actions.c */
void sg_admin_reload_now(sg_admin_request_t *r);
void sg_admin_page(sg_admin_request_t *r);          /* health.c */

/* The tenant that r->name names in the current config; NULL, and the answer stands, when there is none or
 * when it is `anonymous`, whose counters belong to client addresses. */
const sg_tenant_t *sg_admin_tenant(sg_admin_request_t *r);

#endif
