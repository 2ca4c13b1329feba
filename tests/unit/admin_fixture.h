/* A gateway as the admin listener sees it, and a client that speaks raw HTTP to it over loopback. */
#ifndef ADMIN_FIXTURE_H
#define ADMIN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "admin/admin.h"
#include "base/clock.h"
#include "base/mem.h"

#define DEADLINE_US 10000000

typedef struct {
    sg_loop_t *loop;
    sg_metrics_t *metrics;
    sg_metrics_block_t *block;
    sg_config_t *config;
    sg_admin_t *admin;
    char folder[32];
    /* what the host's functions answer */
    const char *load_error;
    bool draining, store_up, ready;
    const char *reload_yaml;            /* NULL: the load fails */
    sg_answer_t answer;
    bool late;                          /* answers of the store come later */
    bool reset_late;
    const char *reset_error;
    /* what they saw */
    unsigned reloads, resets, cancels;
    char reset_tag[SG_TAG_CHARS + 1];
    struct {
        size_t count;
        int64_t cost;
        const char *key;
    } asked[8];
    size_t asked_count;
    /* what is out */
    sg_answer_fn *answer_fn;
    void *answer_arg;
    sg_admin_reset_fn *reset_fn;
    void *reset_arg;
    sg_timer_t timer;
} fixture_t;

static const char *const small_yaml =
    "admin: {listen: \"127.0.0.1:0\"}\n"
    "classes:\n"
    "  all: [{name: daily, algorithm: fixed_window, limit: 1000, window: 1d, per: tenant}]\n"
    "  search:\n"
    "    - {name: burst, algorithm: token_bucket, capacity: 20, refill: 10/s, per: key}\n"
    "    - {name: trial, algorithm: gcra, rate: 5/s, burst: 10, per: ip, dry_run: true}\n"
    "tenants:\n"
    "  acme:\n"
    "    keys:\n"
    "      - {id: prod, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}\n"
    "      - {id: trial, sha256: 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752}\n"
    "  \"big corp/x\": {}\n"
    "upstreams: {users: {targets: [{url: \"http://127.0.0.1:8000\"}]}}\n"
    "routes:\n"
    "  - {name: everything, match: {path: \"/*\"}, auth: optional, classes: [all, search], upstream: "
    "users}\n";

static sg_config_t *load_yaml(const fixture_t *f, const char *yaml)
{
    char *path = sg_asprintf("%s/slotgate.yaml", f->folder);
    FILE *file = fopen(path, "w");
    sg_diags_t diags = {0};
    assert_non_null(file);
    fputs(yaml, file);
    fclose(file);
    sg_config_t *c = sg_config_load(path, f->metrics, &diags);
    if (!c)
        sg_diags_print(&diags, stderr);
    sg_diags_deinit(&diags);
    unlink(path);
    sg_free(path);
    return c;
}

static void write_file(const fixture_t *f, const char *name, const char *text)
{
    char *path = sg_asprintf("%s/%s", f->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, 0600);
    sg_free(path);
}

/* --- the host ------------------------------------------------------------------------------------------ */

static sg_config_t *host_config(void *arg)
{
    return ((fixture_t *)arg)->config;
}

static const char *host_load_error(void *arg)
{
    return ((fixture_t *)arg)->load_error;
}

static bool host_draining(void *arg)
{
    return ((fixture_t *)arg)->draining;
}

static bool host_ready(void *arg, sg_why_t *why)
{
    fixture_t *f = arg;
    sg_why_set(why, "%s", f->ready ? "running" : "worker 1 does not turn");
    return f->ready;
}

static size_t host_workers(void *arg)
{
    (void)arg;
    return 2;
}

static void host_store_status(void *arg, size_t worker, sg_store_status_t *out)
{
    fixture_t *f = arg;
    *out =
        (sg_store_status_t){.type = "redis", .up = f->store_up, .breaker_open = worker == 1 && !f->store_up};
    snprintf(out->error, sizeof out->error, "%s", f->store_up ? "" : "timeout");
}

static void host_target_status(void *arg, const sg_upstream_conf_t *u, unsigned target,
                               sg_target_status_t *out)
{
    (void)arg;
    (void)u;
    *out = (sg_target_status_t){.idle = 3, .busy = 2 + target, .up = true};
}

static bool host_reload(void *arg, sg_buf_t *text)
{
    fixture_t *f = arg;
    sg_why_t why;
    f->reloads++;
    if (!f->reload_yaml) {
        sg_buf_z(text, "slotgate.yaml:3:1: error: unknown key\nslotgate.yaml:9:5: error: another\n");
        return false;
    }
    sg_config_t *old = f->config;
    f->config = load_yaml(f, f->reload_yaml);
    assert_non_null(f->config);
    sg_config_unref(old);
    assert_int_equal(sg_admin_reload(f->admin, f->config, &why), SG_OK);
    return true;
}

static bool host_check(sg_store_t *store, const sg_check_t *check, sg_answer_t *now, sg_ticket_t **ticket,
                       sg_answer_fn *fn, void *fn_arg)
{
    fixture_t *f = (fixture_t *)(void *)store;
    if (f->asked_count < 8) {
        f->asked[f->asked_count].count = check->count;
        f->asked[f->asked_count].cost = check->cost;
        f->asked[f->asked_count++].key = check->scope.key;
    }
    f->answer.verdict.count = check->count;
    for (size_t i = 0; i < check->count; i++) {
        f->answer.verdict.at[i].remaining = check->limits[i]->limit - 7;
        f->answer.verdict.at[i].reset_us = 1500001;
    }
    if (!f->late) {
        *now = f->answer;
        return true;
    }
    *ticket = (sg_ticket_t *)(void *)f;
    f->answer_fn = fn;
    f->answer_arg = fn_arg;
    return false;
}

static void host_cancel(sg_ticket_t *ticket)
{
    fixture_t *f = (fixture_t *)(void *)ticket;
    f->cancels++;
    f->answer_fn = NULL;
}

static size_t host_memory_reset(sg_memory_t *memory, const char *tag)
{
    fixture_t *f = (fixture_t *)(void *)memory;
    f->resets++;
    snprintf(f->reset_tag, sizeof f->reset_tag, "%s", tag);
    return 3;
}

static void host_reset(void *arg, const sg_tenant_t *tenant, sg_admin_reset_fn *done, void *done_arg)
{
    fixture_t *f = arg;
    (void)tenant;
    if (!f->reset_late) {
        done(done_arg, 4, f->reset_error);
        return;
    }
    f->reset_fn = done;
    f->reset_arg = done_arg;
}

/* --- start and end ------------------------------------------------------------------------------------- */

static sg_admin_host_t host_of(fixture_t *f)
{
    return (sg_admin_host_t){
        .arg = f, .config = host_config, .load_error = host_load_error, .draining = host_draining,
        .ready = host_ready, .workers = host_workers, .store_status = host_store_status,
        .target_status = host_target_status, .reload = host_reload, .store = (sg_store_t *)(void *)f,
        .check = host_check, .cancel = host_cancel, .memory = (sg_memory_t *)(void *)f,
        .memory_reset = host_memory_reset, .metrics = f->metrics};
}

static fixture_t *fixture_new(void)
{
    fixture_t *f = SG_NEW(fixture_t);
    snprintf(f->folder, sizeof f->folder, "/tmp/sg-admin-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->loop = sg_loop_new();
    f->metrics = sg_metrics_new();
    f->block = sg_metrics_block(f->metrics);
    f->store_up = f->ready = true;
    f->answer.source = SG_FROM_STORE;
    sg_log_set(SG_LOG_ERROR, true);
    return f;
}

static void fixture_start(fixture_t *f, const char *yaml, bool with_reset)
{
    sg_why_t why = {0};
    sg_admin_host_t host = host_of(f);
    if (with_reset)
        host.reset = host_reset;
    f->config = load_yaml(f, yaml);
    assert_non_null(f->config);
    f->admin = sg_admin_new(f->loop, &host, f->config, &why);
    if (!f->admin)
        fail_msg("%s", why.text);
}

static void fixture_free(fixture_t *f)
{
    sg_timer_stop(f->loop, &f->timer);
    sg_admin_free(f->admin);
    sg_config_unref(f->config);
    sg_metrics_free(f->metrics);
    sg_loop_free(f->loop);
    char *token = sg_asprintf("%s/token", f->folder);
    unlink(token);
    sg_free(token);
    assert_int_equal(rmdir(f->folder), 0);
    sg_free(f);
}

/* --- the client ---------------------------------------------------------------------------------------- */

static int dial(const fixture_t *f, size_t listener)
{
    const char *address = sg_admin_address(f->admin, listener);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    bool is_unix = strncmp(address, "unix:", 5) == 0;
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (is_unix)
        snprintf(un.sun_path, sizeof un.sun_path, "%s", address + 5);
    else
        in.sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
    const struct sockaddr *sa = is_unix ? (const struct sockaddr *)&un : (const struct sockaddr *)&in;
    assert_int_equal(connect(fd, sa, is_unix ? sizeof un : sizeof in), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void say(int fd, const char *request)
{
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
}

/* Turns the loop until the peer has closed; all it sent, NUL-terminated. */
static char *hear(const fixture_t *f, int fd)
{
    sg_buf_t in = {0};
    int64_t deadline = sg_clock_mono_us() + DEADLINE_US;
    sg_buf_init(&in, 16 << 20);
    for (;;) {
        size_t room;
        char *at = sg_buf_room(&in, 4096, &room);
        ssize_t n = recv(fd, at, room, 0);
        if (n == 0)
            break;
        if (n > 0)
            sg_buf_added(&in, (size_t)n);
        else if (errno != EAGAIN)
            fail_msg("recv: %s", sg_errno_text(errno));
        if (sg_clock_mono_us() > deadline)
            fail_msg("no end of the answer after %.*s", SG_STR_ARG(sg_buf_str(&in)));
        sg_loop_turn(f->loop, 1000);
    }
    close(fd);
    char *text = sg_strndup(sg_buf_str(&in));
    sg_buf_deinit(&in);
    return text;
}

/* A request whose connection ends with its answer. `fields` are whole lines with CRLF. */
static char *ask(const fixture_t *f, const char *method, const char *target, const char *fields)
{
    int fd = dial(f, 0);
    char *request =
        sg_asprintf("%s %s HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n%s\r\n", method, target, fields);
    say(fd, request);
    sg_free(request);
    return hear(f, fd);
}

static unsigned status_of(const char *answer)
{
    assert_int_equal(strncmp(answer, "HTTP/1.1 ", 9), 0);
    return (unsigned)strtoul(answer + 9, NULL, 10);
}

static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static void assert_has(const char *answer, const char *text)
{
    if (!strstr(answer, text))
        fail_msg("no \"%s\" in:\n%s", text, answer);
}

/* Asks and checks status and some text of head or body. */
static void expect(const fixture_t *f, const char *method, const char *target, const char *fields,
                   unsigned status, const char *text)
{
    char *answer = ask(f, method, target, fields);
    if (status_of(answer) != status)
        fail_msg("%s %s: expected %u, but:\n%s", method, target, status, answer);
    assert_has(answer, text);
    sg_free(answer);
}

static json_t *expect_json(const fixture_t *f, const char *method, const char *target, unsigned status)
{
    json_error_t error;
    char *answer = ask(f, method, target, "");
    if (status_of(answer) != status)
        fail_msg("%s %s: expected %u, but:\n%s", method, target, status, answer);
    json_t *o = json_loads(body_of(answer), 0, &error);
    if (!o)
        fail_msg("%s in:\n%s", error.text, answer);
    sg_free(answer);
    return o;
}

#endif
