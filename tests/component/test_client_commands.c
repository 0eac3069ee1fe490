/* The client commands from command line to exit code: a broker and a Redis of their own, each
 * command in a child process. The test plays the worker. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "consumer/command.h"
#include "tests/support/redis_server.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"

static struct redis_server server;
static redisContext *worker;
static pid_t broker;
static char broker_address[64];

static struct run_command run;

#define START(...) run_command_start((const char *const[]){__VA_ARGS__, NULL})
#define RUN(...) run_command_finish(START(__VA_ARGS__), &run)

static void assert_said(const char *text) {
    run_command_assert_said(&run, text);
}

static void assert_out(const char *text) {
    run_command_assert_out(&run, text);
}

/* ---- the world ------------------------------------------------------------------------------- */

static void order(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(worker, format, arguments);
    va_end(arguments);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

static void await_address(const char *path, char address[64]) {
    for (int i = 0; i < 1000 && access(path, R_OK) != 0; i++) {
        poll(NULL, 0, 10);
    }
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(address, 64, file));
    address[strcspn(address, "\n")] = '\0';
    fclose(file);
}

static int start_world(void **state) {
    char *address_file = test_tmp_path("address");
    broker = START("broker", "--partitions", "2", "--address-file", address_file);
    await_address(address_file, broker_address);
    free(address_file);
    redis_server_open(&server);
    worker = redisConnect("127.0.0.1", server.port);
    setenv("SOLFLEET_BROKERS", broker_address, 1);
    setenv("SOLFLEET_REDIS", server.url, 1);
    return worker->err;
}

static int stop_world(void **state) {
    redisFree(worker);
    redis_server_close(&server);
    kill(broker, SIGKILL);
    waitpid(broker, NULL, 0);
    return 0;
}

static char *file_of(const char *name, const char *text) {
    char *path = test_tmp_path(name);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    return path;
}

static const char result_json[] =
    "{\"version\":1,\"request_id\":\"%s\",\"status\":\"done\",\"text\":\"the answer of %s\","
    "\"finish_reason\":\"stop\",\"solution\":null}";

/* Ends a job as a worker would, with its result in the status. */
static void end_job(const char *id, const char *job_state) {
    char result[512];
    snprintf(result, sizeof result, result_json, id, id);
    order("HSET solfleet:job:{%s} state %s completion_tokens 5 result %s", id, job_state, result);
    order("PUBLISH solfleet:events:{%s} x", id);
}

/* Somebody who has subscribed to a job is waiting for it. */
static void await_subscriber(const char *id) {
    bool subscribed = false;
    for (int i = 0; i < 1000 && !subscribed; i++) {
        redisReply *reply = redisCommand(worker, "PUBSUB NUMSUB solfleet:events:{%s}", id);
        subscribed = reply->elements == 2 && reply->element[1]->integer == 1;
        freeReplyObject(reply);
        poll(NULL, 0, subscribed ? 0 : 10);
    }
    assert_true(subscribed);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void lists_its_commands_and_explains_each(void **state) {
    char needle[64];
    for (size_t i = 0; command_at(i); i++) {
        assert_int_equal(RUN("--help"), COMMAND_EXIT_OK);
        snprintf(needle, sizeof needle, "\n  %s ", command_at(i)->name);
        assert_out(needle);
        assert_int_equal(RUN(command_at(i)->name, "--help"), COMMAND_EXIT_OK);
        snprintf(needle, sizeof needle, "usage: solfleet %s", command_at(i)->name);
        assert_out(needle);
    }
    const char *of_clients[] = {"submit", "status", "wait",  "results",
                                "topics", "broker", "config"};
    for (size_t i = 0; i < sizeof of_clients / sizeof of_clients[0]; i++) {
        assert_int_equal(RUN("help", of_clients[i]), COMMAND_EXIT_OK);
        snprintf(needle, sizeof needle, "\n  solfleet %s ", of_clients[i]);
        assert_out(needle); /* an example */
        assert_out("--json");
    }
}

static void refuses_what_it_does_not_know(void **state) {
    assert_int_equal(RUN("frobnicate"), COMMAND_EXIT_USAGE);
    assert_said("frobnicate");
    assert_int_equal(RUN("submti"), COMMAND_EXIT_USAGE);
    assert_said("did you mean 'submit'?");
    assert_int_equal(RUN("worker", "--model", "/nowhere/x.gguf"), COMMAND_EXIT_BAD_MODEL);
    assert_said("/nowhere/x.gguf: No such file or directory; see --model");
    assert_int_equal(RUN("submit", "--frobnicate", "x"), COMMAND_EXIT_USAGE);
    assert_said("frobnicate");
    assert_int_equal(RUN("submit"), COMMAND_EXIT_USAGE);
    assert_int_equal(RUN("submit", "/nowhere/x.md"), COMMAND_EXIT_USAGE);
    assert_said("No such file");
    assert_int_equal(RUN("status", "not an id"), COMMAND_EXIT_USAGE);
    assert_int_equal(RUN("wait", "a", "a"), COMMAND_EXIT_USAGE);
    assert_said("twice");
    assert_int_equal(RUN("wait", "a", "--show", "--code"), COMMAND_EXIT_USAGE);
    assert_int_equal(RUN("topics", "destroy"), COMMAND_EXIT_USAGE);
}

static void submits_a_text_and_finds_it_queued(void **state) {
    char *path = file_of("two-sum.md", "# Two Sum\n\nFind two numbers.\n");
    assert_int_equal(RUN("submit", path, "--id", "job-a", "--json"), COMMAND_EXIT_OK);
    assert_memory_equal(run.out, "{\"request_id\":\"job-a\",\"topic\":\"solfleet.jobs\",", 46);
    assert_int_equal(RUN("status", "job-a"), COMMAND_EXIT_OK);
    assert_out("queued");
    assert_int_equal(RUN("status", "--json", "job-a"), COMMAND_EXIT_OK);
    assert_out("\"state\":\"queued\",\"queued_at\":");
    assert_int_equal(RUN("submit", path, "--id", "job-a"), COMMAND_EXIT_OK);
    assert_string_equal(run.out, "job-a\n");
    assert_said("job-a has a status already");
    free(path);
}

static void sends_nothing_when_one_job_is_wrong(void **state) {
    char *path = file_of("jobs.jsonl", "{\"request_id\":\"good-1\",\"prompt\":\"x\"}\n"
                                       "{\"request_id\":\"bad-1\",\"prompt\":\"\"}\n");
    assert_int_equal(RUN("submit", path), COMMAND_EXIT_USAGE);
    assert_said("jobs.jsonl:2: prompt");
    assert_string_equal(run.out, "");
    assert_int_equal(RUN("status", "good-1"), COMMAND_EXIT_UNKNOWN_ID);
    free(path);
}

static void submits_many_and_keeps_their_order(void **state) {
    char text[1 << 14] = "", expected[1 << 14] = "";
    for (int i = 0; i < 150; i++) {
        sprintf(text + strlen(text), "{\"request_id\":\"n-%d\",\"prompt\":\"x\"}\n", i);
        sprintf(expected + strlen(expected), "n-%d\n", i);
    }
    char *path = file_of("many.jsonl", text);
    assert_int_equal(RUN("submit", path), COMMAND_EXIT_OK);
    assert_string_equal(run.out, expected);
    free(path);
}

static void tells_how_each_wait_ended_by_its_exit_code(void **state) {
    end_job("ended-well", "done");
    order("HSET solfleet:job:{ended-badly} state failed error_code numeric error_message oh");
    order("HSET solfleet:job:{endless} state running");
    assert_int_equal(RUN("wait", "ended-well"), COMMAND_EXIT_OK);
    assert_out("done");
    assert_int_equal(RUN("wait", "ended-well", "ended-badly"), COMMAND_EXIT_JOB_NOT_DONE);
    assert_out("numeric: oh");
    assert_int_equal(RUN("wait", "ended-well", "nobody", "--grace-ms", "0"),
                     COMMAND_EXIT_UNKNOWN_ID);
    assert_int_equal(RUN("wait", "endless", "--timeout-ms", "50"), COMMAND_EXIT_TIMED_OUT);
    assert_said("wait again");
}

static void prints_answers(void **state) {
    end_job("answered", "done");
    end_job("answered-2", "done");
    assert_int_equal(RUN("wait", "answered", "--show"), COMMAND_EXIT_OK);
    assert_string_equal(run.out, "the answer of answered\n");
    assert_int_equal(RUN("wait", "answered-2", "answered", "--show"), COMMAND_EXIT_OK);
    assert_string_equal(run.out, "==> answered-2 <==\nthe answer of answered-2\n"
                                 "==> answered <==\nthe answer of answered\n");
    assert_int_equal(RUN("wait", "answered", "--json"), COMMAND_EXIT_OK);
    assert_out("\"state\":\"done\"");
    assert_int_equal(RUN("wait", "answered", "--code"), COMMAND_EXIT_JOB_NOT_DONE);
    assert_said("--show");
}

static void prints_a_solution_by_sections_and_its_code_alone(void **state) {
    const char *result =
        "{\"version\":1,\"request_id\":\"solved\",\"status\":\"done\",\"finish_reason\":\"stop\","
        "\"text\":\"as written\",\"solution\":{\"analysis\":\"Sort.\",\"time_complexity\":\"O(n)\","
        "\"space_complexity\":null,\"code\":\"x=1\\n\",\"pitfalls\":null,\"code_language\":"
        "\"python\",\"sections_found\":[],\"complete\":true},\"model\":{\"prompt_version\":"
        "\"zh-1\"}}";
    order("HSET solfleet:job:{solved} state done result %s", result);
    assert_int_equal(RUN("wait", "solved", "--show"), COMMAND_EXIT_OK);
    assert_string_equal(run.out, "## 思路分析\nSort.\n\n## 时间复杂度\nO(n)\n\n"
                                 "## 代码示例\n```python\nx=1\n```\n");
    assert_int_equal(RUN("wait", "solved", "--code"), COMMAND_EXIT_OK);
    assert_string_equal(run.out, "x=1\n");
}

static void waits_live_until_a_job_ends(void **state) {
    order("HSET solfleet:job:{slow} state queued");
    pid_t waiting = START("wait", "slow", "--live");
    await_subscriber("slow");
    end_job("slow", "done");
    assert_int_equal(run_command_finish(waiting, &run), COMMAND_EXIT_OK);
    assert_out("done");
    assert_out("1 job: 1 done in ");
    assert_null(strchr(run.out, '\x1b')); /* no terminal, no escapes */
}

static void stops_waiting_when_interrupted(void **state) {
    order("HSET solfleet:job:{forever} state queued");
    pid_t waiting = START("wait", "forever");
    await_subscriber("forever");
    kill(waiting, SIGINT);
    assert_int_equal(run_command_finish(waiting, &run), COMMAND_EXIT_INTERRUPTED);
}

static void finds_its_topics_on_a_broker_without_administration(void **state) {
    assert_int_equal(RUN("topics", "create", "--json"), COMMAND_EXIT_OK);
    assert_out("{\"topic\":\"solfleet.jobs\",\"created\":false,\"partitions\":2}\n");
    assert_said("has 2 partitions, not 12");
}

static void reads_no_results_from_an_empty_topic(void **state) {
    assert_int_equal(RUN("results"), COMMAND_EXIT_OK);
    assert_string_equal(run.out, "");
}

static void masks_passwords_in_the_configuration(void **state) {
    assert_int_equal(RUN("config", "--redis", "redis://u:hidden@h:1", "--kafka.sasl.password",
                         "hidden", "--json"),
                     COMMAND_EXIT_OK);
    assert_null(strstr(run.out, "hidden"));
    assert_out("\"redis\":\"redis://u:***@h:1\"");
    assert_int_equal(RUN("config", "--redis", "redis://u:hidden@h:1"), COMMAND_EXIT_OK);
    assert_null(strstr(run.out, "hidden"));
}

static void names_the_service_that_is_unreachable(void **state) {
    char nowhere[32], redis_nowhere[64];
    snprintf(nowhere, sizeof nowhere, "127.0.0.1:%d", test_free_port());
    snprintf(redis_nowhere, sizeof redis_nowhere, "redis://%s", nowhere);
    char *path = file_of("u.md", "A problem.");
    assert_int_equal(
        RUN("submit", path, "--id", "u1", "--brokers", nowhere, "--connect-timeout-ms", "300"),
        COMMAND_EXIT_UNREACHABLE);
    assert_said("Kafka is unreachable");
    assert_said("--brokers");
    assert_int_equal(RUN("status", "u1"), COMMAND_EXIT_UNKNOWN_ID); /* nothing was promised */
    assert_int_equal(RUN("submit", path, "--id", "u1", "--redis", redis_nowhere),
                     COMMAND_EXIT_UNREACHABLE);
    assert_said("Redis is unreachable");
    assert_said("--redis");
    assert_int_equal(RUN("status", "u1", "--redis", redis_nowhere), COMMAND_EXIT_UNREACHABLE);
    assert_said("Redis is unreachable");
    assert_int_equal(RUN("wait", "u1", "--redis", redis_nowhere), COMMAND_EXIT_UNREACHABLE);
    assert_said("Redis is unreachable");
    assert_int_equal(RUN("results", "--brokers", nowhere, "--connect-timeout-ms", "300"),
                     COMMAND_EXIT_UNREACHABLE);
    assert_int_equal(RUN("topics", "create", "--brokers", nowhere, "--connect-timeout-ms", "300"),
                     COMMAND_EXIT_UNREACHABLE);
    free(path);
}

static void stops_the_broker_by_a_signal(void **state) {
    char *path = test_tmp_path("other-address"), address[64];
    pid_t other = START("broker", "--address-file", path);
    await_address(path, address);
    kill(other, SIGTERM);
    assert_int_equal(run_command_finish(other, &run), COMMAND_EXIT_OK);
    assert_out(address);
    free(path);
}

TEST_MAIN_WITH(start_world, stop_world, cmocka_unit_test(lists_its_commands_and_explains_each),
               cmocka_unit_test(refuses_what_it_does_not_know),
               cmocka_unit_test(submits_a_text_and_finds_it_queued),
               cmocka_unit_test(sends_nothing_when_one_job_is_wrong),
               cmocka_unit_test(submits_many_and_keeps_their_order),
               cmocka_unit_test(tells_how_each_wait_ended_by_its_exit_code),
               cmocka_unit_test(prints_answers),
               cmocka_unit_test(prints_a_solution_by_sections_and_its_code_alone),
               cmocka_unit_test(waits_live_until_a_job_ends),
               cmocka_unit_test(stops_waiting_when_interrupted),
               cmocka_unit_test(finds_its_topics_on_a_broker_without_administration),
               cmocka_unit_test(reads_no_results_from_an_empty_topic),
               cmocka_unit_test(masks_passwords_in_the_configuration),
               cmocka_unit_test(names_the_service_that_is_unreachable),
               cmocka_unit_test(stops_the_broker_by_a_signal))
