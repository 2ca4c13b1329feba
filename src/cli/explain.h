/* explain.h - what explain.c finds out and explain_print.c shows. Private to cli/. */
#ifndef SG_CLI_EXPLAIN_H
#define SG_CLI_EXPLAIN_H

#include "config/config.h"
#include "store/store.h"

typedef enum { SG_EXPLAIN_FORWARD, SG_EXPLAIN_RESPOND, SG_EXPLAIN_REFUSE } sg_explain_end_t;

/* Why nothing is known of what is left. */
typedef enum {
    SG_EXPLAIN_ASKED,
    SG_EXPLAIN_NO_LIMITS,
    SG_EXPLAIN_IN_GATEWAY,
    SG_EXPLAIN_NO_ANSWER
} sg_explain_store_t;

typedef struct {
    const sg_limit_t *limit;
    char key[SG_KEY_BYTES];             /* "" when the limit is switched off for this tenant */
    const sg_limit_result_t *left;      /* NULL: not known */
} sg_explain_limit_t;

typedef struct {
    /* what is asked */
    const char *file, *method_text, *url, *peer_text;
    bool json;
    sg_fields_t fields;

    /* what comes of it */
    sg_arena_t *arena;
    sg_config_t *config;
    sg_method_t method;
    uint64_t body_bytes;                /* that Content-Length announces */
    sg_target_t target;
    sg_str_t host;
    sg_match_t match;
    sg_addr_t client;
    bool identified;                    /* `identity` is filled */
    sg_identity_t identity;
    sg_str_t path;                      /* goes upstream; empty when nothing does */
    bool has_query;
    sg_str_t query;
    int64_t cost;
    sg_explain_limit_t limits[SG_LIMITS_MAX];
    size_t limit_count;
    sg_explain_store_t store;
    char store_error[160];
    sg_answer_t answer;
    sg_explain_end_t end;
    unsigned status;                    /* of a refusal or an answer of the gateway's own */
    const char *reason;                 /* of a refusal: a constant word */
} sg_explain_t;

void sg_explain_print_text(const sg_explain_t *x);
void sg_explain_print_json(const sg_explain_t *x);

#endif
