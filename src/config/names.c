/* names.c - sets of names. */
#include "config/names.h"

#define LIST_MAX       16 /* up to here a walk is cheaper than a table */
#define NEAR_WALK_MAX  1000
#define NEAR_CHARS_MAX 64

const sg_name_t *sg_nameset_find(const sg_nameset_t *s, sg_str_t text)
{
    sg_name_t *n = NULL;
    if (s->table) {
        HASH_FIND(hh, s->table, text.p, text.n, n);
        return n;
    }
    for (n = s->first; n; n = n->next) {
        if (sg_str_eq(n->text, text))
            return n;
    }
    return NULL;
}

static void insert(sg_nameset_t *s, sg_name_t *n)
{
    HASH_ADD_KEYPTR(hh, s->table, n->text.p, n->text.n, n);
}

const sg_name_t *sg_nameset_add(sg_nameset_t *s, sg_arena_t *arena, sg_str_t text, unsigned index,
                                const sg_place_t *place)
{
    const sg_name_t *other = sg_nameset_find(s, text);
    sg_name_t *n;
    if (other)
        return other;
    n = SG_ARENA_NEW(arena, sg_name_t);
    n->text = text;
    n->index = index;
    n->place = *place;
    if (s->last)
        s->last->next = n;
    else
        s->first = n;
    s->last = n;
    s->count++;
    if (s->table) {
        insert(s, n);
    } else if (s->count > LIST_MAX) {
        for (sg_name_t *it = s->first; it; it = it->next)
            insert(s, it);
    }
    return NULL;
}

void sg_nameset_deinit(sg_nameset_t *s)
{
    HASH_CLEAR(hh, s->table);
    *s = (sg_nameset_t){0};
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Optimal string alignment distance, three rows of the table at a time. */
unsigned sg_edit_distance(sg_str_t a, sg_str_t b, unsigned limit)
{
    unsigned rows[3][NEAR_CHARS_MAX + 1];
    size_t gap = a.n > b.n ? a.n - b.n : b.n - a.n;
    if (a.n > NEAR_CHARS_MAX || b.n > NEAR_CHARS_MAX || gap > limit)
        return limit + 1;
    for (unsigned j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a.n; i++) {
        unsigned *now = rows[i % 3], *prev = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (unsigned j = 1; j <= b.n; j++) {
            char x = sg_ascii_lower(a.p[i - 1]), y = sg_ascii_lower(b.p[j - 1]);
            now[j] = min3(prev[j] + 1, now[j - 1] + 1, prev[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == sg_ascii_lower(b.p[j - 2]) && y == sg_ascii_lower(a.p[i - 2]))
                now[j] = min3(now[j], before[j - 2] + 1, now[j]);
        }
    }
    return rows[a.n % 3][b.n] > limit ? limit + 1 : rows[a.n % 3][b.n];
}

/* A name that was begun well ("password" for "password_file") is near too. */
bool sg_is_near(sg_str_t a, sg_str_t b, unsigned *distance)
{
    size_t shorter = a.n < b.n ? a.n : b.n;
    unsigned limit = shorter <= 3 ? 1 : shorter <= 8 ? 2 : 3;
    *distance = sg_edit_distance(a, b, limit);
    return *distance <= limit || (shorter >= 4 && sg_str_starts(b, a));
}

sg_str_t sg_nameset_near(const sg_nameset_t *s, sg_str_t text)
{
    sg_str_t best = {0};
    unsigned best_distance = 0, distance;
    if (s->count > NEAR_WALK_MAX)
        return best;
    for (const sg_name_t *n = s->first; n; n = n->next) {
        if (sg_is_near(text, n->text, &distance) && (!best.n || distance < best_distance)) {
            best = n->text;
            best_distance = distance;
        }
    }
    return best;
}
