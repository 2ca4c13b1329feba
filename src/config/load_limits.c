/* load_limits.c - the sections classes and plans, and the overrides of tenants. */
#include "config/load.h"
#include "gate/block.h"

/* Which numbers an algorithm has: names of keys, in the order of sg_algo_t; the first is the number of
 * units. */
static const struct {
    const char *fields; /* all it may have */
    const char *required;
} algorithms[SG_ALGO_COUNT] = {
    [SG_ALGO_TOKEN_BUCKET] = {"capacity refill", "capacity refill"},
    [SG_ALGO_GCRA] = {"burst rate", "burst rate"},
    [SG_ALGO_FIXED_WINDOW] = {"limit window", "limit window"},
    [SG_ALGO_SLIDING_WINDOW] = {"limit window precision", "limit window"},
    [SG_ALGO_SLIDING_LOG] = {"limit window", "limit window"},
    [SG_ALGO_CONCURRENCY] = {"limit lease", "limit"},
};
static const char number_fields[] = "capacity refill rate burst limit window precision lease";

static bool has_word(const char *words, sg_str_t text)
{
    sg_str_t rest = sg_str(words), word;
    while (sg_str_next(&rest, ' ', &word)) {
        if (sg_str_eq(word, text))
            return true;
    }
    return false;
}

/* "limit window" -> "limit, window". */
static const char *commas(sg_load_t *ld, const char *words)
{
    char *text = sg_arena_strndup(ld->scratch, sg_str(words));
    sg_buf_t b;
    const char *out;
    sg_buf_init(&b, 256);
    for (char *p = text; *p; p++) {
        if (*p == ' ')
            sg_buf_z(&b, ", ");
        else
            sg_buf_char(&b, *p);
    }
    out = sg_arena_strndup(ld->scratch, sg_buf_str(&b));
    sg_buf_deinit(&b);
    return out;
}

void sg_load_limit_number(sg_load_t *ld, const sg_key_row_t *row, const sg_node_t *n, void *target)
{
    int64_t *field = (void *)((char *)target + row->offset);
    const char *expected = "an integer from 0 to 9007199254740991, or unlimited";
    int64_t v;
    sg_str_t text;
    if (!sg_load_text(ld, n, expected, &text))
        return;
    if (sg_str_eq(text, SG_STR("unlimited")))
        *field = SG_UNLIMITED;
    else if (sg_load_is_quoted(n, text) || sg_value_int(text, &v) || v > row->max)
        sg_load_bad_value(ld, n, expected);
    else
        *field = v;
}

/* Numbers that another algorithm has, and numbers that this one lacks. */
static bool check_fields(sg_load_t *ld, const sg_node_t *n, sg_algo_t algo, bool whole)
{
    sg_str_t rest = sg_str(algorithms[algo].required), word;
    bool good = true;
    SG_NODE_EACH(child, n)
    {
        if (!has_word(number_fields, child->key) || has_word(algorithms[algo].fields, child->key))
            continue;
        sg_load_error(ld, &child->key_place, "%.*s does not fit algorithm %s, expected %s",
                      SG_STR_ARG(child->key), sg_algo_name(algo), commas(ld, algorithms[algo].fields));
        good = false;
    }
    while (whole && sg_str_next(&rest, ' ', &word)) {
        char key[32];
        snprintf(key, sizeof key, "%.*s", SG_STR_ARG(word));
        if (sg_node_get(n, key))
            continue;
        sg_load_error(ld, &n->place, "%s is missing in a limit, expected %s for algorithm %s", key,
                      commas(ld, algorithms[algo].required), sg_algo_name(algo));
        good = false;
    }
    return good;
}

static bool given(const sg_node_t *n, const char *key)
{
    return sg_node_get(n, key) != NULL;
}

/* Numbers of the file over those of *l. */
static void apply(const sg_node_t *n, const sg_limit_raw_t *raw, sg_limit_t *l)
{
    const int64_t *rate = given(n, "refill") ? raw->refill : given(n, "rate") ? raw->rate : NULL;
    if (rate) {
        l->rate_count = rate[0];
        l->rate_us = rate[1];
    }
    if (given(n, "capacity"))
        l->limit = raw->capacity;
    if (given(n, "burst"))
        l->limit = raw->burst;
    if (given(n, "limit"))
        l->limit = raw->limit;
    if (given(n, "window"))
        l->window_us = raw->window_us;
    if (given(n, "precision"))
        l->precision = (uint32_t)raw->precision;
    if (given(n, "lease"))
        l->lease_us = raw->lease_us;
    if (given(n, "dry_run"))
        l->dry_run = raw->dry_run;
}

static void finish(sg_load_t *ld, const sg_node_t *n, sg_limit_t *l)
{
    static const char *const first[] = {"capacity", "burst", "limit", "window", "refill", "rate"};
    const sg_node_t *at = n;
    sg_why_t why;
    for (size_t i = 0; i < sizeof first / sizeof first[0] && at == n; i++) {
        const sg_node_t *number = sg_node_get(n, first[i]);
        at = number ? number : n;
    }
    if (sg_limit_finish(l, &why))
        sg_load_error(ld, &at->place, "%s: %s", l->name, why.text);
    else
        sg_check_log_memory(ld, l, &at->place);
}

/* In a cluster a budget for everybody lies in another slot than a request's own keys. */
static bool takes_ahead(const sg_load_t *ld, sg_limit_t *l)
{
    bool cluster = ld->c->store.type == SG_STORE_REDIS && ld->c->store.mode == SG_REDIS_CLUSTER;
    if (cluster && l->per == SG_PER_ALL && l->block == 0 && l->algo != SG_ALGO_CONCURRENCY)
        l->block = sg_block_default(l);
    return l->block > 0 && l->limit > 0;
}

static void add_ledger(sg_load_t *ld, const sg_node_t *n, sg_limit_t *l)
{
    sg_limit_t *ledger = SG_ARENA_NEW(ld->arena, sg_limit_t);
    const sg_node_t *block = sg_node_get(n, "block");
    sg_why_t why;
    if (!takes_ahead(ld, l))
        return;
    if (sg_block_ledger(l, ledger, &l->spend_us, &why))
        sg_load_error(ld, block ? &block->place : &n->place, "%s: %s", l->name, why.text);
    else if (ld->c->store.type == SG_STORE_REDIS)
        l->ledger = ledger;
}

/* `errors` is the count before this limit was read: numbers that were reported are not looked at again. */
static void add_limit(sg_load_t *ld, sg_str_t class_name, const sg_node_t *n, sg_limit_raw_t *raw,
                      size_t errors)
{
    sg_limit_t *l = SG_ARENA_NEW(ld->arena, sg_limit_t);
    unsigned index = (unsigned)ld->c->limit_count;
    const sg_name_t *other;
    l->name = sg_arena_printf(ld->arena, "%.*s.%s", SG_STR_ARG(class_name), raw->name).p;
    l->algo = (sg_algo_t)raw->algo;
    l->per = (sg_scope_t)raw->per;
    l->block = raw->block;
    l->index = index;
    l->precision = l->algo == SG_ALGO_SLIDING_WINDOW ? (uint32_t)raw->precision : 0;
    l->lease_us = l->algo == SG_ALGO_CONCURRENCY ? raw->lease_us : 0;
    if (sg_str_eq(sg_str(l->name), SG_STR("identity.failures"))) {
        sg_load_error(
            ld, &n->place,
            "a limit named identity.failures, expected another name (this one is the limit of bad keys)");
        return;
    }
    other = sg_nameset_add(&ld->limits, ld->scratch, sg_str(l->name), index, &n->place);
    if (other) {
        sg_load_error(ld, &n->place, "limit \"%s\" twice, expected each name once; it is on line %u too",
                      l->name, other->place.line);
        return;
    }
    ld->c->limits[ld->c->limit_count++] = l;
    ld->limit_places[index] = n->place;
    ld->max_limit[index] = -1;
    if (raw->limit == SG_UNLIMITED)
        sg_load_error(ld, &sg_node_get(n, "limit")->place,
                      "unlimited in a class, expected an integer; plans and tenants may "
                      "switch a limit off");
    if (raw->block && l->per != SG_PER_ALL)
        sg_load_error(ld, &sg_node_get(n, "block")->place, "block without per: all, expected it there only");
    check_fields(ld, n, l->algo, true);
    if (ld->diags->errors > errors)
        return;
    apply(n, raw, l);
    finish(ld, n, l);
    add_ledger(ld, n, l);
    ld->max_limit[index] = l->ledger ? l->ledger->limit : l->limit;
}

static void load_class(sg_load_t *ld, const sg_node_t *n)
{
    sg_class_t *class = &ld->c->classes[ld->c->class_count];
    size_t first = ld->c->limit_count;
    if (!sg_load_check_name(ld, &n->key_place, n->key, &sg_rule_limit))
        return;
    sg_nameset_add(&ld->classes, ld->scratch, n->key, (unsigned)ld->c->class_count, &n->key_place);
    ld->class_places[ld->c->class_count++] = n->key_place;
    class->name = sg_arena_strndup(ld->arena, n->key);
    if (!sg_load_is(ld, n, SG_NODE_LIST, "a list of limits"))
        return;
    SG_NODE_EACH(item, n)
    {
        sg_limit_raw_t raw = {.algo = -1, .per = SG_PER_TENANT};
        size_t errors = ld->diags->errors;
        if (!sg_load_map(ld, item, &sg_shape_limit, &raw, true))
            continue;
        if (raw.name && raw.algo >= 0 &&
            sg_load_check_name(ld, &sg_node_get(item, "name")->place, sg_str(raw.name), &sg_rule_limit))
            add_limit(ld, n->key, item, &raw, errors);
    }
    class->limit_count = ld->c->limit_count - first;
    class->limits = sg_arena_calloc(ld->arena, (class->limit_count + 1) * sizeof *class->limits);
    for (size_t i = 0; i < class->limit_count; i++)
        class->limits[i] = (unsigned)(first + i);
}

/* Room for as many as the file has; arrays are there even when it has none. */
static void make_room(sg_load_t *ld, size_t classes, size_t limits)
{
    ld->c->limits = sg_arena_calloc(ld->arena, (limits + 1) * sizeof *ld->c->limits);
    ld->c->classes = sg_arena_calloc(ld->arena, (classes + 1) * sizeof *ld->c->classes);
    ld->class_places = sg_arena_calloc(ld->keep, (classes + 1) * sizeof *ld->class_places);
    ld->class_used = sg_arena_calloc(ld->keep, (classes + 1) * sizeof *ld->class_used);
    ld->limit_places = sg_arena_calloc(ld->keep, (limits + 1) * sizeof *ld->limit_places);
    ld->max_cost = sg_arena_calloc(ld->keep, (limits + 1) * sizeof *ld->max_cost);
    ld->max_limit = sg_arena_calloc(ld->keep, (limits + 1) * sizeof *ld->max_limit);
}

void sg_load_classes(sg_load_t *ld, const sg_node_t *n)
{
    size_t limits = 0;
    if (!n || !sg_load_is(ld, n, SG_NODE_MAP, "a map of class names to lists of limits")) {
        make_room(ld, 0, 0);
        return;
    }
    SG_NODE_EACH(class, n)
    limits += class->kind == SG_NODE_LIST ? class->count : 0;
    make_room(ld, n->count, limits);
    SG_NODE_EACH(class, n)
    load_class(ld, class);
}

static void remember_made(sg_load_t *ld, sg_limit_t *l, const sg_place_t *at)
{
    if (ld->made_count == ld->made_size) {
        ld->made_size = ld->made_size ? ld->made_size * 2 : 64;
        ld->made = sg_realloc(ld->made, ld->made_size * sizeof *ld->made);
    }
    ld->made[ld->made_count++] = (sg_made_limit_t){l, *at};
}

/* A cost above an override is known here: routes are loaded before plans and tenants. */
static void check_cost(sg_load_t *ld, const sg_limit_t *l, const sg_place_t *at)
{
    int64_t *most = &ld->max_limit[l->index];
    int64_t limit = l->unlimited || l->dry_run ? INT64_MAX : l->limit;
    if (limit > *most)
        *most = limit;
    if (limit > 0 && limit < ld->max_cost[l->index])
        sg_load_warn(ld, at,
                     "%s admits %lld units at most, but a route costs %lld: its requests can never pass",
                     l->name, (long long)limit, (long long)ld->max_cost[l->index]);
}

/* One "class.limit: {...}". */
static void override_limit(sg_load_t *ld, const sg_node_t *n, const sg_limit_t **limits)
{
    const sg_name_t *name = sg_nameset_find(&ld->limits, n->key);
    sg_limit_raw_t raw = {0};
    size_t errors = ld->diags->errors;
    sg_limit_t *l;
    if (!name) {
        sg_load_error(ld, &n->key_place, "unknown limit %s, expected class.limit of a class%s",
                      sg_load_quote(ld, n->key), sg_load_near(ld, &ld->limits, n->key));
        return;
    }
    if (!sg_load_map(ld, n, &sg_shape_override, &raw, false))
        return;
    /* One counter under two rules: the caller with the smaller one would put right what the others owe. */
    if (limits[name->index]->per == SG_PER_ALL && raw.limit != SG_UNLIMITED) {
        sg_load_error(ld, &n->key_place,
                      "other numbers for %s, which is one budget for everybody (per: all), expected limit: "
                      "unlimited or nothing",
                      limits[name->index]->name);
        return;
    }
    l = SG_ARENA_NEW(ld->arena, sg_limit_t);
    *l = *limits[name->index];
    if (raw.limit == SG_UNLIMITED) {
        l->unlimited = true;
    } else if (check_fields(ld, n, l->algo, false) && ld->diags->errors == errors) {
        if (given(n, "limit") || given(n, "capacity") || given(n, "burst"))
            l->unlimited = false;
        apply(n, &raw, l);
        finish(ld, n, l);
    }
    check_cost(ld, l, &n->place);
    limits[name->index] = l;
    remember_made(ld, l, &n->place);
}

const sg_limit_t *const *sg_load_overrides(sg_load_t *ld, const sg_node_t *n, const sg_limit_t *const *base)
{
    const sg_limit_t **limits;
    if (!n || !sg_load_is(ld, n, SG_NODE_MAP, "a map of class.limit to numbers") || n->count == 0)
        return base;
    limits = sg_arena_alloc(ld->arena, (ld->c->limit_count + 1) * sizeof *limits);
    memcpy(limits, base, ld->c->limit_count * sizeof *limits);
    SG_NODE_EACH(item, n)
    override_limit(ld, item, limits);
    return limits;
}

void sg_load_plans(sg_load_t *ld, const sg_node_t *n)
{
    struct sg_config_own *own = ld->c->own;
    const sg_limit_t *const *base = (const sg_limit_t *const *)ld->c->limits;
    if (!n || !sg_load_is(ld, n, SG_NODE_MAP, "a map of plan names to overrides"))
        return;
    own->plans = sg_arena_calloc(ld->arena, (n->count + 1) * sizeof *own->plans);
    SG_NODE_EACH(item, n)
    {
        sg_plan_t *plan = &own->plans[own->plan_count];
        if (!sg_load_check_name(ld, &item->key_place, item->key, &sg_rule_name))
            continue;
        sg_nameset_add(&ld->plans, ld->scratch, item->key, (unsigned)own->plan_count++, &item->key_place);
        plan->name = sg_arena_strndup(ld->arena, item->key);
        plan->limits = sg_load_overrides(ld, item, base);
    }
}
