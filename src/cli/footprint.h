/* footprint.h - how much memory counters take in Redis: its encodings (7.0, 64 bit) and its allocator's size
 * classes, written out. Pure. Measured against a real one in tests/e2e/test_capacity.py. */
#ifndef SG_CLI_FOOTPRINT_H
#define SG_CLI_FOOTPRINT_H

#include "config/config.h"

/* Length of the names of a limit's keys. */
size_t sg_footprint_name_bytes(const sg_store_conf_t *conf, const sg_limit_t *l);
/* One key with its name and expiry, when `units` (at least 1) are used; without the tables. */
int64_t sg_footprint_key_bytes(const sg_store_conf_t *conf, const sg_limit_t *l, int64_t units);
/* The hash tables of a server that holds so many keys. */
int64_t sg_footprint_table_bytes(int64_t keys);

#endif
