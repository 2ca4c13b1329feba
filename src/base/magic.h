/* magic.h - objects that travel through void * carry a number that is checked on the way back. */
#ifndef SG_BASE_MAGIC_H
#define SG_BASE_MAGIC_H

#include <stdint.h>

/* First member of the struct: `uint32_t magic;` */
#define SG_MAGIC_CAST(to, from, number)                                                            \
    do {                                                                                           \
        (to) = (from);                                                                             \
        if (!(to) || (to)->magic != (number))                                                      \
            sg_magic_failed(__FILE__, __LINE__, #number);                                          \
    } while (0)

/* Logs and aborts: a stale or foreign pointer came back from a library. */
_Noreturn void sg_magic_failed(const char *file, int line, const char *what);

#endif
