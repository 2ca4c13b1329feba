#include "store/redis_news.h"

#include "base/log.h"

#define LOG_PAUSE_US 5000000

void sg_redis_news_away(sg_redis_news_t *n, sg_store_err_t kind, const char *error, int64_t now_us)
{
    int64_t last_us = n->away ? n->told_us : n->away_us;
    n->known = true;
    if ((n->away && kind == n->told_kind) || (last_us && now_us - last_us < LOG_PAUSE_US))
        return;
    sg_log(SG_LOG_WARN, n->away ? "store still away" : "store away",
           SG_F_STR("kind", sg_store_err_name(kind)), SG_F_STR("error", error));
    if (!n->away)
        n->away_us = now_us;
    n->away = true;
    n->told_kind = kind;
    n->told_us = now_us;
}

void sg_redis_news_back(sg_redis_news_t *n, const char *place, int64_t now_us)
{
    if (!n->known)
        sg_log(SG_LOG_INFO, "store connected", SG_F_STR("address", place));
    else if (n->away)
        sg_log(SG_LOG_INFO, "store is back", SG_F_STR("address", place),
               SG_F_I64("after_ms", (now_us - n->away_us) / 1000));
    n->known = true;
    n->away = false;
}

void sg_redis_news_refused(sg_redis_news_t *n, sg_store_err_t kind, sg_str_t text, int64_t now_us)
{
    if (n->refused_us[kind] && now_us - n->refused_us[kind] < LOG_PAUSE_US)
        return;
    n->refused_us[kind] = now_us;
    sg_log(SG_LOG_WARN, "store refuses decisions", SG_F_STR("kind", sg_store_err_name(kind)),
           SG_F_VIEW("error", sg_str_n(text.p, text.n < 200 ? text.n : 200)));
}
