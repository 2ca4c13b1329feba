/* blocks.pml - budgets for everybody (per: all) in blocks that are taken ahead, for the model checker spin:
 * src/gate/block.h, src/store/blocks.[hc] and ahead.[hc], the late replies of src/store/redis.c, and settlements
 * that give back (lua/settle.lua). spin.sh runs it; each instance is searched in full.
 *
 * Gateways ask the ledger for 1 or B units, with a request that waits for one or without; a denied asking is
 * repeated for less. A granted block is spent unit by unit; a request's unit may be put back, to the block or, when
 * that is over, to the ledger. A block ends at any time from its granting on, its timer may be late, and what is
 * left goes back. An asking can be given up, then its reply comes late and all of it goes back. Askings and replies
 * take any time and are in order on a connection; settlements take any time and come in any order, or never.
 * Connections are lost with all that is on them, after the ledger has done it or before (process Leak); processes
 * are killed at any moment, and others take their place. Time is in ticks, and between two ticks anything may happen.
 *
 * What must hold; spent is a unit when its request takes it, even if it is put back afterwards:
 *   ALGO FIXED   at most L units are spent in each window of W ticks
 *   ALGO LOG     at most L in each span of W ticks; the ledger counts them for S more
 *   ALGO BUCKET  at most L + T * R in each span of T; the ledger holds L - S * R
 *   CALM         no connection is lost and nobody is killed: when nothing is held any more, the ledger counts what
 *                was spent (FIXED: in each window) and what is on its way back, no more. A request is denied only if
 *                the ledger had no unit for it. Not for BUCKET, which does not give back all (docs/limits.md).
 * A unit may be spent up to and with the tick S after the asking began: a tick more than the code has.
 *
 * Left out:
 *   - The pace of clocks (0.1 % is taken off a block's life), and a ledger whose clock goes back or whose state is
 *     lost. Ticks are the same for all; each gateway counts from its own asking only, so offsets do not matter.
 *   - Workers: they share a pile under a lock, and one that asks is here a gateway of its own.
 *   - How many units are asked for when, and which block is spent first: any choice is allowed.
 *   - Costs above 1, and those that are known afterwards: less than was reserved is a unit that is put back.
 *   - The names of a log's units: ZREM takes a unit once, so giving back twice does no harm there, and units of one
 *     time are alike.
 *   - Sliding windows: their ledger is the log's argument with sub-windows for ticks.
 *   - NOSCRIPT and a window that was predicted wrongly: nothing was written, and the same asking goes out again.
 *
 * In the code                                     here
 *   sg_pile_fetch, take, ask_ledger                 ask
 *   for_less, deny_waiting                          ask_for_less
 *   granted, sg_block_new, sg_block_life_us         take_block
 *   sg_block_spend, of a request that waited        serve_waiting
 *   sg_pile_spend; sg_block_keep                    spend; go_on
 *   sg_block_put_back, sg_block_close               put_back, close
 *   late_reply (redis.c)                            take_reply, late > 0
 *   settle[n] (settle.lua)                          Settlements
 *
 * Mutants (-DMUTANT_X): each breaks what must hold, and spin finds that.
 *   LATE_COMER          a request that came after the asking began is served of the block that the reply brings even
 *                       if that is over by then: it may have come after the window of the decision
 *   OTHERS_STAY         the most that may come back to a bucket (what was owed after the decision, less what time has
 *                       brought back) is not lowered by what others gave back since: it comes back twice
 *   LIFE_FROM_REPLY     a block's life counts from the reply
 *   BEYOND_WINDOW       a block does not end with its window
 *   BACK_TWICE          what is left at the end goes back twice
 *   RESERVED_GOES_BACK  so does the unit of the request that is under way
 *   REFUND_NOW          units leave the present window, or the present tick of the log
 *   LOG_SHORT           the log counts for W
 *   FULL_CAPACITY       the bucket holds L
 *   REFUND_ALL          all comes back to a bucket, also what time has brought back already
 *   PUT_BACK_LOST, KEPT_AT_CLOSE, LATE_REPLY_KEPT (CALM)      units that do not go back when they should
 *   DENIED_AT_ONCE (CALM)                                     no asking for less
 *
 * The largest searches have 1 to 8 million states each: two gateways, L and B 2, two windows of three ticks; the same
 * with blocks of 1, two at a time; three gateways with blocks of 1; a log with W 2 and S 1 in five ticks; a bucket
 * with L 3, R 1 and S 1 in four.
 *
 * Constants: G gateways (2 or 3), L, B, W, S and R as above, H the last tick; units are asked for until then. */
#define FIXED 1
#define LOG 2
#define BUCKET 3

#if ALGO == FIXED
#define SLOTS (H / W + 1)               /* the ledger counts by window */
#define SLOT(tick) ((tick) / W)
#else
#define SLOTS (H + 1)                   /* by tick */
#define SLOT(tick) (tick)
#endif

#ifndef BLOCKS
#define BLOCKS 2                        /* that a gateway can hold at once, 1 or 2 */
#endif
#ifndef CALM
#define HARM                            /* connections are lost, processes are killed */
#ifndef MUTANT_REFUND_NOW
#define FORGET_PAST                     /* counts that nobody looks at any more: fewer states */
#endif
#endif
#define ASKINGS 2                       /* of a gateway that are out: one, and one that was given up */
#ifndef RETURNS
#define RETURNS 2                       /* settlements of a bucket that are under way */
#endif

#ifdef MUTANT_LOG_SHORT
#define KEPT W
#else
#define KEPT (W + S)                    /* ticks that the log looks at, the present one included */
#endif
#ifdef MUTANT_FULL_CAPACITY
#define CAPACITY L
#else
#define CAPACITY (L - S * R)
#endif

#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define LESS(a, b) ((a) > (b) -> (a) - (b) : 0)

typedef block_t {
    bool held;                          /* not over */
    byte left;                          /* units that are not spent */
    byte last;                          /* the last tick at which one may be */
#if ALGO != BUCKET
    byte place;                         /* where the ledger counts them */
#else
    byte level;                         /* at most so much may still come back, see below */
    byte when;                          /* the ledger decided then */
#endif
};

typedef gate_t {
    byte asking;                        /* units of the asking that is out; 0: none is */
    byte asked;                         /* when it began */
    byte late;                          /* askings that were given up, whose replies are still to come */
    byte waits;                         /* 1: a request, since the asking began; 0: none */
#ifdef MUTANT_LATE_COMER
    byte came;                          /* waits == 2: it came later, then */
#endif
    byte reserved;                      /* the block of the request that is under way, plus 1; 0: none is */
    byte at;                            /* the slot that its unit was spent in */
    block_t block[BLOCKS];
};

byte now;
gate_t gate[G];
#define me gate[id]
chan to_ledger[G] = [ASKINGS] of { byte };              /* units */
chan to_gate[G] = [ASKINGS] of { byte, byte, byte, byte };      /* units granted; left; when; the level */
#if ALGO == BUCKET
byte owed;
chan returns = [RETURNS] of { byte, byte, byte };       /* units; the level; and what is left of them alone */
#else
byte count[SLOTS];
byte returns[SLOTS];                    /* units that are on their way back to it */
#endif
byte spent[SLOTS];                      /* what really was spent: no part of the protocol */

/* Scratch: set before it is read, within one step. */
hidden byte units, rest, decided, level, tick, ix, jx, total;

/* --- the property ---------------------------------------------------------------------------------------- */

inline check_spent(T)
{
#if ALGO == FIXED
    assert(spent[SLOT(T)] <= L);
#elif ALGO == LOG
    jx = T;                             /* each span of W ticks that T is in, by its last one */
    do
    :: jx <= H && jx < T + W ->
        total = 0;
        ix = LESS(jx + 1, W);
        do
        :: ix <= jx -> total = total + spent[ix]; ix++
        :: else -> break
        od;
        assert(total <= L);
        jx++
    :: else -> break
    od
#else
    ix = 0;                             /* each span that T is in: ix to jx */
    do
    :: ix <= T ->
        total = 0;
        jx = ix;
        do
        :: jx <= H ->
            total = total + spent[jx];
            assert(jx < T || total <= L + (jx - ix) * R);
            jx++
        :: else -> break
        od;
        ix++
    :: else -> break
    od
#endif
}

/* One unit of block b, for a request that passes at T. Counted from here on, though it may be put back. */
inline spend(b, T)
{
    me.block[b].left--;
    spent[SLOT(T)]++;
    check_spent(T);
    if
    :: me.reserved == 0 -> me.reserved = b + 1; me.at = SLOT(T)
    :: else                             /* it goes on at once */
    fi
}

/* --- the ledger ------------------------------------------------------------------------------------------ */

/* rest = what is left now */
inline look()
{
#if ALGO == FIXED
    rest = LESS(L, count[SLOT(now)])
#elif ALGO == LOG
    total = 0;
    ix = LESS(now + 1, KEPT);
    do
    :: ix <= now -> total = total + count[ix]; ix++
    :: else -> break
    od;
    rest = LESS(L, total)
#else
    rest = LESS(CAPACITY, owed)
#endif
}

/* All units or none. */
inline decide()
{
    look();
    if
    :: units <= rest ->
        rest = rest - units;
#if ALGO == BUCKET
        owed = owed + units;
        level = owed
#else
        count[SLOT(now)] = count[SLOT(now)] + units;
        level = 0
#endif
    :: else -> units = 0; level = 0
    fi
}

/* A step of it is one run of the script. */
proctype Ledger(byte id)
{
end:
    do
    :: d_step { nempty(to_ledger[id]) -> to_ledger[id]?units; decide(); to_gate[id]!units, rest, now, level }
    od
}

/* --- settlements ----------------------------------------------------------------------------------------- */

/* Units on their way back. They arrive in any order with everything else, late, or never. */
#if ALGO == BUCKET
#define ROOM nfull(returns)

inline send_back(n, where, most)
{
    returns!n, most, LESS(n, (now - (where)) * R)
}

/* Of what the ledger owed after a decision, so much is no longer there for its settlement: time has brought it back,
 * or another refund. In the code the level stays, and the script works that out (left_of_decision in settle.lua).
 * Of the units themselves as much is left as if they had been alone. */
inline lower(g, n)
{
    ix = len(to_gate[g]);
    do
    :: ix > 0 -> to_gate[g]?units, rest, decided, level; to_gate[g]!units, rest, decided, LESS(level, n); ix--
    :: else -> break
    od;
    gate[g].block[0].level = LESS(gate[g].block[0].level, n);
#if BLOCKS > 1
    gate[g].block[1].level = LESS(gate[g].block[1].level, n);
#endif
}

inline lower_all(n, gone)
{
    lower(0, n);
    lower(1, n);
    ix = len(returns);
    do
    :: ix > 0 -> returns?units, level, rest; returns!units, LESS(level, n), LESS(rest, gone); ix--
    :: else -> break
    od;
    skip
}
#else
#define ROOM true
#if ALGO == FIXED
#define IS_PAST(slot) ((slot) < SLOT(now))
#else
#define IS_PAST(slot) ((slot) + KEPT <= now)
#endif

inline send_back(n, where, most)
{
    if
#ifdef FORGET_PAST
    :: IS_PAST(where)
#endif
    :: else -> returns[where] = returns[where] + n
    fi
}

#ifdef MUTANT_REFUND_NOW
#define REFUNDED(slot) SLOT(now)
#else
#define REFUNDED(slot) slot
#endif
#define REFUND(slot) d_step { \
    returns[slot] > 0 -> returns[slot]--; count[REFUNDED(slot)] = LESS(count[REFUNDED(slot)], 1) }
#endif

proctype Settlements()
{
end:
    do
#if ALGO == BUCKET
    :: d_step {
        nempty(returns) ->
        returns?units, level, rest;
#ifndef MUTANT_REFUND_ALL
        units = MIN(units, MAX(level, rest));
#endif
        owed = LESS(owed, units);
#ifndef MUTANT_OTHERS_STAY
        total = units;
        lower_all(total, 0)
#endif
    }
    :: d_step { len(returns) > 1 -> returns?units, level, rest; returns!units, level, rest }
#ifdef HARM
    :: d_step { nempty(returns) -> returns?units, level, rest }
#endif
#else
    /* One by one: several at once are such steps in a row. */
    :: REFUND(0)
    :: REFUND(1)
#if SLOTS > 2
    :: REFUND(2)
#endif
#if SLOTS > 3
    :: REFUND(3)
#endif
#if SLOTS > 4
    :: REFUND(4)
#endif
#if SLOTS > 5
    :: REFUND(5)
#endif
#if SLOTS > 6
    :: REFUND(6)
#endif
#if SLOTS > 7
    :: REFUND(7)
#endif
#endif
    od
}

/* --- a gateway ------------------------------------------------------------------------------------------- */

#define FREE(b) (!me.block[b].held && me.reserved != b + 1)
#define LIVES(b) (me.block[b].held && me.block[b].left > 0 && now <= me.block[b].last)
#if BLOCKS > 1
#define ANY_FREE (FREE(0) || FREE(1))
#define ALL_FREE (FREE(0) && FREE(1))
#else
#define ANY_FREE FREE(0)
#define ALL_FREE FREE(0)
#endif
#define MAY_ASK (me.asking == 0 && me.late < ASKINGS - 1 && ANY_FREE && now < H)

inline ask(n)
{
    me.asking = n;
    me.asked = now;
    to_ledger[id]!n
}

inline no_asking()
{
    me.asking = 0;
    me.asked = 0;
    me.waits = 0;
#ifdef MUTANT_LATE_COMER
    me.came = 0
#endif
}

inline clear(b)
{
    me.block[b].left = 0;
    me.block[b].last = 0;
#if ALGO == BUCKET
    me.block[b].level = 0;
    me.block[b].when = 0
#else
    me.block[b].place = 0
#endif
}

/* What was in a block that is no more has no say, and the first place is taken first: fewer states. */
inline forget(b)
{
#if BLOCKS > 1
    if
    :: b == 0 && !FREE(1) ->
        me.block[0].held = me.block[1].held;
        me.block[0].left = me.block[1].left;
        me.block[0].last = me.block[1].last;
#if ALGO == BUCKET
        me.block[0].level = me.block[1].level;
        me.block[0].when = me.block[1].when;
#else
        me.block[0].place = me.block[1].place;
#endif
        if
        :: me.reserved == 2 -> me.reserved = 1
        :: else
        fi;
        me.block[1].held = false;
        clear(1)
    :: else -> clear(b)
    fi
#else
    clear(b)
#endif
}

inline give_back(b, n)
{
#if ALGO == BUCKET
    send_back(n, me.block[b].when, me.block[b].level)
#else
    send_back(n, me.block[b].place, 0)
#endif
}

inline close(b)
{
    me.block[b].held = false;
    units = me.block[b].left;
#ifdef MUTANT_RESERVED_GOES_BACK
    units = units + (me.reserved == b + 1);
#endif
#ifdef MUTANT_KEPT_AT_CLOSE
    units = 0;
#endif
#ifdef MUTANT_BACK_TWICE
    units = units * 2;
#endif
    if
    :: units > 0 -> give_back(b, units)
    :: else
    fi;
    me.block[b].left = 0;
    if
    :: FREE(b) -> forget(b)
    :: else
    fi
}

inline go_on(b)
{
    me.reserved = 0;
    me.at = 0;
    if
    :: FREE(b) -> forget(b)
    :: else
    fi
}

inline put_back(b)
{
    me.reserved = 0;
    spent[me.at]--;
    me.at = 0;
    if
    :: me.block[b].held -> me.block[b].left++
    :: else ->
#ifndef MUTANT_PUT_BACK_LOST
        give_back(b, 1);
#endif
        forget(b)
    fi
}

/* Of a grant. A request that has waited since before the decision passes by it, however late the reply: its
 * unit counts from the decision. One that came later is as one that comes now, and needs no state here. */
inline serve_waiting(b)
{
    if
    :: me.waits == 0
    :: me.waits > 0 && now <= me.block[b].last -> spend(b, now)
    :: me.waits == 1 && now > me.block[b].last -> spend(b, decided)
#ifdef MUTANT_LATE_COMER
    :: me.waits == 2 && now > me.block[b].last ->
        tick = (me.came > decided -> me.came : decided);
        spend(b, tick)
#endif
    fi
}

inline take_block(b)
{
    me.block[b].held = true;
    me.block[b].left = units;
#if ALGO == BUCKET
    me.block[b].level = level;
    me.block[b].when = decided;
#else
    me.block[b].place = SLOT(decided);
#endif
    tick = me.asked;
#ifdef MUTANT_LIFE_FROM_REPLY
    tick = now;
#endif
#if ALGO == FIXED && !defined(MUTANT_BEYOND_WINDOW)
    me.block[b].last = MIN(tick + S, tick + W - decided % W - 1);
#else
    me.block[b].last = tick + S;
#endif
    serve_waiting(b);
    no_asking()
}

/* For less, down to what the request that waits needs. */
inline ask_for_less()
{
    tick = MIN(rest, me.asking - 1);
    if
    :: tick == 0 && me.waits > 0 -> tick = 1
    :: else
    fi;
#ifdef MUTANT_DENIED_AT_ONCE
    tick = 0;
#endif
    if
    :: tick > 0 && tick < me.asking -> ask(tick)
    :: else ->
        assert(me.waits == 0 || rest == 0);
        no_asking()
    fi
}

inline take_reply()
{
    to_gate[id]?units, rest, decided, level;
    if
    :: me.late > 0 ->
        me.late--;
#ifndef MUTANT_LATE_REPLY_KEPT
        if
        :: units > 0 -> send_back(units, SLOT(decided), level)
        :: else
        fi
#endif
    :: me.late == 0 && units == 0 -> ask_for_less()
    :: me.late == 0 && units > 0 ->
#if BLOCKS > 1
        if
        :: FREE(0) -> take_block(0)
        :: else -> take_block(1)
        fi
#else
        take_block(0)
#endif
    fi
}

/* What is under way: of the askings the ledger may or may not have done some. Nobody has the units. */
inline lose_connection()
{
    do
    :: len(to_ledger[id]) > 0 -> to_ledger[id]?units
    :: else -> break
    od;
    do
    :: len(to_gate[id]) > 0 -> to_gate[id]?units, rest, decided, level
    :: else -> break
    od;
    no_asking();
    me.late = 0
}

inline die()
{
    lose_connection();
    me.reserved = 0;
    me.at = 0;
    me.block[0].held = false;
    clear(0);
#if BLOCKS > 1
    me.block[1].held = false;
    clear(1)
#endif
}

proctype Gateway(byte id)
{
    do
    /* Units are asked for, ahead, or because a request waits. */
    :: d_step { MAY_ASK -> ask(1) }
    :: d_step { MAY_ASK -> ask(1); me.waits = 1 }
#if B > 1
    :: d_step { MAY_ASK -> ask(B) }
    :: d_step { MAY_ASK -> ask(B); me.waits = 1 }
#endif
    :: d_step { nempty(to_gate[id]) && ROOM -> take_reply() }
    /* The deadline of the asking. */
    :: d_step { me.asking > 0 -> no_asking(); me.late++ }

    /* A request comes, and there are units. */
    :: d_step { me.waits == 0 && LIVES(0) -> spend(0, now) }
#if BLOCKS > 1
    :: d_step { me.waits == 0 && LIVES(1) -> spend(1, now) }
#endif
#ifdef MUTANT_LATE_COMER
    :: d_step { me.waits == 0 && me.asking > 0 -> me.waits = 2; me.came = now }
#endif
    /* Its client or its deadline ends the wait. */
    :: d_step { me.waits > 0 -> me.waits = 0 }

    /* The request that is under way goes on, or its own limits deny. */
    :: d_step { me.reserved == 1 -> go_on(0) }
    :: d_step { me.reserved == 1 && ROOM -> put_back(0) }
#if BLOCKS > 1
    :: d_step { me.reserved == 2 -> go_on(1) }
    :: d_step { me.reserved == 2 && ROOM -> put_back(1) }
#endif

    /* The end of a block: by its timer, by a reload, or by an orderly end of the process. */
    :: d_step { me.block[0].held && ROOM -> close(0) }
#if BLOCKS > 1
    :: d_step { me.block[1].held && ROOM -> close(1) }
#endif

#ifdef HARM
    :: d_step { nempty(to_ledger[id]) || nempty(to_gate[id]) -> lose_connection() }
    /* kill -9; another one takes its place. */
    :: d_step { !ALL_FREE -> die() }
#endif
    od
}

/* --- the world ------------------------------------------------------------------------------------------- */

/* Of a block that lived until now, the time has no say; nor, when its count is one of the past, what is left. */
inline age(g, b)
{
    if
    :: gate[g].block[b].held && gate[g].block[b].last < now ->
        gate[g].block[b].last = 0;
#if ALGO != BUCKET && defined(FORGET_PAST)
        if
        :: IS_PAST(gate[g].block[b].place) -> gate[g].block[b].left = 0; gate[g].block[b].place = 0
        :: else
        fi
#endif
    :: else
    fi
}

inline age_all(g)
{
    age(g, 0);
#if BLOCKS > 1
    age(g, 1);
#endif
}

proctype Clock()
{
    do
    :: d_step {
        now < H ->
        now++;
        age_all(0);
        age_all(1);
#if G > 2
        age_all(2);
#endif
#if ALGO == BUCKET
        owed = LESS(owed, R);
        lower_all(R, R)
#elif defined(FORGET_PAST)
        ix = 0;
        do
        :: ix < SLOTS && IS_PAST(ix) -> count[ix] = 0; returns[ix] = 0; ix++
        :: else -> break
        od
#endif
    }
    :: now == H -> break
    od
}

#ifdef HARM
/* Askings that are done after their connection was lost: units are taken that nobody has. */
proctype Leak()
{
end:
    do
    :: d_step { units = 1; decide() }
    od
}
#endif

#if BLOCKS > 1
#define HOLDS(g) (gate[g].block[0].held || gate[g].block[1].held)
#else
#define HOLDS(g) gate[g].block[0].held
#endif
#define RESTS(g) (gate[g].asking == 0 && gate[g].late == 0 && gate[g].reserved == 0 && !HOLDS(g))
#if G > 2
#define ALL_REST (RESTS(0) && RESTS(1) && RESTS(2))
#else
#define ALL_REST (RESTS(0) && RESTS(1))
#endif

/* Where nobody holds anything, and only there, the world may come to rest; any other end is an error. */
proctype Rest()
{
    do
    :: d_step {
        ALL_REST ->
#if defined(CALM) && ALGO != BUCKET
        ix = 0;
        units = 0;
        rest = 0;
        total = 0;
        do
        :: ix < SLOTS ->
            units = units + spent[ix];
            rest = rest + count[ix] - returns[ix];
#if ALGO == FIXED
            assert(spent[ix] == count[ix] - returns[ix]);
#endif
            ix++
        :: else -> break
        od;
        assert(units == rest)
#endif
    }
    od
}

init
{
    atomic {
        run Clock();
        run Settlements();
        run Gateway(0);
        run Ledger(0);
        run Gateway(1);
        run Ledger(1);
#if G > 2
        run Gateway(2);
        run Ledger(2);
#endif
        run Rest();
#ifdef HARM
        run Leak();
#endif
    }
}
