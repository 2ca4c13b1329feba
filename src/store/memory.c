/* memory.c - the embedded store: states by key name, in shards.
 *
 * All keys of a request carry its slot tag, and the tag picks the shard: so one lock makes a decision
 * atomic. Limits of scope `all` lie in a shard of their own, and a request that has both kinds takes both
 * locks, in order.
 *
 * Entries are bounded over all shards. At the bound a new entry takes the place of an expired one, or else
 * of the one whose loss matters least among a few that are looked at: where the smallest share of the limit
 * is still used. A caller who has used a limit up is kept, so flooding the store with new identities frees
 * nobody from a denial. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/random.h"
#include "store/store.h"

#define SHARDS        64
#define BUCKETS_FIRST 16
/* How many entries a place for a new one is sought among. */
#define SAMPLE 16
#define GRACE_US 1000000
/* Chains that one sweep looks at. */
#define SWEEP_CHAINS 2048

typedef struct entry {
    struct entry *next;
    uint64_t hash;
    int64_t expires_us;
    /* What was used at the last decision, in 1/10^6 of the limit; when it begins to come back, and when all
     * of it is. */
    int64_t used_ppm, returning_us, unused_us;
    uint64_t turn; /* the shard's last decision that touched it */
    sg_limit_state_t state;
    uint16_t key_bytes;
    char key[];
} entry_t;

typedef struct {
    pthread_mutex_t lock;
    entry_t **chains;
    size_t chain_count; /* a power of two */
    size_t entries;
    size_t hand; /* where sweep and eviction go on */
    uint64_t turn;
} shard_t;

struct sg_memory {
    size_t max_entries;
    atomic_size_t entries;
    atomic_size_t next_shard; /* sweep */
    shard_t shards[SHARDS];
};

sg_memory_t *sg_memory_new(size_t max_entries)
{
    sg_memory_t *m = SG_NEW(sg_memory_t);

    m->max_entries = max_entries ? max_entries : 1;
    for (size_t i = 0; i < SHARDS; i++) {
        shard_t *s = &m->shards[i];
        pthread_mutex_init(&s->lock, NULL);
        s->chain_count = BUCKETS_FIRST;
        s->chains = sg_calloc(s->chain_count, sizeof(entry_t *));
    }
    return m;
}

/* Takes the entry out of the place that points to it. */
static void drop(sg_memory_t *m, shard_t *s, entry_t **place)
{
    entry_t *e = *place;

    *place = e->next;
    sg_limit_state_free(&e->state);
    sg_free(e);
    s->entries--;
    atomic_fetch_sub_explicit(&m->entries, 1, memory_order_relaxed);
}

void sg_memory_free(sg_memory_t *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < SHARDS; i++) {
        shard_t *s = &m->shards[i];
        for (size_t c = 0; c < s->chain_count; c++)
            while (s->chains[c])
                drop(m, s, &s->chains[c]);
        sg_free(s->chains);
        pthread_mutex_destroy(&s->lock);
    }
    sg_free(m);
}

size_t sg_memory_entries(sg_memory_t *m)
{
    return atomic_load_explicit(&m->entries, memory_order_relaxed);
}

/* --- the table
 * ------------------------------------------------------------------------------------------------ */

static entry_t **chain_of(shard_t *s, uint64_t hash)
{
    return &s->chains[hash & (s->chain_count - 1)];
}

static entry_t *find(shard_t *s, sg_str_t key, uint64_t hash)
{
    for (entry_t *e = *chain_of(s, hash); e; e = e->next)
        if (e->hash == hash && e->key_bytes == key.n && memcmp(e->key, key.p, key.n) == 0)
            return e;
    return NULL;
}

static void grow(shard_t *s)
{
    size_t old_count = s->chain_count;
    entry_t **old = s->chains;

    s->chain_count *= 2;
    s->chains = sg_calloc(s->chain_count, sizeof(entry_t *));
    for (size_t i = 0; i < old_count; i++) {
        while (old[i]) {
            entry_t *e = old[i], **chain = chain_of(s, e->hash);
            old[i] = e->next;
            e->next = *chain;
            *chain = e;
        }
    }
    sg_free(old);
    s->hand = 0;
}

/* The share of its limit, in 1/10^6, that an entry still has used: once it begins to come back it does so
 * evenly, near enough to choose by. */
static int64_t used_now_ppm(const entry_t *e, int64_t now_us)
{
    int64_t span_us = e->unused_us - e->returning_us, left_us = e->unused_us - now_us;

    if (left_us <= 0)
        return 0;
    return left_us >= span_us ? e->used_ppm : (int64_t)((__int128)e->used_ppm * left_us / span_us);
}

/* Frees the place of one entry that the current decision has not touched. False when the shard has none. */
static bool evict(sg_memory_t *m, shard_t *s, int64_t now_us)
{
    entry_t **least = NULL;
    int64_t least_ppm = 0;

    for (size_t seen = 0, step = 0; seen < SAMPLE && step < s->chain_count; step++) {
        s->hand = (s->hand + 1) & (s->chain_count - 1);
        for (entry_t **place = &s->chains[s->hand]; *place; place = &(*place)->next) {
            entry_t *e = *place;
            int64_t ppm = used_now_ppm(e, now_us);
            if (e->turn == s->turn)
                continue;
            seen++;
            if (e->expires_us <= now_us) {
                drop(m, s, place);
                return true;
            }
            if (!least || ppm < least_ppm) {
                least = place;
                least_ppm = ppm;
            }
        }
    }
    if (least)
        drop(m, s, least);
    return least != NULL;
}

/* From a shard that nobody holds; nobody waits for it either. */
static void evict_elsewhere(sg_memory_t *m, int64_t now_us)
{
    size_t first = atomic_fetch_add_explicit(&m->next_shard, 1, memory_order_relaxed);
    bool done = false;

    for (size_t i = 0; i < SHARDS && !done; i++) {
        shard_t *s = &m->shards[(first + i) % SHARDS];
        if (pthread_mutex_trylock(&s->lock) != 0)
            continue;
        s->turn++;
        done = evict(m, s, now_us);
        pthread_mutex_unlock(&s->lock);
    }
}

static entry_t *insert(sg_memory_t *m, shard_t *s, sg_str_t key, uint64_t hash, int64_t now_us)
{
    entry_t *e, **chain;

    if (sg_memory_entries(m) >= m->max_entries && !evict(m, s, now_us))
        evict_elsewhere(m, now_us);
    if (s->entries >= s->chain_count)
        grow(s);
    e = sg_calloc(1, sizeof(*e) + key.n);
    memcpy(e->key, key.p, key.n);
    e->key_bytes = (uint16_t)key.n;
    e->hash = hash;
    chain = chain_of(s, hash);
    e->next = *chain;
    *chain = e;
    s->entries++;
    atomic_fetch_add_explicit(&m->entries, 1, memory_order_relaxed);
    return e;
}

/* --- decisions
 * -------------------------------------------------------------------------------------------------- */

/* One limit of a check, while the locks are held. */
typedef struct {
    shard_t *shard;
    sg_str_t key;
    uint64_t hash;
    entry_t *entry; /* NULL: there is none, `fresh` takes its part */
    sg_limit_state_t fresh;
} slot_t;

typedef struct {
    shard_t *own, *all; /* those that are locked; NULL: not needed */
    const sg_limit_t *limits[SG_LIMITS_MAX];
    sg_limit_state_t *states[SG_LIMITS_MAX];
    slot_t slots[SG_LIMITS_MAX];
    sg_limit_t scaled[SG_LIMITS_MAX];
    char keys[SG_LIMITS_MAX][SG_KEY_BYTES];
} decision_t;

static shard_t *shard_of(sg_memory_t *m, const char *tag)
{
    return &m->shards[sg_siphash(sg_str(tag)) % SHARDS];
}

static shard_t *shard_of_limit(const decision_t *d, const sg_limit_t *l)
{
    return l->per == SG_PER_ALL ? d->all : d->own;
}

static void lock(sg_memory_t *m, decision_t *d, const sg_check_t *check)
{
    shard_t *first, *second;

    d->own = d->all = NULL;
    for (size_t i = 0; i < check->count; i++) {
        if (check->limits[i]->per == SG_PER_ALL)
            d->all = shard_of(m, "all");
        else
            d->own = shard_of(m, check->scope.tag);
    }
    first = d->own && (!d->all || d->own < d->all) ? d->own : d->all;
    second = first == d->own ? d->all : d->own;
    if (first)
        pthread_mutex_lock(&first->lock);
    if (second && second != first)
        pthread_mutex_lock(&second->lock);
}

static void unlock(decision_t *d)
{
    if (d->own)
        pthread_mutex_unlock(&d->own->lock);
    if (d->all && d->all != d->own)
        pthread_mutex_unlock(&d->all->lock);
}

/* window_us picks the fixed window. */
static void find_state(decision_t *d, const sg_check_t *check, size_t i, int64_t window_us, int64_t now_us)
{
    slot_t *slot = &d->slots[i];
    int64_t bucket;

    slot->shard = shard_of_limit(d, check->limits[i]);
    slot->key = sg_limit_key(&check->scope, check->limits[i], window_us, d->keys[i], &bucket);
    slot->hash = sg_siphash(slot->key);
    slot->entry = find(slot->shard, slot->key, slot->hash);
    slot->fresh = (sg_limit_state_t){0};
    if (!slot->entry) {
        d->states[i] = &slot->fresh;
        return;
    }
    slot->entry->turn = slot->shard->turn;
    if (slot->entry->expires_us <= now_us)
        sg_limit_state_free(&slot->entry->state);
    d->states[i] = &slot->entry->state;
}

static void note_use(entry_t *e, const sg_limit_t *l, const sg_limit_result_t *r, int64_t now_us)
{
    e->returning_us = now_us + r->more_us;
    e->unused_us = now_us + r->reset_us;
    e->used_ppm = (int64_t)((__int128)(l->limit - r->remaining) * 1000000 / l->limit);
}

/* A state that came to be gets an entry; one that is there is renewed. */
static void keep_state(sg_memory_t *m, decision_t *d, size_t i, int64_t now_us, const sg_limit_result_t *r)
{
    const sg_limit_t *l = d->limits[i];
    slot_t *slot = &d->slots[i];

    if (!d->states[i]->exists || l->limit == 0)
        return;
    if (!slot->entry) {
        slot->entry = insert(m, slot->shard, slot->key, slot->hash, now_us);
        slot->entry->state = slot->fresh;
        slot->entry->turn = slot->shard->turn;
    }
    slot->entry->expires_us = now_us + sg_limit_ttl_us(l, slot->key, now_us);
    /* A debt matters until it is paid. */
    if (slot->entry->expires_us < now_us + r->reset_us + GRACE_US)
        slot->entry->expires_us = now_us + r->reset_us + GRACE_US;
    note_use(slot->entry, l, r, now_us);
}

static void scale(decision_t *d, const sg_check_t *check, size_t i, int64_t share_ppm)
{
    d->limits[i] = check->limits[i];
    if (share_ppm == 1000000)
        return;
    sg_limit_scale(check->limits[i], share_ppm, &d->scaled[i]);
    d->limits[i] = &d->scaled[i];
}

static void next_turn(decision_t *d)
{
    if (d->own)
        d->own->turn++;
    if (d->all && d->all != d->own)
        d->all->turn++;
}

void sg_memory_check(sg_memory_t *m, const sg_check_t *check, int64_t share_ppm, int64_t now_us,
                     sg_verdict_t *out)
{
    char made[SG_RANDOM_ID_BYTES];
    const char *lease = check->lease;
    decision_t d;

    if (!lease) {
        sg_random_id(made);
        lease = made;
    }
    lock(m, &d, check);
    next_turn(&d);
    for (size_t i = 0; i < check->count; i++) {
        scale(&d, check, i, share_ppm);
        find_state(&d, check, i, now_us, now_us);
    }
    sg_limit_decide(d.limits, d.states, check->count, check->cost, now_us, lease, out);
    if (check->cost > 0)
        for (size_t i = 0; i < check->count; i++)
            keep_state(m, &d, i, now_us, &out->at[i]);
    unlock(&d);
}

void sg_memory_release(sg_memory_t *m, const sg_check_t *check, int64_t now_us)
{
    decision_t d;

    if (!check->lease)
        return;
    lock(m, &d, check);
    for (size_t i = 0; i < check->count; i++) {
        if (check->limits[i]->algo != SG_ALGO_CONCURRENCY)
            continue;
        find_state(&d, check, i, now_us, now_us);
        sg_limit_release(d.states[i], check->lease);
    }
    unlock(&d);
}

/* A charge is renewed like a decision; a refund leaves the life of its state as it is. */
static void settle(sg_memory_t *m, decision_t *d, const sg_check_t *check, size_t i,
                   const sg_settlement_t *what, int64_t now_us)
{
    sg_limit_result_t r;

    find_state(d, check, i, sg_limit_settle_at_us(what, now_us), now_us);
    sg_limit_settle(d->limits[i], d->states[i], what, now_us, check->lease);
    if (d->limits[i]->limit == 0)
        return;
    sg_limit_look(d->limits[i], d->states[i], 0, now_us, &r);
    if (what->delta > 0)
        keep_state(m, d, i, now_us, &r);
    else if (d->slots[i].entry)
        note_use(d->slots[i].entry, d->limits[i], &r, now_us);
}

void sg_memory_settle(sg_memory_t *m, const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost,
                      int64_t share_ppm, int64_t now_us)
{
    sg_settlement_t what;
    decision_t d;

    lock(m, &d, check);
    next_turn(&d);
    for (size_t i = 0; i < check->count; i++) {
        scale(&d, check, i, share_ppm);
        if (sg_limit_settlement(d.limits[i], verdict, i, check->cost, cost, &what))
            settle(m, &d, check, i, &what, now_us);
    }
    unlock(&d);
}

/* --- upkeep
 * ------------------------------------------------------------------------------------------------------- */

/* Drops what has expired in up to `chains` chains of one shard; returns how many it looked at. */
static size_t sweep_shard(sg_memory_t *m, shard_t *s, size_t chains, int64_t now_us)
{
    size_t n;

    pthread_mutex_lock(&s->lock);
    n = chains < s->chain_count ? chains : s->chain_count;
    for (size_t i = 0; i < n; i++) {
        entry_t **place = &s->chains[s->hand = (s->hand + 1) & (s->chain_count - 1)];
        while (*place) {
            if ((*place)->expires_us <= now_us)
                drop(m, s, place);
            else
                place = &(*place)->next;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

void sg_memory_sweep(sg_memory_t *m, int64_t now_us)
{
    size_t left = SWEEP_CHAINS;

    for (size_t i = 0; i < SHARDS && left > 0; i++) {
        size_t next = atomic_fetch_add_explicit(&m->next_shard, 1, memory_order_relaxed);
        left -= sweep_shard(m, &m->shards[next % SHARDS], left, now_us);
    }
}

size_t sg_memory_reset(sg_memory_t *m, const char *tag)
{
    shard_t *s = shard_of(m, tag);
    size_t dropped = 0;
    char *braced = sg_asprintf("{%s}", tag);

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->chain_count; i++) {
        entry_t **place = &s->chains[i];
        while (*place) {
            if (memmem((*place)->key, (*place)->key_bytes, braced, strlen(braced))) {
                drop(m, s, place);
                dropped++;
            } else {
                place = &(*place)->next;
            }
        }
    }
    pthread_mutex_unlock(&s->lock);
    sg_free(braced);
    return dropped;
}
