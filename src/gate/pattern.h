/* pattern.h - a route's path as written in the config, taken apart. Private to gate/. */
#ifndef SG_GATE_PATTERN_H
#define SG_GATE_PATTERN_H

#include "base/mem.h"
#include "base/str.h"

typedef struct {
    bool param;
    sg_str_t text;              /* a parameter's name without ':', or a literal in a request's normal form */
} sg_pattern_segment_t;

/* The path /v1/:id has the segments "v1" and ":id". */
typedef struct {
    sg_pattern_segment_t *segments;
    size_t count;
    size_t param_count;
    bool star;                  /* ends in slash-star */
    bool slash;                 /* written with a slash at its end, and not "/" alone */
    bool odd;                   /* has an empty segment or a ';' */
} sg_pattern_t;

/* Everything is copied to the arena. `what` begins the sentence in `why`: "path". SG_ERR_SYNTAX only. */
SG_MUST sg_err_t sg_pattern_parse(sg_arena_t *arena, const char *what, sg_str_t text, sg_pattern_t *out,
                                  sg_why_t *why);

/* The bytes of a raw path behind its first n segments, leading slash included; empty when nothing
 * follows. */
sg_str_t sg_path_after(sg_str_t path, size_t n);

#endif
