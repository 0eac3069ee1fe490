#include "consumer/topics_hint.h"

#include "consumer/config.h"
#include "tests/support/test.h"

static void says(const char *expected, const struct config *config) {
    char text[512];
    topics_hint_missing(config, "x", text, sizeof text);
    assert_string_equal(text, expected);
}

static void gives_the_command_that_makes_the_topics(void **state) {
    struct config config = {.brokers = "kafka:9092",
                            .jobs_topic = "solfleet.jobs",
                            .results_topic = "solfleet.results",
                            .dead_letter_topic = "solfleet.dead-letter"};
    says("topic 'x' does not exist; make it with: solfleet topics create --brokers kafka:9092",
         &config);
    config.jobs_topic = "j";
    config.dead_letter_topic = "d";
    says("topic 'x' does not exist; make it with: solfleet topics create --brokers kafka:9092"
         " --jobs-topic j --dead-letter-topic d",
         &config);
}

TEST_MAIN(cmocka_unit_test(gives_the_command_that_makes_the_topics))
