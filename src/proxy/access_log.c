#include "proxy/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"

enum { BACKLOG_BYTES = 8 * 1024 * 1024, LAST_LINES_S = 2 };

struct sg_access_log {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ready;
    sg_buf_t waiting; /* lines that are not written yet */
    int fd;           /* the file; -1 = off */
    bool stopping;
    atomic_bool on;
    atomic_uint_fast64_t dropped;
};

static void write_all(int fd, sg_str_t s)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            sg_log(SG_LOG_ERROR, "cannot write the access log", SG_F_STR("error", sg_errno_text(errno)));
            return;
        }
        s.p += n;
        s.n -= (size_t)n;
    }
}

static void *run(void *arg)
{
    sg_access_log_t *log = arg;
    sg_buf_t batch;
    sg_buf_init(&batch, BACKLOG_BYTES);
    (void)pthread_mutex_lock(&log->lock);
    for (;;) {
        while (sg_buf_len(&log->waiting) == 0 && !log->stopping)
            (void)pthread_cond_wait(&log->ready, &log->lock);
        if (sg_buf_len(&log->waiting) == 0)
            break;
        sg_buf_t full = log->waiting;
        log->waiting = batch;
        batch = full;
        int fd = log->fd < 0 ? -1 : dup(log->fd); /* a reopen may close it while this one is being written */
        (void)pthread_mutex_unlock(&log->lock);
        if (fd >= 0) {
            write_all(fd, sg_buf_str(&batch));
            (void)close(fd);
        }
        sg_buf_clear(&batch);
        (void)pthread_mutex_lock(&log->lock);
    }
    (void)pthread_mutex_unlock(&log->lock);
    sg_buf_deinit(&batch);
    return NULL;
}

/* To open a pipe that nobody reads would wait for a reader, and everything else with it: that is an error.
 * Writing may wait, it has a thread of its own. */
static int open_path(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return fd;
}

static sg_err_t open_where(const char *where, int *fd, sg_why_t *why)
{
    *fd = -1;
    if (strcmp(where, "off") == 0)
        return SG_OK;
    if (strcmp(where, "stdout") == 0)
        *fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    else
        *fd = open_path(where);
    if (*fd >= 0)
        return SG_OK;
    sg_why_set(why, "cannot open the access log %s: %s", where, sg_errno_text(errno));
    return SG_ERR_IO;
}

sg_access_log_t *sg_access_log_new(const char *where, sg_why_t *why)
{
    int fd;
    if (open_where(where, &fd, why))
        return NULL;
    sg_access_log_t *log = SG_NEW(sg_access_log_t);
    log->fd = fd;
    atomic_init(&log->on, fd >= 0);
    sg_buf_init(&log->waiting, BACKLOG_BYTES);
    (void)pthread_mutex_init(&log->lock, NULL);
    (void)pthread_cond_init(&log->ready, NULL);
    if (pthread_create(&log->thread, NULL, run, log) != 0) {
        sg_why_set(why, "cannot start the access log's thread");
        if (fd >= 0)
            (void)close(fd);
        sg_free(log);
        return NULL;
    }
    return log;
}

static bool ended_in_time(sg_access_log_t *log)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LAST_LINES_S;
    return pthread_timedjoin_np(log->thread, NULL, &until) == 0;
}

void sg_access_log_free(sg_access_log_t *log)
{
    if (!log)
        return;
    (void)pthread_mutex_lock(&log->lock);
    log->stopping = true;
    (void)pthread_cond_signal(&log->ready);
    (void)pthread_mutex_unlock(&log->lock);
    if (!ended_in_time(log)) {
        sg_log_event(SG_LOG_WARN, "the access log's last lines are lost: nothing reads them");
        return; /* the thread still uses it; the process ends soon */
    }
    if (log->fd >= 0)
        (void)close(log->fd);
    sg_buf_deinit(&log->waiting);
    (void)pthread_cond_destroy(&log->ready);
    (void)pthread_mutex_destroy(&log->lock);
    sg_free(log);
}

bool sg_access_log_is_on(const sg_access_log_t *log)
{
    return atomic_load_explicit(&log->on, memory_order_relaxed);
}

static uint64_t count_lines(sg_str_t s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == '\n';
    return n;
}

void sg_access_log_write(sg_access_log_t *log, sg_str_t lines)
{
    if (lines.n == 0)
        return;
    (void)pthread_mutex_lock(&log->lock);
    bool was_empty = sg_buf_len(&log->waiting) == 0;
    sg_buf_str_add(&log->waiting, lines);
    if (log->waiting.failed) {
        log->waiting.failed = false;
        atomic_fetch_add(&log->dropped, count_lines(lines));
    }
    if (was_empty)
        (void)pthread_cond_signal(&log->ready);
    (void)pthread_mutex_unlock(&log->lock);
}

sg_err_t sg_access_log_reopen(sg_access_log_t *log, const char *where, sg_why_t *why)
{
    int fd, old;
    sg_err_t err = open_where(where, &fd, why);
    if (err)
        return err;
    (void)pthread_mutex_lock(&log->lock);
    old = log->fd;
    log->fd = fd;
    (void)pthread_mutex_unlock(&log->lock);
    atomic_store(&log->on, fd >= 0);
    if (old >= 0)
        (void)close(old);
    return SG_OK;
}

uint64_t sg_access_log_dropped(const sg_access_log_t *log)
{
    return atomic_load(&log->dropped);
}
