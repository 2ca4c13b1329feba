#include "gate/block.h"

#include <inttypes.h>

#include "base/num.h"
#include "gate/algo.h"

/* A block that is over sooner costs more than it saves. */
#define SPEND_MIN_US 10000

int64_t sg_block_default(const sg_limit_t *l)
{
    return l->limit > 200 ? l->limit / 100 : 1;
}

static sg_err_t too_short(const sg_limit_t *l, sg_why_t *why)
{
    sg_why_set(why,
               "block: %" PRId64
               " would have to be spent within less than %d ms, expected a longer window, or "
               "more units than come back in that time",
               l->block, SPEND_MIN_US / 1000);
    return SG_ERR_RANGE;
}

static sg_err_t bucket(const sg_limit_t *l, sg_limit_t *ledger, int64_t *spend_us, sg_why_t *why)
{
    *spend_us = sg_i64_min(SG_BLOCK_SPEND_MAX_US, sg_mul_div_floor(l->block, l->rate_us, l->rate_count));
    if (*spend_us < SPEND_MIN_US)
        return too_short(l, why);
    int64_t aside = sg_mul_div_ceil(*spend_us, l->rate_count, l->rate_us);
    ledger->limit = l->limit - aside;
    if (ledger->limit < l->block) {
        sg_why_set(why,
                   "block: %" PRId64 " with %" PRId64 " units, of which %" PRId64
                   " are set aside for blocks that are spent late, expected a block that fits into the rest",
                   l->block, l->limit, aside);
        return SG_ERR_RANGE;
    }
    ledger->window_us = sg_mul_div_ceil(ledger->limit, l->rate_us, l->rate_count);
    return SG_OK;
}

static sg_err_t sliding_window(const sg_limit_t *l, sg_limit_t *ledger, int64_t *spend_us)
{
    int64_t width_us = (l->window_us + l->precision - 1) / l->precision;
    *spend_us = sg_i64_min(SG_BLOCK_SPEND_MAX_US, width_us);
    ledger->precision = l->precision + 1;
    ledger->window_us = width_us * ledger->precision;
    return SG_OK;
}

static sg_err_t sliding_log(const sg_limit_t *l, sg_limit_t *ledger, int64_t *spend_us)
{
    *spend_us = sg_i64_min(SG_BLOCK_SPEND_MAX_US, l->window_us / 10000 * 1000);
    ledger->window_us = l->window_us + *spend_us;
    return SG_OK;
}

sg_err_t sg_block_ledger(const sg_limit_t *l, sg_limit_t *ledger, int64_t *spend_us, sg_why_t *why)
{
    sg_err_t err = SG_OK;
    *ledger = *l;
    ledger->ledger = NULL;
    if (l->block > l->limit) {
        sg_why_set(why, "block: %" PRId64 " of %" PRId64 " units, expected at most the limit", l->block,
                   l->limit);
        return SG_ERR_RANGE;
    }
    switch (l->algo) {
    case SG_ALGO_TOKEN_BUCKET:
    case SG_ALGO_GCRA: err = bucket(l, ledger, spend_us, why); break;
    case SG_ALGO_FIXED_WINDOW: *spend_us = sg_i64_min(SG_BLOCK_SPEND_MAX_US, l->window_us); break;
    case SG_ALGO_SLIDING_WINDOW: err = sliding_window(l, ledger, spend_us); break;
    case SG_ALGO_SLIDING_LOG: err = sliding_log(l, ledger, spend_us); break;
    case SG_ALGO_CONCURRENCY:
    case SG_ALGO_COUNT:
    default:
        sg_why_set(why, "block with concurrency, expected it with units that are spent");
        return SG_ERR_UNSUPPORTED;
    }
    return err == SG_OK && *spend_us < SPEND_MIN_US ? too_short(l, why) : err;
}

int64_t sg_block_life_us(const sg_limit_t *ledger, int64_t spend_us, int64_t decided_us)
{
    if (ledger->algo == SG_ALGO_FIXED_WINDOW)
        spend_us = sg_i64_min(spend_us, ledger->window_us - decided_us % ledger->window_us);
    return spend_us - (spend_us + 999) / 1000;
}
