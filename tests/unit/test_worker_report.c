#include "consumer/worker_report.h"

#include <stdlib.h>
#include <string.h>

#include "consumer/gpu_monitor.h"
#include "consumer/worker.h"
#include "engine/engine.h"
#include "schemas/json.h"
#include "tests/support/test.h"

static char *report_of_card(bool json, const struct worker_stats *stats,
                            const struct gpu_monitor_report *gpu) {
    struct engine_stats engine = {.steps_total = 12, .busy_ns_total = 34567890};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    worker_report_statistics(out, json, &engine, stats, gpu);
    fclose(out);
    return text;
}

static char *report(bool json, const struct worker_stats *stats) {
    const struct gpu_monitor_report none = {0};
    return report_of_card(json, stats, &none);
}

static const struct worker_stats troubled = {.store = {.links_total = 2,
                                                       .claims_unanswered = 7,
                                                       .late_answers = 5,
                                                       .breaker_opened_total = 1,
                                                       .refused_total = 3,
                                                       .backlog_count = 4,
                                                       .dropped_total = 6}};

static void tells_what_was_done_without_redis(void **state) {
    char *text = report(false, &troubled);
    assert_non_null(strstr(text, "claims unanswered   7\n"));
    assert_non_null(strstr(text, "answered late       5\n"));
    assert_non_null(strstr(text, "calls refused       3\n"));
    assert_non_null(strstr(text, "statuses unwritten  10\n"));
    free(text);
}

static void tells_how_long_the_engine_was_busy(void **state) {
    char *text = report(false, &troubled), *json = report(true, &troubled);
    assert_non_null(strstr(text, "steps               12\n"));
    assert_non_null(strstr(text, "busy in steps       34 ms\n"));
    assert_non_null(strstr(json, "\"steps\":12,\"engine_busy_ms\":34,"));
    free(text);
    free(json);
}

static void tells_what_a_card_told(void **state) {
    const struct gpu_monitor_report gpu = {.utilization_samples = 2,
                                           .memory_samples = 2,
                                           .temperature_samples = 2,
                                           .power_samples = 0,
                                           .utilization_percent = 61.25,
                                           .memory_used_bytes_max = 3 << 20,
                                           .memory_total_bytes = 8 << 20,
                                           .temperature_celsius_max = 71};
    char *text = report_of_card(false, &troubled, &gpu);
    char *json = report_of_card(true, &troubled, &gpu), *none = report(true, &troubled);
    assert_non_null(strstr(text, "gpu utilisation     61.2 %\n"));
    assert_non_null(strstr(text, "gpu memory at most  3 of 8 MiB\n"));
    assert_non_null(strstr(text, "gpu heat at most    71 C\n"));
    assert_null(strstr(text, "gpu power"));
    assert_non_null(strstr(json, ",\"gpu\":{\"memory_used_bytes_max\":3145728,"
                                 "\"memory_total_bytes\":8388608,\"utilization_percent\":61.2,"
                                 "\"temperature_celsius_max\":71}}\n"));
    assert_null(strstr(none, "gpu"));
    free(text);
    free(json);
    free(none);
}

static void is_one_json_document_if_asked_for_it(void **state) {
    static const char redis[] =
        "\"redis\":{\"connections\":2,\"claims_unanswered\":7,\"answered_late\":5,"
        "\"seals_unanswered\":0,\"breaker_opened\":1,\"calls_refused\":3,"
        "\"statuses_unwritten\":10,\"statuses_dropped\":6}";
    const struct json_limits limits = {.bytes_max = 1 << 16, .depth_max = 8};
    char *text = report(true, &troubled);
    struct json json;
    struct job_error error;
    assert_int_equal(json_parse(&json, text, strlen(text), &limits, &error), ERROR_NONE);
    assert_non_null(strstr(text, redis));
    json_deinit(&json);
    free(text);
}

TEST_MAIN(cmocka_unit_test(tells_what_was_done_without_redis),
          cmocka_unit_test(tells_how_long_the_engine_was_busy),
          cmocka_unit_test(tells_what_a_card_told),
          cmocka_unit_test(is_one_json_document_if_asked_for_it))
