#include "server/refusal.h"

static const sg_refusal_t table[SG_REFUSE_COUNT] = {
    [SG_REFUSE_BAD_METHOD] = {"bad_method", 400, "The method is not a token of at most 32 bytes.", true,
                              true},
    [SG_REFUSE_METHOD_NOT_SUPPORTED] = {"method_not_supported", 405, "CONNECT and TRACE are not served.",
                                        true, true},
    [SG_REFUSE_BAD_VERSION] = {"bad_version", 505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.", true, true},
    [SG_REFUSE_BAD_TARGET] = {"bad_target", 400, "The request target is malformed.", true, true},
    [SG_REFUSE_DOT_SEGMENT] = {"dot_segment", 400, "The path has a dot segment.", true, true},
    [SG_REFUSE_NUL] = {"nul", 400, "The path has an encoded NUL.", true, true},
    [SG_REFUSE_BAD_PERCENT] = {"bad_percent", 400, "The path has a bad percent sequence.", true, true},
    [SG_REFUSE_ODD_PATH] = {"odd_path", 400, "The path has an empty segment or a parameter.", false, true},
    [SG_REFUSE_BAD_HOST] = {"bad_host", 400, "Exactly one valid Host is required.", true, true},
    [SG_REFUSE_BAD_FIELD] = {"bad_field", 400, "A header field is malformed.", true, true},
    [SG_REFUSE_BAD_FRAMING] = {"bad_framing", 400, "The length of the request is ambiguous.", true, true},
    [SG_REFUSE_BAD_CODING] = {"bad_coding", 501, "Only the transfer coding chunked is known.", true, true},
    [SG_REFUSE_BAD_LAYOUT] = {"bad_layout", 400, "The head is not in the form of HTTP/1.1.", true, true},
    [SG_REFUSE_BAD_EXPECT] = {"bad_expect", 417, "Only the expectation 100-continue is known.", true, true},
    [SG_REFUSE_TARGET_TOO_LONG] = {"target_too_long", 414, "The request target is too long.", true, true},
    [SG_REFUSE_HEADER_TOO_LARGE] = {"header_too_large", 431, "The head is too large.", true, true},
    [SG_REFUSE_CERTIFICATE] = {"client_certificate", 403, "A certificate of a known authority is required.",
                               true, true},
    [SG_REFUSE_BODY_TOO_LARGE] = {"body_too_large", 413, "The body is larger than this route accepts.", true,
                                  true},
    [SG_REFUSE_AMBIGUOUS_KEY] = {"ambiguous_key", 400, "The request carries more than one API key.", false,
                                 true},
    [SG_REFUSE_NO_ROUTE] = {"no_route", 404, "No route matches this request.", false, false},
    [SG_REFUSE_METHOD_NOT_ALLOWED] = {"method_not_allowed", 405, "The path is served for other methods.",
                                      false, false},
    [SG_REFUSE_NO_KEY] = {"no_key", 401, "An API key is required.", false, false},
    [SG_REFUSE_BAD_KEY] = {"bad_key", 401, "The API key is not valid.", false, false},
    [SG_REFUSE_TOO_MANY_BAD_KEYS] = {"too_many_bad_keys", 429, "Too many requests with a bad API key.", false,
                                     false},
    [SG_REFUSE_LIMITED] = {"limited", 429, "A quota is used up.", false, false},
    [SG_REFUSE_STORE_AWAY] = {"store_away", 503, "Quotas cannot be checked at the moment.", false, false},
    [SG_REFUSE_UPSTREAM_CONNECT] = {"upstream_connect", 502, "The upstream cannot be reached.", false, false},
    [SG_REFUSE_UPSTREAM_TIMEOUT] = {"upstream_timeout", 504, "The upstream did not answer in time.", false,
                                    false},
    [SG_REFUSE_UPSTREAM_RESET] = {"upstream_reset", 502, "The upstream broke the connection.", false, false},
    [SG_REFUSE_UPSTREAM_PROTOCOL] = {"upstream_protocol", 502, "The upstream's answer is not valid HTTP.",
                                     false, false},
    [SG_REFUSE_UPSTREAM_BUSY] = {"upstream_busy", 503, "The upstream has too many requests in flight.", false,
                                 false},
    [SG_REFUSE_BODY_TIMEOUT] = {"body_timeout", 408, "The body did not come in time.", true, true},
};

const sg_refusal_t *sg_refusal(sg_refuse_t why)
{
    return &table[why];
}

sg_refuse_t sg_refusal_of_target(sg_target_err_t err)
{
    switch (err) {
    case SG_TARGET_BAD_PERCENT: return SG_REFUSE_BAD_PERCENT;
    case SG_TARGET_NUL: return SG_REFUSE_NUL;
    case SG_TARGET_DOT_SEGMENT: return SG_REFUSE_DOT_SEGMENT;
    case SG_TARGET_OK:
    case SG_TARGET_EMPTY:
    case SG_TARGET_BAD_BYTE:
    case SG_TARGET_BAD_FORM:
    case SG_TARGET_BAD_AUTHORITY:
    case SG_TARGET_TOO_MANY_SEGMENTS: break;
    }
    return SG_REFUSE_BAD_TARGET;
}
