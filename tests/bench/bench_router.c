/* bench_router.c - what one match costs with 10, 100, 1000 and 10000 routes. `make bench` builds and runs it.
 *
 * A route set holds literals, parameters and prefixes, some below a shared parameter. All sets are built
 * before any is timed, and timed in turn, so that a busy moment of the machine hits all of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gate/route.h"

enum { FORMS = 4, SETS = 4, TARGETS = 64, ROUNDS = 15, MATCHES = 64000 };

static const size_t sizes[SETS] = {10, 100, 1000, 10000};

typedef struct {
    sg_arena_t *arena;
    sg_router_t *router;
    sg_target_t targets[TARGETS];
    double ns[ROUNDS];
} set_t;

static sg_str_t pattern(sg_arena_t *arena, size_t n)
{
    switch (n % FORMS) {
    case 0: return sg_arena_printf(arena, "/v1/service-%zu/items/:id", n);
    case 1: return sg_arena_printf(arena, "/v1/service-%zu/items/:id/parts/:part", n);
    case 2: return sg_arena_printf(arena, "/v2/:tenant/service-%zu/search", n);
    default: return sg_arena_printf(arena, "/files/service-%zu/*", n);
    }
}

/* A request for route n. */
static sg_str_t target(sg_arena_t *arena, size_t n)
{
    switch (n % FORMS) {
    case 0: return sg_arena_printf(arena, "/v1/service-%zu/items/4711", n);
    case 1: return sg_arena_printf(arena, "/v1/service-%zu/items/4711/parts/12", n);
    case 2: return sg_arena_printf(arena, "/v2/acme/service-%zu/search?q=abc", n);
    default: return sg_arena_printf(arena, "/files/service-%zu/a/b/c.txt", n);
    }
}

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "bench_router: %s\n", what);
    exit(1);
}

static void set_init(set_t *s, size_t count)
{
    s->arena = sg_arena_new(64 * 1024);
    s->router = sg_router_new();
    for (size_t n = 0; n < count; n++) {
        sg_route_t *r = SG_ARENA_NEW(s->arena, sg_route_t);
        const sg_route_t *other = NULL;
        sg_why_t why = {""};
        r->pattern = pattern(s->arena, n).p;
        r->methods = SG_METHODS_ALL;
        if (sg_router_add(s->router, r, &other, &why))
            fail(why.text);
    }
    for (size_t i = 0; i < TARGETS; i++)
        if (sg_target_parse(s->arena, target(s->arena, i * 7919 % count), &s->targets[i]))
            fail("a target does not parse");
}

static void set_deinit(set_t *s)
{
    sg_router_free(s->router);
    sg_arena_free(s->arena);
}

static double ns_per_match(const set_t *s)
{
    sg_match_t match;
    int64_t begun_us = sg_clock_mono_us();
    for (size_t i = 0; i < MATCHES; i++) {
        const sg_target_t *t = &s->targets[i % TARGETS];
        sg_router_match(s->router, SG_STR("api.example.com"), SG_METHOD_GET, t, &match);
        if (!match.route)
            fail("a request has no route");
    }
    return (double)(sg_clock_mono_us() - begun_us) * 1000 / MATCHES;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    static set_t sets[SETS];
    for (size_t i = 0; i < SETS; i++)
        set_init(&sets[i], sizes[i]);
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < SETS; i++)
            sets[i].ns[round] = ns_per_match(&sets[i]);
    printf("| routes | ns for a match: median (lowest-highest) of %d rounds |\n| ---: | ---: |\n", ROUNDS);
    for (size_t i = 0; i < SETS; i++) {
        double *ns = sets[i].ns;
        qsort(ns, ROUNDS, sizeof *ns, by_value);
        printf("| %zu | %.0f (%.0f-%.0f) |\n", sizes[i], ns[ROUNDS / 2], ns[0], ns[ROUNDS - 1]);
        set_deinit(&sets[i]);
    }
    return 0;
}
