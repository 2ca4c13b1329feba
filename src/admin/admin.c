/* admin.c - the set of listeners, and the token. */
#include "admin/internal.h"

static sg_admin_listener_t *find(sg_admin_t *a, const sg_endpoint_t *e)
{
    SG_LIST_EACH(link, &a->listeners) {
        sg_admin_listener_t *l = SG_OWNER(link, sg_admin_listener_t, link);
        if (strcmp(l->endpoint.text, e->text) == 0)
            return l;
    }
    return NULL;
}

static bool wanted(const sg_endpoints_t *listen, const sg_admin_listener_t *l)
{
    for (size_t i = 0; i < listen->count; i++) {
        if (strcmp(listen->at[i].text, l->endpoint.text) == 0)
            return true;
    }
    return false;
}

/* Only the digest is kept: comparing digests takes the same time whatever was sent, its length included. */
static void take_token(sg_admin_t *a, sg_str_t token)
{
    a->has_token = token.n > 0;
    sg_sha256(token, a->token_digest);
}

static void close_new(sg_admin_t *a, sg_link_t *last_old)
{
    while (a->listeners.prev != last_old)
        sg_admin_unlisten(SG_OWNER(a->listeners.prev, sg_admin_listener_t, link));
}

static sg_err_t open_new(sg_admin_t *a, const sg_endpoints_t *listen, sg_why_t *why)
{
    sg_link_t *last_old = a->listeners.prev;
    for (size_t i = 0; i < listen->count; i++) {
        if (find(a, &listen->at[i]) || sg_admin_listen(a, &listen->at[i], why))
            continue;
        close_new(a, last_old);
        return SG_ERR_IO;
    }
    return SG_OK;
}

sg_admin_t *sg_admin_new(sg_loop_t *loop, const sg_admin_host_t *host, const sg_config_t *config,
                         sg_why_t *why)
{
    sg_admin_t *a = SG_NEW(sg_admin_t);
    a->loop = loop;
    a->host = *host;
    sg_list_init(&a->listeners);
    sg_list_init(&a->retired);
    sg_list_init(&a->waiting);
    take_token(a, config->admin.token);
    if (open_new(a, &config->admin.listen, why) != SG_OK) {
        sg_admin_free(a);
        return NULL;
    }
    return a;
}

/* The order of the config is the order of sg_admin_address. */
static void sort_listeners(sg_admin_t *a, const sg_endpoints_t *listen)
{
    for (size_t i = 0; i < listen->count; i++) {
        sg_admin_listener_t *l = find(a, &listen->at[i]);
        if (!l)
            continue;
        sg_list_remove(&l->link);
        sg_list_push_back(&a->listeners, &l->link);
    }
}

sg_err_t sg_admin_reload(sg_admin_t *a, const sg_config_t *config, sg_why_t *why)
{
    sg_err_t err = open_new(a, &config->admin.listen, why);
    if (err != SG_OK)
        return err;
    SG_LIST_EACH(link, &a->listeners) {
        sg_admin_listener_t *l = SG_OWNER(link, sg_admin_listener_t, link);
        if (!wanted(&config->admin.listen, l))
            sg_admin_retire(l);
    }
    sort_listeners(a, &config->admin.listen);
    take_token(a, config->admin.token);
    return SG_OK;
}

static void unlisten_all(sg_link_t *head)
{
    while (!sg_list_empty(head))
        sg_admin_unlisten(SG_OWNER(head->next, sg_admin_listener_t, link));
}

void sg_admin_free(sg_admin_t *a)
{
    if (!a)
        return;
    a->closing = true;
    /* libmicrohttpd aborts the process when it stops with a suspended connection. */
    while (!sg_list_empty(&a->waiting)) {
        sg_admin_request_t *r = SG_OWNER(a->waiting.next, sg_admin_request_t, link);
        r->job.abandon(r->job.arg);
        sg_admin_problem(r, 503, "the gateway is stopping");
        sg_admin_done(r);
    }
    unlisten_all(&a->listeners);
    unlisten_all(&a->retired);
    sg_free(a);
}

const char *sg_admin_address(const sg_admin_t *a, size_t index)
{
    SG_LIST_EACH(link, &a->listeners) {
        if (index-- == 0)
            return SG_OWNER(link, sg_admin_listener_t, link)->address;
    }
    return NULL;
}
