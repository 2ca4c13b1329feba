#include "upstream/shared.h"

#include <curl/curl.h>
#include <pthread.h>

#include "base/mem.h"

struct sg_upstream_shared {
    pthread_mutex_t lock;
    sg_shared_target_t *first;
};

/* libcurl's own start is not safe beside other threads before 7.84: it happens here, in the thread that
 * makes the workers. */
sg_upstream_shared_t *sg_upstream_shared_new(void)
{
    sg_upstream_shared_t *s = SG_NEW(sg_upstream_shared_t);
    (void)pthread_mutex_init(&s->lock, NULL);
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
        sg_log_event(SG_LOG_ERROR, "libcurl cannot start");
    return s;
}

void sg_upstream_shared_free(sg_upstream_shared_t *s)
{
    while (s->first) {
        sg_shared_target_t *t = s->first;
        s->first = t->next;
        sg_free(t->key);
        sg_free(t);
    }
    (void)pthread_mutex_destroy(&s->lock);
    curl_global_cleanup();
    sg_free(s);
}

static sg_shared_target_t *find(sg_upstream_shared_t *s, const char *key)
{
    for (sg_shared_target_t *t = s->first; t; t = t->next)
        if (strcmp(t->key, key) == 0)
            return t;
    return NULL;
}

sg_shared_target_t *sg_shared_target_get(sg_upstream_shared_t *s, const char *upstream, const char *url)
{
    char *key = sg_asprintf("%s\n%s", upstream, url);
    (void)pthread_mutex_lock(&s->lock);
    sg_shared_target_t *t = find(s, key);
    if (!t) {
        t = SG_NEW(sg_shared_target_t);
        t->key = key;
        key = NULL;
        t->next = s->first;
        s->first = t;
    }
    t->refs++;
    (void)pthread_mutex_unlock(&s->lock);
    sg_free(key);
    return t;
}

void sg_shared_target_put(sg_upstream_shared_t *s, sg_shared_target_t *t)
{
    (void)pthread_mutex_lock(&s->lock);
    bool last = --t->refs == 0;
    if (last) {
        sg_shared_target_t **at = &s->first;
        while (*at != t)
            at = &(*at)->next;
        *at = t->next;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (last) {
        sg_free(t->key);
        sg_free(t);
    }
}

bool sg_shared_target_enter(sg_shared_target_t *t, int64_t max)
{
    int64_t before = atomic_fetch_add_explicit(&t->in_flight, 1, memory_order_relaxed);
    if (max <= 0 || before < max)
        return true;
    atomic_fetch_sub_explicit(&t->in_flight, 1, memory_order_relaxed);
    return false;
}

void sg_shared_target_leave(sg_shared_target_t *t)
{
    atomic_fetch_sub_explicit(&t->in_flight, 1, memory_order_relaxed);
}

bool sg_shared_target_is_ejected(const sg_shared_target_t *t, int64_t now_us)
{
    return atomic_load_explicit(&t->ejected_until_us, memory_order_relaxed) > now_us;
}

bool sg_shared_target_report(sg_shared_target_t *t, bool ok, unsigned limit, int64_t for_us, int64_t now_us)
{
    if (ok) {
        /* Mostly 0 already: a store would take the cache line from the other workers for each request. */
        if (atomic_load_explicit(&t->failures, memory_order_relaxed) != 0)
            atomic_store_explicit(&t->failures, 0, memory_order_relaxed);
        return false;
    }
    unsigned failures = atomic_fetch_add_explicit(&t->failures, 1, memory_order_relaxed) + 1;
    int64_t until = atomic_load_explicit(&t->ejected_until_us, memory_order_relaxed);
    if (limit == 0 || failures < limit || until > now_us)
        return false;
    return atomic_compare_exchange_strong(&t->ejected_until_us, &until, now_us + for_us);
}

bool sg_shared_target_claim_check(sg_shared_target_t *t, int64_t interval_us, int64_t now_us)
{
    int64_t due = atomic_load_explicit(&t->next_check_us, memory_order_relaxed);
    return due <= now_us && atomic_compare_exchange_strong(&t->next_check_us, &due, now_us + interval_us);
}

bool sg_shared_target_checked(sg_shared_target_t *t, bool passed, unsigned healthy, unsigned unhealthy)
{
    atomic_store(passed ? &t->checks_failed : &t->checks_passed, 0);
    unsigned run = atomic_fetch_add(passed ? &t->checks_passed : &t->checks_failed, 1) + 1;
    if (run < (passed ? healthy : unhealthy))
        return false;
    return atomic_exchange(&t->down, !passed) == passed;
}
