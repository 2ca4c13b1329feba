/* doctor.h - what doctor*.c find out and doctor_print.c shows. Private to cli/. */
#ifndef SG_CLI_DOCTOR_H
#define SG_CLI_DOCTOR_H

#include "base/hash.h"
#include "base/mem.h"
#include "store/redis_sync.h"

#define uthash_malloc(bytes) sg_malloc(bytes)
#define uthash_free(p, bytes) sg_free(p)
#define HASH_FUNCTION(key, bytes, out) ((out) = (unsigned)sg_fnv1a(sg_str_n((key), (bytes))))
#include <uthash.h>

typedef enum { SG_DOCTOR_OK, SG_DOCTOR_NOTE, SG_DOCTOR_FINDING } sg_doctor_level_t;

typedef struct {
    sg_doctor_level_t level;
    const char *check; /* a constant word */
    const char *place; /* the server; "" for the config or all servers */
    char text[320];
} sg_doctor_row_t;

/* Keys of one limit, or of one name that the config does not know (any more). */
typedef struct {
    char id[SG_KEY_BYTES]; /* algorithm's two letters, ':' and class.limit */
    bool known;
    uint64_t keys, without_ttl;
    uint64_t sampled, sampled_bytes;
    UT_hash_handle hh;
} sg_doctor_group_t;

typedef struct {
    const char *file;
    bool json;
    sg_config_t *config;
    sg_sync_servers_t servers;
    sg_doctor_row_t *rows;
    size_t row_count, row_size;
    sg_doctor_group_t *groups;
    uint64_t keys[SG_SYNC_SERVERS_MAX]; /* slotgate's keys on each server */
    uint32_t *slot_keys;                /* by slot; NULL outside a cluster */
    bool keys_hidden;                   /* SCAN or PTTL is not permitted: nothing is said about keys */
    char one_without_ttl[SG_KEY_BYTES]; /* an example */
} sg_doctor_t;

void sg_doctor_add(sg_doctor_t *d, sg_doctor_level_t level, const char *check, const char *place,
                   const char *fmt, ...) SG_PRINTF(5, 6);

/* doctor_server.c: what each server says of itself. False when the connection was lost. */
bool sg_doctor_look_at_server(sg_doctor_t *d, size_t server);
/* doctor_keys.c: all keys under the prefix, in batches. False when the connection was lost. */
bool sg_doctor_count_keys(sg_doctor_t *d, size_t server);
/* The rows about what was counted. */
void sg_doctor_judge_keys(sg_doctor_t *d);
uint64_t sg_doctor_group_bytes(const sg_doctor_group_t *g); /* estimated from the sample */
void sg_doctor_free_groups(sg_doctor_t *d);

void sg_doctor_print_text(sg_doctor_t *d);
void sg_doctor_print_json(sg_doctor_t *d);

#endif
