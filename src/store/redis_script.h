/* The one Lua script, joined from lua/ at build time by lua/embed.sh. */
#ifndef SG_STORE_REDIS_SCRIPT_H
#define SG_STORE_REDIS_SCRIPT_H

#include <stddef.h>

/* NUL-terminated; static. */
extern const char sg_redis_script[];
/* Bytes without the final NUL. */
extern const size_t sg_redis_script_len;

#endif
