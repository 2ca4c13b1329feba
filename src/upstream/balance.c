#include "upstream/balance.h"

#include <math.h>

/* The group of candidates that a pick is made from: all of one rank. */
enum { RANK_IN_USE, RANK_TRIED, RANK_OUT, RANK_OUT_TRIED, RANK_NEVER };

static int rank_of(const sg_candidate_t *c)
{
    if (c->weight == 0 || c->full)
        return RANK_NEVER;
    return (c->out ? RANK_OUT : RANK_IN_USE) + (c->tried ? 1 : 0);
}

static int best_rank(const sg_candidate_t *c, size_t n)
{
    int best = RANK_NEVER;
    for (size_t i = 0; i < n; i++)
        if (rank_of(&c[i]) < best)
            best = rank_of(&c[i]);
    return best;
}

static bool has_weight(const sg_candidate_t *c, size_t n, bool in_use_only)
{
    for (size_t i = 0; i < n; i++)
        if (c[i].weight > 0 && !(in_use_only && c[i].out))
            return true;
    return false;
}

/* Fewer requests for its weight? Cross-multiplied, so that nothing is rounded. */
static bool lighter(const sg_candidate_t *a, const sg_candidate_t *b)
{
    return (uint64_t)(a->in_flight + 1) * b->weight < (uint64_t)(b->in_flight + 1) * a->weight;
}

static const sg_candidate_t *lightest(const sg_candidate_t *c, size_t n, int rank)
{
    const sg_candidate_t *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (rank_of(&c[i]) == rank && (!best || lighter(&c[i], best)))
            best = &c[i];
    return best;
}

/* Smooth weighted round robin over the rank; with `as_light_as` only over those that have no more load than
 * it. */
static int pick_round(sg_candidate_t *c, size_t n, int rank, const sg_candidate_t *as_light_as)
{
    int best = SG_PICK_NONE;
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (rank_of(&c[i]) != rank || (as_light_as && lighter(as_light_as, &c[i])))
            continue;
        c[i].current += c[i].weight;
        sum += c[i].weight;
        if (best < 0 || c[i].current > c[best].current)
            best = (int)i;
    }
    if (best >= 0)
        c[best].current -= sum;
    return best;
}

/* The finalizer of splitmix64 (Steele, Lea and Flood 2014): spreads the two hashes over all bits. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int pick_hash(const sg_candidate_t *c, size_t n, int rank, uint64_t key_hash)
{
    int best = SG_PICK_NONE;
    double best_cost = 0;
    for (size_t i = 0; i < n; i++) {
        if (rank_of(&c[i]) != rank)
            continue;
        double u = ((double)(mix(c[i].seed ^ mix(key_hash)) >> 11) + 0.5) * 0x1p-53;    /* in (0, 1) */
        double cost = -log(u) / c[i].weight;
        if (best < 0 || cost < best_cost) {
            best = (int)i;
            best_cost = cost;
        }
    }
    return best;
}

int sg_balance_pick(sg_balance_t how, sg_candidate_t *c, size_t n, uint64_t key_hash)
{
    if (!has_weight(c, n, false))
        return SG_PICK_NONE;
    int rank = best_rank(c, n);
    /* A target that is out gets no request because the others are full: that would make two problems of
     * one. */
    if (rank == RANK_NEVER || (rank >= RANK_OUT && has_weight(c, n, true)))
        return SG_PICK_FULL;
    if (how == SG_BALANCE_HASH)
        return pick_hash(c, n, rank, key_hash);
    return pick_round(c, n, rank, how == SG_BALANCE_LEAST_REQUESTS ? lightest(c, n, rank) : NULL);
}
