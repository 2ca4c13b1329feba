#include "metrics/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

/* Field numbers of proc(5), /proc/pid/stat, counted from 1. */
enum { STAT_STATE = 3, STAT_START_TICKS = 22, STAT_VSIZE = 23, STAT_RSS_PAGES = 24, STAT_LAST = 24 };

typedef struct {
    uint64_t at[STAT_LAST + 1];
} stat_t;

static void stat_read(stat_t *out)
{
    char text[1024];
    *out = (stat_t){0};
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    if (n <= 0)
        return;
    /* The command's name stands in parentheses and may hold any byte: the rest begins after the last. */
    const char *close_paren = memrchr(text, ')', (size_t)n);
    if (!close_paren || close_paren + 2 >= text + n)
        return;
    sg_str_t rest = sg_str_n(close_paren + 2, (size_t)(text + n - close_paren - 2)), word;
    for (int i = STAT_STATE; i <= STAT_LAST && sg_str_next(&rest, ' ', &word); i++) {
        if (sg_str_u64(word, UINT64_MAX, &out->at[i]) != SG_OK)
            out->at[i] = 0;
    }
}

static uint64_t count_fds(void)
{
    uint64_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n > 3 ? n - 3 : 0;   /* ".", ".." and the one that reads */
}

static uint64_t clock_us(clockid_t id)
{
    struct timespec ts;
    if (clock_gettime(id, &ts) != 0)
        return 0;
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void sg_process_read(sg_process_t *out)
{
    stat_t st;
    struct rlimit fds;
    stat_read(&st);
    out->cpu_us = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    out->virtual_bytes = st.at[STAT_VSIZE];
    out->resident_bytes = st.at[STAT_RSS_PAGES] * (uint64_t)sysconf(_SC_PAGESIZE);
    out->open_fds = count_fds();
    out->max_fds = getrlimit(RLIMIT_NOFILE, &fds) == 0 ? (uint64_t)fds.rlim_cur : 0;
}

int64_t sg_process_start_us(void)
{
    stat_t st;
    stat_read(&st);
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t start_us = st.at[STAT_START_TICKS] * (1000000 / ticks);
    return sg_clock_wall_us() - (int64_t)(clock_us(CLOCK_BOOTTIME) - start_us);
}
