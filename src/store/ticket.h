/* ticket.h - what the tickets of all ways to decide begin with. */
#ifndef SG_STORE_TICKET_H
#define SG_STORE_TICKET_H

#include "store/store.h"

struct sg_ticket {
    void (*cancel)(sg_ticket_t *t);
};

#endif
