/* store_fixture.h - a real redis-server on a unix socket in a folder of its own, a config written
 * by hand, and a loop that turns until something is so. For the tests of store/. */
#ifndef SG_TESTS_STORE_FIXTURE_H
#define SG_TESTS_STORE_FIXTURE_H

#include <arpa/inet.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "store/redis.h"
#include "store/store.h"

#define PATIENCE_US 10000000    /* for what must happen at all */
/* store.timeout: where the server answers, and on a busy machine too; where it never will. */
#define ANSWER_US 5000000
#define TIMEOUT_US 200000

typedef struct {
    char dir[64], socket[96], log[96];
    char port[8];               /* "0": the unix socket only */
    char bus_port[8];           /* "" outside a cluster */
    pid_t pid;
    sg_loop_t *loop;
    sg_metrics_t *metrics;
    sg_metrics_block_t *block;
    sg_memory_t *memory;
    sg_blocks_t *blocks;
    sg_config_t conf;
    sg_store_t *store;
} fixture_t;

/* --- redis-server ------------------------------------------------------------------------------------ */

static inline redisContext *server_connect(fixture_t *f)
{
    redisContext *c = f->socket[0] ? redisConnectUnix(f->socket)
                                   : redisConnect("127.0.0.1", (int)strtol(f->port, NULL, 10));
    if (c && c->err) {
        redisFree(c);
        c = NULL;
    }
    return c;
}

/* One command, words between single spaces; a status, a text or an integer comes back as text: free it. */
static inline char *say(fixture_t *f, const char *line)
{
    const char *words[32];
    size_t lens[32];
    int n = 0;
    sg_str_t rest = sg_str(line), word;
    while (n < 32 && sg_str_next(&rest, ' ', &word)) {
        words[n] = word.p;
        lens[n++] = word.n;
    }
    redisContext *c = server_connect(f);
    assert_non_null(c);
    redisReply *r = redisCommandArgv(c, n, words, lens);
    assert_non_null(r);
    char *text = r->type == REDIS_REPLY_INTEGER ? sg_asprintf("%lld", r->integer)
                                                : sg_strdup(r->str ? r->str : "");
    freeReplyObject(r);
    redisFree(c);
    return text;
}

SG_PRINTF(3, 4) static inline void say_expect(fixture_t *f, const char *expected, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    char *got = say(f, line);
    assert_string_equal(got, expected);
    sg_free(got);
}

static inline bool server_answers(fixture_t *f)
{
    redisContext *c = server_connect(f);
    if (!c)
        return false;
    redisReply *r = redisCommand(c, "PING");
    bool ok = r && r->type == REDIS_REPLY_STATUS;
    if (r)
        freeReplyObject(r);
    redisFree(c);
    return ok;
}

static inline void server_stop(fixture_t *f)
{
    if (f->pid <= 0)
        return;
    (void)kill(f->pid, SIGKILL);
    (void)waitpid(f->pid, NULL, 0);
    f->pid = 0;
}

/* SG_STORE_INFO is what INFO of every server must have, so that nobody tests another one than was meant. */
static inline void server_is_meant(fixture_t *f)
{
    const char *meant = getenv("SG_STORE_INFO");
    if (!meant)
        return;
    char *info = say(f, "INFO server");
    if (!strstr(info, meant)) {
        server_stop(f);
        fail_msg("not \"%s\" but %s", meant, info);
    }
    sg_free(info);
}

static inline void server_wait(fixture_t *f)
{
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    while (!server_answers(f)) {
        assert_true(sg_clock_mono_us() < end_us);
        assert_int_equal(waitpid(f->pid, NULL, WNOHANG), 0);
        (void)usleep(5000);
    }
    server_is_meant(f);
}

static inline void server_start(fixture_t *f)
{
    f->pid = fork();
    assert_true(f->pid >= 0);
    if (f->pid == 0) {
        (void)setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", 1);
        const char *argv[32] = {"redis-server", "--bind", "127.0.0.1", "--port", f->port,
                                "--unixsocket", f->socket, "--dir", f->dir, "--logfile", f->log,
                                "--save", "", "--appendonly", "no", "--daemonize", "no"};
        const char *cluster[] = {"--cluster-enabled", "yes", "--cluster-port", f->bus_port,
                                 "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000"};
        if (f->bus_port[0])
            memcpy(argv + 17, cluster, sizeof cluster);
        (void)execvp(argv[0], (char **)(uintptr_t)argv);
        _exit(127);
    }
    server_wait(f);
}

/* A port that was free a moment ago. */
static inline void free_port(char port[8])
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    (void)close(fd);
    (void)snprintf(port, 8, "%u", ntohs(sa.sin_port));
}

/* --- set-up -------------------------------------------------------------------------------------------- */

/* A place for a server. */
static inline void place_new(fixture_t *f)
{
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/sg-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->socket, sizeof f->socket, "%s/redis.sock", f->dir);
    (void)snprintf(f->log, sizeof f->log, "%s/redis.log", f->dir);
    (void)snprintf(f->port, sizeof f->port, "0");
}

static inline void place_free(fixture_t *f)
{
    char *nodes = sg_asprintf("%s/nodes.conf", f->dir);
    server_stop(f);
    (void)unlink(nodes);
    sg_free(nodes);
    (void)unlink(f->socket);
    (void)unlink(f->log);
    (void)rmdir(f->dir);
}

static inline fixture_t *fixture_new(void)
{
    fixture_t *f = SG_NEW(fixture_t);
    (void)signal(SIGPIPE, SIG_IGN);
    place_new(f);
    f->loop = sg_loop_new();
    f->metrics = sg_metrics_new();
    f->block = sg_metrics_block(f->metrics);
    f->memory = sg_memory_new(10000);
    f->blocks = sg_blocks_new();
    f->conf.refs = 1;
    f->conf.store = (sg_store_conf_t){.type = SG_STORE_REDIS,
                                      .unix_path = f->socket,
                                      .timeout_us = ANSWER_US,
                                      .on_failure = SG_FAIL_LOCAL,
                                      .local_share_ppm = 1000000,
                                      .key_prefix = SG_STR("rl"),
                                      .key_version = SG_STR("v1")};
    return f;
}

static inline void open_store(fixture_t *f)
{
    f->store = sg_store_new(f->loop, &f->conf, f->memory, f->blocks, f->block);
}

static inline void close_store(fixture_t *f)
{
    if (f->store)
        sg_store_free(f->store);
    f->store = NULL;
}

static inline void fixture_free(fixture_t *f)
{
    close_store(f);
    sg_loop_turn(f->loop, 0);
    sg_loop_free(f->loop);
    sg_memory_free(f->memory);
    sg_blocks_free(f->blocks);
    sg_metrics_free(f->metrics);
    place_free(f);
    sg_free(f);
}

static inline int with_server(void **state)
{
    fixture_t *f = fixture_new();
    server_start(f);
    *state = f;
    return 0;
}

static inline int without_server(void **state)
{
    *state = fixture_new();
    return 0;
}

static inline int teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

/* --- limits and checks ------------------------------------------------------------------------ */

static inline void limit_finish(sg_limit_t *l)
{
    sg_why_t why = {""};
    if (sg_limit_finish(l, &why) != SG_OK)
        fail_msg("%s", why.text);
}

static inline sg_limit_t fixed_window(int64_t units)
{
    sg_limit_t l = {
        .name = "all.hourly", .algo = SG_ALGO_FIXED_WINDOW, .limit = units, .window_us = INT64_C(3600000000)};
    limit_finish(&l);
    return l;
}

static inline sg_limit_t concurrency(int64_t slots)
{
    sg_limit_t l = {.name = "all.slots", .algo = SG_ALGO_CONCURRENCY, .limit = slots, .lease_us = 60000000};
    limit_finish(&l);
    return l;
}

/* Slow enough that nothing comes back during a test. */
static inline sg_limit_t bucket(int64_t units)
{
    sg_limit_t l = {.name = "all.burst", .algo = SG_ALGO_TOKEN_BUCKET, .limit = units, .rate_count = 1,
                    .rate_us = INT64_C(3600000000)};
    limit_finish(&l);
    return l;
}

typedef struct {
    const sg_limit_t *limits[4];
    char lease[SG_RANDOM_ID_BYTES];
    sg_check_t check;
} asked_t;

static inline void ask_for(fixture_t *f, asked_t *q, const char *tag, const sg_limit_t *l)
{
    sg_random_id(q->lease);
    q->limits[0] = l;
    q->check = (sg_check_t){
        .limits = q->limits,
        .count = 1,
        .cost = 1,
        .scope = {f->conf.store.key_prefix, f->conf.store.key_version, tag, NULL, "ipipipipipipipipipipip"},
        .lease = q->lease};
}

typedef struct {
    int calls;
    sg_answer_t a;
} got_t;

static inline void on_answer(void *arg, const sg_answer_t *a)
{
    got_t *g = arg;
    g->calls++;
    g->a = *a;
}

static inline void turn(fixture_t *f)
{
    sg_loop_turn(f->loop, 5000);
}

static inline void wait_for(fixture_t *f, const got_t *g)
{
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    while (g->calls == 0 && sg_clock_mono_us() < end_us)
        turn(f);
    assert_int_equal(g->calls, 1);
}

/* NULL: answered at once. */
static inline sg_ticket_t *begin(fixture_t *f, const asked_t *q, got_t *g)
{
    sg_ticket_t *t = NULL;
    *g = (got_t){0};
    if (!sg_store_check(f->store, &q->check, &g->a, &t, on_answer, g)) {
        assert_int_equal(g->calls, 0);
        return t;
    }
    g->calls = 1;
    return NULL;
}

static inline sg_answer_t decide(fixture_t *f, const asked_t *q)
{
    got_t g;
    if (begin(f, q, &g))
        wait_for(f, &g);
    return g.a;
}

static inline sg_answer_t decide_one(fixture_t *f, const char *tag, const sg_limit_t *l)
{
    asked_t q;
    ask_for(f, &q, tag, l);
    return decide(f, &q);
}

/* Until the store answers again; the number of decisions that it took is bounded by time only. */
static inline void decide_until(fixture_t *f, const char *tag, const sg_limit_t *l, sg_source_t source)
{
    int64_t end_us = sg_clock_mono_us() + PATIENCE_US;
    while (decide_one(f, tag, l).source != source) {
        assert_true(sg_clock_mono_us() < end_us);
        turn(f);
    }
}

/* "slotgate_store_errors_total{kind=\"oom\"} 1" stands in the exposition. */
/* A decision that a healthy server made: allowed, one unit taken of each limit. */
static inline sg_answer_t made(const asked_t *q)
{
    sg_answer_t a = {.source = SG_FROM_STORE,
                     .verdict = {.allowed = true, .now_us = sg_clock_wall_us(), .count = q->check.count}};
    for (size_t i = 0; i < q->check.count; i++)
        a.verdict.at[i].allowed = true;
    return a;
}

static inline bool metrics_say(fixture_t *f, const char *line)
{
    sg_buf_t b;
    sg_buf_init(&b, (size_t)1 << 20);
    sg_metrics_write(f->metrics, SG_EXPOSE_PROMETHEUS, &b);
    sg_buf_char(&b, '\0');
    char *with_end = sg_asprintf("\n%s\n", line);
    bool found = strstr(b.data + b.start, with_end) != NULL;
    sg_free(with_end);
    sg_buf_deinit(&b);
    return found;
}

#endif
