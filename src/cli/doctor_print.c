/* doctor_print.c - what doctor has found, for people and for programs. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/doctor.h"

static const char *level_name(sg_doctor_level_t level)
{
    switch (level) {
    case SG_DOCTOR_OK: return "ok";
    case SG_DOCTOR_NOTE: return "note";
    case SG_DOCTOR_FINDING: return "finding";
    }
    return "";
}

static size_t findings(const sg_doctor_t *d)
{
    size_t n = 0;
    for (size_t i = 0; i < d->row_count; i++)
        n += d->rows[i].level == SG_DOCTOR_FINDING;
    return n;
}

/* "tb:search.burst" without the algorithm. */
static const char *limit_of(const sg_doctor_group_t *g)
{
    return g->id[2] == ':' ? g->id + 3 : g->id;
}

static const char *algorithm_of(const sg_doctor_group_t *g)
{
    for (sg_algo_t a = 0; a < SG_ALGO_COUNT; a++)
        if (g->id[2] == ':' && strncmp(g->id, sg_algo_code(a), 2) == 0)
            return sg_algo_name(a);
    return "";
}

static int by_name(const sg_doctor_group_t *a, const sg_doctor_group_t *b)
{
    return strcmp(limit_of(a), limit_of(b));
}

void sg_doctor_print_text(sg_doctor_t *d)
{
    size_t n = findings(d);
    printf("%-14s %-24s %-8s\n", "CHECK", "SERVER", "RESULT");
    for (size_t i = 0; i < d->row_count; i++) {
        const sg_doctor_row_t *r = &d->rows[i];
        printf("%-14s %-24s %-8s %s\n", r->check, r->place, level_name(r->level), r->text);
    }
    if (d->groups) {
        printf("\n%-32s %-16s %12s %12s %14s\n", "LIMIT", "ALGORITHM", "KEYS", "WITHOUT TTL", "MEMORY");
        HASH_SORT(d->groups, by_name);
    }
    for (const sg_doctor_group_t *g = d->groups; g; g = g->hh.next)
        printf("%-32s %-16s %12" PRIu64 " %12" PRIu64 " %10.1f KiB%s\n", limit_of(g), algorithm_of(g),
               g->keys, g->without_ttl, (double)sg_doctor_group_bytes(g) / 1024,
               g->known ? "" : "  not in the config");
    printf("\n%zu finding%s\n", n, n == 1 ? "" : "s");
}

void sg_doctor_print_json(sg_doctor_t *d)
{
    json_t *checks = json_array(), *limits = json_array();
    for (size_t i = 0; i < d->row_count; i++) {
        const sg_doctor_row_t *r = &d->rows[i];
        (void)json_array_append_new(checks,
                                    json_pack("{s:s, s:s, s:s, s:s}", "check", r->check, "server", r->place,
                                              "result", level_name(r->level), "text", r->text));
    }
    if (d->groups)
        HASH_SORT(d->groups, by_name);
    for (const sg_doctor_group_t *g = d->groups; g; g = g->hh.next)
        (void)json_array_append_new(
            limits, json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I}", "limit", limit_of(g), "algorithm",
                              algorithm_of(g), "in_config", g->known, "keys", (json_int_t)g->keys,
                              "without_ttl", (json_int_t)g->without_ttl, "sampled", (json_int_t)g->sampled,
                              "bytes", (json_int_t)sg_doctor_group_bytes(g)));
    json_t *all =
        json_pack("{s:I, s:o, s:o}", "findings", (json_int_t)findings(d), "checks", checks, "limits", limits);
    (void)json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}
