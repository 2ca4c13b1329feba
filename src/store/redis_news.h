/* redis_news.h - what the log says of one server: that it is away, is back, refuses; once each, and not many
 * times a second. */
#ifndef SG_STORE_REDIS_NEWS_H
#define SG_STORE_REDIS_NEWS_H

#include "base/str.h"
#include "metrics/metrics.h"

/* Zeroed memory is a server of which nothing has been said. */
typedef struct {
    bool away;  /* was logged */
    bool known; /* it has answered, or has been away */
    sg_store_err_t told_kind;
    int64_t away_us, told_us, refused_us[SG_STORE_ERR_COUNT];
} sg_redis_news_t;

/* now_us: monotonic. Why it does not answer may change: that is logged as well. */
void sg_redis_news_away(sg_redis_news_t *n, sg_store_err_t kind, const char *error, int64_t now_us);
/* It answers. `place`: host:port, or the socket. */
void sg_redis_news_back(sg_redis_news_t *n, const char *place, int64_t now_us);
/* An error reply to a decision. */
void sg_redis_news_refused(sg_redis_news_t *n, sg_store_err_t kind, sg_str_t text, int64_t now_us);

#endif
