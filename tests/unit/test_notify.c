#include "notify.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

#include <cmocka.h>

static char temp_dir[] = "/tmp/slotgate-notify-XXXXXX";
static int receiver = -1;

static void bind_receiver(const char *name, bool abstract)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + (abstract ? 0 : 1));
    memcpy(addr.sun_path, name, strlen(name));
    if (abstract)
        addr.sun_path[0] = '\0';
    receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(receiver >= 0);
    assert_int_equal(bind(receiver, (const struct sockaddr *)&addr, len), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
}

static const char *received(void)
{
    static char text[512];
    ssize_t n = recv(receiver, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    return text;
}

static int setup_path(void **state)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/notify", temp_dir);
    (void)state;
    bind_receiver(path, false);
    return 0;
}

static int setup_abstract(void **state)
{
    char name[64];
    snprintf(name, sizeof(name), "@slotgate-notify-%ld", (long)getpid());
    (void)state;
    bind_receiver(name, true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    const char *name = getenv("NOTIFY_SOCKET");
    if (name != NULL && name[0] == '/')
        unlink(name);
    unsetenv("NOTIFY_SOCKET");
    close(receiver);
    receiver = -1;
    return 0;
}

static void test_plain_messages(void **state)
{
    (void)state;
    assert_true(sg_notify_ready());
    assert_string_equal(received(), "READY=1");
    assert_true(sg_notify_stopping());
    assert_string_equal(received(), "STOPPING=1");
    assert_true(sg_notify_watchdog());
    assert_string_equal(received(), "WATCHDOG=1");
}

static void test_reloading_carries_the_monotonic_time(void **state)
{
    (void)state;
    struct timespec ts;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
    uint64_t before_us = (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
    assert_true(sg_notify_reloading());
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
    uint64_t after_us = (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;

    const char *text = received();
    const char prefix[] = "RELOADING=1\nMONOTONIC_USEC=";
    assert_int_equal(strncmp(text, prefix, strlen(prefix)), 0);
    char *end = NULL;
    uint64_t sent_us = strtoull(text + strlen(prefix), &end, 10);
    assert_int_equal(*end, '\0');
    assert_in_range(sent_us, before_us, after_us);
}

static void test_status_is_one_line(void **state)
{
    (void)state;
    assert_true(sg_notify_status("serving 3 routes"));
    assert_string_equal(received(), "STATUS=serving 3 routes");
    assert_true(sg_notify_status("bad\nREADY=1\r"));
    assert_string_equal(received(), "STATUS=bad READY=1 ");

    char longer[400];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_true(sg_notify_status(longer));
    assert_int_equal(strlen(received()), strlen("STATUS=") + 255);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    assert_false(sg_notify_ready());
    setenv("NOTIFY_SOCKET", "relative/path", 1);
    assert_false(sg_notify_ready());
    setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
    assert_false(sg_notify_ready());
    char longer[200];
    memset(longer, '/', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    setenv("NOTIFY_SOCKET", longer, 1);
    assert_false(sg_notify_ready());
    unsetenv("NOTIFY_SOCKET");
}

static void test_watchdog_interval(void **state)
{
    (void)state;
    char pid[32];
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    assert_int_equal(sg_notify_watchdog_us(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(sg_notify_watchdog_us(), 30000000);
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(sg_notify_watchdog_us(), 30000000);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(sg_notify_watchdog_us(), 0);
    setenv("WATCHDOG_PID", pid, 1);
    setenv("WATCHDOG_USEC", "30s", 1);
    assert_int_equal(sg_notify_watchdog_us(), 0);
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
}

/* Puts two fresh sockets at 3 and 4, what was there before is kept aside and put back by the caller. */
static void put_sockets(int saved[2])
{
    for (int i = 0; i < 2; i++) {
        saved[i] = fcntl(3 + i, F_DUPFD_CLOEXEC, 10);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(fd >= 0);
        if (fd != 3 + i) {
            assert_int_equal(dup2(fd, 3 + i), 3 + i);
            close(fd);
        }
    }
}

static void restore_fds(const int saved[2])
{
    for (int i = 0; i < 2; i++) {
        close(3 + i);
        if (saved[i] >= 0) {
            dup2(saved[i], 3 + i);
            close(saved[i]);
        }
    }
}

static void test_listen_fds(void **state)
{
    (void)state;
    int saved[2];
    put_sockets(saved);
    char pid[32];
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_FDNAMES", "public:admin", 1);

    sg_listen_fd_t fds[4];
    assert_int_equal(sg_listen_fds(fds, 4), 2);
    assert_int_equal(fds[0].fd, 3);
    assert_string_equal(fds[0].name, "public");
    assert_int_equal(fds[1].fd, 4);
    assert_string_equal(fds[1].name, "admin");
    assert_int_equal(fcntl(3, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(sg_listen_fds(fds, 4), 0);
    assert_null(getenv("LISTEN_FDS"));
    restore_fds(saved);
}

static void test_listen_fds_beyond_the_room_are_closed(void **state)
{
    (void)state;
    int saved[2];
    put_sockets(saved);
    char pid[32];
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "2", 1);
    unsetenv("LISTEN_FDNAMES");

    sg_listen_fd_t fds[1];
    assert_int_equal(sg_listen_fds(fds, 1), 1);
    assert_string_equal(fds[0].name, "");
    assert_int_equal(fcntl(4, F_GETFD), -1);
    restore_fds(saved);
}

static void test_listen_fds_for_another_process(void **state)
{
    (void)state;
    sg_listen_fd_t fds[1];
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "1", 1);
    assert_int_equal(sg_listen_fds(fds, 1), 0);
    unsetenv("LISTEN_PID");
    setenv("LISTEN_FDS", "1", 1);
    assert_int_equal(sg_listen_fds(fds, 1), 0);
}

static int make_temp_dir(void **state)
{
    (void)state;
    return mkdtemp(temp_dir) != NULL ? 0 : -1;
}

static int remove_temp_dir(void **state)
{
    (void)state;
    return rmdir(temp_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain_messages, setup_path, teardown),
        cmocka_unit_test_setup_teardown(test_reloading_carries_the_monotonic_time, setup_path, teardown),
        cmocka_unit_test_setup_teardown(test_status_is_one_line, setup_abstract, teardown),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_watchdog_interval),
        cmocka_unit_test(test_listen_fds),
        cmocka_unit_test(test_listen_fds_beyond_the_room_are_closed),
        cmocka_unit_test(test_listen_fds_for_another_process),
    };
    return cmocka_run_group_tests(tests, make_temp_dir, remove_temp_dir);
}
