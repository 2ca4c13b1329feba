/* trace.c - W3C Trace Context. https://www.w3.org/TR/trace-context/ */
#include "http/trace.h"

#include "base/hash.h"
#include "base/random.h"

/* version "-" trace-id "-" parent-id "-" flags */
#define TRACE_AT 3u
#define TRACE_DIGITS 32u
#define SPAN_AT 36u
#define SPAN_DIGITS 16u
#define FLAGS_AT 53u
#define LENGTH_00 55u

/* Flags with a meaning: sampled, and random trace id (level 2). Others must be sent as zero. */
#define KNOWN_FLAGS 0x03

static bool is_lower_hex(sg_str_t s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!sg_ascii_digit(s.p[i]) && (s.p[i] < 'a' || s.p[i] > 'f'))
            return false;
    }
    return true;
}

static bool is_id(sg_str_t s)
{
    bool zero = true;
    for (size_t i = 0; i < s.n; i++)
        zero = zero && s.p[i] == '0';
    return !zero && is_lower_hex(s);
}

/* A version after 00 may only add to the end, behind a '-' (section 3.2.4 of the recommendation). */
static bool is_valid(sg_str_t t)
{
    if (t.n < LENGTH_00 || t.p[TRACE_AT - 1] != '-' || t.p[SPAN_AT - 1] != '-' || t.p[FLAGS_AT - 1] != '-')
        return false;
    sg_str_t version = sg_str_n(t.p, 2);
    if (!is_lower_hex(version) || sg_str_eq(version, SG_STR("ff")))
        return false;
    if (t.n > LENGTH_00 && (sg_str_eq(version, SG_STR("00")) || t.p[LENGTH_00] != '-'))
        return false;
    return is_id(sg_str_n(t.p + TRACE_AT, TRACE_DIGITS)) && is_id(sg_str_n(t.p + SPAN_AT, SPAN_DIGITS)) &&
           is_lower_hex(sg_str_n(t.p + FLAGS_AT, 2));
}

/* Random hex digits, never all zero: that means "no id". */
static void make_id(char *out, size_t digits)
{
    uint8_t bytes[TRACE_DIGITS / 2];
    do {
        sg_random_bytes(bytes, digits / 2);
        sg_hex(bytes, digits / 2, out);
        out[digits] = '\0';
    } while (!is_id(sg_str_n(out, digits)));
}

void sg_trace_start(sg_str_t traceparent, sg_trace_t *out)
{
    *out = (sg_trace_t){.flags = "00", .continued = is_valid(traceparent)};
    if (out->continued) {
        memcpy(out->trace_id, traceparent.p + TRACE_AT, TRACE_DIGITS);
        out->flags[1] = (char)('0' + (sg_hex_digit(traceparent.p[FLAGS_AT + 1]) & KNOWN_FLAGS));
    } else {
        make_id(out->trace_id, TRACE_DIGITS);
    }
    make_id(out->span_id, SPAN_DIGITS);
}

void sg_trace_text(const sg_trace_t *t, char out[SG_TRACEPARENT_BYTES])
{
    memcpy(out, "00-", TRACE_AT);
    memcpy(out + TRACE_AT, t->trace_id, TRACE_DIGITS);
    out[SPAN_AT - 1] = '-';
    memcpy(out + SPAN_AT, t->span_id, SPAN_DIGITS);
    out[FLAGS_AT - 1] = '-';
    memcpy(out + FLAGS_AT, t->flags, 2);
    out[LENGTH_00] = '\0';
}
