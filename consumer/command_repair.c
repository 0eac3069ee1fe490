/* `solfleet repair`: terminal statuses that Redis lost, from the results topic. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/interrupt.h"
#include "consumer/repair.h"
#include "consumer/since.h"
#include "engine/clock.h"
#include "engine/log.h"

struct command_repair_options {
    const char *since;
    int64_t connect_timeout_ms;
};

#define AT(field) offsetof(struct command_repair_options, field)
static const struct config_option command_repair_table[] = {
    {"since", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(since),
     "read results from then on: unix ms, ISO 8601 (UTC), or how long ago, as 90s, 15m, 2h, 7d"},
    {"connect_timeout_ms", CONFIG_INT, "10000", 1, 1e9, NULL, 0, AT(connect_timeout_ms),
     "how long the broker or Redis may be away"},
};
#undef AT

static const char command_repair_help[] =
    "Reads the results topic (and the reply topics) from a moment on to its present end, and gives\n"
    "every id its terminal status where Redis has none: after Redis restarted empty, or a worker\n"
    "said redis.backlog_dropped. What is there stays as it is, so it may run at any time and again.\n"
    "Workers do the same at their start for repair_window_s.\n"
    "\n"
    "  solfleet repair --since 2h\n"
    "  solfleet repair --since 2026-11-29T20:15:00Z --json\n"
    "\n"
    "Exit code: 0 all applied; 1 some records are no results; 2 wrong options or a refusal; 4 the\n"
    "broker or Redis is unreachable: run it again.";

static int command_repair_print(const struct config *config, const struct repair *repair) {
    struct repair_stats stats;
    repair_stats(repair, &stats);
    printf(config->json ? "{\"read\":%" PRIu64 ",\"applied\":%" PRIu64 ",\"already_there\":%" PRIu64
                          ",\"unreadable\":%" PRIu64 ",\"applied_late\":%" PRIu64 "}\n"
                        : "%" PRIu64 " results read: %" PRIu64 " statuses written, %" PRIu64
                          " were there, %" PRIu64 " unreadable, %" PRIu64
                          " written after Redis came back\n",
           stats.read, stats.applied, stats.there, stats.unreadable, stats.unanswered);
    return stats.unreadable ? COMMAND_EXIT_JOB_NOT_DONE : COMMAND_EXIT_OK;
}

/* False when Redis has been away for too long. */
static bool command_repair_is_patient(const struct repair *repair, int64_t timeout_ms,
                                      int64_t *away_since_ns) {
    struct repair_stats stats;
    int64_t now_ns = clock_monotonic_ns(NULL);
    repair_stats(repair, &stats);
    if (stats.redis_is_up) {
        *away_since_ns = now_ns;
    }
    return now_ns - *away_since_ns <= timeout_ms * CLOCK_NS_PER_MS;
}

static int command_repair_work(const struct config *config, struct repair *repair,
                               int64_t timeout_ms, struct interrupt *interrupt) {
    int64_t away_since_ns = clock_monotonic_ns(NULL);
    char err[512];
    for (;;) {
        enum kafka_client_status status = repair_step(repair, err, sizeof err);
        if (status == KAFKA_CLIENT_END) {
            return command_repair_print(config, repair);
        }
        if (status != KAFKA_CLIENT_NONE) {
            return command_fail_client("repair", status, err);
        }
        if (!command_repair_is_patient(repair, timeout_ms, &away_since_ns)) {
            return command_fail_redis("repair", "no answer in time");
        }
        if (interrupt_take(interrupt)) {
            return COMMAND_EXIT_INTERRUPTED;
        }
        struct pollfd watched = repair_pollfd(repair);
        poll(&watched, 1, repair_wait_ms(repair));
    }
}

static int command_repair_statuses(const struct config *config, void *own,
                                   struct interrupt *interrupt) {
    const struct command_repair_options *command = own;
    struct log log;
    struct repair_options options = {.config = config,
                                     .log = &log, /* why Redis is away, and what is left out */
                                     .worker = "repair",
                                     .timeout_ms = command->connect_timeout_ms};
    log_init(&log, STDERR_FILENO, LOG_LEVEL_WARN, NULL);
    if (!command->since) {
        return command_fail("repair", COMMAND_EXIT_USAGE,
                            "--since is missing: from when on, as --since 2h");
    }
    if (!since_parse(command->since, clock_unix_ms(NULL), &options.since_unix_ms)) {
        return command_fail("repair", COMMAND_EXIT_USAGE,
                            "--since: '%s' is no past moment: give unix ms, ISO 8601 or how long "
                            "ago (90s, 15m, 2h, 7d)",
                            command->since);
    }
    struct repair *repair;
    char err[512];
    enum kafka_client_status status = repair_open(&options, &repair, err, sizeof err);
    if (status != KAFKA_CLIENT_OK) {
        return command_fail_client("repair", status, err);
    }
    int code = command_repair_work(config, repair, command->connect_timeout_ms, interrupt);
    repair_close(repair);
    return code;
}

static int command_repair_run(int argc, char **argv) {
    struct command_repair_options options = {0};
    const struct config_spec spec = {
        .name = "repair",
        .command = CONFIG_REPAIR,
        .usage = "--since T",
        .summary = command_repair_help,
        .own = command_repair_table,
        .own_count = sizeof command_repair_table / sizeof command_repair_table[0],
        .own_values = &options,
    };
    return command_run_interruptible(&spec, argc, argv, command_repair_statuses);
}

const struct command command_repair_entry = {
    "repair", "give ids their end again, from the results topic", command_repair_run};
