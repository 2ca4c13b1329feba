/* admission.h - how many connections may be open, over all workers: in total and per client address. Any
 * thread. */
#ifndef SG_SERVER_ADMISSION_H
#define SG_SERVER_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

typedef struct sg_admission sg_admission_t;

sg_admission_t *sg_admission_new(void);
void sg_admission_free(sg_admission_t *a);

/* May one more connection from `peer` be opened? (NULL: a unix socket, not counted per address.) 0 = no
 * bound. True: it counts until sg_admission_leave with the same peer. The per-address count is kept only
 * while a bound is set: connections that came before it do not count. `counted` remembers which. */
bool sg_admission_enter(sg_admission_t *a, const sg_addr_t *peer, int64_t max_total, int64_t max_per_ip,
                        bool *counted);
void sg_admission_leave(sg_admission_t *a, const sg_addr_t *peer, bool counted);
int64_t sg_admission_total(const sg_admission_t *a);

#endif
