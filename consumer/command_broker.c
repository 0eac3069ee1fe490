#include <stdio.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/interrupt.h"
#include "consumer/kafka_broker.h"

struct command_broker_options {
    int64_t partitions;
    const char *address_file;
};

#define AT(field) offsetof(struct command_broker_options, field)
static const struct config_option command_broker_table[] = {
    {"partitions", CONFIG_INT, "12", 1, KAFKA_BROKER_PARTITIONS_MAX, NULL, 0, AT(partitions),
     "partitions of each topic"},
    {"address_file", CONFIG_TEXT, "", 0, 0, NULL, 0, AT(address_file),
     "file that gets the address once the broker takes connections"},
};
#undef AT

static const char command_broker_help[] =
    "Runs a small Kafka broker in this process, for demos and tests: in memory, on 127.0.0.1, on a\n"
    "port that it chooses. It makes the three topics, prints its address, and runs until SIGINT\n"
    "or SIGTERM. Nothing survives its end, and it holds at most 5 MiB a partition.\n"
    "\n"
    "  solfleet broker --address-file /tmp/broker &\n"
    "  solfleet submit problem.md --brokers \"$(cat /tmp/broker)\"";

/* Written under another name first: who sees the file sees all of it. */
static bool command_broker_write_address(const char *path, const char *address) {
    char partial[4096];
    int length = snprintf(partial, sizeof partial, "%s.part", path);
    FILE *file = length > 0 && (size_t)length < sizeof partial ? fopen(partial, "we") : NULL;
    if (!file) {
        return false;
    }
    bool written = fprintf(file, "%s\n", address) > 0;
    written &= fclose(file) == 0;
    return written && rename(partial, path) == 0;
}

static int command_broker_serve(const struct config *config, void *own,
                                struct interrupt *interrupt) {
    const struct command_broker_options *options = own;
    const char *topics[] = {config->jobs_topic, config->results_topic, config->dead_letter_topic};
    char err[512];
    struct kafka_broker *broker =
        kafka_broker_open(topics, 3, (int)options->partitions, err, sizeof err);
    if (!broker) {
        return command_fail("broker", COMMAND_EXIT_BUG, "%s", err);
    }
    const char *address = kafka_broker_address(broker);
    int code = COMMAND_EXIT_OK;
    if (options->address_file[0] && !command_broker_write_address(options->address_file, address)) {
        code = command_fail("broker", COMMAND_EXIT_USAGE, "cannot write --address-file %s",
                            options->address_file);
    } else {
        printf(config->json ? "{\"brokers\":\"%s\"}\n" : "%s\n", address);
        fflush(stdout);
        interrupt_wait(interrupt);
    }
    kafka_broker_close(broker);
    return code;
}

static int command_broker_run(int argc, char **argv) {
    struct command_broker_options options = {0};
    const struct config_spec spec = {
        .name = "broker",
        .command = CONFIG_BROKER,
        .usage = "",
        .summary = command_broker_help,
        .own = command_broker_table,
        .own_count = sizeof command_broker_table / sizeof command_broker_table[0],
        .own_values = &options,
    };
    return command_run_interruptible(&spec, argc, argv, command_broker_serve);
}

const struct command command_broker_entry = {
    "broker", "run a small Kafka broker for demos and tests", command_broker_run};
