/* reset.c - slotgate reset: a tenant begins anew. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/session.h"

typedef struct {
    bool done;
    size_t keys;
    char error[200];
} result_t;

static void on_reset(void *arg, size_t keys, const char *error)
{
    result_t *r = arg;
    r->done = true;
    r->keys = keys;
    (void)snprintf(r->error, sizeof r->error, "%s", error ? error : "");
}

/* A connection that says nothing is given up by its heartbeat, so this ends. */
static int reset(sg_session_t *s)
{
    result_t r = {0};
    sg_store_reset(s->store, s->tenant->tag.text, on_reset, &r);
    for (int64_t wait_us = 0; !r.done; wait_us = 100000) /* the first turn sends what was asked */
        sg_loop_turn(s->loop, wait_us);
    if (r.error[0]) {
        fprintf(stderr, "slotgate reset: %s (%zu counters were forgotten before)\n", r.error, r.keys);
        return SG_EXIT_FOUND;
    }
    if (s->json)
        printf("{\"counters\":%zu}\n", r.keys);
    else
        printf("%zu counters of %s forgotten\n", r.keys, s->tenant->name);
    return SG_EXIT_OK;
}

int sg_cli_reset(int argc, char **argv)
{
    sg_session_t s;
    int status = sg_session_open(&s, "reset", argc, argv);
    if (status == SG_EXIT_OK)
        status = reset(&s);
    sg_session_close(&s);
    return status;
}
