/* chars.h - classes of bytes in HTTP and URIs; private to this room. */
#ifndef SG_HTTP_CHARS_H
#define SG_HTTP_CHARS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SG_CHAR_TOKEN = 1,          /* tchar, RFC 9110 section 5.6.2 */
    SG_CHAR_VALUE = 2,          /* HTAB, SP, VCHAR, obs-text, RFC 9110 section 5.5 */
    SG_CHAR_TARGET = 4,         /* may stand in a request target: 0x21..0x7e but '#' */
    SG_CHAR_UNRESERVED = 8,     /* RFC 3986 section 2.3 */
};

extern const uint8_t sg_char_classes[256];

static inline bool sg_char_is(char c, unsigned classes)
{
    return (sg_char_classes[(uint8_t)c] & classes) != 0;
}

#endif
