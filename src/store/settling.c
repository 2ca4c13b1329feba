#include "store/settling.h"

#include "base/mem.h"

/* The object, then the limits and pointers to them, then the strings. */
typedef struct {
    sg_settling_t s;
    const sg_limit_t *pointers[SG_LIMITS_MAX];
    sg_limit_t limits[];
} room_t;

static size_t text_bytes(const char *z)
{
    return z ? strlen(z) + 1 : 0;
}

static char *put(char **to, const char *p, size_t n)
{
    char *at = *to;
    memcpy(at, p, n);
    at[n] = '\0';
    *to += n + 1;
    return at;
}

static const char *put_z(char **to, const char *z)
{
    return z ? put(to, z, strlen(z)) : NULL;
}

static void copy_scope(sg_check_t *check, char **to)
{
    sg_key_scope_t *scope = &check->scope;
    scope->prefix.p = put(to, scope->prefix.p, scope->prefix.n);
    scope->version.p = put(to, scope->version.p, scope->version.n);
    scope->tag = put_z(to, scope->tag);
    scope->key = put_z(to, scope->key);
    scope->ip = put_z(to, scope->ip);
    check->lease = put_z(to, check->lease);
}

sg_settling_t *sg_settling_new(const sg_check_t *check, const sg_verdict_t *verdict, int64_t cost)
{
    const sg_key_scope_t *scope = &check->scope;
    size_t bytes = scope->prefix.n + scope->version.n + 2 + text_bytes(scope->tag) + text_bytes(scope->key) +
                   text_bytes(scope->ip) + text_bytes(check->lease);
    size_t count = 0, which[SG_LIMITS_MAX];
    sg_settlement_t what[SG_LIMITS_MAX];
    for (size_t i = 0; i < check->count; i++) {
        if (!sg_limit_settlement(check->limits[i], verdict, i, check->cost, cost, &what[count]))
            continue;
        which[count++] = i;
        bytes += text_bytes(check->limits[i]->name);
    }
    if (count == 0)
        return NULL;

    room_t *room = sg_malloc(sizeof *room + count * sizeof(sg_limit_t) + bytes);
    char *text = (char *)(room->limits + count);
    room->s.link = (sg_link_t){NULL, NULL};
    room->s.check = *check;
    room->s.check.limits = room->pointers;
    room->s.check.count = count;
    copy_scope(&room->s.check, &text);
    for (size_t i = 0; i < count; i++) {
        room->s.what[i] = what[i];
        room->limits[i] = *check->limits[which[i]];
        room->limits[i].name = put_z(&text, room->limits[i].name);
        room->pointers[i] = &room->limits[i];
    }
    return &room->s;
}

sg_settling_t *sg_settling_all(const sg_check_t *check)
{
    sg_verdict_t v = {.allowed = true, .count = check->count};
    for (size_t i = 0; i < check->count; i++)
        v.at[i].allowed = true;
    return sg_settling_new(check, &v, 0);
}

sg_settling_t *sg_settlings_add(sg_settlings_t *all, sg_settling_t *s)
{
    sg_settling_t *over = all->count < SG_SETTLINGS_MAX ? NULL : sg_settlings_take(all);
    if (all->count == 0)
        sg_list_init(&all->head);
    sg_list_push_back(&all->head, &s->link);
    all->count++;
    return over;
}

sg_settling_t *sg_settlings_take(sg_settlings_t *all)
{
    all->count--;
    return SG_OWNER(sg_list_pop(&all->head), sg_settling_t, link);
}

void sg_settlings_deinit(sg_settlings_t *all)
{
    while (all->count)
        sg_free(sg_settlings_take(all));
}
