/* identity.c - from a request's key to a tenant. */
#include "gate/identity.h"

const char *sg_id_err_name(sg_id_err_t e)
{
    static const char *const names[] = {
        [SG_ID_OK] = "ok",
        [SG_ID_MISSING] = "no_key",
        [SG_ID_UNKNOWN] = "key_unknown",
        [SG_ID_DISABLED] = "key_disabled",
        [SG_ID_EXPIRED] = "key_expired",
        [SG_ID_AMBIGUOUS] = "ambiguous_key",
    };
    return (size_t)e < sizeof names / sizeof names[0] ? names[e] : "unknown";
}

void sg_ip_tag(const sg_identity_conf_t *c, const sg_addr_t *client, sg_tag_t *out)
{
    char text[sizeof "ip:" + SG_ADDR_TEXT] = "ip:";
    sg_addr_t masked = sg_addr_mask_v6(client, c->ipv6_prefix);
    sg_addr_text(&masked, text + 3);
    sg_tag(c->secret, sg_str(text), out);
}

/* What stands behind the scheme (RFC 9110 section 11.4); false when it is another scheme's. */
static bool after_scheme(sg_str_t value, sg_str_t scheme, sg_str_t *rest)
{
    value = sg_str_trim(value);
    if (value.n < scheme.n || !sg_str_ieq(sg_str_n(value.p, scheme.n), scheme))
        return false;
    if (value.n > scheme.n && value.p[scheme.n] != ' ' && value.p[scheme.n] != '\t')
        return false;
    *rest = sg_str_trim(sg_str_n(value.p + scheme.n, value.n - scheme.n));
    return true;
}

/* The key in one source; empty when it is not there. SG_ID_AMBIGUOUS when the source is there twice. */
static sg_id_err_t read_source(const sg_key_source_t *s, const sg_fields_t *fields, const sg_target_t *target,
                               sg_arena_t *arena, sg_str_t *key)
{
    size_t count = 0;
    *key = (sg_str_t){NULL, 0};
    if (s->kind == SG_KEY_FROM_QUERY) {
        sg_str_t rest;
        if (target->has_query)
            sg_query_take(arena, target->query, s->name, &rest, key, &count);
        return count > 1 ? SG_ID_AMBIGUOUS : SG_ID_OK;
    }
    SG_FIELDS_EACH(f, fields) {
        if (!sg_str_ieq(f->name, s->name))
            continue;
        if (++count > 1)
            return SG_ID_AMBIGUOUS;
        if (s->kind == SG_KEY_FROM_HEADER)
            *key = sg_str_trim(f->value);
        else if (!after_scheme(f->value, s->scheme, key))
            *key = (sg_str_t){NULL, 0};
    }
    return SG_ID_OK;
}

/* The digest of the request's key. Every source is looked at, so that none disagrees unseen. */
static sg_id_err_t read_key(const sg_identity_conf_t *c, const sg_fields_t *fields, const sg_target_t *target,
                            sg_arena_t *arena, uint8_t digest[SG_SHA256_BYTES])
{
    bool found = false;
    for (size_t i = 0; i < c->source_count; i++) {
        sg_str_t key;
        uint8_t other[SG_SHA256_BYTES];
        sg_id_err_t err = read_source(&c->sources[i], fields, target, arena, &key);
        if (err)
            return err;
        if (key.n == 0)
            continue;
        sg_sha256(key, found ? other : digest);
        if (found && !sg_ct_equal(digest, other, SG_SHA256_BYTES))
            return SG_ID_AMBIGUOUS;
        found = true;
    }
    return found ? SG_ID_OK : SG_ID_MISSING;
}

static sg_id_err_t use_key(const sg_identity_conf_t *c, const uint8_t digest[SG_SHA256_BYTES], int64_t now_us,
                           sg_identity_t *out)
{
    const sg_api_key_t *key = c->keys ? sg_key_table_find(c->keys, digest) : NULL;
    if (!key)
        return SG_ID_UNKNOWN;
    if (key->disabled)
        return SG_ID_DISABLED;
    if (key->expires_us != 0 && now_us >= key->expires_us)
        return SG_ID_EXPIRED;
    out->key = key;
    out->tenant = key->tenant;
    if (!key->tenant->anonymous)
        out->tag = key->tenant->tag.text;
    return SG_ID_OK;
}

sg_id_err_t sg_identity_resolve(const sg_identity_conf_t *c, sg_auth_t auth, const sg_fields_t *fields,
                                const sg_target_t *target, const sg_addr_t *client, int64_t now_us,
                                sg_arena_t *arena, sg_identity_t *out)
{
    uint8_t digest[SG_SHA256_BYTES];
    *out = (sg_identity_t){.client = *client};
    sg_ip_tag(c, client, &out->ip);
    out->tag = sg_arena_strndup(arena, sg_str(out->ip.text));
    sg_id_err_t err = auth == SG_AUTH_NONE ? SG_ID_MISSING : read_key(c, fields, target, arena, digest);
    if (err == SG_ID_OK)
        return use_key(c, digest, now_us, out);
    if (err != SG_ID_MISSING || auth == SG_AUTH_REQUIRED)
        return err;
    out->tenant = c->anonymous;
    return SG_ID_OK;
}

/* --- stripping ----------------------------------------------------------------------------------- */

static bool carries_key(const sg_identity_conf_t *c, const sg_field_t *f)
{
    for (size_t i = 0; i < c->source_count; i++) {
        const sg_key_source_t *s = &c->sources[i];
        sg_str_t rest;
        if (s->kind == SG_KEY_FROM_QUERY || !sg_str_ieq(f->name, s->name))
            continue;
        if (s->kind == SG_KEY_FROM_HEADER || after_scheme(f->value, s->scheme, &rest))
            return true;
    }
    return false;
}

void sg_identity_strip(const sg_identity_conf_t *c, sg_arena_t *arena, sg_fields_t *fields, sg_str_t *query,
                       bool *has_query)
{
    if (c->forward_key)
        return;
    size_t kept = 0;
    SG_FIELDS_EACH(f, fields) {
        if (!carries_key(c, f))
            fields->at[kept++] = *f;
    }
    fields->count = kept;
    for (size_t i = 0; i < c->source_count && *has_query; i++) {
        sg_str_t rest, value;
        size_t count = 0;
        if (c->sources[i].kind != SG_KEY_FROM_QUERY)
            continue;
        sg_query_take(arena, *query, c->sources[i].name, &rest, &value, &count);
        if (count == 0)
            continue;
        *query = rest;
        *has_query = rest.n > 0;
    }
}
