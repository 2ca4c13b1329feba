/* stream - decisions as the C code makes them, for runners that make them with the script.
 *
 *   stream vectors FILE...      the traces of these files
 *   stream random SEED COUNT    random traces; in every second one the clock goes back and limits change
 *   stream steady SEED COUNT    random traces without that: here no key expires that still matters
 *
 * Settlements are "check" lines, too.
 *
 * Lines: "new NAME" (forget all keys), "zrem KEY LEASE", and "check NOW_US NKEYS KEY... ARGV... =
 * REPLY...": at that time the script must answer the integers of REPLY to these keys and arguments. */
#include "../vectors/world.h"

static world_t world;
static sg_script_call_t call;

/* The integers that the script answers for a verdict. */
static void print_reply(const sg_verdict_t *v)
{
    printf(" = %lld %d", (long long)v->now_us, v->allowed);
    for (size_t i = 0; i < v->count; i++) {
        const sg_limit_result_t *r = &v->at[i];
        printf(" %d %lld %lld %lld %lld", r->never ? 2 : r->allowed, (long long)r->remaining,
               (long long)(r->reset_us / 1000), (long long)(r->allowed ? r->given : r->retry_us / 1000),
               (long long)(r->more_us / 1000));
    }
    putchar('\n');
}

static void print_args(void)
{
    for (int i = 2; i < call.argc; i++)
        printf(" %.*s", (int)call.len[i], call.argv[i]);
}

/* The decisions of the trace that is played. */
#define STEPS_MAX 64
static decided_t decided[STEPS_MAX];

static void do_check(const sg_check_t *c, int64_t now_us, size_t step)
{
    sg_verdict_t v;

    world_check(&world, c, now_us, &v);
    decided_keep(&decided[step % STEPS_MAX], c, &v);
    sg_script_args(c, now_us, &call);
    printf("check %lld", (long long)now_us);
    print_args();
    print_reply(&v);
}

static void do_settle(size_t step, int64_t cost, int64_t now_us)
{
    const decided_t *d = &decided[step % STEPS_MAX];
    const sg_limit_t *at[TRACE_LIMITS];
    sg_settlement_t what[TRACE_LIMITS];
    sg_check_t c = d->check;

    if (!world_settle(&world, &c, at, &d->verdict, cost, now_us, what))
        return;
    sg_script_settle_args(&c, what, now_us, &call);
    printf("check %lld", (long long)now_us);
    print_args();
    printf(" = %lld 1\n", (long long)now_us);
}

static void do_release(const sg_check_t *c)
{
    world_release(&world, c);
    for (size_t i = 0; i < c->count; i++)
        if (sg_script_release(c, i, &call))
            printf("zrem %.*s %.*s\n", (int)call.len[1], call.argv[1], (int)call.len[2], call.argv[2]);
}

/* --- traces from files
 * ----------------------------------------------------------------------------------------- */

static void play(const json_t *trace)
{
    sg_limit_t limits[TRACE_LIMITS];
    const sg_limit_t *at[TRACE_LIMITS] = {&limits[0], &limits[1], &limits[2], &limits[3]};
    size_t count = limits_of(json_object_get(trace, "limits"), limits), i;
    json_t *step;
    char lease[33];

    world_clear(&world);
    json_array_foreach(json_object_get(trace, "steps"), i, step)
    {
        sg_check_t c;
        if (json_object_get(step, "change"))
            count = limits_of(json_object_get(step, "change"), limits);
        c = check_of(at, count, number_of(step, "cost"), lease_of(step, i, lease));
        if (json_object_get(step, "release"))
            do_release(&c);
        else if (json_object_get(step, "settle"))
            do_settle((size_t)number_of(step, "settle"), number_of(step, "cost"), number_of(step, "at_us"));
        else
            do_check(&c, number_of(step, "at_us"), i);
    }
}

static int play_file(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *trace;
    size_t i;

    if (!root) {
        fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
        return 1;
    }
    json_array_foreach(json_object_get(root, "traces"), i, trace)
    {
        printf("new %s\n", json_string_value(json_object_get(trace, "name")));
        play(trace);
    }
    json_decref(root);
    return 0;
}

/* --- random traces
 * ---------------------------------------------------------------------------------------------- */

/* splitmix64: the same traces for the same seed, everywhere. */
static uint64_t random_state;

static uint64_t next_random(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static int64_t below(int64_t n)
{
    return (int64_t)(next_random() % (uint64_t)n);
}

/* Small numbers mostly, now and then as large as allowed. */
static int64_t some_limit(sg_algo_t algo)
{
    int64_t most = algo == SG_ALGO_SLIDING_WINDOW ? SG_LIMIT_NUMBER_MAX / 2 : INT64_C(9000000000000000);

    if (below(20) == 0)
        return 0;
    if (algo == SG_ALGO_SLIDING_LOG || algo == SG_ALGO_CONCURRENCY || below(3))
        return 1 + below(12);
    return below(2) ? 1 + below(5000000) : most - below(3);
}

static const int64_t periods_us[] = {
    1, 7, 1000, 9973, 1000000, 60000000, 600000000, 3600000000, 86400000000, 2592000000000, 31622400000000};
static const int64_t windows_us[] = {1000,    7000,     250000,     700000,      1000000,
                                     1500000, 60000000, 3600000000, 86400000000, 31622400000000};
#define PICK(list) list[below((int64_t)(sizeof(list) / sizeof(list[0])))]

static void some_limit_numbers(sg_limit_t *l)
{
    do {
        l->limit = some_limit(l->algo);
        l->rate_count = below(3) ? 1 + below(20) : 1 + below(7777777777);
        l->rate_us = PICK(periods_us);
        l->window_us = PICK(windows_us);
        l->lease_us = PICK(windows_us);
        l->precision = (uint32_t)(below(2) ? 10 : 1 + below(100));
    } while (sg_limit_finish(l, NULL) != SG_OK);
}

/* What a step of time is measured in. */
static int64_t scale_us(const sg_limit_t *l)
{
    int64_t us = l->algo == SG_ALGO_CONCURRENCY ? l->lease_us : l->window_us;

    return us > 0 ? us : 1000000;
}

static int64_t some_step_us(const sg_limit_t *l, bool back)
{
    int64_t scale = scale_us(l);

    if (back && below(25) == 0)
        return -below(below(3) ? scale + 1 : 20 * scale + 1);
    switch (below(6)) {
    case 0: return 0;
    case 1: return below(1000);
    case 2: return scale / (1 + below(20));
    case 3: return below(scale / 10 + 1);
    case 4: return below(2 * scale + 1);
    default: return below(scale / 100 + 1);
    }
}

static int64_t some_cost(const sg_limit_t *l)
{
    switch (below(10)) {
    case 0: return 0;
    case 1: return l->limit > 0 && l->limit < 100000 ? 1 + below(l->limit + 1) : 1 + below(3);
    case 2: return l->algo == SG_ALGO_SLIDING_LOG ? 2 : l->limit / (1 + below(4)) + 1;
    default: return 1 + below(3);
    }
}

/* A recent decision turns out to cost more, less, or far too much. */
static void settle_some(int step, int64_t now_us, bool settled[])
{
    int which = step - (int)below(step < 5 ? step + 1 : 5);
    int64_t cost = decided[which].check.cost;

    if (settled[which])
        return;
    settled[which] = true;
    switch (below(6)) {
    case 0: cost = 0; break;
    case 1: cost = below(cost + 1); break;
    case 2: cost += below(decided[which].limits[0].limit + 1) / (1 + below(4)); break;
    case 3: cost = below(20) ? 2 * cost : SG_LIMIT_NUMBER_MAX - below(3); break;
    default: cost += 1 + below(3); break;
    }
    if (cost > 1000000)
        for (size_t i = 0; i < decided[which].check.count; i++)
            if (decided[which].limits[i].algo == SG_ALGO_SLIDING_LOG)
                cost = 1000 + below(3);
    do_settle((size_t)which, cost, now_us);
}

/* The year 2096. */
#define LATEST_US INT64_C(4000000000000000)

static void random_trace(bool upset)
{
    sg_limit_t limits[TRACE_LIMITS];
    const sg_limit_t *at[TRACE_LIMITS] = {&limits[0], &limits[1], &limits[2], &limits[3]};
    static const char *const names[TRACE_LIMITS] = {"c.a", "c.b", "c.c", "c.d"};
    size_t count = below(2) ? 1 : 1 + (size_t)below(TRACE_LIMITS);
    int64_t now_us = INT64_C(1780000000000000) + below(INT64_C(100000000000000));
    char leases[40][33];
    bool settled[40] = {false};

    for (size_t i = 0; i < count; i++) {
        limits[i] =
            (sg_limit_t){.name = names[i], .algo = (sg_algo_t)below(SG_ALGO_COUNT), .dry_run = below(4) == 0};
        some_limit_numbers(&limits[i]);
    }
    for (int step = 0; step < 40; step++) {
        const sg_limit_t *l = at[below((int64_t)count)];
        sg_check_t c;
        now_us += some_step_us(l, upset);
        if (now_us > LATEST_US || now_us < 0)
            now_us = LATEST_US;
        if (upset && below(30) == 0)
            some_limit_numbers(&limits[l - limits]);
        snprintf(leases[step], sizeof(leases[step]), "%016llx%016llx", (unsigned long long)next_random(),
                 (unsigned long long)next_random());
        c = check_of(at, count, some_cost(l), leases[step]);
        do_check(&c, now_us, (size_t)step);
        if (below(3) == 0)
            settle_some(step, now_us += below(2) * below(scale_us(l) / 10 + 1), settled);
        if (below(4) == 0) {
            c.lease = leases[below(step + 1)];
            do_release(&c);
        }
    }
}

static int random_traces(const char *seed, const char *traces, bool steady)
{
    uint64_t first, count;

    if (sg_str_u64(sg_str(seed), UINT64_MAX, &first) || sg_str_u64(sg_str(traces), UINT64_MAX, &count))
        return 64;
    for (uint64_t i = 0; i < count; i++) {
        random_state = first + i;
        printf("new seed %llu\n", (unsigned long long)(first + i));
        world_clear(&world);
        random_trace(!steady && i % 2);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int result = 64;

    if (argc >= 3 && strcmp(argv[1], "vectors") == 0)
        for (int i = 2; i < argc && (i == 2 || result == 0); i++)
            result = play_file(argv[i]);
    else if (argc == 4 && (strcmp(argv[1], "random") == 0 || strcmp(argv[1], "steady") == 0))
        result = random_traces(argv[2], argv[3], argv[1][0] == 's');
    if (result == 64)
        fprintf(stderr, "usage: stream vectors FILE... | stream random|steady SEED COUNT\n");
    world_clear(&world);
    return result;
}
