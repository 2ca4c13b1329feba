/* words.c - the constant label values. */
#include "metrics/block.h"

const char *const sg_reason_words[SG_REASON_COUNT] = {
#define SG_REASON(word) word,
#include "metrics/metrics.def"
#undef SG_REASON
};

const char *sg_result_name(sg_result_t r)
{
    static const char *const names[SG_RESULT_COUNT] = {
        [SG_RESULT_ALLOWED] = "allowed", [SG_RESULT_LIMITED] = "limited",
        [SG_RESULT_UNAUTHORIZED] = "unauthorized", [SG_RESULT_REFUSED] = "refused",
        [SG_RESULT_FAILED] = "failed", [SG_RESULT_ABORTED] = "aborted"};
    return names[r];
}

const char *sg_source_name(sg_source_t s)
{
    static const char *const names[SG_FROM_COUNT] = {
        [SG_FROM_STORE] = "store", [SG_FROM_DENY_CACHE] = "deny_cache", [SG_FROM_LOCAL] = "local",
        [SG_FROM_OPEN] = "open", [SG_FROM_CLOSED] = "closed"};
    return names[s];
}

const char *sg_settled_name(sg_settled_t s)
{
    static const char *const names[SG_SETTLED_COUNT] = {
        [SG_SETTLED_SAME] = "same", [SG_SETTLED_LESS] = "less", [SG_SETTLED_MORE] = "more",
        [SG_SETTLED_UNKNOWN] = "unknown", [SG_SETTLED_LOST] = "lost"};
    return names[s];
}

const char *sg_block_event_name(sg_block_event_t e)
{
    static const char *const names[SG_BLOCK_EVENTS] = {
        [SG_BLOCK_TAKEN] = "taken", [SG_BLOCK_RETURNED] = "returned", [SG_BLOCK_LOST] = "lost"};
    return names[e];
}

const char *sg_store_err_name(sg_store_err_t e)
{
    static const char *const names[SG_STORE_ERR_COUNT] = {
        [SG_STORE_ERR_TIMEOUT] = "timeout", [SG_STORE_ERR_CONNECT] = "connect",
        [SG_STORE_ERR_RESET] = "reset", [SG_STORE_ERR_AUTH] = "auth",
        [SG_STORE_ERR_LOADING] = "loading", [SG_STORE_ERR_READONLY] = "readonly",
        [SG_STORE_ERR_OOM] = "oom", [SG_STORE_ERR_WRONGTYPE] = "wrongtype",
        [SG_STORE_ERR_MOVED] = "moved", [SG_STORE_ERR_PROTOCOL] = "protocol",
        [SG_STORE_ERR_OTHER] = "other"};
    return names[e];
}

const char *sg_up_outcome_name(sg_up_outcome_t o)
{
    static const char *const names[SG_UP_COUNT] = {
        [SG_UP_OK] = "ok", [SG_UP_CONNECT] = "connect", [SG_UP_TIMEOUT] = "timeout",
        [SG_UP_RESET] = "reset", [SG_UP_PROTOCOL] = "protocol", [SG_UP_CUT] = "cut",
        [SG_UP_BUSY] = "busy", [SG_UP_CANCELLED] = "cancelled"};
    return names[o];
}

const char *sg_conn_state_name(sg_conn_state_t s)
{
    static const char *const names[SG_CONN_COUNT] = {
        [SG_CONN_ACTIVE] = "active", [SG_CONN_IDLE] = "idle", [SG_CONN_UPGRADED] = "upgraded"};
    return names[s];
}
