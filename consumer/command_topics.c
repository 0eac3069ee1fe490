#include <stdio.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/kafka_admin.h"

struct command_topics_options {
    int64_t partitions, replication_factor, retention_ms, connect_timeout_ms;
};

#define AT(field) offsetof(struct command_topics_options, field)
static const struct config_option command_topics_table[] = {
    {"partitions", CONFIG_INT, "12", 1, 10000, NULL, 0, AT(partitions),
     "partitions of each topic: the most workers that can share the work"},
    {"replication_factor", CONFIG_INT, "-1", -1, 100, NULL, 0, AT(replication_factor),
     "copies of each partition; -1: as the broker is configured"},
    {"retention_ms", CONFIG_INT, "604800000", 1000, 1e15, NULL, 0, AT(retention_ms),
     "how long records are kept; shorter than statuses live (status_ttl_s)"},
    {"connect_timeout_ms", CONFIG_INT, "10000", 1, 1e9, NULL, 0, AT(connect_timeout_ms),
     "how long the broker may be silent"},
};
#undef AT

static const char command_topics_help[] =
    "Makes the three topics where they are missing: jobs (stamped with the broker's time, so that\n"
    "time-outs do not depend on clients' clocks), results, and dead letters. Topics that exist are\n"
    "left as they are; what differs is said.\n"
    "\n"
    "  solfleet topics create --partitions 12 --brokers kafka:9092\n"
    "\n"
    "Exit code: 0 all exist now; 2 the broker refuses; 4 the broker is unreachable.";

/* Says what a topic that existed has otherwise than asked for. */
static void command_topics_compare(const struct kafka_admin_topic *topic, bool is_jobs) {
    if (topic->partitions_found != topic->partitions) {
        fprintf(stderr,
                "solfleet topics: %s has %d partitions, not %d: left as it is (adding partitions "
                "moves keys)\n",
                topic->name, topic->partitions_found, topic->partitions);
    }
    if (is_jobs && topic->timestamp_type[0] &&
        strcmp(topic->timestamp_type, "LogAppendTime") != 0) {
        fprintf(stderr,
                "solfleet topics: %s has message.timestamp.type=%s: time-outs count from clients' "
                "clocks; set it to LogAppendTime with your broker's tools\n",
                topic->name, topic->timestamp_type);
    }
}

static void command_topics_print(const struct config *config, const struct kafka_admin_topic *topic,
                                 bool is_jobs) {
    int partitions = topic->existed ? topic->partitions_found : topic->partitions;
    if (config->json) {
        printf("{\"topic\":\"%s\",\"created\":%s,\"partitions\":%d}\n", topic->name,
               topic->existed ? "false" : "true", partitions);
    } else {
        printf("%s: %s with %d partitions\n", topic->name, topic->existed ? "exists" : "created",
               partitions);
    }
    if (topic->existed) {
        command_topics_compare(topic, is_jobs);
    }
}

static int command_topics_create(const struct config *config, void *own) {
    const struct command_topics_options *options = own;
    if (strcmp(config->arguments[0], "create") != 0) {
        return command_fail("topics", COMMAND_EXIT_USAGE,
                            "unknown action '%s'; there is 'solfleet topics create'",
                            config->arguments[0]);
    }
    char retention[24], err[512];
    snprintf(retention, sizeof retention, "%lld", (long long)options->retention_ms);
    const struct config_pass properties[] = {{"retention.ms", retention},
                                             {"message.timestamp.type", "LogAppendTime"}};
    const char *names[] = {config->jobs_topic, config->results_topic, config->dead_letter_topic};
    struct kafka_admin_topic topics[3];
    for (size_t i = 0; i < 3; i++) {
        topics[i] = (struct kafka_admin_topic){.name = names[i],
                                               .partitions = (int)options->partitions,
                                               .replication = (int)options->replication_factor,
                                               .properties = properties,
                                               .property_count = i == 0 ? 2 : 1};
    }
    enum kafka_client_status status =
        kafka_admin_make_topics(config, topics, 3, options->connect_timeout_ms, err, sizeof err);
    if (status != KAFKA_CLIENT_OK) {
        return command_fail_client("topics", status, err);
    }
    for (size_t i = 0; i < 3; i++) {
        command_topics_print(config, &topics[i], i == 0);
    }
    return COMMAND_EXIT_OK;
}

static int command_topics_run(int argc, char **argv) {
    struct command_topics_options options = {0};
    const struct config_spec spec = {
        .name = "topics",
        .command = CONFIG_TOPICS,
        .usage = "create",
        .summary = command_topics_help,
        .own = command_topics_table,
        .own_count = sizeof command_topics_table / sizeof command_topics_table[0],
        .own_values = &options,
        .arguments_min = 1,
        .arguments_max = 1,
    };
    return command_run(&spec, argc, argv, command_topics_create);
}

const struct command command_topics_entry = {"topics", "make the topics that are missing",
                                             command_topics_run};
