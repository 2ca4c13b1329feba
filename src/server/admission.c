#include "server/admission.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "base/mem.h"

#define HASH_FUNCTION(p, n, out) ((out) = (unsigned)sg_siphash(sg_str_n((const char *)(p), (n))))
#include <uthash.h>

typedef struct {
    sg_addr_t peer;
    int64_t count;
    UT_hash_handle hh;
} peer_t;

struct sg_admission {
    atomic_int_fast64_t total;
    pthread_mutex_t lock;
    peer_t *peers;
};

sg_admission_t *sg_admission_new(void)
{
    sg_admission_t *a = SG_NEW(sg_admission_t);
    (void)pthread_mutex_init(&a->lock, NULL);
    return a;
}

void sg_admission_free(sg_admission_t *a)
{
    if (!a)
        return;
    peer_t *p, *next;
    HASH_ITER (hh, a->peers, p, next) {
        HASH_DEL(a->peers, p);
        sg_free(p);
    }
    (void)pthread_mutex_destroy(&a->lock);
    sg_free(a);
}

static bool enter_peer(sg_admission_t *a, const sg_addr_t *peer, int64_t max)
{
    peer_t *p = NULL;
    (void)pthread_mutex_lock(&a->lock);
    HASH_FIND(hh, a->peers, peer, sizeof *peer, p);
    if (!p) {
        p = SG_NEW(peer_t);
        p->peer = *peer;
        HASH_ADD(hh, a->peers, peer, sizeof p->peer, p);
    }
    bool ok = p->count < max;
    if (ok)
        p->count++;
    (void)pthread_mutex_unlock(&a->lock);
    return ok;
}

static void leave_peer(sg_admission_t *a, const sg_addr_t *peer)
{
    peer_t *p = NULL;
    (void)pthread_mutex_lock(&a->lock);
    HASH_FIND(hh, a->peers, peer, sizeof *peer, p);
    if (p && --p->count == 0) {
        HASH_DEL(a->peers, p);
        sg_free(p);
    }
    (void)pthread_mutex_unlock(&a->lock);
}

bool sg_admission_enter(sg_admission_t *a, const sg_addr_t *peer, int64_t max_total, int64_t max_per_ip,
                        bool *counted)
{
    *counted = false;
    int64_t before = atomic_fetch_add(&a->total, 1);
    if (max_total > 0 && before >= max_total) {
        atomic_fetch_sub(&a->total, 1);
        return false;
    }
    if (!peer || max_per_ip <= 0)
        return true;
    if (!enter_peer(a, peer, max_per_ip)) {
        atomic_fetch_sub(&a->total, 1);
        return false;
    }
    *counted = true;
    return true;
}

void sg_admission_leave(sg_admission_t *a, const sg_addr_t *peer, bool counted)
{
    atomic_fetch_sub(&a->total, 1);
    if (counted)
        leave_peer(a, peer);
}

int64_t sg_admission_total(const sg_admission_t *a)
{
    return atomic_load(&a->total);
}
