/* doctor_keys.c - the keys under the config's prefix: whose they are, their expiry, their memory, their
 * slots. */
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "store/cluster.h"

#define BATCH "500"
/* Keys of each limit whose size is asked for. */
#define SAMPLES 500
/* Names that the config does not know are counted apart up to this many, then together. */
#define GROUPS_MAX 2000
/* Slots and servers are compared from this many keys on. */
#define SPREAD_KEYS 1000

/* --- names ---------------------------------------------------------------------------------------- */

/* What a key's name says (docs/limits.md, "Keys"). */
typedef struct {
    sg_str_t algo, version, tag, limit;
} name_t;

static bool cut(sg_str_t *rest, char end, sg_str_t *part)
{
    const char *p = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    if (!p)
        return false;
    *part = sg_str_n(rest->p, (size_t)(p - rest->p));
    *rest = sg_str_n(p + 1, rest->n - part->n - 1);
    return true;
}

/* "k." or "i." and a hash, with the name of a limit, which has a dot, behind it: a limit may be called so as
 * well. */
static bool is_sub(sg_str_t part, sg_str_t rest)
{
    sg_str_t next = rest;
    (void)cut(&rest, ':', &next);
    return part.n == 2 + SG_TAG_CHARS && (part.p[0] == 'k' || part.p[0] == 'i') && part.p[1] == '.' &&
           memchr(next.p, '.', next.n);
}

static bool parse(sg_str_t key, sg_str_t prefix, name_t *out)
{
    sg_str_t part;
    if (!sg_str_starts(key, prefix) || key.n <= prefix.n || key.p[prefix.n] != ':')
        return false;
    sg_str_t rest = sg_str_n(key.p + prefix.n + 1, key.n - prefix.n - 1);
    if (!cut(&rest, ':', &out->algo) || !cut(&rest, ':', &out->version) || !cut(&rest, '{', &part) ||
        part.n || !cut(&rest, '}', &out->tag) || !cut(&rest, ':', &part) || part.n)
        return false;
    sg_str_t after = rest;
    if (cut(&after, ':', &part) && is_sub(part, after))
        rest = after;
    if (!cut(&rest, ':', &out->limit))
        out->limit = rest;
    return out->algo.n == 2 && out->limit.n > 0;
}

/* --- groups --------------------------------------------------------------------------------------- */

static sg_doctor_group_t *group(sg_doctor_t *d, const char *id, bool known)
{
    sg_doctor_group_t *g = NULL;
    HASH_FIND_STR(d->groups, id, g);
    if (g)
        return g;
    if (!known && HASH_COUNT(d->groups) >= GROUPS_MAX && strcmp(id, "other") != 0)
        return group(d, "other", false);
    g = SG_NEW(sg_doctor_group_t);
    (void)snprintf(g->id, sizeof g->id, "%s", id);
    g->known = known;
    HASH_ADD_STR(d->groups, id, g);
    return g;
}

static void expect_limit(sg_doctor_t *d, const sg_limit_t *l)
{
    char id[SG_KEY_BYTES];
    (void)snprintf(id, sizeof id, "%s:%s", sg_algo_code(l->algo), l->name);
    (void)group(d, id, true);
}

static void expect_limits(sg_doctor_t *d)
{
    if (d->groups)
        return;
    for (size_t i = 0; i < d->config->limit_count; i++)
        expect_limit(d, d->config->limits[i]);
    if (!d->config->identity.failures.unlimited)
        expect_limit(d, &d->config->identity.failures);
}

static sg_doctor_group_t *group_of(sg_doctor_t *d, sg_str_t key)
{
    name_t n;
    char id[SG_KEY_BYTES + 32];
    if (!parse(key, d->config->store.key_prefix, &n))
        return group(d, "other", false);
    bool old = !sg_str_eq(n.version, d->config->store.key_version);
    (void)snprintf(id, SG_KEY_BYTES, "%.*s:%.*s%s%.*s", SG_STR_ARG(n.algo), SG_STR_ARG(n.limit),
                   old ? " of version " : "", old ? (int)n.version.n : 0, n.version.p);
    if (d->slot_keys)
        d->slot_keys[sg_cluster_slot(n.tag)]++;
    return group(d, id, false);
}

void sg_doctor_free_groups(sg_doctor_t *d)
{
    sg_doctor_group_t *g, *next;
    HASH_ITER (hh, d->groups, g, next) {
        HASH_DEL(d->groups, g);
        sg_free(g);
    }
}

uint64_t sg_doctor_group_bytes(const sg_doctor_group_t *g)
{
    return g->sampled ? (uint64_t)((double)g->sampled_bytes / (double)g->sampled * (double)g->keys) : 0;
}

/* --- one batch ------------------------------------------------------------------------------------ */

typedef struct {
    sg_doctor_group_t *group;
    char key[SG_KEY_BYTES + 1]; /* cut: for the example only */
    bool sampled;
} asked_t;

/* Said once; what is not known is not judged. */
static void hide_keys(sg_doctor_t *d, const sg_sync_t *conn, const sg_sync_value_t *refusal)
{
    sg_str_t text = sg_sync_text(refusal);
    if (!sg_sync_is_error(refusal) || d->keys_hidden)
        return;
    d->keys_hidden = true;
    sg_doctor_add(d, SG_DOCTOR_NOTE, "ttl", sg_sync_place(conn), "keys are not known: %.*s",
                  SG_STR_ARG(text));
}

/* A key that expired meanwhile answers -2 and nil. */
static bool read_key(sg_doctor_t *d, sg_sync_t *conn, const asked_t *a)
{
    int64_t ttl = 0, bytes;
    const sg_sync_value_t *v = sg_sync_read(conn);
    if (!v)
        return false;
    hide_keys(d, conn, v);
    bool gone = sg_sync_integer(v, &ttl) && ttl == -2;
    if (!gone)
        a->group->keys++;
    if (ttl == -1) {
        a->group->without_ttl++;
        memcpy(d->one_without_ttl, a->key, sizeof d->one_without_ttl - 1);
    }
    if (!a->sampled)
        return true;
    v = sg_sync_read(conn);
    if (sg_sync_integer(v, &bytes) && !gone) {
        a->group->sampled++;
        a->group->sampled_bytes += (uint64_t)bytes;
    }
    return v != NULL;
}

static bool look_at_batch(sg_doctor_t *d, size_t server, const sg_sync_value_t *keys)
{
    sg_sync_t *conn = d->servers.at[server];
    size_t count = sg_sync_count(keys);
    asked_t *asked = sg_calloc(count + 1, sizeof *asked);
    for (size_t i = 0; i < count; i++) {
        sg_str_t key = sg_sync_text(sg_sync_at(keys, i));
        asked_t *a = &asked[i];
        a->group = group_of(d, key);
        (void)snprintf(a->key, sizeof a->key, "%.*s", SG_STR_ARG(key));
        a->sampled = a->group->sampled + i < SAMPLES;
        (void)sg_sync_send(conn, "PTTL", &key, 1);
        if (a->sampled)
            (void)sg_sync_send(conn, "MEMORY USAGE", &key, 1);
    }
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++)
        ok = read_key(d, conn, &asked[i]);
    d->keys[server] += count;
    sg_free(asked);
    return ok;
}

/* What would mean something in a pattern stands for itself. */
static void add_literally(sg_buf_t *b, sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (strchr("*?[]^\\", s.p[i]))
            sg_buf_char(b, '\\');
        sg_buf_char(b, s.p[i]);
    }
}

bool sg_doctor_count_keys(sg_doctor_t *d, size_t server)
{
    char cursor[24] = "0";
    sg_sync_t *conn = d->servers.at[server];
    sg_buf_t pattern;
    bool ok = true;
    expect_limits(d);
    sg_buf_init(&pattern, 1024);
    add_literally(&pattern, d->config->store.key_prefix);
    sg_buf_z(&pattern, ":*");
    do {
        const sg_str_t args[] = {sg_str(cursor), SG_STR("MATCH"), sg_buf_str(&pattern), SG_STR("COUNT"),
                                 SG_STR(BATCH)};
        const sg_sync_value_t *v = sg_sync_send(conn, "SCAN", args, 5) ? sg_sync_read(conn) : NULL;
        if (sg_sync_count(v) != 2) {
            hide_keys(d, conn, v);
            ok = v != NULL;
            break;
        }
        sg_str_t next = sg_sync_text(sg_sync_at(v, 0));
        (void)snprintf(cursor, sizeof cursor, "%.*s", SG_STR_ARG(next));
        ok = look_at_batch(d, server, sg_sync_at(v, 1));
    } while (ok && strcmp(cursor, "0") != 0);
    sg_buf_deinit(&pattern);
    return ok;
}

/* --- what was counted ----------------------------------------------------------------------------- */

static void judge_expiry(sg_doctor_t *d)
{
    uint64_t keys = 0, without = 0, unknown = 0;
    for (sg_doctor_group_t *g = d->groups; g; g = g->hh.next) {
        keys += g->keys;
        without += g->without_ttl;
        unknown += g->known ? 0 : g->keys;
    }
    if (without)
        sg_doctor_add(d, SG_DOCTOR_FINDING, "ttl", "",
                      "%" PRIu64 " of %" PRIu64
                      " keys never expire, for instance %s: slotgate writes none such",
                      without, keys, d->one_without_ttl);
    else
        sg_doctor_add(d, SG_DOCTOR_OK, "ttl", "", "each of %" PRIu64 " keys has an expiry", keys);
    if (unknown)
        sg_doctor_add(d, SG_DOCTOR_NOTE, "leftovers", "",
                      "%" PRIu64 " keys are of limits that this config does not have", unknown);
}

static void judge_slots(sg_doctor_t *d, uint64_t keys)
{
    uint32_t most = 0, used = 0, fullest = 0;
    for (uint32_t i = 0; i < SG_CLUSTER_SLOTS; i++) {
        used += d->slot_keys[i] > 0;
        if (d->slot_keys[i] > most) {
            most = d->slot_keys[i];
            fullest = i;
        }
    }
    bool heavy = keys >= SPREAD_KEYS && (uint64_t)most * 10 > keys;
    sg_doctor_add(d, heavy ? SG_DOCTOR_NOTE : SG_DOCTOR_OK, "slots", "",
                  "%" PRIu64 " keys in %" PRIu32 " slots; slot %" PRIu32 " holds most: %" PRIu32 "%s", keys,
                  used, fullest, most, heavy ? ", more than a tenth: one tenant's keys are in one slot" : "");
}

static void judge_spread(sg_doctor_t *d)
{
    uint64_t keys = 0;
    unsigned slots = 0;
    for (size_t i = 0; i < d->servers.count; i++) {
        keys += d->keys[i];
        slots += d->servers.slots[i];
    }
    judge_slots(d, keys);
    if (slots < SG_CLUSTER_SLOTS)
        sg_doctor_add(d, SG_DOCTOR_FINDING, "slots", "", "%u of %d slots have no server",
                      SG_CLUSTER_SLOTS - slots, SG_CLUSTER_SLOTS);
    for (size_t i = 0; i < d->servers.count; i++) {
        double fair = (double)keys * d->servers.slots[i] / SG_CLUSTER_SLOTS;
        bool bad = keys >= SPREAD_KEYS && (double)d->keys[i] > 2 * fair;
        sg_doctor_add(d, bad ? SG_DOCTOR_FINDING : SG_DOCTOR_OK, "spread", sg_sync_place(d->servers.at[i]),
                      "%u slots, %" PRIu64 " keys%s", d->servers.slots[i], d->keys[i],
                      bad ? ": more than twice its share; move its fullest slots to another server" : "");
    }
}

void sg_doctor_judge_keys(sg_doctor_t *d)
{
    if (d->keys_hidden)
        return;
    judge_expiry(d);
    if (d->slot_keys)
        judge_spread(d);
}
