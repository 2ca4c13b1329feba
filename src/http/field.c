/* field.c - header fields: names, values, lists. */
#include "http/field.h"

#include "base/hash.h"
#include "http/chars.h"

void sg_fields_add(sg_fields_t *fs, sg_arena_t *arena, sg_str_t name, sg_str_t value)
{
    if (fs->count == fs->size) {
        size_t size = fs->size ? fs->size * 2 : 16;
        sg_field_t *at = sg_arena_alloc(arena, size * sizeof *at);
        if (fs->count)
            memcpy(at, fs->at, fs->count * sizeof *at);
        fs->at = at;
        fs->size = size;
    }
    fs->at[fs->count++] = (sg_field_t){name, value};
}

const sg_field_t *sg_fields_get(const sg_fields_t *fs, sg_str_t name)
{
    SG_FIELDS_EACH(f, fs) {
        if (sg_str_ieq(f->name, name))
            return f;
    }
    return NULL;
}

size_t sg_fields_count(const sg_fields_t *fs, sg_str_t name)
{
    size_t count = 0;
    SG_FIELDS_EACH(f, fs)
        count += sg_str_ieq(f->name, name);
    return count;
}

void sg_fields_remove(sg_fields_t *fs, sg_str_t name)
{
    size_t kept = 0;
    for (size_t i = 0; i < fs->count; i++) {
        if (!sg_str_ieq(fs->at[i].name, name))
            fs->at[kept++] = fs->at[i];
    }
    fs->count = kept;
}

bool sg_is_token_char(char c)
{
    return sg_char_is(c, SG_CHAR_TOKEN);
}

bool sg_is_token(sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!sg_char_is(s.p[i], SG_CHAR_TOKEN))
            return false;
    }
    return s.n > 0;
}

bool sg_is_field_value(sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!sg_char_is(s.p[i], SG_CHAR_VALUE))
            return false;
    }
    return true;
}

/* Length of the list member at the front: up to a comma that is not in a quoted string. A string that is
 * never closed takes the rest. */
static size_t member_length(sg_str_t s)
{
    bool quoted = false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '"')
            quoted = !quoted;
        else if (c == '\\' && quoted)
            i++;
        else if (c == ',' && !quoted)
            return i;
    }
    return s.n;
}

bool sg_list_next(sg_str_t *rest, sg_str_t *member)
{
    while (rest->n) {
        size_t n = member_length(*rest);
        *member = sg_str_trim(sg_str_n(rest->p, n));
        size_t step = n < rest->n ? n + 1 : n;
        *rest = sg_str_n(rest->p + step, rest->n - step);
        if (member->n)
            return true;
    }
    return false;
}

bool sg_fields_has_token(const sg_fields_t *fs, sg_str_t name, sg_str_t token)
{
    SG_FIELDS_EACH(f, fs) {
        if (!sg_str_ieq(f->name, name))
            continue;
        sg_str_t rest = f->value, member;
        while (sg_list_next(&rest, &member)) {
            if (sg_str_ieq(member, token))
                return true;
        }
    }
    return false;
}

bool sg_field_is_hop_by_hop(sg_str_t name)
{
    static const sg_str_t hops[] = {
        SG_STR("Connection"), SG_STR("Keep-Alive"), SG_STR("Proxy-Connection"), SG_STR("TE"),
        SG_STR("Trailer"),
        SG_STR("Transfer-Encoding"), SG_STR("Upgrade"), SG_STR("HTTP2-Settings"),
        SG_STR("Proxy-Authenticate"),
        SG_STR("Proxy-Authorization"),
    };
    for (size_t i = 0; i < sizeof hops / sizeof hops[0]; i++) {
        if (sg_str_ieq(name, hops[i]))
            return true;
    }
    return false;
}

/* --- what Connection names -------------------------------------------------------------------- */

/* How many fields have a name with this hash. A Connection field with thousands of options must not cost
 * options times fields; keyed, because the client chooses the names on both sides. */
#define NAME_SLOTS 1024u
#define NAME_PREFIX 64u

typedef struct {
    uint32_t fields[NAME_SLOTS];
} name_counts_t;

static unsigned name_slot(sg_str_t name)
{
    char lower[NAME_PREFIX];
    size_t n = name.n < sizeof lower ? name.n : sizeof lower;
    for (size_t i = 0; i < n; i++)
        lower[i] = sg_ascii_lower(name.p[i]);
    return (unsigned)(sg_siphash(sg_str_n(lower, n)) % NAME_SLOTS);
}

static bool is_kept(sg_str_t name, const char *const *keep)
{
    if (sg_str_ieq(name, SG_STR("Host")) || sg_str_ieq(name, SG_STR("Content-Length")))
        return true;
    for (; keep && *keep; keep++) {
        if (sg_str_ieq(name, sg_str(*keep)))
            return true;
    }
    return false;
}

/* Connection itself and the other fixed names wait for the last step: further Connection lines must still
 * be read. */
static void remove_named(sg_fields_t *fs, name_counts_t *counts, sg_str_t value, const char *const *keep)
{
    sg_str_t member;
    while (sg_list_next(&value, &member)) {
        unsigned slot = name_slot(member);
        if (!counts->fields[slot] || is_kept(member, keep) || sg_field_is_hop_by_hop(member))
            continue;
        size_t before = fs->count;
        sg_fields_remove(fs, member);
        counts->fields[slot] -= (uint32_t)(before - fs->count);
    }
}

static const sg_field_t *nth_field(const sg_fields_t *fs, sg_str_t name, size_t nth)
{
    SG_FIELDS_EACH(f, fs) {
        if (sg_str_ieq(f->name, name) && nth-- == 0)
            return f;
    }
    return NULL;
}

static void remove_all_named(sg_fields_t *fs, const char *const *keep)
{
    name_counts_t counts;
    memset(&counts, 0, sizeof counts);
    SG_FIELDS_EACH(f, fs)
        counts.fields[name_slot(f->name)]++;
    const sg_field_t *connection;
    for (size_t nth = 0; (connection = nth_field(fs, SG_STR("Connection"), nth)); nth++)
        remove_named(fs, &counts, connection->value, keep);
}

/* Does Connection name anything that does not go anyway? Mostly it says "keep-alive". */
static bool names_others(const sg_fields_t *fs)
{
    SG_FIELDS_EACH(f, fs) {
        sg_str_t rest = f->value, member;
        if (!sg_str_ieq(f->name, SG_STR("Connection")))
            continue;
        while (sg_list_next(&rest, &member)) {
            if (!sg_field_is_hop_by_hop(member))
                return true;
        }
    }
    return false;
}

void sg_fields_strip_hops(sg_fields_t *fs, const char *const *keep)
{
    if (names_others(fs))
        remove_all_named(fs, keep);
    size_t kept = 0;
    for (size_t i = 0; i < fs->count; i++) {
        sg_field_t f = fs->at[i];
        if (!sg_field_is_hop_by_hop(f.name) || is_kept(f.name, keep))
            fs->at[kept++] = f;
    }
    fs->count = kept;
}

bool sg_field_is_underscore_twin(sg_str_t name, sg_str_t own)
{
    if (name.n != own.n || sg_str_ieq(name, own))
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char a = name.p[i] == '_' ? '-' : sg_ascii_lower(name.p[i]);
        char b = own.p[i] == '_' ? '-' : sg_ascii_lower(own.p[i]);
        if (a != b)
            return false;
    }
    return true;
}
