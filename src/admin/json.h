/* json.h - answers in JSON. */
#ifndef SG_ADMIN_JSON_H
#define SG_ADMIN_JSON_H

#include <jansson.h>

#include "admin/internal.h"

/* Takes `body`. */
void sg_admin_json(sg_admin_request_t *r, unsigned status, json_t *body);
/* A string; null for NULL and for what is not UTF-8. */
json_t *sg_json_text(const char *z);
json_t *sg_json_view(sg_str_t s);
/* RFC 3339. */
json_t *sg_json_time(int64_t wall_us);
/* Takes `value`. */
void sg_json_set(json_t *object, const char *key, json_t *value);

#endif
