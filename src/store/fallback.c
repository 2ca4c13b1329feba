#include "store/fallback.h"

#include "base/clock.h"

static void answer_without_limits(sg_source_t source, int64_t now_us, sg_answer_t *out)
{
    out->verdict.allowed = source == SG_FROM_OPEN;
    out->verdict.now_us = now_us;
    out->verdict.count = 0;
}

void sg_fallback_answer(const sg_store_conf_t *conf, sg_memory_t *memory, const sg_check_t *check,
                        sg_answer_t *out)
{
    int64_t now_us = sg_clock_wall_us();
    sg_on_failure_t policy = check->on_failure == SG_FAIL_INHERIT ? conf->on_failure : check->on_failure;
    out->retry_us = 0;
    out->spent = NULL;
    switch (policy) {
    case SG_FAIL_OPEN:
        out->source = SG_FROM_OPEN;
        answer_without_limits(SG_FROM_OPEN, now_us, out);
        break;
    case SG_FAIL_CLOSED:
        out->source = SG_FROM_CLOSED;
        out->retry_us = SG_FALLBACK_RETRY_US;
        answer_without_limits(SG_FROM_CLOSED, now_us, out);
        break;
    case SG_FAIL_INHERIT:
    case SG_FAIL_LOCAL:
    default:
        out->source = SG_FROM_LOCAL;
        sg_memory_check(memory, check, conf->local_share_ppm, now_us, &out->verdict);
        break;
    }
}
