#include "store/blocks.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "gate/block.h"

/* Blocks with a few units left, too few for the next request: beyond so many the oldest is not spent from. */
#define STACK_MAX 8

struct sg_blocks {
    pthread_mutex_t lock; /* of the list, and of the piles' counts */
    sg_link_t piles;
};

struct sg_pile {
    sg_link_t link;
    sg_blocks_t *all;
    size_t refs; /* by sg_blocks_t.lock */
    char *place; /* the store */
    char *name, *prefix, *version;
    sg_limit_t ledger;
    sg_key_scope_t scope;
    int64_t block, spend_us;

    pthread_mutex_t lock; /* of all below */
    sg_link_t stack;      /* blocks with units to spend, the oldest first */
    size_t stacked;
    int64_t left;  /* units of the stack */
    int64_t ahead; /* units that are fetched ahead */
    bool fetching;
    int64_t asked_us, pause_until_us;
    sg_limit_result_t known;    /* of the ledger, by its last answer */
    int64_t known_us, clock_us; /* when that came; the store's clock less ours */
    sg_limit_result_t denied;
    int64_t denied_cost, denied_us, denied_until_us;
};

/* --- piles ---------------------------------------------------------------------------------------------- */

sg_blocks_t *sg_blocks_new(void)
{
    sg_blocks_t *b = SG_NEW(sg_blocks_t);
    (void)pthread_mutex_init(&b->lock, NULL);
    sg_list_init(&b->piles);
    return b;
}

void sg_blocks_free(sg_blocks_t *b)
{
    if (!b)
        return;
    (void)pthread_mutex_destroy(&b->lock);
    sg_free(b);
}

static char *place_of(const sg_store_conf_t *c)
{
    char *text = sg_asprintf("%d %s %u %s %u %s", (int)c->mode, c->host ? c->host : "", c->port,
                             c->unix_path ? c->unix_path : "", c->db, c->master ? c->master : "");
    for (size_t i = 0; i < c->node_count; i++) {
        char *more = sg_asprintf("%s %s", text, c->nodes[i]);
        sg_free(text);
        text = more;
    }
    return text;
}

static bool is_same(const sg_pile_t *p, const char *place, const sg_store_conf_t *c, const sg_limit_t *l)
{
    const sg_limit_t *a = &p->ledger, *b = l->ledger;
    return strcmp(p->place, place) == 0 && strcmp(p->name, l->name) == 0 &&
           sg_str_eq(sg_str(p->prefix), c->key_prefix) && sg_str_eq(sg_str(p->version), c->key_version) &&
           a->algo == b->algo && a->limit == b->limit && a->rate_count == b->rate_count &&
           a->rate_us == b->rate_us && a->window_us == b->window_us && a->precision == b->precision &&
           p->block == l->block && p->spend_us == l->spend_us;
}

static sg_pile_t *pile_new(sg_blocks_t *all, char *place, const sg_store_conf_t *c, const sg_limit_t *l)
{
    sg_pile_t *p = SG_NEW(sg_pile_t);
    p->all = all;
    p->place = place;
    p->name = sg_strdup(l->name);
    p->prefix = sg_strndup(c->key_prefix);
    p->version = sg_strndup(c->key_version);
    p->ledger = *l->ledger;
    p->ledger.name = p->name;
    p->ledger.dry_run = false; /* the caller looks to that */
    p->scope = (sg_key_scope_t){sg_str(p->prefix), sg_str(p->version), "all", NULL, "all"};
    p->block = l->block;
    p->spend_us = l->spend_us;
    (void)pthread_mutex_init(&p->lock, NULL);
    sg_list_init(&p->stack);
    sg_list_push_back(&all->piles, &p->link);
    return p;
}

sg_pile_t *sg_pile_open(sg_blocks_t *all, const sg_store_conf_t *store, const sg_limit_t *l)
{
    char *place = place_of(store);
    sg_pile_t *p = NULL;
    (void)pthread_mutex_lock(&all->lock);
    SG_LIST_EACH(it, &all->piles)
    {
        sg_pile_t *one = SG_OWNER(it, sg_pile_t, link);
        if (!p && is_same(one, place, store, l))
            p = one;
    }
    if (p)
        sg_free(place);
    else
        p = pile_new(all, place, store, l);
    p->refs++;
    (void)pthread_mutex_unlock(&all->lock);
    return p;
}

static sg_pile_t *pile_ref(sg_pile_t *p)
{
    (void)pthread_mutex_lock(&p->all->lock);
    p->refs++;
    (void)pthread_mutex_unlock(&p->all->lock);
    return p;
}

void sg_pile_unref(sg_pile_t *p)
{
    sg_blocks_t *all = p->all;
    (void)pthread_mutex_lock(&all->lock);
    bool last = --p->refs == 0;
    if (last)
        sg_list_remove(&p->link);
    (void)pthread_mutex_unlock(&all->lock);
    if (!last)
        return;
    (void)pthread_mutex_destroy(&p->lock);
    sg_free(p->place);
    sg_free(p->name);
    sg_free(p->prefix);
    sg_free(p->version);
    sg_free(p);
}

bool sg_pile_is_at(const sg_pile_t *p, const sg_store_conf_t *store)
{
    char *place = place_of(store);
    bool same = strcmp(p->place, place) == 0;
    sg_free(place);
    return same;
}

const sg_limit_t *sg_pile_ledger(const sg_pile_t *p)
{
    return &p->ledger;
}

const sg_key_scope_t *sg_pile_scope(const sg_pile_t *p)
{
    return &p->scope;
}

/* --- what is known -------------------------------------------------------------------------------------- */

static void age(sg_limit_result_t *r, int64_t gone_us)
{
    r->reset_us = sg_i64_less(r->reset_us, gone_us);
    r->more_us = sg_i64_less(r->more_us, gone_us);
    r->retry_us = sg_i64_less(r->retry_us, gone_us);
}

static void learn(sg_pile_t *p, const sg_limit_result_t *r, int64_t now_us)
{
    p->known = *r;
    p->known_us = now_us;
}

static void tell(const sg_pile_t *p, int64_t now_us, sg_limit_result_t *out)
{
    *out = p->known;
    age(out, now_us - p->known_us);
    out->allowed = true;
    out->never = false;
    out->remaining += p->left;
    out->retry_us = 0;
}

void sg_pile_deny(sg_pile_t *p, int64_t cost, const sg_limit_result_t *result, int64_t now_us)
{
    (void)pthread_mutex_lock(&p->lock);
    learn(p, result, now_us);
    p->denied = *result;
    p->denied_cost = cost;
    p->denied_us = now_us;
    p->denied_until_us = now_us + sg_i64_min(result->retry_us, SG_BLOCK_SPEND_MAX_US);
    (void)pthread_mutex_unlock(&p->lock);
}

bool sg_pile_is_denied(sg_pile_t *p, int64_t cost, int64_t now_us, sg_limit_result_t *result)
{
    (void)pthread_mutex_lock(&p->lock);
    bool denied = cost == p->denied_cost && now_us < p->denied_until_us;
    if (denied) {
        *result = p->denied;
        age(result, now_us - p->denied_us);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return denied;
}

int64_t sg_pile_clock_us(sg_pile_t *p, int64_t now_us)
{
    (void)pthread_mutex_lock(&p->lock);
    int64_t us = p->clock_us + now_us;
    (void)pthread_mutex_unlock(&p->lock);
    return us;
}

/* --- how much is fetched -------------------------------------------------------------------------------- */

int64_t sg_pile_fetch(sg_pile_t *p, bool wanting, int64_t now_us)
{
    int64_t units = 0;
    (void)pthread_mutex_lock(&p->lock);
    bool low = wanting || (p->ahead > 0 && p->left < (p->ahead + 1) / 2);
    if (low && !p->fetching && now_us >= p->pause_until_us) {
        if (p->asked_us && now_us - p->asked_us < p->spend_us)
            p->ahead = p->ahead ? sg_i64_min(p->ahead * 2, p->block) : 1;
        p->asked_us = now_us;
        units = sg_i64_less(p->ahead, p->left);
        p->fetching = units > 0;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return units;
}

void sg_pile_fetched(sg_pile_t *p, int64_t pause_us, int64_t now_us)
{
    (void)pthread_mutex_lock(&p->lock);
    p->fetching = false;
    if (pause_us > 0)
        p->pause_until_us = now_us + sg_i64_min(pause_us, SG_BLOCK_SPEND_MAX_US);
    (void)pthread_mutex_unlock(&p->lock);
}

/* --- blocks --------------------------------------------------------------------------------------------- */

static void push(sg_pile_t *p, sg_block_t *b, bool oldest)
{
    if (b->left == 0 || b->over || sg_list_linked(&b->stacked))
        return;
    if (oldest)
        sg_list_push_front(&p->stack, &b->stacked);
    else
        sg_list_push_back(&p->stack, &b->stacked);
    p->stacked++;
    p->left += b->left;
}

static void drop(sg_pile_t *p, sg_block_t *b)
{
    if (!sg_list_linked(&b->stacked))
        return;
    sg_list_remove(&b->stacked);
    p->stacked--;
    p->left -= b->left;
}

static void unref(sg_block_t *b)
{
    sg_pile_t *p = b->pile;
    bool last = --b->refs == 0;
    (void)pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    sg_free(b);
    sg_pile_unref(p);
}

/* What has gone back already counts no more. */
static void give_back(sg_block_t *b, int64_t units, sg_give_back_t *out)
{
    *out = (sg_give_back_t){units, b->taken - b->back};
    b->back += units;
}

sg_block_t *sg_block_new(sg_pile_t *p, const char *name, int64_t units, int64_t asked_us, int64_t now_us,
                         const sg_verdict_t *verdict)
{
    sg_block_t *b = SG_NEW(sg_block_t);
    b->pile = pile_ref(p);
    b->refs = 1;
    (void)snprintf(b->name, sizeof b->name, "%s", name);
    b->taken = b->left = units;
    b->until_us = asked_us + sg_block_life_us(&p->ledger, p->spend_us, verdict->now_us);
    b->decided_us = verdict->now_us;
    b->granted = verdict->at[0];
    (void)pthread_mutex_lock(&p->lock);
    learn(p, &verdict->at[0], now_us);
    p->clock_us = verdict->now_us - now_us;
    (void)pthread_mutex_unlock(&p->lock);
    return b;
}

void sg_block_publish(sg_block_t *b)
{
    sg_pile_t *p = b->pile;
    (void)pthread_mutex_lock(&p->lock);
    push(p, b, false);
    if (p->stacked > STACK_MAX)
        drop(p, SG_OWNER(p->stack.next, sg_block_t, stacked));
    (void)pthread_mutex_unlock(&p->lock);
}

static bool spend(sg_block_t *b, int64_t units)
{
    bool stacked = sg_list_linked(&b->stacked);
    if (b->over || b->left < units)
        return false;
    b->left -= units;
    b->refs++;
    if (!stacked)
        return true;
    b->pile->left -= units;
    if (b->left == 0)
        drop(b->pile, b);
    return true;
}

bool sg_block_spend(sg_block_t *b, int64_t units, int64_t now_us, sg_limit_result_t *result)
{
    sg_pile_t *p = b->pile;
    (void)pthread_mutex_lock(&p->lock);
    bool has = spend(b, units);
    tell(p, now_us, result);
    if (!sg_list_linked(&b->stacked))
        result->remaining += b->left;
    (void)pthread_mutex_unlock(&p->lock);
    return has;
}

sg_block_t *sg_pile_spend(sg_pile_t *p, int64_t units, int64_t now_us, sg_limit_result_t *result)
{
    sg_block_t *b = NULL;
    (void)pthread_mutex_lock(&p->lock);
    SG_LIST_EACH(it, &p->stack)
    {
        sg_block_t *one = SG_OWNER(it, sg_block_t, stacked);
        if (!b && now_us < one->until_us && spend(one, units))
            b = one;
    }
    if (b)
        tell(p, now_us, result);
    (void)pthread_mutex_unlock(&p->lock);
    return b;
}

void sg_block_keep(sg_block_t *b)
{
    (void)pthread_mutex_lock(&b->pile->lock);
    unref(b);
}

bool sg_block_put_back(sg_block_t *b, int64_t units, sg_give_back_t *out)
{
    sg_pile_t *p = b->pile;
    (void)pthread_mutex_lock(&p->lock);
    if (b->over) {
        give_back(b, units, out);
        (void)pthread_mutex_unlock(&p->lock);
        return true;
    }
    drop(p, b);
    b->left += units;
    push(p, b, true);
    unref(b);
    return false;
}

void sg_block_close(sg_block_t *b, sg_give_back_t *out)
{
    sg_pile_t *p = b->pile;
    (void)pthread_mutex_lock(&p->lock);
    drop(p, b);
    b->over = true;
    if (b->left > 0)
        p->ahead = sg_i64_min(p->ahead, b->taken - b->left);
    p->known.remaining += b->left;
    give_back(b, b->left, out);
    b->left = 0;
    (void)pthread_mutex_unlock(&p->lock);
}
