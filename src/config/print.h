/* print.h - the parts of print.c and print_tables.c. Private to config/. */
#ifndef SG_CONFIG_PRINT_H
#define SG_CONFIG_PRINT_H

#include "base/buf.h"
#include "config/load.h"

typedef struct {
    sg_buf_t b;
    const sg_config_t *c;
} sg_printer_t;

void sg_print_indent(sg_printer_t *p, unsigned depth);
/* A double-quoted text. Dollars are doubled, unless the text holds request variables. */
void sg_print_quoted(sg_printer_t *p, sg_str_t s, bool vars);
/* "key: "text"" on its own line; nothing when z is NULL. */
void sg_print_text(sg_printer_t *p, unsigned depth, const char *key, const char *z);
/* "key: 10s". */
void sg_print_duration(sg_printer_t *p, unsigned depth, const char *key, int64_t us);
/* The rows of a section that the table itself can print; the rest is left to the section. */
void sg_print_rows(sg_printer_t *p, unsigned depth, const sg_shape_t *shape, const void *from);

const char *sg_print_failure_word(sg_on_failure_t f);

/* print_tables.c */
void sg_print_classes(sg_printer_t *p);
void sg_print_plans(sg_printer_t *p);
void sg_print_tenants(sg_printer_t *p);
void sg_print_upstreams(sg_printer_t *p);
/* print_routes.c */
void sg_print_routes(sg_printer_t *p);

#endif
