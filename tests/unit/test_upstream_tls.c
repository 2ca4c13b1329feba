#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "upstream_fixture.h"

/* The other side is `openssl s_server` in a process of its own, with certificates made for this run. */
extern char **environ;

enum { MODE = 4 };

static char dir[] = "/tmp/slotgate-tls-XXXXXX";

typedef struct {
    fixture_t f;
    pid_t pid;
    int input;                      /* what is written here, the server sends */
    char output[128];               /* the file that gets what the server received */
    int fds_before;
} tls_t;

static char *in_dir(const char *name)
{
    static char path[8][320];
    static unsigned next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static pid_t spawn(const char *const argv[], int in, const char *out)
{
    posix_spawn_file_actions_t fa;
    pid_t pid;
    posix_spawn_file_actions_init(&fa);
    if (in >= 0)
        posix_spawn_file_actions_adddup2(&fa, in, 0);
    posix_spawn_file_actions_addopen(&fa, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawnp(&pid, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    if (rc != 0)
        fail_msg("cannot run %s (Debian: apt install openssl): %s", argv[0], strerror(rc));
    return pid;
}

/* A certificate that signs itself, for that DNS name. */
static void make_certificate(const char *name, const char *stem)
{
    char subject[64], san[64], key[128], cert[128];
    snprintf(subject, sizeof subject, "/CN=%s", name);
    snprintf(san, sizeof san, "subjectAltName=DNS:%s", name);
    snprintf(key, sizeof key, "%s/%s.key", dir, stem);
    snprintf(cert, sizeof cert, "%s/%s.pem", dir, stem);
    const char *argv[] = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                          "-nodes", "-days", "2", "-keyout", key, "-out", cert,
                          "-subj", subject, "-addext", san, NULL};
    int status;
    pid_t pid = spawn(argv, -1, "/dev/null");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int make_files(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        return -1;
    make_certificate("users.internal", "server");
    make_certificate("gateway.internal", "client");
    return 0;
}

static int drop_files(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        unlink(in_dir(e->d_name));
    closedir(d);
    return rmdir(dir);
}

static unsigned port_from(const char *file)
{
    static const char before[] = "ACCEPT 127.0.0.1:";
    int64_t give_up_us = sg_clock_mono_us() + PATIENCE_US;
    char text[512];
    while (sg_clock_mono_us() < give_up_us) {
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        close(fd);
        text[n > 0 ? n : 0] = '\0';
        const char *at = strstr(text, before);
        if (at && strchr(at, '\n'))
            return (unsigned)strtoul(at + sizeof before - 1, NULL, 10);
        usleep(2000);
    }
    fail_msg("openssl s_server does not listen");
    return 0;
}

/* `mode`: more arguments for s_server. */
static void server_start(tls_t *t, const char *const mode[MODE])
{
    static unsigned serial;
    int in[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    snprintf(t->output, sizeof t->output, "%s/out.%u", dir, serial++);
    const char *argv[16] = {"openssl", "s_server", "-accept", "127.0.0.1:0",
                      "-cert", in_dir("server.pem"), "-key", in_dir("server.key")};
    for (size_t i = 0; i < MODE && mode[i]; i++)
        argv[8 + i] = mode[i];
    t->pid = spawn(argv, in[0], t->output);
    close(in[0]);
    t->input = in[1];
    conf_init(&t->f.conf);
    conf_add(&t->f.conf, true, "127.0.0.1", port_from(t->output));
    t->f.conf.upstream.tls.ca = in_dir("server.pem");
    t->f.conf.upstream.tls.server_name = (char *)(uintptr_t)"users.internal";
}

static void server_stop(const tls_t *t)
{
    int status;
    kill(t->pid, SIGKILL);
    kill(t->pid, SIGCONT);
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
}

static int set_up_with(void **state, const char *const mode[MODE])
{
    tls_t *t = SG_NEW(tls_t);
    t->fds_before = count_fds();
    server_start(t, mode);
    *state = t;
    return 0;
}

/* A server that sends each line back, reversed. */
static int set_up_rev(void **state)
{
    return set_up_with(state, (const char *const[MODE]){"-rev"});
}

/* A server that sends what it gets on its input, and writes what it receives. */
static int set_up_pipe(void **state)
{
    return set_up_with(state, (const char *const[MODE]){NULL});
}

static int set_up_client_cert(void **state)
{
    /* Only TLS 1.2 tells within the handshake that the client's certificate is missing. */
    return set_up_with(state, (const char *const[MODE]){"-rev", "-tls1_2", "-Verify", "1"});
}

static int tear_down(void **state)
{
    tls_t *t = *state;
    fixture_stop(&t->f);
    server_stop(t);
    close(t->input);
    int left = count_fds() - t->fds_before;
    if (left != 0)
        fprintf(stderr, "%d files left open\n", left);
    sg_free(t);
    return left == 0 ? 0 : -1;
}

/* --- names and certificates ----------------------------------------------------------------- */

/* Receive until `len` bytes are there. */
static void recv_all(fixture_t *f, sg_conn_t *c, char *out, size_t len)
{
    size_t have = 0, n = 0;
    int64_t give_up_us = sg_clock_mono_us() + PATIENCE_US;
    while (have < len) {
        sg_err_t err = sg_conn_recv(c, out + have, len - have, &n);
        if (err == SG_OK)
            have += n;
        else
            assert_int_equal(err, SG_ERR_AGAIN);
        if (err == SG_ERR_AGAIN)
            sg_loop_turn(f->loop, 1000);
        assert_true(sg_clock_mono_us() < give_up_us);
    }
}

static void ping(fixture_t *f, sg_conn_t *c)
{
    char buf[8];
    send_all(f, c, "abcdef\n", 7);
    recv_all(f, c, buf, 7);
    assert_memory_equal(buf, "fedcba\n", 7);
}

static void verified_by_name(void **state)
{
    tls_t *t = *state;
    fixture_start(&t->f);
    sg_conn_t *c = dial_new(&t->f);
    ping(&t->f, c);
    sg_conn_close(c);
}

static void wrong_name_fails(void **state)
{
    tls_t *t = *state;
    t->f.conf.upstream.tls.server_name = (char *)(uintptr_t)"orders.internal";
    fixture_start(&t->f);
    dial_fails(&t->f, SG_ERR_TLS);
}

static void address_is_no_name_of_the_certificate(void **state)
{
    tls_t *t = *state;
    t->f.conf.upstream.tls.server_name = NULL;
    fixture_start(&t->f);
    dial_fails(&t->f, SG_ERR_TLS);
}

static void unknown_authority_fails(void **state)
{
    tls_t *t = *state;
    t->f.conf.upstream.tls.ca = in_dir("client.pem");
    fixture_start(&t->f);
    dial_fails(&t->f, SG_ERR_TLS);
}

static void missing_ca_file_fails(void **state)
{
    tls_t *t = *state;
    t->f.conf.upstream.tls.ca = in_dir("absent.pem");
    fixture_start(&t->f);
    dial_fails(&t->f, SG_ERR_TLS);
}

static void verification_can_be_off(void **state)
{
    tls_t *t = *state;
    t->f.conf.upstream.tls.verify = false;
    t->f.conf.upstream.tls.ca = NULL;
    t->f.conf.upstream.tls.server_name = NULL;
    fixture_start(&t->f);
    sg_conn_t *c = dial_new(&t->f);
    ping(&t->f, c);
    sg_conn_close(c);
}

static void client_certificate_is_shown(void **state)
{
    tls_t *t = *state;
    t->f.conf.upstream.tls.certificate = in_dir("client.pem");
    t->f.conf.upstream.tls.key = in_dir("client.key");
    fixture_start(&t->f);
    sg_conn_t *c = dial_new(&t->f);
    ping(&t->f, c);
    sg_conn_close(c);
}

static void missing_client_certificate_fails(void **state)
{
    tls_t *t = *state;
    fixture_start(&t->f);
    dial_fails(&t->f, SG_ERR_TLS);
}

/* --- the pool ------------------------------------------------------------------------------- */

static void kept_and_handed_out_again(void **state)
{
    tls_t *t = *state;
    fixture_start(&t->f);
    sg_conn_t *c = dial_new(&t->f);
    for (int i = 0; i < 3; i++) {
        ping(&t->f, c);
        sg_conn_give_back(c);
        /* Session tickets of TLS 1.3 come in these turns; they are no reason to close. */
        for (int k = 0; k < 5; k++)
            sg_loop_turn(t->f.loop, 1000);
        assert_ptr_equal(dial_pooled(&t->f), c);
    }
    sg_conn_give_back(c);
}

static void stray_bytes_close_it(void **state)
{
    tls_t *t = *state;
    fixture_start(&t->f);
    sg_conn_give_back(dial_new(&t->f));
    for (int k = 0; k < 5; k++)
        sg_loop_turn(t->f.loop, 1000);
    assert_int_equal(status_of(&t->f, 0).idle, 1);
    assert_int_equal(write(t->input, "stray\n", 6), 6);
    TURN_UNTIL(&t->f, status_of(&t->f, 0).idle == 0);
}

static void end_closes_it(void **state)
{
    tls_t *t = *state;
    fixture_start(&t->f);
    sg_conn_give_back(dial_new(&t->f));
    kill(t->pid, SIGTERM);
    TURN_UNTIL(&t->f, status_of(&t->f, 0).idle == 0);
}

static void other_tls_settings_are_another_pool(void **state)
{
    tls_t *t = *state;
    fixture_start(&t->f);
    sg_conn_t *c = dial_new(&t->f);
    sg_conn_give_back(c);
    sg_upstreams_reload(t->f.ups, &t->f.conf.config);
    assert_ptr_equal(dial_pooled(&t->f), c);        /* nothing changed */
    sg_conn_give_back(c);
    t->f.conf.upstream.tls.server_name = (char *)(uintptr_t)"orders.internal";
    sg_upstreams_reload(t->f.ups, &t->f.conf.config);
    dial_fails(&t->f, SG_ERR_TLS);                  /* verified under another name: not for this one */
}

static void a_renewed_certificate_file_is_another_pool(void **state)
{
    tls_t *t = *state;
    fixture_start(&t->f);
    sg_conn_give_back(dial_new(&t->f));
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, t->f.conf.upstream.tls.ca, times, 0), 0);
    sg_upstreams_reload(t->f.ups, &t->f.conf.config);
    assert_int_equal(status_of(&t->f, 0).idle, 0);
    sg_conn_t *c = dial_new(&t->f);
    ping(&t->f, c);
    sg_conn_close(c);
}

/* --- bytes ---------------------------------------------------------------------------------- */

typedef struct {
    sg_conn_t *conn;
    size_t have;
    char text[8192];
} reader_t;

/* A little at a time, and never until AGAIN: what is left is in libcurl, not in the socket. */
static void read_a_little(void *arg, unsigned events)
{
    reader_t *r = arg;
    size_t n;
    assert_true((events & SG_EV_READ) != 0);
    sg_err_t err = sg_conn_recv(r->conn, r->text + r->have, 100, &n);
    if (err == SG_OK)
        r->have += n;
    else
        assert_int_equal(err, SG_ERR_AGAIN);
}

static void bytes_inside_the_tls_layer_are_told(void **state)
{
    tls_t *t = *state;
    fixture_start(&t->f);
    reader_t r = {.conn = dial_new(&t->f)};
    char line[8000];
    for (size_t i = 0; i < sizeof line; i++)
        line[i] = (char)('a' + i % 23);
    line[sizeof line - 1] = '\n';
    send_all(&t->f, r.conn, line, sizeof line);
    sg_conn_watch(r.conn, SG_EV_READ, read_a_little, &r);
    TURN_UNTIL(&t->f, r.have >= 100);
    /* A pause holds, also with bytes inside. */
    sg_conn_watch(r.conn, 0, read_a_little, &r);
    size_t before = r.have;
    for (int k = 0; k < 3; k++)
        sg_loop_turn(t->f.loop, 0);
    assert_int_equal(r.have, before);
    sg_conn_watch(r.conn, SG_EV_READ, read_a_little, &r);
    TURN_UNTIL(&t->f, r.have >= sizeof line);
    for (size_t i = 0; i < sizeof line - 1; i++)
        assert_int_equal(r.text[i], line[sizeof line - 2 - i]);
    sg_conn_close(r.conn);
}

static bool output_has(const tls_t *t, const char *data, size_t len)
{
    int fd = open(t->output, O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    void *all = st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (all == MAP_FAILED)
        return false;
    bool found = memmem(all, (size_t)st.st_size, data, len) != NULL;
    munmap(all, (size_t)st.st_size);
    return found;
}

/* The server stands still until nothing more fits; then the rest comes out of another buffer. */
static void a_refused_write_goes_on_from_elsewhere(void **state)
{
    enum { LEN = 16 * 1024 * 1024 };
    tls_t *t = *state;
    fixture_start(&t->f);
    sg_conn_t *c = dial_new(&t->f);
    char *data = sg_malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        data[i] = (char)('A' + i * 7919 % 26);
    kill(t->pid, SIGSTOP);
    size_t done = 0, n = 0;
    sg_err_t err;
    while ((err = sg_conn_send(c, data + done, LEN - done, &n)) == SG_OK && done + n < LEN)
        done += n;
    assert_int_equal(err, SG_ERR_AGAIN);
    assert_int_equal(sg_conn_send(c, data + done, LEN - done, &n), SG_ERR_AGAIN);
    kill(t->pid, SIGCONT);
    char *moved = sg_malloc(LEN);
    memcpy(moved, data, LEN);
    send_all(&t->f, c, moved + done, 256 * 1024);
    sg_free(moved);
    TURN_UNTIL(&t->f, output_has(t, data, done + 256 * 1024));
    sg_conn_close(c);
    sg_free(data);
}

/* --- a handshake that does not go on -------------------------------------------------------- */

static void silent_peer(void **state)
{
    (void)state;
    fixture_t f = {0};
    unsigned port;
    int before = count_fds();
    int listener = listen_on(&port, 8);
    conf_init(&f.conf);
    conf_add(&f.conf, true, "127.0.0.1", port);
    fixture_start(&f);
    dialed_t d;
    assert_int_equal(dial_start(&f, &d), SG_ERR_AGAIN);
    fcntl(listener, F_SETFL, O_NONBLOCK);
    int server = -1;
    char hello[8] = {0};
    TURN_UNTIL(&f, (server = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    TURN_UNTIL(&f, recv(server, hello, sizeof hello, MSG_DONTWAIT) > 0);
    assert_int_equal(hello[0], 0x16);       /* the client's hello is out: cancel in the handshake */
    sg_dial_cancel(d.dial);
    assert_false(d.done);
    f.conf.upstream.connect_timeout_us = 60000;
    sg_upstreams_reload(f.ups, &f.conf.config);
    dial_fails(&f, SG_ERR_TIMEOUT);
    fixture_stop(&f);
    close(server);
    close(listener);
    assert_int_equal(count_fds(), before);
}

static void peer_without_tls(void **state)
{
    (void)state;
    fixture_t f = {0};
    unsigned port;
    int listener = listen_on(&port, 8);
    conf_init(&f.conf);
    conf_add(&f.conf, true, "127.0.0.1", port);
    fixture_start(&f);
    dialed_t d;
    assert_int_equal(dial_start(&f, &d), SG_ERR_AGAIN);
    sg_loop_turn(f.loop, 1000);
    int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(write(server, "HTTP/1.1 400 Bad Request\r\n\r\n", 28), 28);
    TURN_UNTIL(&f, d.done);
    assert_int_equal(d.err, SG_ERR_TLS);
    fixture_stop(&f);
    close(server);
    close(listener);
}

int main(void)
{
#define WITH(set_up, test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(set_up_rev, verified_by_name),
        WITH(set_up_rev, wrong_name_fails),
        WITH(set_up_rev, address_is_no_name_of_the_certificate),
        WITH(set_up_rev, unknown_authority_fails),
        WITH(set_up_rev, missing_ca_file_fails),
        WITH(set_up_rev, verification_can_be_off),
        WITH(set_up_client_cert, client_certificate_is_shown),
        WITH(set_up_client_cert, missing_client_certificate_fails),
        WITH(set_up_rev, kept_and_handed_out_again),
        WITH(set_up_pipe, stray_bytes_close_it),
        WITH(set_up_pipe, end_closes_it),
        WITH(set_up_rev, other_tls_settings_are_another_pool),
        WITH(set_up_rev, a_renewed_certificate_file_is_another_pool),
        WITH(set_up_rev, bytes_inside_the_tls_layer_are_told),
        WITH(set_up_pipe, a_refused_write_goes_on_from_elsewhere),
        cmocka_unit_test(silent_peer),
        cmocka_unit_test(peer_without_tls),
    };
    return cmocka_run_group_tests(tests, make_files, drop_files);
}
