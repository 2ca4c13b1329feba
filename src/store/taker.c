#include "store/taker.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "store/ticket.h"

/* After an asking that failed nothing is fetched ahead. */
#define FAILED_PAUSE_US 1000000

struct sg_taker {
    sg_link_t link; /* sg_takers_t.all */
    sg_takers_t *of;
    sg_pile_t *pile;
    const sg_limit_t *ledger;
    bool used;         /* by a limit of the config in use */
    sg_link_t waiting; /* sg_want_t, in the order of coming */
    sg_link_t owned;   /* sg_block_t.owner */
    /* The asking that is out. */
    sg_ticket_t *asking; /* NULL: none */
    bool fetching;       /* some of its units are for later */
    int64_t units, asked_us;
    char name[SG_RANDOM_ID_BYTES];
    sg_check_t check;
};

/* --- giving back ---------------------------------------------------------------------------------------- */

/* Settles `cost` in place of `taken` units of a block, which were taken as `name`. */
static void settle(sg_takers_t *t, const sg_block_t *b, const char *name, int64_t taken, int64_t cost)
{
    const sg_limit_t *ledger = sg_pile_ledger(b->pile);
    const sg_check_t check = {.limits = &ledger,
                              .count = 1,
                              .cost = taken,
                              .scope = *sg_pile_scope(b->pile),
                              .lease = name,
                              .returns = cost < taken};
    sg_verdict_t v = {.allowed = true, .now_us = b->decided_us, .count = 1};
    v.at[0] = b->granted;
    if (sg_pile_is_at(b->pile, &t->config->store))
        t->hooks.settle(t->hooks.arg, &check, &v, cost);
}

static void give_back(sg_takers_t *t, const sg_block_t *b, const sg_give_back_t *g)
{
    /* A log tells its units by their number. To a bucket each part that goes back is a taking of its own, so
     * that they may come in any order. */
    bool log = sg_pile_ledger(b->pile)->algo == SG_ALGO_SLIDING_LOG;
    int64_t taken = log ? g->taken : g->units;
    if (g->units == 0)
        return;
    settle(t, b, b->name, taken, taken - g->units);
    sg_count_block_units(t->metrics, SG_BLOCK_RETURNED, g->units);
}

void sg_takers_put_back(sg_takers_t *t, sg_block_t *b, int64_t units)
{
    sg_give_back_t g;
    if (!sg_block_put_back(b, units, &g))
        return;
    give_back(t, b, &g);
    sg_block_keep(b);
}

void sg_takers_charge(sg_takers_t *t, sg_block_t *b, const char *name, int64_t reserved, int64_t cost)
{
    settle(t, b, name, reserved, cost);
}

static void free_when_idle(sg_taker_t *t)
{
    if (t->used || t->asking || !sg_list_empty(&t->waiting) || !sg_list_empty(&t->owned))
        return;
    sg_list_remove(&t->link);
    sg_pile_unref(t->pile);
    sg_free(t);
}

static void end_block(sg_taker_t *t, sg_block_t *b)
{
    sg_give_back_t g;
    sg_timer_stop(t->of->loop, &b->owner.expiry);
    sg_list_remove(&b->owner.link);
    sg_block_close(b, &g);
    give_back(t->of, b, &g);
    sg_block_keep(b);
}

static void on_expiry(void *arg)
{
    sg_block_t *b = arg;
    sg_taker_t *t = b->owner.arg;
    end_block(t, b);
    free_when_idle(t);
}

static void end_blocks(sg_taker_t *t)
{
    while (!sg_list_empty(&t->owned))
        end_block(t, SG_OWNER(t->owned.next, sg_block_t, owner.link));
}

/* --- those who wait ------------------------------------------------------------------------------------- */

static sg_want_t *first_waiting(const sg_taker_t *t)
{
    return sg_list_empty(&t->waiting) ? NULL : SG_OWNER(t->waiting.next, sg_want_t, link);
}

/* From the list of those who wait to the list of those who know. */
static void settle_want(sg_want_t *w, sg_want_state_t state, sg_link_t *known)
{
    sg_list_remove(&w->link);
    w->state = state;
    sg_list_push_back(known, &w->link);
}

/* What one does may stop others of them. */
static void tell_all(sg_link_t *known)
{
    sg_link_t *l;
    while ((l = sg_list_pop(known))) {
        sg_want_t *w = SG_OWNER(l, sg_want_t, link);
        w->done(w);
    }
}

void sg_want_stop(sg_want_t *w)
{
    sg_list_remove(&w->link);
    if (w->state == SG_WANT_OPEN)
        w->state = SG_WANT_FAILED;
}

static void fetched(sg_taker_t *t, int64_t pause_us)
{
    if (t->fetching)
        sg_pile_fetched(t->pile, pause_us, sg_clock_mono_us());
    t->fetching = false;
}

static void fail_waiting(sg_taker_t *t)
{
    sg_want_t *w;
    sg_link_t known;
    sg_list_init(&known);
    fetched(t, FAILED_PAUSE_US);
    while ((w = first_waiting(t)))
        settle_want(w, SG_WANT_FAILED, &known);
    tell_all(&known);
}

/* From what others have fetched meanwhile. */
static void serve_from_pile(sg_taker_t *t, sg_link_t *known)
{
    sg_want_t *w;
    while ((w = first_waiting(t))) {
        w->block = sg_pile_spend(t->pile, w->units, sg_clock_mono_us(), &w->result);
        if (!w->block)
            return;
        settle_want(w, SG_WANT_GRANTED, known);
    }
}

/* --- asking --------------------------------------------------------------------------------------------- */

static void on_answer(void *arg, const sg_answer_t *answer);

static bool ask_ledger(sg_taker_t *t, int64_t units)
{
    const sg_store_hooks_t *hooks = &t->of->hooks;
    sg_answer_t now;
    t->units = units;
    t->asked_us = sg_clock_mono_us();
    sg_random_id(t->name);
    t->check = (sg_check_t){.limits = &t->ledger,
                            .count = 1,
                            .cost = units,
                            .scope = *sg_pile_scope(t->pile),
                            .lease = t->name,
                            .on_failure = SG_FAIL_CLOSED,
                            .returns = true};
    return !hooks->ask(hooks->arg, &t->check, false, &now, &t->asking, on_answer, t);
}

/* For what is wanted, and what is good to have. While an asking is out its answer comes back here. False: it
 * cannot be asked. */
static bool take(sg_taker_t *t)
{
    int64_t most = t->ledger->limit, wanted = 0;
    if (t->asking)
        return true;
    SG_LIST_EACH(it, &t->waiting)
    wanted = sg_i64_min(most, wanted + SG_OWNER(it, sg_want_t, link)->units);
    int64_t ahead = sg_pile_fetch(t->pile, wanted > 0, sg_clock_mono_us());
    t->fetching = ahead > 0;
    if (wanted + ahead == 0 || ask_ledger(t, sg_i64_min(most, wanted + ahead)))
        return true;
    fetched(t, FAILED_PAUSE_US);
    return false;
}

/* The ledger decided while those who came before the asking were here, so for them it does not matter how
 * long the answer took. For all others the block's time does: it may have been another window. */
static bool may_spend(const sg_block_t *b, const sg_want_t *w, int64_t asked_us, int64_t now_us)
{
    return w->since_us <= asked_us || now_us < b->until_us;
}

static void granted(sg_taker_t *t, const sg_verdict_t *v, sg_link_t *known)
{
    int64_t now_us = sg_clock_mono_us();
    sg_block_t *b = sg_block_new(t->pile, t->name, t->units, t->asked_us, now_us, v);
    sg_want_t *w;
    sg_count_block_units(t->of->metrics, SG_BLOCK_TAKEN, t->units);
    b->owner.arg = t;
    sg_list_push_back(&t->owned, &b->owner.link);
    while ((w = first_waiting(t)) && may_spend(b, w, t->asked_us, now_us) &&
           sg_block_spend(b, w->units, now_us, &w->result)) {
        w->block = b;
        settle_want(w, SG_WANT_GRANTED, known);
    }
    fetched(t, 0);
    sg_block_publish(b);
    sg_timer_at(t->of->loop, &b->owner.expiry, b->until_us, on_expiry, b);
}

/* How many to ask for instead; 0: none. The ledger has told what is left of it; others may have taken that by
 * now, so each asking is smaller than the one before, down to what the first one needs. */
static int64_t for_less(const sg_taker_t *t, const sg_limit_result_t *r)
{
    const sg_want_t *w = first_waiting(t);
    int64_t units = sg_i64_min(r->remaining, t->units - 1);
    if (w && units < w->units)
        units = w->units;
    return units < t->units ? units : 0;
}

/* The ledger has denied just as many units as these need. */
static void deny_waiting(sg_taker_t *t, const sg_limit_result_t *r, sg_link_t *known)
{
    if (t->of->config->store.deny_cache)
        sg_pile_deny(t->pile, t->units, r, sg_clock_mono_us());
    SG_LIST_EACH(it, &t->waiting)
    {
        sg_want_t *w = SG_OWNER(it, sg_want_t, link);
        if (w->units != t->units)
            continue;
        w->result = *r;
        settle_want(w, SG_WANT_DENIED, known);
    }
}

static void on_verdict(sg_taker_t *t, const sg_verdict_t *v)
{
    sg_link_t known;
    sg_list_init(&known);
    int64_t less = v->allowed ? 0 : for_less(t, &v->at[0]);
    if (less > 0) {
        if (!ask_ledger(t, less))
            fail_waiting(t);
        return;
    }
    if (v->allowed) {
        granted(t, v, &known);
    } else {
        deny_waiting(t, &v->at[0], &known);
        fetched(t, v->at[0].retry_us);
    }
    serve_from_pile(t, &known);
    bool asked = sg_list_empty(&t->waiting) || take(t);
    tell_all(&known);
    if (!asked)
        fail_waiting(t);
}

static void on_answer(void *arg, const sg_answer_t *answer)
{
    sg_taker_t *t = arg;
    t->asking = NULL;
    if (answer->source == SG_FROM_STORE)
        on_verdict(t, &answer->verdict);
    else
        fail_waiting(t);
    free_when_idle(t);
}

void sg_taker_want(sg_taker_t *t, sg_want_t *w)
{
    int64_t now_us = sg_clock_mono_us();
    w->since_us = now_us;
    w->now_us = sg_pile_clock_us(t->pile, now_us);
    w->state = SG_WANT_DENIED;
    if (w->units > t->ledger->limit) {
        w->result = (sg_limit_result_t){.never = true};
    } else if (sg_list_empty(&t->waiting) &&
               (w->block = sg_pile_spend(t->pile, w->units, now_us, &w->result))) {
        w->state = SG_WANT_GRANTED;
        (void)take(t);
    } else if (sg_pile_is_denied(t->pile, w->units, now_us, &w->result)) {
        w->cached = true;
    } else {
        w->state = SG_WANT_OPEN;
        sg_list_push_back(&t->waiting, &w->link);
        if (!take(t))
            sg_want_stop(w);
    }
}

/* --- life ----------------------------------------------------------------------------------------------- */

sg_taker_t *sg_takers_find(const sg_takers_t *t, const sg_limit_t *l)
{
    bool known = l->index < t->config->limit_count && t->config->limits[l->index] == l;
    return known && t->by_limit ? t->by_limit[l->index] : NULL;
}

static sg_taker_t *taker_for(sg_takers_t *all, const sg_config_t *c, const sg_limit_t *l)
{
    sg_pile_t *pile = sg_pile_open(all->blocks, &c->store, l);
    SG_LIST_EACH(it, &all->all)
    {
        sg_taker_t *one = SG_OWNER(it, sg_taker_t, link);
        if (one->pile != pile)
            continue;
        sg_pile_unref(pile);
        return one;
    }
    sg_taker_t *t = SG_NEW(sg_taker_t);
    t->of = all;
    t->pile = pile;
    t->ledger = sg_pile_ledger(pile);
    sg_list_init(&t->waiting);
    sg_list_init(&t->owned);
    sg_list_push_back(&all->all, &t->link);
    return t;
}

static void find_takers(sg_takers_t *t, const sg_config_t *c)
{
    sg_free(t->by_limit);
    t->by_limit = t->blocks ? sg_calloc(c->limit_count + 1, sizeof(sg_taker_t *)) : NULL;
    for (size_t i = 0; t->blocks && i < c->limit_count; i++) {
        if (!c->limits[i]->ledger)
            continue;
        t->by_limit[i] = taker_for(t, c, c->limits[i]);
        t->by_limit[i]->used = true;
    }
}

void sg_takers_init(sg_takers_t *t, sg_loop_t *loop, sg_config_t *config, sg_blocks_t *blocks,
                    sg_metrics_block_t *metrics, const sg_store_hooks_t *hooks)
{
    *t = (sg_takers_t){
        .loop = loop, .config = sg_config_ref(config), .blocks = blocks, .metrics = metrics, .hooks = *hooks};
    sg_list_init(&t->all);
    find_takers(t, config);
}

/* What goes back goes to the old config's server. */
void sg_takers_reload(sg_takers_t *t, sg_config_t *config)
{
    SG_LIST_EACH(it, &t->all)
    SG_OWNER(it, sg_taker_t, link)->used = false;
    find_takers(t, config);
    SG_LIST_EACH(it, &t->all)
    {
        sg_taker_t *one = SG_OWNER(it, sg_taker_t, link);
        if (!one->used)
            end_blocks(one);
        free_when_idle(one);
    }
    sg_config_unref(t->config);
    t->config = sg_config_ref(config);
}

void sg_takers_give_back(sg_takers_t *t)
{
    SG_LIST_EACH(it, &t->all)
    end_blocks(SG_OWNER(it, sg_taker_t, link));
}

void sg_takers_deinit(sg_takers_t *t)
{
    sg_takers_give_back(t);
    SG_LIST_EACH(it, &t->all)
    {
        sg_taker_t *one = SG_OWNER(it, sg_taker_t, link);
        if (one->asking)
            one->asking->cancel(one->asking);
        one->asking = NULL;
        fetched(one, 0);
        one->used = false;
        free_when_idle(one);
    }
    sg_free(t->by_limit);
    sg_config_unref(t->config);
}
