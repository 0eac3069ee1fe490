/* Following jobs in a real Redis. The watch's own ticks play the workers' part. */
#include "consumer/watch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "consumer/interrupt.h"
#include "consumer/status_client.h"
#include "engine/clock.h"
#include "tests/support/redis_server.h"
#include "tests/support/test.h"

static struct redis_server server;
static redisContext *worker;

static int start_server(void **state) {
    redis_server_open(&server);
    worker = redisConnect("127.0.0.1", server.port);
    return worker->err;
}

static int stop_server(void **state) {
    redisFree(worker);
    redis_server_close(&server);
    return 0;
}

static void order(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(worker, format, arguments);
    va_end(arguments);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

/* A scripted world: what happens at each tick, and what was seen. */
struct scene {
    void (*act)(struct scene *scene, int tick);
    int ticks;
    int changes;
    enum status_state seen[16];
};

static void on_tick(void *context) {
    struct scene *scene = context;
    if (scene->act) {
        scene->act(scene, scene->ticks);
    }
    scene->ticks++;
}

static void on_change(void *context, size_t index, const struct watch_entry *entry,
                      enum status_state before) {
    struct scene *scene = context;
    if (scene->changes > 0 && index == 0) {
        assert_int_equal(before, scene->seen[(scene->changes - 1) % 16]);
    }
    scene->seen[scene->changes++ % 16] = entry->status.state;
}

static enum watch_end follow(const char *const *ids, size_t count, struct scene *scene,
                             struct watch_options options, struct watch_entry *entries) {
    struct status_client *client = NULL;
    char err[512];
    assert_int_equal(status_client_open(server.url, "solfleet:", 1000, &client, err, sizeof err),
                     STATUS_CLIENT_OK);
    options.ids = ids;
    options.count = count;
    options.on_tick = on_tick;
    options.on_change = on_change;
    options.context = scene;
    enum watch_end end = watch_run(client, &options, entries, err, sizeof err);
    status_client_close(client);
    return end;
}

static const struct watch_options patient = {
    .timeout_ms = 20000, .grace_ms = 10000, .reconnect_ms = 10000, .tick_ms = 20};

static void run_and_finish(struct scene *scene, int tick) {
    if (tick == 0) {
        order("HSET solfleet:job:{w1} state running attempt 1");
        order("PUBLISH solfleet:events:{w1} x");
    } else if (scene->changes == 2) { /* queued and running have been seen */
        order("HSET solfleet:job:{w1} state done completion_tokens 9");
        order("PUBLISH solfleet:events:{w1} x");
    }
}

static void follows_a_job_by_its_events_to_its_end(void **state) {
    struct scene scene = {.act = run_and_finish};
    struct watch_entry entry;
    const char *id = "w1";
    order("HSET solfleet:job:{w1} state queued");
    int64_t started_ns = clock_monotonic_ns(NULL);
    assert_int_equal(follow(&id, 1, &scene, patient, &entry), WATCH_ENDED);
    assert_true(clock_monotonic_ns(NULL) - started_ns < 900 * CLOCK_NS_PER_MS); /* no re-read */
    assert_int_equal(scene.changes, 3);
    assert_int_equal(scene.seen[0], STATUS_QUEUED);
    assert_int_equal(scene.seen[1], STATUS_RUNNING);
    assert_int_equal(scene.seen[2], STATUS_DONE);
    assert_true(entry.ended);
    assert_true(entry.status.completion_tokens == 9);
    watch_entries_deinit(&entry, 1);
}

static void finish_in_silence(struct scene *scene, int tick) {
    if (tick == 0) {
        order("HSET solfleet:job:{w2} state failed error_code numeric");
    }
}

static void sees_the_end_although_its_event_was_lost(void **state) {
    struct scene scene = {.act = finish_in_silence};
    struct watch_entry entry;
    const char *id = "w2";
    order("HSET solfleet:job:{w2} state running");
    assert_int_equal(follow(&id, 1, &scene, patient, &entry), WATCH_ENDED);
    assert_int_equal(entry.status.state, STATUS_FAILED);
    watch_entries_deinit(&entry, 1);
}

static void ends_at_once_for_jobs_that_ended_before(void **state) {
    struct scene scene = {0};
    struct watch_entry entries[2];
    const char *ids[] = {"w4", "w3"};
    order("HSET solfleet:job:{w3} state done");
    order("HSET solfleet:job:{w4} state expired");
    assert_int_equal(follow(ids, 2, &scene, patient, entries), WATCH_ENDED);
    assert_int_equal(scene.ticks, 1);
    assert_int_equal(entries[0].status.state, STATUS_EXPIRED);
    assert_int_equal(entries[1].status.state, STATUS_DONE);
    watch_entries_deinit(entries, 2);
}

static void gives_an_unknown_id_up_after_the_grace(void **state) {
    struct scene scene = {0};
    struct watch_entry entries[2];
    const char *ids[] = {"nobody", "w5"};
    struct watch_options options = patient;
    options.grace_ms = 0;
    order("HSET solfleet:job:{w5} state done");
    assert_int_equal(follow(ids, 2, &scene, options, entries), WATCH_ENDED);
    assert_true(entries[0].given_up);
    assert_false(entries[0].ended);
    assert_true(entries[1].ended);
    watch_entries_deinit(entries, 2);
}

static void appear_late(struct scene *scene, int tick) {
    if (tick == 1) {
        order("HSET solfleet:job:{w6} state done");
        order("PUBLISH solfleet:events:{w6} x");
    }
}

static void waits_within_the_grace_for_an_id_to_appear(void **state) {
    struct scene scene = {.act = appear_late};
    struct watch_entry entry;
    const char *id = "w6";
    assert_int_equal(follow(&id, 1, &scene, patient, &entry), WATCH_ENDED);
    assert_true(entry.ended);
    watch_entries_deinit(&entry, 1);
}

static void times_out_on_a_job_that_does_not_end(void **state) {
    struct scene scene = {0};
    struct watch_entry entry;
    const char *id = "w7";
    struct watch_options options = patient;
    options.timeout_ms = 50;
    order("HSET solfleet:job:{w7} state queued");
    assert_int_equal(follow(&id, 1, &scene, options, &entry), WATCH_TIMED_OUT);
    assert_int_equal(entry.status.state, STATUS_QUEUED);
    watch_entries_deinit(&entry, 1);
}

static void restart_then_finish(struct scene *scene, int tick) {
    if (tick == 0) {
        redis_server_kill(&server);
    } else if (tick == 1) { /* the loss has been noticed once */
        redis_server_restart(&server);
        redisFree(worker);
        worker = redisConnect("127.0.0.1", server.port);
        order("HSET solfleet:job:{w8} state done");
    }
}

static void goes_on_after_a_restart_of_the_server(void **state) {
    struct scene scene = {.act = restart_then_finish};
    struct watch_entry entry;
    const char *id = "w8";
    order("HSET solfleet:job:{w8} state running");
    assert_int_equal(follow(&id, 1, &scene, patient, &entry), WATCH_ENDED);
    assert_int_equal(entry.status.state, STATUS_DONE);
    watch_entries_deinit(&entry, 1);
}

static void crash(struct scene *scene, int tick) {
    if (tick == 0) {
        redis_server_kill(&server);
    }
}

static void says_unreachable_when_the_server_stays_away(void **state) {
    struct scene scene = {.act = crash};
    struct watch_entry entry;
    const char *id = "w9";
    struct watch_options options = patient;
    options.reconnect_ms = 100;
    assert_int_equal(follow(&id, 1, &scene, options, &entry), WATCH_UNREACHABLE);
    watch_entries_deinit(&entry, 1);
    redis_server_restart(&server);
    redisFree(worker);
    worker = redisConnect("127.0.0.1", server.port);
}

static void press_ctrl_c(struct scene *scene, int tick) {
    kill(getpid(), SIGINT);
}

static void stops_when_interrupted(void **state) {
    struct scene scene = {.act = press_ctrl_c};
    struct watch_entry entry;
    const char *id = "w10";
    struct interrupt interrupt;
    assert_true(interrupt_open(&interrupt));
    struct watch_options options = patient;
    options.interrupt = &interrupt;
    assert_int_equal(follow(&id, 1, &scene, options, &entry), WATCH_INTERRUPTED);
    interrupt_close(&interrupt);
    watch_entries_deinit(&entry, 1);
}

TEST_MAIN_WITH(start_server, stop_server, cmocka_unit_test(follows_a_job_by_its_events_to_its_end),
               cmocka_unit_test(sees_the_end_although_its_event_was_lost),
               cmocka_unit_test(ends_at_once_for_jobs_that_ended_before),
               cmocka_unit_test(gives_an_unknown_id_up_after_the_grace),
               cmocka_unit_test(waits_within_the_grace_for_an_id_to_appear),
               cmocka_unit_test(times_out_on_a_job_that_does_not_end),
               cmocka_unit_test(goes_on_after_a_restart_of_the_server),
               cmocka_unit_test(says_unreachable_when_the_server_stays_away),
               cmocka_unit_test(stops_when_interrupted))
