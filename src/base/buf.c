#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

void sg_buf_init(sg_buf_t *b, size_t cap_bytes)
{
    *b = (sg_buf_t){.cap = cap_bytes};
}

void sg_buf_deinit(sg_buf_t *b)
{
    sg_free(b->data);
    *b = (sg_buf_t){.cap = b->cap};
}

void sg_buf_clear(sg_buf_t *b)
{
    b->start = b->end = 0;
    b->failed = false;
}

/* Make room for n more bytes behind the content; false past the cap. */
static bool reserve(sg_buf_t *b, size_t n)
{
    size_t len = sg_buf_len(b);
    if (n > b->cap || len > b->cap - n) {
        b->failed = true;
        return false;
    }
    if (b->size - b->end >= n)
        return true;
    if (b->start && b->size - len >= n && b->start >= len) {    /* moving is cheaper than growing */
        memmove(b->data, b->data + b->start, len);
    } else {
        size_t size = b->size ? b->size : 512; /* one message's head, mostly */
        while (size - len < n)
            size *= 2;
        char *data = sg_malloc(size);
        if (len)
            memcpy(data, b->data + b->start, len);
        sg_free(b->data);
        b->data = data;
        b->size = size;
    }
    b->start = 0;
    b->end = len;
    return true;
}

void sg_buf_grow_add(sg_buf_t *b, const void *p, size_t n)
{
    if (!reserve(b, n))
        return;
    memcpy(b->data + b->end, p, n);
    b->end += n;
}

void sg_buf_u64(sg_buf_t *b, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    sg_buf_add(b, digits + at, sizeof digits - at);
}

void sg_buf_i64(sg_buf_t *b, int64_t v)
{
    if (v < 0) {
        sg_buf_char(b, '-');
        sg_buf_u64(b, (uint64_t)0 - (uint64_t)v);
    } else {
        sg_buf_u64(b, (uint64_t)v);
    }
}

void sg_buf_printf(sg_buf_t *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
    } else if (reserve(b, (size_t)n + 1)) {
        (void)vsnprintf(b->data + b->end, (size_t)n + 1, fmt, again);
        b->end += (size_t)n;
    }
    va_end(again);
}

/* Length of the well-formed UTF-8 sequence at p (RFC 3629), 0 when there is none. */
static size_t utf8_len(const unsigned char *p, size_t n)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

static void json_control(sg_buf_t *b, unsigned char c)
{
    switch (c) {
    case '\n': sg_buf_z(b, "\\n"); break;
    case '\r': sg_buf_z(b, "\\r"); break;
    case '\t': sg_buf_z(b, "\\t"); break;
    default: sg_buf_printf(b, "\\u%04x", c); break;
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void sg_buf_json(sg_buf_t *b, sg_str_t s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t i = 0, plain = 0;
    sg_buf_char(b, '"');
    while (i < s.n) {
        if (is_plain(p[i])) {
            i++;
            continue;
        }
        size_t len = utf8_len(p + i, s.n - i);
        bool special = len == 0 || p[i] < 0x20 || p[i] == 0x7f || p[i] == '"' || p[i] == '\\';
        if (!special) {
            i += len;
            continue;
        }
        sg_buf_add(b, p + plain, i - plain);
        if (len == 0) {
            sg_buf_z(b, "\xef\xbf\xbd");
        } else if (p[i] == '"' || p[i] == '\\') {
            sg_buf_char(b, '\\');
            sg_buf_char(b, (char)p[i]);
        } else {
            json_control(b, p[i]);
        }
        plain = ++i;
    }
    sg_buf_add(b, p + plain, i - plain);
    sg_buf_char(b, '"');
}

char *sg_buf_room(sg_buf_t *b, size_t want, size_t *got)
{
    if (!reserve(b, want))
        return NULL;
    size_t left = b->cap - sg_buf_len(b), space = b->size - b->end;
    *got = space < left ? space : left;
    return b->data + b->end;
}

void sg_buf_added(sg_buf_t *b, size_t n)
{
    b->end += n;
}

void sg_buf_consume(sg_buf_t *b, size_t n)
{
    b->start += n;
    if (b->start == b->end)
        b->start = b->end = 0;
}
