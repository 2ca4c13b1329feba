#include "store/breaker.h"

sg_admit_t sg_breaker_admit(sg_breaker_t *b)
{
    if (b->state == SG_BREAKER_CLOSED)
        return SG_ADMIT_YES;
    if (b->state == SG_BREAKER_OPEN || b->trial_out)
        return SG_ADMIT_NO;
    b->trial_out = true;
    return SG_ADMIT_TRIAL;
}

bool sg_breaker_succeeded(sg_breaker_t *b)
{
    bool doubted = b->failures > 0 || b->state == SG_BREAKER_TRIAL;
    b->failures = 0;
    if (b->state == SG_BREAKER_TRIAL) {
        b->trial_out = false;
        b->state = SG_BREAKER_CLOSED;
    }
    return doubted;
}

bool sg_breaker_failed(sg_breaker_t *b)
{
    if (b->state == SG_BREAKER_OPEN)
        return false;
    if (b->state == SG_BREAKER_CLOSED && ++b->failures < SG_BREAKER_FAILURES)
        return false;
    b->state = SG_BREAKER_OPEN;
    b->failures = 0;
    b->trial_out = false;
    return true;
}

void sg_breaker_trial_gone(sg_breaker_t *b)
{
    b->trial_out = false;
}

void sg_breaker_probed(sg_breaker_t *b)
{
    if (b->state == SG_BREAKER_OPEN) {
        b->state = SG_BREAKER_TRIAL;
        b->trial_out = false;
    }
}

bool sg_breaker_rested(sg_breaker_t *b)
{
    return b->state != SG_BREAKER_OPEN && !b->trial_out && sg_breaker_succeeded(b);
}
