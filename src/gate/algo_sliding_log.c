/* algo_sliding_log.c - the times of all units of the last window: at most `limit` in any trailing window,
 * exactly. A unit is out when it is one window old.
 *
 * State: more = runs of units that one request took at one time, ascending. */
#include "gate/algo.h"

#include "base/mem.h"
#include "base/num.h"

/* A member of the log takes about 100 bytes in Redis. */
#define LIMIT_MAX 1000000

/* `before` counts the units of all earlier runs since the log was made, so sums and places are found by
 * halving. `whose` is the hash of the lease; 0: charged afterwards. */
typedef struct {
    int64_t at_us, before;
    uint64_t whose;
} run_t;

typedef struct {
    size_t start, end, size; /* runs [start, end) */
    int64_t total;           /* `before` of the run that comes next */
    run_t at[];
} log_t;

/* The first run in [log->start, log->end) that came after at_us. */
static size_t first_after(const log_t *log, int64_t at_us)
{
    size_t low = log->start, high = log->end;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->at[middle].at_us <= at_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Until the first `units` units from run `first` on are out. A time that is still to come counts as now. */
static int64_t wait_us(const sg_limit_t *l, const log_t *log, size_t first, int64_t units, int64_t now_us)
{
    size_t low = first, high = log->end - 1;
    int64_t target = log->at[first].before + units;

    /* The last run with less than all of them before it. */
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (log->at[middle].before < target)
            low = middle;
        else
            high = middle - 1;
    }
    return sg_i64_min(log->at[low].at_us, now_us) + l->window_us - now_us;
}

static void result(const sg_limit_t *l, const log_t *log, int64_t cost, int64_t now_us,
                   sg_limit_result_t *out)
{
    size_t first = log ? first_after(log, now_us - l->window_us) : 0;
    int64_t used = log && first < log->end ? log->total - log->at[first].before : 0, over = used - l->limit;

    out->remaining = sg_algo_left(l->limit, used);
    out->reset_us = out->more_us = out->retry_us = 0;
    if (!used)
        return;
    out->reset_us = wait_us(l, log, first, used, now_us);
    out->more_us = wait_us(l, log, first, over > 0 ? over + 1 : 1, now_us);
    if (cost > out->remaining && cost <= l->limit)
        out->retry_us = wait_us(l, log, first, over + cost, now_us);
}

/* Units that a clock which was ahead wrote down came at now_us at the latest. */
static void redate(log_t *log, int64_t now_us)
{
    for (size_t i = log->end; i > log->start && log->at[i - 1].at_us > now_us; i--)
        log->at[i - 1].at_us = now_us;
}

static void look(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us,
                 sg_limit_result_t *out)
{
    if (cost && s->more)
        redate(s->more, now_us);
    result(l, s->more, cost, now_us, out);
}

static log_t *with_room(log_t *log)
{
    size_t kept = log ? log->end - log->start : 0;

    if (log && log->end < log->size)
        return log;
    if (log && log->start > log->size / 2) {
        memmove(log->at, log->at + log->start, kept * sizeof(run_t));
    } else {
        size_t size = kept ? 2 * log->size : 4;
        log_t *more = sg_malloc(sizeof(*more) + size * sizeof(run_t));
        if (log)
            memcpy(more->at, log->at + log->start, kept * sizeof(run_t));
        more->size = size;
        more->total = log ? log->total : 0;
        sg_free(log);
        log = more;
    }
    log->start = 0;
    log->end = kept;
    return log;
}

static void add(const sg_limit_t *l, sg_limit_state_t *s, int64_t units, int64_t now_us, uint64_t whose)
{
    log_t *log = s->more;

    if (log) {
        redate(log, now_us);
        log->start = first_after(log, now_us - l->window_us);
    }
    log = with_room(log);
    log->at[log->end++] = (run_t){now_us, log->total, whose};
    log->total += units;
    s->more = log;
    s->exists = true;
}

static void take(const sg_limit_t *l, sg_limit_state_t *s, int64_t cost, int64_t now_us, const char *lease,
                 sg_limit_result_t *out)
{
    add(l, s, cost, now_us, sg_siphash(sg_str(lease)));
    result(l, s->more, 0, now_us, out);
}

/* Nothing passes before the newest `limit` units are fewer: what is older than all of them has no say. */
static void forget_older(const sg_limit_t *l, log_t *log)
{
    int64_t first = log->at[log->start].before, over = log->total - first - l->limit;
    size_t low = log->start, high = log->end - 1;

    if (over <= 0)
        return;
    /* The run that has the newest unit but `limit`. */
    while (low < high) {
        size_t middle = high - (high - low) / 2;
        if (log->at[middle].before <= first + over - 1)
            low = middle;
        else
            high = middle - 1;
    }
    log->start = first_after(log, log->at[low].at_us - 1);
}

/* log->end when it is not there. It is where the decision was made, unless the clock went back. */
static size_t find_run(const log_t *log, int64_t at_us, uint64_t whose)
{
    size_t i = first_after(log, at_us - 1);

    for (; i < log->end && log->at[i].at_us == at_us; i++)
        if (log->at[i].whose == whose)
            return i;
    for (i = log->start; i < log->end && log->at[i].whose != whose;)
        i++;
    return i;
}

static void give_back(log_t *log, size_t run, int64_t units)
{
    int64_t end = run + 1 < log->end ? log->at[run + 1].before : log->total;

    int64_t there = end - log->at[run].before;

    if (units > there)
        units = there;
    for (size_t i = run + 1; i < log->end; i++)
        log->at[i].before -= units;
    log->total -= units;
    if (units == there) {
        log->end--;
        memmove(log->at + run, log->at + run + 1, (log->end - run) * sizeof(run_t));
    }
}

static void settle(const sg_limit_t *l, sg_limit_state_t *s, const sg_settlement_t *what, int64_t now_us,
                   const char *lease)
{
    log_t *log = s->more;
    size_t run;

    if (what->delta > 0) {
        add(l, s, what->delta < l->limit ? what->delta : l->limit, now_us, 0);
        forget_older(l, s->more);
    } else if (log) {
        run = find_run(log, what->decided_us, sg_siphash(sg_str(lease)));
        if (run < log->end)
            give_back(log, run, -what->delta);
    }
}

static sg_err_t finish(sg_limit_t *l, sg_why_t *why)
{
    if (sg_algo_check_limit(l->limit, LIMIT_MAX, why) != SG_OK)
        return SG_ERR_RANGE;
    return sg_algo_check_window(l->window_us, "window", why);
}

static int64_t life_us(const sg_limit_t *l, int64_t now_us)
{
    (void)now_us;
    return l->window_us;
}

const sg_algo_ops_t sg_algo_sliding_log = {
    .name = "sliding_log",
    .code = "sl",
    .windowed = true,
    .look = look,
    .take = take,
    .settle = settle,
    .finish = finish,
    .life_us = life_us,
};
