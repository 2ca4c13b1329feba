#include "signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/mem.h"

struct sg_signals {
    sg_loop_t *loop;
    int fd;
    sg_watch_t watch;
    sg_signal_fn *fn;
    void *arg;
};

static sigset_t handled(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGQUIT);
    (void)sigaddset(&set, SIGUSR1);
    return set;
}

void sg_signals_block(void)
{
    sigset_t set = handled();
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static void on_signal(void *arg, unsigned events)
{
    sg_signals_t *s = arg;
    struct signalfd_siginfo info;
    (void)events;
    while (read(s->fd, &info, sizeof info) == (ssize_t)sizeof info)
        s->fn(s->arg, (int)info.ssi_signo);
}

sg_signals_t *sg_signals_new(sg_loop_t *loop, sg_signal_fn *fn, void *arg)
{
    sigset_t set = handled();
    sg_signals_t *s = SG_NEW(sg_signals_t);
    s->loop = loop;
    s->fn = fn;
    s->arg = arg;
    s->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    sg_watch_start(loop, &s->watch, s->fd, SG_EV_READ, on_signal, s);
    return s;
}

void sg_signals_free(sg_signals_t *s)
{
    if (!s)
        return;
    sg_watch_stop(s->loop, &s->watch);
    (void)close(s->fd);
    sg_free(s);
}
