/* access_log.h - one JSON line per request, written by a thread of its own so that no worker waits for a disk
 * or a pipe. */
#ifndef SG_PROXY_ACCESS_LOG_H
#define SG_PROXY_ACCESS_LOG_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct sg_access_log sg_access_log_t;

/* where: "stdout", "off", or an absolute path (opened for appending). NULL with a sentence when it cannot be
 * opened. */
sg_access_log_t *sg_access_log_new(const char *where, sg_why_t *why);
/* Writes what is left, then ends the thread. Gives up after 2 s when nothing takes the lines: they are lost,
 * and the memory is left to the thread. Call it at the end of the process only. */
void sg_access_log_free(sg_access_log_t *log);
bool sg_access_log_is_on(const sg_access_log_t *log);
/* Whole lines, each with its newline. Any thread; copies. When the writer is 8 MiB behind, lines are dropped,
 * and counted. */
void sg_access_log_write(sg_access_log_t *log, sg_str_t lines);
/* Open the path again (USR1), or another one (reload). On failure the old file stays. Any thread. */
SG_MUST sg_err_t sg_access_log_reopen(sg_access_log_t *log, const char *where, sg_why_t *why);
uint64_t sg_access_log_dropped(const sg_access_log_t *log);

#endif
