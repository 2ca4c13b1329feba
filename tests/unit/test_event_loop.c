/* The loop: order of a turn, timers, watches that end in the middle, deferred work, the mailbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "event/loop.h"

typedef struct {
    sg_loop_t *loop;
    char log[256];
} world_t;

static int setup(void **state)
{
    static world_t w;
    w = (world_t){.loop = sg_loop_new()};
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    sg_loop_free(((world_t *)*state)->loop);
    return 0;
}

/* A word to note, as the void * that a callback gets. */
#define WORD(z) ((void *)(uintptr_t)(z))

static world_t *world;

static void note(const char *word)
{
    size_t n = strlen(world->log);
    (void)snprintf(world->log + n, sizeof world->log - n, "%s ", word);
}

static void note_arg(void *arg)
{
    note(arg);
}

static void assert_log(const char *want)
{
    assert_string_equal(world->log, want);
    world->log[0] = '\0';
}

/* Turn until `n` words are there. */
static void turn_until(size_t n)
{
    for (int i = 0; i < 1000; i++) {
        size_t words = 0;
        for (const char *c = world->log; *c; c++)
            words += *c == ' ';
        if (words >= n)
            return;
        sg_loop_turn(world->loop, 20000);
    }
    fail_msg("it never happened: %s", world->log);
}

static void timers_fire_in_order_and_once(void **state)
{
    static sg_timer_t t[4];
    world = *state;
    sg_loop_t *l = world->loop;
    sg_timer_in(l, &t[0], 3000, note_arg, WORD("c"));
    sg_timer_in(l, &t[1], 1000, note_arg, WORD("a"));
    sg_timer_in(l, &t[2], 2000, note_arg, WORD("never"));
    sg_timer_in(l, &t[3], 500, note_arg, WORD("early"));
    sg_timer_in(l, &t[3], 2000, note_arg, WORD("b")); /* moved */
    sg_timer_stop(l, &t[2]);
    assert_true(sg_timer_is_on(&t[0]) && !sg_timer_is_on(&t[2]));
    turn_until(3);
    assert_log("a b c ");
    assert_false(sg_timer_is_on(&t[0]));
    sg_loop_turn(l, 0);
    assert_log("");
}

static sg_timer_t again;

static void start_again(void *arg)
{
    note("tick");
    sg_timer_in(world->loop, &again, 0, start_again, arg);
}

/* A timer that starts itself for now must not keep the turn from ending. */
static void a_timer_that_starts_itself_waits_for_the_next_turn(void **state)
{
    world = *state;
    sg_timer_in(world->loop, &again, 0, start_again, NULL);
    sg_loop_turn(world->loop, 0);
    assert_log("tick ");
    sg_loop_turn(world->loop, 0);
    assert_log("tick ");
    sg_timer_stop(world->loop, &again);
}

static sg_watch_t pair_watch[2];

static void stop_the_other(void *arg, unsigned events)
{
    size_t me = (size_t)(uintptr_t)arg;
    assert_true(events & SG_EV_READ);
    note(me ? "second" : "first");
    sg_watch_stop(world->loop, &pair_watch[0]);
    sg_watch_stop(world->loop, &pair_watch[1]);
}

/* Both are ready in one turn; the first that runs ends both: nothing of the other may come. */
static void a_stopped_watch_is_silent_in_the_same_turn(void **state)
{
    int a[2], b[2];
    world = *state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a) | socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    sg_watch_start(world->loop, &pair_watch[0], a[0], SG_EV_READ, stop_the_other, (void *)0);
    sg_watch_start(world->loop, &pair_watch[1], b[0], SG_EV_READ, stop_the_other, (void *)1);
    assert_true(write(a[1], "x", 1) == 1 && write(b[1], "x", 1) == 1);
    turn_until(1);
    sg_loop_turn(world->loop, 0);
    assert_true(strcmp(world->log, "first ") == 0 || strcmp(world->log, "second ") == 0);
    for (int i = 0; i < 2; i++) {
        (void)close(a[i]);
        (void)close(b[i]);
    }
}

static void note_events(void *arg, unsigned events)
{
    (void)arg;
    note(events & SG_EV_HUP     ? "hup"
         : events & SG_EV_RDHUP ? "rdhup"
         : events & SG_EV_WRITE ? "write"
                                : "read");
}

static void watches_follow_what_is_wanted(void **state)
{
    int s[2];
    sg_watch_t w = {0};
    world = *state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    sg_watch_start(world->loop, &w, s[0], SG_EV_WRITE, note_events, NULL);
    turn_until(1);
    assert_log("write ");
    sg_watch_set(world->loop, &w, 0);
    assert_int_equal(write(s[1], "x", 1), 1);
    sg_loop_turn(world->loop, 0);
    assert_log("");
    sg_watch_set(world->loop, &w, SG_EV_READ);
    turn_until(1);
    assert_log("read ");
    sg_watch_set(world->loop, &w, 0);
    (void)close(s[1]);
    turn_until(1); /* a hang-up is told whatever is wanted */
    assert_log("hup ");
    sg_watch_stop(world->loop, &w);
    sg_watch_stop(world->loop, &w);
    (void)close(s[0]);
}

static void a_hangup_watch_tells_once(void **state)
{
    int s[2];
    sg_watch_t w = {0};
    world = *state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    sg_watch_start_hangup(world->loop, &w, s[0], note_events, NULL);
    assert_int_equal(write(s[1], "x", 1), 1);
    sg_loop_turn(world->loop, 0);
    assert_log(""); /* data is none of its business */
    (void)shutdown(s[1], SHUT_WR);
    turn_until(1);
    assert_log("rdhup ");
    sg_loop_turn(world->loop, 0);
    assert_log("");
    sg_watch_stop(world->loop, &w);
    (void)close(s[0]);
    (void)close(s[1]);
}

static sg_task_t tasks[3];
static sg_hook_t hooks[2];

static void defer_more(void *arg)
{
    note(arg);
    sg_defer(world->loop, &tasks[1], note_arg, WORD("task2"));
    sg_defer(world->loop, &tasks[1], note_arg, WORD("twice")); /* waits already: no effect */
    sg_defer_free(world->loop, &tasks[2], note_arg, WORD("free"));
}

static void note_once(void *arg)
{
    static int turns;
    if (turns++ == 0 || strcmp(arg, "flush") == 0)
        note(arg);
}

static void a_turn_has_an_order(void **state)
{
    world = *state;
    sg_hook_work(world->loop, &hooks[0], note_once, WORD("work"));
    sg_hook_flush(world->loop, &hooks[1], note_once, WORD("flush"));
    sg_defer(world->loop, &tasks[0], defer_more, WORD("task1"));
    sg_loop_turn(world->loop, 0);
    assert_log("work task1 task2 flush free ");
    sg_defer(world->loop, &tasks[0], note_arg, WORD("never"));
    sg_defer_cancel(&tasks[0]);
    sg_hook_remove(&hooks[1]);
    sg_loop_turn(world->loop, 0);
    assert_log("");
    sg_hook_remove(&hooks[0]);
}

enum { LETTERS = 20000 };
static int letters[2];

static void on_letter(void *arg)
{
    int sender = (int)((uintptr_t)arg / LETTERS), number = (int)((uintptr_t)arg % LETTERS);
    assert_int_equal(letters[sender], number); /* in order per sender, none lost */
    letters[sender]++;
}

static void *post_letters(void *arg)
{
    uintptr_t sender = (uintptr_t)arg;
    for (uintptr_t i = 0; i < LETTERS; i++)
        sg_loop_post(world->loop, on_letter, (void *)(sender * LETTERS + i));
    return NULL;
}

static void letters_of_other_threads_come_in_order(void **state)
{
    pthread_t t[2];
    world = *state;
    letters[0] = letters[1] = 0;
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, post_letters, (void *)i), 0);
    for (int turns = 0; turns < 1000000 && (letters[0] < LETTERS || letters[1] < LETTERS); turns++)
        sg_loop_turn(world->loop, 1000);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(letters[0], LETTERS);
    assert_int_equal(letters[1], LETTERS);
}

static void stop_loop(void *arg)
{
    sg_loop_stop(arg);
}

static void run_ends_and_leaves_no_letter_unread(void **state)
{
    world = *state;
    sg_loop_post(world->loop, stop_loop, world->loop);
    sg_loop_run(world->loop);
    assert_true(sg_loop_turns(world->loop) >= 1);
    sg_loop_post(world->loop, note_arg, WORD("late"));
    sg_loop_free(world->loop);
    assert_log("late ");
    world->loop = sg_loop_new();
}

#define WITH_LOOP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOOP(timers_fire_in_order_and_once),
        WITH_LOOP(a_timer_that_starts_itself_waits_for_the_next_turn),
        WITH_LOOP(a_stopped_watch_is_silent_in_the_same_turn),
        WITH_LOOP(watches_follow_what_is_wanted),
        WITH_LOOP(a_hangup_watch_tells_once),
        WITH_LOOP(a_turn_has_an_order),
        WITH_LOOP(letters_of_other_threads_come_in_order),
        WITH_LOOP(run_ends_and_leaves_no_letter_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
