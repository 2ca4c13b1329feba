/* framing.c - message bodies in, request heads and chunks out. Response heads: response_head.c. */
#include "http/framing.h"

#include "http/chars.h"

/* --- out -------------------------------------------------------------------------------------- */

static char *put(char *to, const char *p, size_t n)
{
    if (n)
        memcpy(to, p, n);
    return to + n;
}

#define PUT_LITERAL(to, z) put((to), (z), sizeof(z) - 1)

/* Room for exactly n bytes, or NULL with the buffer marked as failed. */
static char *room_for(sg_buf_t *out, size_t n)
{
    size_t got = 0;
    char *to = out->failed ? NULL : sg_buf_room(out, n, &got);
    if (!to || got < n) {
        out->failed = true;
        return NULL;
    }
    return to;
}

void sg_head_write(sg_buf_t *out, sg_str_t method, sg_str_t target, const sg_fields_t *fields)
{
    size_t n = method.n + target.n + sizeof "  HTTP/1.1\r\n\r\n" - 1;
    SG_FIELDS_EACH(f, fields)
        n += f->name.n + f->value.n + sizeof ": \r\n" - 1;
    char *to = room_for(out, n);
    if (!to)
        return;
    to = put(to, method.p, method.n);
    *to++ = ' ';
    to = put(to, target.p, target.n);
    to = PUT_LITERAL(to, " HTTP/1.1\r\n");
    SG_FIELDS_EACH(f, fields) {
        to = put(to, f->name.p, f->name.n);
        to = PUT_LITERAL(to, ": ");
        to = put(to, f->value.p, f->value.n);
        to = PUT_LITERAL(to, "\r\n");
    }
    PUT_LITERAL(to, "\r\n");
    sg_buf_added(out, n);
}

void sg_chunk_write(sg_buf_t *out, const char *data, size_t n)
{
    char size[2 * sizeof n];
    size_t digits = 0;
    for (size_t v = n; v; v >>= 4)
        size[sizeof size - ++digits] = "0123456789abcdef"[v & 15];
    if (n == 0 || n > SIZE_MAX - sizeof size - 4) {
        out->failed = out->failed || n;     /* an empty chunk would end the body: write nothing */
        return;
    }
    char *to = room_for(out, digits + n + 4);
    if (!to)
        return;
    to = put(to, size + sizeof size - digits, digits);
    to = PUT_LITERAL(to, "\r\n");
    to = put(to, data, n);
    PUT_LITERAL(to, "\r\n");
    sg_buf_added(out, digits + n + 4);
}

void sg_chunk_write_last(sg_buf_t *out)
{
    sg_buf_z(out, "0\r\n\r\n");
}

/* --- in: body --------------------------------------------------------------------------------- */

/* Where the chunked decoder stands. */
enum {
    SIZE,               /* in the hex digits */
    EXTENSION,          /* behind ';' */
    SIZE_LF,
    DATA,
    DATA_CR, DATA_LF,
    TRAILER_START,      /* at the beginning of a trailer line, or of the blank line */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    BROKEN,
};

void sg_body_init(sg_body_t *b, sg_body_kind_t kind, uint64_t length)
{
    *b = (sg_body_t){.kind = kind, .state = SIZE};
    if (kind == SG_BODY_LENGTH)
        b->left = length;
    b->done = kind == SG_BODY_NONE || (kind == SG_BODY_LENGTH && length == 0);
}

static void start_size(sg_body_t *b)
{
    b->left = 0;
    b->size_digits = 0;
    b->line_len = 0;
    b->state = SIZE;
}

static unsigned size_byte(sg_body_t *b, char c)
{
    int digit = sg_hex_digit(c);
    if (digit >= 0) {
        /* 16 digits, and 63 bits: a size is never taken for a negative number further on. */
        if (++b->size_digits > 16 || b->left > (uint64_t)INT64_MAX >> 4)
            return BROKEN;
        b->left = b->left << 4 | (uint64_t)digit;
        return SIZE;
    }
    if (b->size_digits == 0)
        return BROKEN;
    return c == ';' ? EXTENSION : c == '\r' ? SIZE_LF : BROKEN;
}

static unsigned extension_byte(sg_body_t *b, char c)
{
    if (c == '\r')
        return SIZE_LF;
    return ++b->line_len <= SG_CHUNK_EXTENSION_MAX && sg_char_is(c, SG_CHAR_VALUE) ? EXTENSION : BROKEN;
}

static unsigned trailer_byte(sg_body_t *b, char c)
{
    if (++b->trailer_bytes > SG_TRAILERS_MAX)
        return BROKEN;
    switch (b->state) {
    case TRAILER_START:
        return c == '\r' ? END_LF : sg_char_is(c, SG_CHAR_TOKEN) ? TRAILER_NAME : BROKEN;
    case TRAILER_NAME:
        return c == ':' ? TRAILER_VALUE : sg_char_is(c, SG_CHAR_TOKEN) ? TRAILER_NAME : BROKEN;
    case TRAILER_VALUE:
        return c == '\r' ? TRAILER_LF : sg_char_is(c, SG_CHAR_VALUE) ? TRAILER_VALUE : BROKEN;
    default:    /* TRAILER_LF */
        return c == '\n' ? TRAILER_START : BROKEN;
    }
}

/* One byte that is not payload. */
static void framing_byte(sg_body_t *b, char c)
{
    switch (b->state) {
    case SIZE:
        b->state = size_byte(b, c);
        break;
    case EXTENSION:
        b->state = extension_byte(b, c);
        break;
    case SIZE_LF:
        b->state = c != '\n' ? BROKEN : b->left ? DATA : TRAILER_START;
        break;
    case DATA_CR:
        b->state = c == '\r' ? DATA_LF : BROKEN;
        break;
    case DATA_LF:
        if (c == '\n')
            start_size(b);
        else
            b->state = BROKEN;
        break;
    case END_LF:
        b->done = c == '\n';
        b->state = b->done ? END_LF : BROKEN;
        break;
    default:
        b->state = trailer_byte(b, c);
    }
}

/* Hand out what `left` allows. */
static size_t take_data(sg_body_t *b, sg_str_t in, sg_str_t *data)
{
    size_t n = b->left < in.n ? (size_t)b->left : in.n;
    *data = sg_str_n(in.p, n);
    b->left -= n;
    return n;
}

static sg_err_t feed_chunked(sg_body_t *b, sg_str_t in, size_t *used, sg_str_t *data)
{
    size_t i = 0;
    while (i < in.n && !b->done && b->state != DATA && b->state != BROKEN)
        framing_byte(b, in.p[i++]);
    if (b->state == BROKEN)
        return SG_ERR_SYNTAX;
    if (b->state == DATA && i < in.n) {
        i += take_data(b, sg_str_n(in.p + i, in.n - i), data);
        if (b->left == 0)
            b->state = DATA_CR;
    }
    *used = i;
    return SG_OK;
}

sg_err_t sg_body_feed(sg_body_t *b, sg_str_t in, size_t *used, sg_str_t *data)
{
    *used = 0;
    *data = (sg_str_t){0};
    if (b->done || in.n == 0)
        return b->state == BROKEN ? SG_ERR_SYNTAX : SG_OK;
    switch (b->kind) {
    case SG_BODY_LENGTH:
        *used = take_data(b, in, data);
        b->done = b->left == 0;
        return SG_OK;
    case SG_BODY_CHUNKED:
        return feed_chunked(b, in, used, data);
    case SG_BODY_CLOSE:
        *data = in;
        *used = in.n;
        return SG_OK;
    case SG_BODY_NONE:
        break;
    }
    return SG_OK;
}

sg_err_t sg_body_eof(sg_body_t *b)
{
    if (b->kind == SG_BODY_CLOSE)
        b->done = true;
    return b->done ? SG_OK : SG_ERR_EOF;
}
