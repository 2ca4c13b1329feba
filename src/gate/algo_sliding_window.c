/* algo_sliding_window.c - counters for `precision` sub-windows; the oldest one, partly out of the window,
 * counts in proportion to what of it is still inside, rounded up.
 *
 * A sub-window is window / precision long, rounded up to whole µs. State: a = its length when the counts
 * were written, more = counts by sub-window since the epoch, ascending, empty ones left out. */
#include "gate/algo.h"

#include "base/mem.h"

#define PRECISION_MAX 100
/* A window's counts plus the oldest sub-window's stay below 2^53. */
#define LIMIT_MAX (SG_LIMIT_NUMBER_MAX / 2)

typedef struct {
    int64_t index, count;
} slot_t;

typedef struct {
    size_t count;
    slot_t at[];
} slots_t;

/* What matters of the state at one moment: count[0] is the oldest sub-window, count[precision] the current
 * one. */
typedef struct {
    int64_t width_us, current, offset_us; /* current sub-window, and how far into it */
    size_t last;                          /* = precision */
    int64_t count[PRECISION_MAX + 2]; /* a ledger of blocks has one sub-window more */
    bool moved; /* counts stand elsewhere than in the state */
} view_t;

static int64_t width_us(const sg_limit_t *l)
{
    return (l->window_us + l->precision - 1) / l->precision;
}

static void view(const sg_limit_t *l, const sg_limit_state_t *s, int64_t now_us, view_t *v)
{
    const slots_t *slots = s->more;

    *v = (view_t){.width_us = width_us(l), .last = l->precision};
    v->current = now_us / v->width_us;
    v->offset_us = now_us % v->width_us;
    for (size_t i = 0; slots && i < slots->count; i++) {
        int64_t index = slots->at[i].index, back;

        /* Another precision: a count moves to where its old sub-window ends, so that nothing leaves early. */
        if (s->a != v->width_us)
            index = ((index + 1) * s->a - 1) / v->width_us;
        /* Written by a clock that was ahead: as if it had happened now. */
        if (index > v->current)
            index = v->current;
        v->moved |= index != slots->at[i].index || s->a != v->width_us;
        back = v->current - index;
        if (back <= (int64_t)v->last)
            v->count[v->last - (size_t)back] += slots->at[i].count;
    }
}

static void save(sg_limit_state_t *s, const view_t *v)
{
    size_t used = 0;
    slots_t *slots;

    for (size_t i = 0; i <= v->last; i++)
        used += v->count[i] != 0;
    slots = sg_realloc(s->more, sizeof(*slots) + used * sizeof(slot_t));
    slots->count = 0;
    for (size_t i = 0; i <= v->last; i++)
        if (v->count[i])
            slots->at[slots->count++] = (slot_t){v->current - (int64_t)(v->last - i), v->count[i]};
    s->more = slots;
    s->a = v->width_us;
    s->exists = true;
}

static int64_t weighted(int64_t count, int64_t left_us, int64_t width)
{
    return sg_mul_div_ceil(count, left_us, width);
}

static int64_t used_of(const view_t *v)
{
    int64_t used = weighted(v->count[0], v->width_us - v->offset_us, v->width_us);

    for (size_t i = 1; i <= v->last; i++)
        used += v->count[i];
    return used;
}

/* Until no more than `room` units are used, nothing being added; 0 <= room < used_of(v). */
static int64_t wait_us(const view_t *v, int64_t room)
{
    int64_t inside = 0, oldest, keep_us;
    size_t i = 0;

    for (size_t k = 1; k <= v->last; k++)
        inside += v->count[k];
    /* Each step makes the next sub-window the oldest. */
    while (inside > room)
        inside -= v->count[++i];
    oldest = v->count[i];
    /* The longest part of the oldest sub-window that may still be inside: oldest * keep / width <= room -
     * inside. */
    keep_us = room - inside >= oldest ? v->width_us : sg_mul_div_floor(room - inside, v->width_us, oldest);
    return (int64_t)i * v->width_us + v->width_us - keep_us - v->offset_us;
}

static int64_t reset_us(const view_t *v)
{
    size_t newest = v->last;

    while (newest > 0 && !v->count[newest])
        newest--;
    return (int64_t)(newest + 1) * v->width_us - v->offset_us;
}

static void result(const sg_limit_t *l, const view_t *v, int64_t cost, sg_limit_result_t *out)
{
    int64_t used = used_of(v);

    out->remaining = sg_algo_left(l->limit, used);
    out->reset_us = used ? reset_us(v) : 0;
    out->more_us = used ? wait_us(v, l->limit - out->remaining - 1) : 0;
    out->retry_us = cost > out->remaining && cost <= l->limit ? wait_us(v, l->limit - cost) : 0;
}

static void look(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                 sg_limit_result_t *out)
{
    view_t v;

    view(l, s, now_us, &v);
    if (cost && v.moved)
        save(s, &v);
    result(l, &v, cost, out);
}

static void take(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                 sg_limit_result_t *out)
{
    view_t v;

    (void)lease;
    view(l, s, now_us, &v);
    v.count[v.last] += cost;
    save(s, &v);
    result(l, &v, 0, out);
}

/* Charged is charged now. */
static void charge(const sg_limit_t *l, sg_limit_state_t *s, int64_t units, int64_t now_us)
{
    int64_t room = SG_LIMIT_NUMBER_MAX;
    view_t v;

    view(l, s, now_us, &v);
    for (size_t i = 0; i <= v.last; i++)
        room -= v.count[i];
    v.count[v.last] += units < room ? units : room;
    save(s, &v);
}

/* From the sub-window that it was counted in, wherever that one's count stands by now. */
static void give_back(const sg_limit_t *l, sg_limit_state_t *s, int64_t units, int64_t decided_us,
                      int64_t now_us)
{
    int64_t own = width_us(l), index = decided_us / own;
    slots_t *slots = s->more;

    if (!slots)
        return;
    if (s->a != own)
        index = ((index + 1) * own - 1) / s->a;
    if (index > now_us / s->a)
        index = now_us / s->a;
    for (size_t i = 0; i < slots->count; i++)
        if (slots->at[i].index == index)
            slots->at[i].count = sg_algo_left(slots->at[i].count, units);
}

static void settle(const sg_limit_t *l, sg_limit_state_t *s, const sg_settlement_t *what, int64_t now_us,
                   const char *lease)
{
    (void)lease;
    if (what->delta > 0)
        charge(l, s, what->delta, now_us);
    else
        give_back(l, s, -what->delta, what->decided_us, now_us);
}

static sg_err_t finish(sg_limit_t *l, sg_why_t *why)
{
    if (sg_algo_check_limit(l->limit, LIMIT_MAX, why) != SG_OK)
        return SG_ERR_RANGE;
    if (l->precision < 1 || l->precision > PRECISION_MAX) {
        sg_why_set(why, "precision must be 1 to %d", PRECISION_MAX);
        return SG_ERR_RANGE;
    }
    return sg_algo_check_window(l->window_us, "window", why);
}

static int64_t life_us(const sg_limit_t *l, int64_t now_us)
{
    (void)now_us;
    return (l->precision + 1) * width_us(l);
}

const sg_algo_ops_t sg_algo_sliding_window = {
    .name = "sliding_window",
    .code = "sw",
    .windowed = true,
    .look = look,
    .take = take,
    .settle = settle,
    .finish = finish,
    .life_us = life_us,
};
