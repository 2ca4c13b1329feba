#include "store/ahead.h"

#include "base/mem.h"
#include "store/ticket.h"

struct sg_ahead {
    sg_takers_t takers;
};

typedef struct ticket ticket_t;

/* One limit of a request that does not lie with its own keys: units of a block are wanted, or it is asked
 * for this request alone. */
typedef struct {
    sg_want_t want; /* asked alone: its state and result only */
    ticket_t *of;
    const sg_limit_t *limit;
    sg_ticket_t *asking;
    const sg_limit_t *rule;
    sg_check_t check;
} part_t;

/* A decision that is still out. */
struct ticket {
    sg_ticket_t base;
    sg_ahead_t *a;
    sg_check_t check;
    sg_answer_fn *fn; /* NULL while sg_ahead_check runs */
    void *arg;
    sg_timer_t deadline;
    bool ended; /* in sg_ahead_check: `answer` is the answer */
    sg_answer_t answer;
    sg_ticket_t *asking; /* the request's own limits */
    sg_check_t own;
    const sg_limit_t *own_limits[SG_LIMITS_MAX];
    size_t count;
    part_t parts[];
};

struct sg_spent {
    size_t count;
    sg_block_t *blocks[];
};

/* Denies, and has no state. */
static const sg_limit_t nothing_left = {
    .name = "none.left", .algo = SG_ALGO_SLIDING_LOG, .limit = 0, .window_us = 1000000};

static bool is_elsewhere(const sg_ahead_t *a, const sg_limit_t *l)
{
    return l->per == SG_PER_ALL && (l->ledger || a->takers.config->store.mode == SG_REDIS_CLUSTER);
}

bool sg_ahead_is_for(const sg_ahead_t *a, const sg_check_t *check)
{
    for (size_t i = 0; i < check->count; i++)
        if (is_elsewhere(a, check->limits[i]))
            return true;
    return false;
}

/* --- the end of a decision ------------------------------------------------------------------------------ */

static void ticket_free(ticket_t *t)
{
    sg_timer_stop(t->a->takers.loop, &t->deadline);
    sg_free(t);
}

static void end(ticket_t *t, const sg_answer_t *answer)
{
    sg_answer_fn *fn = t->fn;
    void *arg = t->arg;
    sg_answer_t a = *answer;
    if (!fn) {
        t->answer = a;
        t->ended = true;
        return;
    }
    ticket_free(t);
    fn(arg, &a);
}

/* Nothing of it is out any more. */
static void part_stop(part_t *p)
{
    if (p->asking)
        p->asking->cancel(p->asking);
    p->asking = NULL;
    sg_want_stop(&p->want);
}

/* The request does not go on: what it spent is there again. */
static void part_undo(part_t *p)
{
    sg_ahead_t *a = p->of->a;
    int64_t cost = p->of->check.cost;
    if (p->want.state != SG_WANT_GRANTED || cost == 0)
        return;
    if (p->want.block)
        sg_takers_put_back(&a->takers, p->want.block, cost);
    else
        a->takers.hooks.release(a->takers.hooks.arg, &p->check);
    p->want.block = NULL;
    p->want.result.remaining += p->limit->algo == SG_ALGO_CONCURRENCY ? 1 : cost;
}

static void undo_all(ticket_t *t)
{
    for (size_t i = 0; i < t->count; i++)
        part_undo(&t->parts[i]);
}

static void keep_all(ticket_t *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!t->parts[i].want.block)
            continue;
        sg_block_keep(t->parts[i].want.block);
        t->parts[i].want.state = SG_WANT_OPEN; /* not to be undone */
        t->parts[i].want.block = NULL;
    }
}

/* For those who settle: the references move. */
static sg_spent_t *spent_of(ticket_t *t)
{
    sg_spent_t *s = sg_malloc(sizeof *s + t->count * sizeof s->blocks[0]);
    s->count = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->parts[i].want.block)
            s->blocks[s->count++] = t->parts[i].want.block;
    return s;
}

/* Denied by one of the others; *cached: and that was remembered. */
static bool is_denied(const ticket_t *t, bool *cached)
{
    bool denied = false;
    *cached = false;
    for (size_t i = 0; i < t->count; i++) {
        const part_t *p = &t->parts[i];
        if (p->want.state != SG_WANT_DENIED || p->limit->dry_run)
            continue;
        denied = true;
        *cached |= p->want.cached;
    }
    return denied;
}

/* One verdict over all limits, in the order asked. `own` NULL: there are no others. */
static void merge(ticket_t *t, const sg_answer_t *own, sg_answer_t *out)
{
    bool cached, denied = is_denied(t, &cached);
    out->source = own ? own->source : cached ? SG_FROM_DENY_CACHE : SG_FROM_STORE;
    out->retry_us = 0;
    out->spent = NULL;
    out->verdict.allowed = !denied && (!own || own->verdict.allowed);
    out->verdict.now_us = own ? own->verdict.now_us : t->parts[0].want.now_us;
    out->verdict.count = t->check.count;
    if (!out->verdict.allowed)
        undo_all(t);
    for (size_t i = 0, k = 0; i < t->check.count; i++) {
        bool elsewhere = k < t->count && t->check.limits[i] == t->parts[k].limit;
        out->verdict.at[i] = elsewhere ? t->parts[k].want.result : own->verdict.at[i - k];
        k += elsewhere;
    }
    if (out->verdict.allowed && t->check.settles)
        out->spent = spent_of(t);
    else
        keep_all(t);
}

/* What was spent stays spent where the request goes on. A slot is given back: nobody else will, as the store
 * did not decide. */
static void by_policy(ticket_t *t)
{
    const sg_store_hooks_t *hooks = &t->a->takers.hooks;
    sg_answer_t out;
    for (size_t i = 0; i < t->count; i++)
        part_stop(&t->parts[i]);
    hooks->failed(hooks->arg, &t->check, &out);
    if (out.verdict.allowed)
        keep_all(t);
    undo_all(t);
    end(t, &out);
}

static void on_own(void *arg, const sg_answer_t *own)
{
    ticket_t *t = arg;
    sg_answer_t out;
    t->asking = NULL;
    if (own->source != SG_FROM_STORE && own->source != SG_FROM_DENY_CACHE) {
        by_policy(t);
        return;
    }
    merge(t, own, &out);
    end(t, &out);
}

/* --- its way there -------------------------------------------------------------------------------------- */

static void ask_own(ticket_t *t, bool denied)
{
    const sg_store_hooks_t *hooks = &t->a->takers.hooks;
    sg_answer_t now;
    if (denied)
        t->own_limits[t->own.count++] = &nothing_left;
    if (hooks->ask(hooks->arg, &t->own, true, &now, &t->asking, on_own, t))
        on_own(t, &now);
}

/* On with it, when no part is out any more. */
static void step(ticket_t *t)
{
    bool failed = false, cached;
    for (size_t i = 0; i < t->count; i++) {
        if (t->parts[i].want.state == SG_WANT_OPEN)
            return;
        failed |= t->parts[i].want.state == SG_WANT_FAILED;
    }
    sg_timer_stop(t->a->takers.loop, &t->deadline);
    if (failed) {
        by_policy(t);
    } else if (t->own.count > 0) {
        ask_own(t, is_denied(t, &cached));
    } else {
        sg_answer_t out;
        merge(t, NULL, &out);
        end(t, &out);
    }
}

static void on_deadline(void *arg)
{
    by_policy(arg);
}

static void on_known(sg_want_t *w)
{
    step(SG_OWNER(w, part_t, want)->of);
}

static void on_single(void *arg, const sg_answer_t *answer)
{
    part_t *p = arg;
    const sg_verdict_t *v = &answer->verdict;
    p->asking = NULL;
    p->want.state = answer->source != SG_FROM_STORE ? SG_WANT_FAILED
                    : v->at[0].allowed              ? SG_WANT_GRANTED
                                                    : SG_WANT_DENIED;
    p->want.result = v->at[0];
    p->want.now_us = v->now_us;
    if (p->of->fn)
        step(p->of);
}

/* Peeks, slots, and limits of a config that is no more. */
static void ask_single(part_t *p)
{
    const sg_store_hooks_t *hooks = &p->of->a->takers.hooks;
    sg_answer_t now;
    p->rule = sg_limit_kept(p->limit);
    p->check = p->of->check;
    p->check.limits = &p->rule;
    p->check.count = 1;
    p->check.scope.tag = "all";
    p->check.on_failure = SG_FAIL_CLOSED;
    if (hooks->ask(hooks->arg, &p->check, false, &now, &p->asking, on_single, p))
        on_single(p, &now);
}

static void start(part_t *p)
{
    sg_taker_t *taker = sg_takers_find(&p->of->a->takers, p->limit);
    p->want.units = p->of->check.cost;
    p->want.done = on_known;
    if (taker && p->want.units > 0)
        sg_taker_want(taker, &p->want);
    else
        ask_single(p);
}

static void cancel(sg_ticket_t *base)
{
    ticket_t *t = SG_OWNER(base, ticket_t, base);
    if (t->asking)
        t->asking->cancel(t->asking);
    for (size_t i = 0; i < t->count; i++)
        part_stop(&t->parts[i]);
    undo_all(t);
    ticket_free(t);
}

static ticket_t *ticket_new(sg_ahead_t *a, const sg_check_t *check)
{
    size_t count = 0;
    for (size_t i = 0; i < check->count; i++)
        count += is_elsewhere(a, check->limits[i]);
    ticket_t *t = sg_calloc(1, sizeof *t + count * sizeof(part_t));
    t->base.cancel = cancel;
    t->a = a;
    t->check = *check;
    t->own = *check;
    t->own.limits = t->own_limits;
    t->own.count = 0;
    t->own.on_failure = SG_FAIL_CLOSED;
    t->own.began_us = sg_loop_now_us(a->takers.loop);
    for (size_t i = 0; i < check->count; i++) {
        if (!is_elsewhere(a, check->limits[i])) {
            t->own_limits[t->own.count++] = check->limits[i];
            continue;
        }
        part_t *p = &t->parts[t->count++];
        p->of = t;
        p->limit = check->limits[i];
    }
    return t;
}

bool sg_ahead_check(sg_ahead_t *a, const sg_check_t *check, sg_answer_t *now, sg_ticket_t **ticket,
                    sg_answer_fn *fn, void *arg)
{
    ticket_t *t = ticket_new(a, check);
    for (size_t i = 0; i < t->count; i++)
        start(&t->parts[i]);
    step(t);
    if (t->ended) {
        *now = t->answer;
        ticket_free(t);
        return true;
    }
    t->fn = fn;
    t->arg = arg;
    *ticket = &t->base;
    if (!t->asking)
        sg_timer_at(a->takers.loop, &t->deadline, t->own.began_us + a->takers.config->store.timeout_us,
                    on_deadline, t);
    return false;
}

/* --- afterwards ----------------------------------------------------------------------------------------- */

void sg_ahead_release(sg_ahead_t *a, const sg_check_t *check)
{
    const sg_store_hooks_t *hooks = &a->takers.hooks;
    const sg_limit_t *limits[SG_LIMITS_MAX];
    sg_check_t own = *check;
    own.limits = limits;
    own.count = 0;
    for (size_t i = 0; i < check->count; i++) {
        sg_check_t one = *check;
        if (!is_elsewhere(a, check->limits[i])) {
            limits[own.count++] = check->limits[i];
            continue;
        }
        one.limits = &check->limits[i];
        one.count = 1;
        one.scope.tag = "all";
        hooks->release(hooks->arg, &one);
    }
    if (own.count > 0)
        hooks->release(hooks->arg, &own);
}

static void settle_own(sg_ahead_t *a, const sg_check_t *check, const sg_verdict_t *v, int64_t cost)
{
    const sg_limit_t *limits[SG_LIMITS_MAX];
    sg_check_t own = *check;
    sg_verdict_t own_verdict = {.allowed = v->allowed, .now_us = v->now_us};
    own.limits = limits;
    own.count = 0;
    for (size_t i = 0; i < check->count; i++) {
        if (is_elsewhere(a, check->limits[i]))
            continue;
        own_verdict.at[own.count] = v->at[i];
        limits[own.count++] = check->limits[i];
    }
    own_verdict.count = own.count;
    if (own.count > 0)
        a->takers.hooks.settle(a->takers.hooks.arg, &own, &own_verdict, cost);
}

static void settle_block(sg_ahead_t *a, sg_block_t *b, const sg_check_t *check, int64_t cost)
{
    if (cost < check->cost) {
        sg_takers_put_back(&a->takers, b, check->cost - cost);
        return;
    }
    if (cost > check->cost)
        sg_takers_charge(&a->takers, b, check->lease, check->cost, cost);
    sg_block_keep(b);
}

void sg_ahead_settle(sg_ahead_t *a, const sg_check_t *check, const sg_answer_t *answer, int64_t cost)
{
    settle_own(a, check, &answer->verdict, cost);
    for (size_t k = 0; answer->spent && k < answer->spent->count; k++)
        settle_block(a, answer->spent->blocks[k], check, cost);
    sg_free(answer->spent);
}

/* --- life ----------------------------------------------------------------------------------------------- */

sg_ahead_t *sg_ahead_new(sg_loop_t *loop, sg_config_t *config, sg_blocks_t *blocks,
                         sg_metrics_block_t *metrics, const sg_store_hooks_t *hooks)
{
    sg_ahead_t *a = SG_NEW(sg_ahead_t);
    sg_takers_init(&a->takers, loop, config, blocks, metrics, hooks);
    return a;
}

void sg_ahead_reload(sg_ahead_t *a, sg_config_t *config)
{
    sg_takers_reload(&a->takers, config);
}

void sg_ahead_give_back(sg_ahead_t *a)
{
    sg_takers_give_back(&a->takers);
}

void sg_ahead_free(sg_ahead_t *a)
{
    sg_takers_deinit(&a->takers);
    sg_free(a);
}
