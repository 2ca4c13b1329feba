/* upstream_fixture.h - a loop, one upstream and listening sockets for the tests of upstream/. */
#ifndef SG_TESTS_UPSTREAM_FIXTURE_H
#define SG_TESTS_UPSTREAM_FIXTURE_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "event/loop.h"
#include "upstream/upstream.h"

enum { TARGETS_MAX = 4, PATIENCE_US = 10000000 };

/* A config of one upstream, written by hand. */
typedef struct {
    sg_config_t config;
    sg_upstream_conf_t upstream;
    sg_target_conf_t targets[TARGETS_MAX];
    char urls[TARGETS_MAX][160];
} conf_t;

typedef struct {
    sg_loop_t *loop;
    sg_upstream_shared_t *shared;
    sg_upstreams_t *ups;
    conf_t conf;
} fixture_t;

/* What a dial came to. */
typedef struct {
    sg_conn_t *conn;
    sg_dial_t *dial;
    sg_err_t err;
    bool done;
    char text[256];
} dialed_t;

static inline int listen_on(unsigned *port, int backlog)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    *port = ntohs(sa.sin_port);
    return fd;
}

static inline int count_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static inline void conf_init(conf_t *c)
{
    memset(c, 0, sizeof *c);
    c->upstream.name = (char *)(uintptr_t)"users";
    c->upstream.targets = c->targets;
    c->upstream.connect_timeout_us = 5000000;
    c->upstream.timeout_us = 5000000;
    c->upstream.idle_timeout_us = 60000000;
    c->upstream.resolve_interval_us = 30000000;
    c->upstream.tls.verify = true;
    c->config.upstreams = &c->upstream;
    c->config.upstream_count = 1;
}

static inline sg_target_conf_t *conf_add(conf_t *c, bool https, const char *host, unsigned port)
{
    size_t i = c->upstream.target_count++;
    snprintf(c->urls[i], sizeof c->urls[i], "%s://%s:%u", https ? "https" : "http", host, port);
    c->targets[i] = (sg_target_conf_t){.url = c->urls[i], .https = https, .port = port, .weight = 1};
    c->targets[i].host = (char *)(uintptr_t)host;
    return &c->targets[i];
}

static inline void fixture_start(fixture_t *f)
{
    f->loop = sg_loop_new();
    f->shared = sg_upstream_shared_new();
    f->ups = sg_upstreams_new(f->loop, &f->conf.config, f->shared, NULL);
}

static inline void fixture_stop(fixture_t *f)
{
    sg_upstreams_free(f->ups);
    sg_loop_turn(f->loop, 0);
    sg_upstream_shared_free(f->shared);
    sg_loop_free(f->loop);
}

/* Turn the loop until the condition holds; fails the test after a time that no machine needs. */
#define TURN_UNTIL(f, condition)                                                                   \
    do {                                                                                           \
        int64_t give_up_us = sg_clock_mono_us() + PATIENCE_US;                                     \
        while (!(condition)) {                                                                     \
            if (sg_clock_mono_us() > give_up_us)                                                   \
                fail_msg("never came true: %s", #condition);                                       \
            sg_loop_turn((f)->loop, 20000);                                                        \
        }                                                                                          \
    } while (0)

static inline void on_dialed(void *arg, sg_err_t err, sg_conn_t *conn, const char *text)
{
    dialed_t *d = arg;
    assert_false(d->done);
    d->done = true;
    d->err = err;
    d->conn = conn;
    snprintf(d->text, sizeof d->text, "%s", text);
}

static inline sg_err_t dial_request(fixture_t *f, const sg_dial_request_t *req, dialed_t *d)
{
    memset(d, 0, sizeof *d);
    sg_err_t err = sg_upstream_dial(f->ups, req, &d->conn, &d->dial, on_dialed, d);
    assert_false(d->done);      /* never from inside the call */
    return err;
}

static inline sg_err_t dial_start(fixture_t *f, dialed_t *d)
{
    sg_dial_request_t req = {.upstream = &f->conf.upstream};
    return dial_request(f, &req, d);
}

/* A new connection, made. */
static inline sg_conn_t *dial_new(fixture_t *f)
{
    dialed_t d;
    assert_int_equal(dial_start(f, &d), SG_ERR_AGAIN);
    TURN_UNTIL(f, d.done);
    if (d.err != SG_OK)
        fail_msg("dial: %s", d.text);
    assert_non_null(d.conn);
    return d.conn;
}

/* One out of the pool. */
static inline sg_conn_t *dial_pooled(fixture_t *f)
{
    dialed_t d;
    assert_int_equal(dial_start(f, &d), SG_OK);
    assert_non_null(d.conn);
    assert_true(sg_conn_reused(d.conn));
    return d.conn;
}

/* A dial that must fail. */
static inline void dial_fails(fixture_t *f, sg_err_t err)
{
    dialed_t d;
    assert_int_equal(dial_start(f, &d), SG_ERR_AGAIN);
    TURN_UNTIL(f, d.done);
    assert_int_equal(d.err, err);
    assert_null(d.conn);
    assert_true(strlen(d.text) > 0);
}

static inline sg_target_status_t status_of(fixture_t *f, unsigned target)
{
    sg_target_status_t s;
    sg_upstream_status(f->ups, &f->conf.upstream, target, &s);
    return s;
}

static inline void send_all(fixture_t *f, sg_conn_t *c, const char *data, size_t len)
{
    size_t done = 0, n = 0;
    int64_t give_up_us = sg_clock_mono_us() + PATIENCE_US;
    while (done < len) {
        sg_err_t err = sg_conn_send(c, data + done, len - done, &n);
        if (err == SG_OK)
            done += n;
        else
            assert_int_equal(err, SG_ERR_AGAIN);
        if (err == SG_ERR_AGAIN)
            sg_loop_turn(f->loop, 1000);
        assert_true(sg_clock_mono_us() < give_up_us);
    }
}

#endif
