/* block.h - what one worker counts, and the registry that holds all blocks. Private to metrics/.
 *
 * The registry (names, list of blocks, config info) belongs to the main thread. A block is written by its
 * one thread and read by the main thread; everything in it is atomic. Sub-blocks appear when they are
 * first counted in. */
#ifndef SG_METRICS_BLOCK_H
#define SG_METRICS_BLOCK_H

#include "gate/route.h"
#include "metrics/chunks.h"
#include "metrics/histogram.h"
#include "metrics/metrics.h"
#include "metrics/names.h"
#include "metrics/process.h"

enum {
    SG_REASON_COUNT = 0
#define SG_REASON(word) +1
#include "metrics/metrics.def"
#undef SG_REASON
};
extern const char *const sg_reason_words[SG_REASON_COUNT];

/* Status codes lie in leaves of 100: a route mostly answers with a few codes of a few classes. */
#define SG_CODE_CLASSES 10
typedef struct {
    sg_counter_t code[100];
} sg_codes_t;

typedef struct {
    sg_histogram_t duration;
    _Atomic(sg_codes_t *) codes[SG_METHOD_COUNT][SG_CODE_CLASSES];
} sg_route_block_t;

/* Use of one limit by one tenant. `seen` holds window end and ratio in one word, so that they never tear:
 * seconds since the epoch in the upper half, the bits of a float in the lower. */
typedef struct sg_quota {
    struct sg_quota *next;      /* fixed before the node is published */
    unsigned limit;
    sg_counter_t seen;
} sg_quota_t;

typedef struct {
    sg_counter_t results[SG_RESULT_COUNT];
    sg_counter_t request_bytes, response_bytes;
    _Atomic(sg_quota_t *) quotas;
} sg_tenant_block_t;

enum { SG_MODES = 2, SG_OUTCOMES = 2 };     /* enforced, dry_run; denied, allowed */
typedef struct {
    sg_counter_t decisions[SG_MODES][SG_OUTCOMES][SG_FROM_COUNT];
    sg_gauge_t leases;
} sg_limit_block_t;

typedef struct {
    sg_counter_t outcomes[SG_UP_COUNT];
    sg_counter_t attempts;
    sg_histogram_t duration;
} sg_upstream_block_t;

/* A flag that a block may not have set yet. */
enum { SG_FLAG_UNSET = 0, SG_FLAG_OFF, SG_FLAG_ON };

struct sg_metrics_block {
    sg_chunks_t routes, tenants, limits, upstreams;
    sg_chunks_t targets;        /* of sg_counter_t: SG_FLAG_... */
    sg_histogram_t overhead, store_duration;
    sg_counter_t settlements[SG_SETTLED_COUNT];
    sg_counter_t block_units[SG_BLOCK_EVENTS];
    sg_counter_t store_errors[SG_STORE_ERR_COUNT];
    sg_counter_t store_up, breaker_open;
    sg_counter_t refused[SG_REASON_COUNT];
    sg_gauge_t connections[SG_CONN_COUNT];
    sg_gauge_t in_flight;
};

struct sg_metrics {
    sg_metrics_block_t **blocks;
    size_t block_count;
    sg_names_t routes, tenants, limits, upstreams, targets;
    size_t max_tenants;
    uint64_t tenant_overflow;
    unsigned load;              /* number of the config load whose names come in */
    unsigned live_load;         /* the last that succeeded; targets not named since are shown no more */
    bool named;                 /* a name came in since the last result of a load */
    char *config_hash;          /* escaped; NULL: none loaded */
    bool reload_ok;
    int64_t reload_success_us;
    int64_t start_us;           /* of the process, since the epoch */
};

void sg_metrics_block_free(sg_metrics_block_t *b);

/* sg_metrics_write with its outside given: for tests that know the whole output. */
void sg_metrics_write_at(sg_metrics_t *m, sg_expose_t how, int64_t wall_us, const sg_process_t *process,
                         sg_buf_t *out);

/* The two halves of sg_quota_t.seen. */
uint64_t sg_quota_pack(int64_t window_end_us, double ratio);
int64_t sg_quota_end_s(uint64_t seen);
double sg_quota_ratio(uint64_t seen);

#define SG_BLOCKS_EACH(b, m)                                                                       \
    for (sg_metrics_block_t **b##_at = (m)->blocks, *b = NULL;                                     \
         (size_t)(b##_at - (m)->blocks) < (m)->block_count && ((b) = *b##_at, true); b##_at++)

#endif
