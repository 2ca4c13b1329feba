#include "metrics/names.h"

#include "base/buf.h"

void sg_names_init(sg_names_t *n, const char *first)
{
    *n = (sg_names_t){0};
    sg_names_add(n, first, first);
}

void sg_names_deinit(sg_names_t *n)
{
    HASH_CLEAR(hh, n->table);
    for (unsigned i = 0; i < n->count; i++) {
        sg_free(n->at[i]->key);
        sg_free(n->at[i]->label);
        sg_free(n->at[i]);
    }
    sg_free(n->at);
    *n = (sg_names_t){0};
}

sg_name_t *sg_names_find(const sg_names_t *n, const char *key)
{
    sg_name_t *name;
    HASH_FIND_STR(n->table, key, name);
    return name;
}

sg_name_t *sg_names_add(sg_names_t *n, const char *key, const char *label)
{
    sg_name_t *name = sg_names_find(n, key);
    if (name)
        return name;
    if (n->count == n->size) {
        n->size = n->size ? n->size * 2 : 16;
        n->at = sg_realloc(n->at, n->size * sizeof *n->at);
    }
    name = SG_NEW(sg_name_t);
    name->key = sg_strdup(key);
    name->label = sg_label_escape(label);
    name->id = n->count;
    n->at[n->count++] = name;
    HASH_ADD_KEYPTR(hh, n->table, name->key, strlen(name->key), name);
    return name;
}

char *sg_label_escape(const char *value)
{
    char *out = sg_malloc(strlen(value) * 2 + 1), *o = out;
    for (const char *p = value; *p; p++) {
        if (*p == '\\' || *p == '"' || *p == '\n')
            *o++ = '\\';
        *o++ = *p == '\n' ? 'n' : *p;
    }
    *o = '\0';
    return out;
}
