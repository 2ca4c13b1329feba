/* doctor_server.c - what a Redis server says of itself: memory, persistence, role, clock. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/doctor.h"

/* Beyond these it is a finding. */
#define FRAGMENTATION_RATIO 1.5
#define FRAGMENTATION_BYTES (INT64_C(32) << 20) /* a small Redis is always fragmented */
#define CLOCK_US            INT64_C(1000000)
#define MEMORY_PERCENT      90

typedef struct {
    sg_doctor_t *d;
    const char *place;
    sg_str_t info; /* the answer to INFO */
} server_t;

#define ADD(s, level, check, ...) sg_doctor_add((s)->d, (level), (check), (s)->place, __VA_ARGS__)

/* The value of a line "name:value"; empty when there is none. */
static sg_str_t field(const server_t *s, const char *name)
{
    sg_str_t rest = s->info, line, key = sg_str(name);
    while (sg_str_next(&rest, '\n', &line)) {
        if (line.n > key.n && sg_str_starts(line, key) && line.p[key.n] == ':') {
            sg_str_t value = sg_str_n(line.p + key.n + 1, line.n - key.n - 1);
            if (value.n && value.p[value.n - 1] == '\r')
                value.n--;
            return value;
        }
    }
    return (sg_str_t){NULL, 0};
}

static bool field_is(const server_t *s, const char *name, const char *value)
{
    return sg_str_eq(field(s, name), sg_str(value));
}

static int64_t number(const server_t *s, const char *name)
{
    uint64_t value;
    return sg_str_u64(field(s, name), INT64_MAX, &value) == SG_OK ? (int64_t)value : 0;
}

static double mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* --- memory --------------------------------------------------------------------------------------- */

static void judge_eviction(const server_t *s)
{
    sg_str_t policy = field(s, "maxmemory_policy");
    int64_t most = number(s, "maxmemory"), evicted = number(s, "evicted_keys");
    if (!policy.n)
        ADD(s, SG_DOCTOR_NOTE, "eviction", "INFO does not tell maxmemory_policy");
    else if (sg_str_eq(policy, SG_STR("noeviction")))
        ADD(s, SG_DOCTOR_OK, "eviction", "noeviction");
    else if (most == 0)
        ADD(s, SG_DOCTOR_NOTE, "eviction",
            "maxmemory-policy %.*s would evict counters, but there is no maxmemory", SG_STR_ARG(policy));
    else
        ADD(s, SG_DOCTOR_FINDING, "eviction",
            "maxmemory-policy %.*s may evict counters, and callers get their allowance back: set noeviction",
            SG_STR_ARG(policy));
    if (evicted > 0)
        ADD(s, SG_DOCTOR_FINDING, "evicted", "%" PRId64 " keys were evicted since its start", evicted);
    else
        ADD(s, SG_DOCTOR_OK, "evicted", "no key was evicted since its start");
}

static void judge_memory(const server_t *s)
{
    int64_t most = number(s, "maxmemory"), used = number(s, "used_memory");
    int64_t percent = most > 0 ? (int64_t)((double)used * 100 / (double)most) : 0;
    if (most == 0)
        ADD(s, SG_DOCTOR_OK, "memory", "%.1f MiB used, no maxmemory", mib(used));
    else
        ADD(s, percent > MEMORY_PERCENT ? SG_DOCTOR_FINDING : SG_DOCTOR_OK, "memory",
            "%.1f MiB used, %" PRId64 " %% of maxmemory%s", mib(used), percent,
            percent > MEMORY_PERCENT ? ": at 100 % decisions fail with OOM" : "");
}

/* From the two sizes: the ratio that Redis shows is old right after its start. */
static void judge_fragmentation(const server_t *s)
{
    int64_t used = number(s, "used_memory"), resident = number(s, "used_memory_rss");
    double ratio = used > 0 ? (double)resident / (double)used : 0;
    bool bad = ratio > FRAGMENTATION_RATIO && resident - used > FRAGMENTATION_BYTES;
    ADD(s, bad ? SG_DOCTOR_FINDING : SG_DOCTOR_OK, "fragmentation",
        "%.1f MiB resident for %.1f MiB used (ratio %.2f)%s", mib(resident), mib(used), ratio,
        bad ? ": activedefrag yes, or a restart, gives it back" : "");
}

/* --- persistence and role ------------------------------------------------------------------------- */

static int64_t longest_window_us(const sg_config_t *c)
{
    int64_t longest = 0;
    for (size_t i = 0; i < c->limit_count; i++)
        if (c->limits[i]->window_us > longest)
            longest = c->limits[i]->window_us;
    return longest;
}

/* CONFIG may be forbidden; then nobody knows whether there are save points. */
static bool saves_snapshots(sg_sync_t *conn, bool *known)
{
    const sg_sync_value_t *v = sg_sync_ask(conn, "CONFIG GET save");
    *known = sg_sync_count(v) == 2;
    return *known && sg_sync_text(sg_sync_at(v, 1)).n > 0;
}

static void judge_persistence(const server_t *s, sg_sync_t *conn)
{
    bool aof = field_is(s, "aof_enabled", "1"), known;
    bool saves = saves_snapshots(conn, &known);
    double hours = (double)longest_window_us(s->d->config) / 3.6e9;
    if (field_is(s, "rdb_last_bgsave_status", "err"))
        ADD(s, SG_DOCTOR_FINDING, "persistence", "the last snapshot failed: see the log of Redis");
    else if (aof &&
             (field_is(s, "aof_last_write_status", "err") || field_is(s, "aof_last_bgrewrite_status", "err")))
        ADD(s, SG_DOCTOR_FINDING, "persistence",
            "the append-only file cannot be written: see the log of Redis");
    else if (aof)
        ADD(s, SG_DOCTOR_OK, "persistence", "append-only file");
    else if (saves)
        ADD(s, SG_DOCTOR_NOTE, "persistence",
            "snapshots only: a restart loses what was used since the last one");
    else if (known)
        ADD(s, SG_DOCTOR_NOTE, "persistence",
            "none: a restart forgets what was used in windows of up to %.1f h", hours);
    else
        ADD(s, SG_DOCTOR_NOTE, "persistence", "no append-only file; CONFIG GET save is not permitted");
}

static void judge_role(const server_t *s)
{
    sg_str_t version = field(s, "redis_version");
    bool cluster = s->d->config->store.mode == SG_REDIS_CLUSTER;
    if (field_is(s, "role", "slave"))
        ADD(s, SG_DOCTOR_FINDING, "role", "a replica, which refuses decisions (READONLY): name the master");
    else if (field_is(s, "cluster_enabled", "1") && !cluster)
        ADD(s, SG_DOCTOR_FINDING, "role",
            "part of a cluster, which answers MOVED: set store.mode to cluster");
    else if (field_is(s, "loading", "1"))
        ADD(s, SG_DOCTOR_FINDING, "role", "still loads its data");
    else
        ADD(s, SG_DOCTOR_OK, "role", "master, version %.*s", SG_STR_ARG(version));
}

/* --- the clock ------------------------------------------------------------------------------------ */

static bool judge_clock(const server_t *s, sg_sync_t *conn)
{
    int64_t before = sg_clock_wall_us(), seconds, us;
    const sg_sync_value_t *v = sg_sync_ask(conn, "TIME");
    int64_t after = sg_clock_wall_us();
    if (!v)
        return false;
    if (!sg_sync_integer(sg_sync_at(v, 0), &seconds) || !sg_sync_integer(sg_sync_at(v, 1), &us)) {
        sg_str_t text = sg_sync_text(v);
        ADD(s, SG_DOCTOR_FINDING, "clock", "TIME is refused, and decisions need it: %.*s", SG_STR_ARG(text));
        return true;
    }
    int64_t off = seconds * 1000000 + us - (before + after) / 2, unsure = (after - before + 1) / 2;
    bool bad = (off < 0 ? -off : off) - unsure > CLOCK_US;
    ADD(s, bad ? SG_DOCTOR_FINDING : SG_DOCTOR_OK, "clock", "%+.3f s from this machine's (± %.3f s)%s",
        (double)off / 1e6, (double)unsure / 1e6,
        bad ? ": one of the two is wrong, and windows are aligned to that of Redis" : "");
    return true;
}

bool sg_doctor_look_at_server(sg_doctor_t *d, size_t server)
{
    sg_sync_t *conn = d->servers.at[server];
    const sg_sync_value_t *v = sg_sync_ask(conn, "INFO");
    if (!v)
        return false;
    if (sg_sync_is_error(v)) {
        sg_str_t text = sg_sync_text(v);
        sg_doctor_add(d, SG_DOCTOR_NOTE, "info", sg_sync_place(conn),
                      "memory, persistence and role are not known: %.*s", SG_STR_ARG(text));
        return judge_clock(&(server_t){.d = d, .place = sg_sync_place(conn)}, conn);
    }
    char *copy = sg_strndup(sg_sync_text(v)); /* the next reply takes the place of this one */
    server_t s = {d, sg_sync_place(conn), sg_str(copy)};
    judge_role(&s);
    judge_eviction(&s);
    judge_memory(&s);
    judge_fragmentation(&s);
    judge_persistence(&s, conn);
    bool ok = judge_clock(&s, conn);
    sg_free(copy);
    return ok;
}
