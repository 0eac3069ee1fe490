/* `solfleet replay`: dead letters go back onto the jobs topic. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/interrupt.h"
#include "consumer/kafka_producer.h"
#include "consumer/kafka_reader.h"
#include "consumer/replay_letter.h"
#include "consumer/replay_report.h"
#include "consumer/since.h"
#include "consumer/status_client.h"
#include "engine/clock.h"

#define COMMAND_REPLAY_WINDOW 256 /* letters sent before their deliveries are waited for */

struct command_replay_options {
    const char *since, *code, *id;
    int64_t partition, from, to, connect_timeout_ms;
    bool dry_run;
};

#define AT(field) offsetof(struct command_replay_options, field)
static const struct config_option command_replay_table[] = {
    {"since", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(since),
     "only letters from then on: unix ms, ISO 8601 (UTC), or how long ago, as 90s, 15m, 2h, 7d"},
    {"code", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(code), "only letters of this code, as poison"},
    {"id", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(id), "only letters of this request id"},
    {"partition", CONFIG_INT, "-1", -1, 1e6, NULL, 0, AT(partition),
     "only this partition of the dead-letter topic; -1: all"},
    {"from", CONFIG_INT, "0", 0, 9e15, NULL, 0, AT(from), "first offset, of each partition"},
    {"to", CONFIG_INT, "-1", -1, 9e15, NULL, 0, AT(to),
     "last offset, of each partition; -1: what is there now"},
    {"dry_run", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(dry_run),
     "only say what would be put back; Redis is not asked"},
    {"connect_timeout_ms", CONFIG_INT, "10000", 1, 1e9, NULL, 0, AT(connect_timeout_ms),
     "how long the broker or Redis may be silent"},
};
#undef AT

static const char command_replay_help[] =
    "Puts dead letters back onto the jobs topic as the records they were: value, key and headers of\n"
    "their own, with a new timestamp. What has been read is printed with its place in both topics,\n"
    "so that a later run can leave it out (--from, --to): the letters themselves stay where they\n"
    "are.\n"
    "\n"
    "Where the letter's id has a status that failed by the same code, that becomes `queued` again,\n"
    "so that the job is worked on; poison begins with no deaths. An id that is done, queued,\n"
    "running or another record's is held: its letter is not sent. So a second run over the same\n"
    "letters sends nothing that the first one has brought to an end. A letter whose value was too\n"
    "large for the topic cannot be put back: its job must be sent again by its client.\n"
    "\n"
    "  solfleet replay --since 2h --dry-run\n"
    "  solfleet replay --code poison --id two-sum-3f9a2c41d0b7\n"
    "  solfleet replay --partition 0 --from 15 --to 20 --json\n"
    "\n"
    "Exit code: 0 all put back or held; 1 some cannot be, for want of their values; 2 wrong options\n"
    "or a refusal; 4 the broker or Redis is unreachable: the same command goes on.";

struct command_replay {
    const struct config *config;
    const struct command_replay_options *options;
    struct interrupt *interrupt;
    int64_t since_unix_ms; /* -1 = from the beginning */
    struct kafka_reader *reader;
    struct kafka_producer *producer; /* NULL in a dry run, as the next */
    struct status_client *client;
    struct record_header headers[RECORD_HEADERS_MAX]; /* of the letter at hand */
    struct replay_entry entries[COMMAND_REPLAY_WINDOW];
    size_t entry_count, sent_count;
    struct replay_report report;
};

/* ---- sending --------------------------------------------------------------------------------- */

/* Waits for the deliveries of the window and prints all of it, in the order of the letters. */
static int command_replay_collect(struct command_replay *replay) {
    int code = COMMAND_EXIT_OK;
    for (; replay->sent_count > 0; replay->sent_count--) {
        while (kafka_producer_take_delivery(replay->producer, 1000, NULL) != KAFKA_CLIENT_OK) {
            /* each has one, at the latest after the producer's time-out */
        }
    }
    for (size_t i = 0; i < replay->entry_count; i++) {
        const struct replay_entry *entry = &replay->entries[i];
        if (entry->action == REPLAY_SENT && entry->delivery.status != KAFKA_CLIENT_OK) {
            replay->report.failed_count++;
            fprintf(stderr, "solfleet replay: %" PRId32 ":%" PRId64 " (%s) was not put back\n",
                    entry->partition, entry->offset, entry->request_id);
            code = command_fail_client("replay", entry->delivery.status, entry->delivery.error);
            continue;
        }
        replay_report_print(&replay->report, entry);
    }
    replay->entry_count = 0;
    fflush(stdout);
    return code;
}

/* Whether the letter's status lets it be worked on; says so in the entry. */
static int command_replay_renew(struct command_replay *replay, const struct replay_letter *letter,
                                struct replay_entry *entry) {
    char mark[48], err[512];
    enum status_client_renewed renewed = STATUS_CLIENT_ABSENT;
    if (letter->request_id[0] == '\0') {
        return COMMAND_EXIT_OK;
    }
    snprintf(mark, sizeof mark, "%" PRId32 ":%" PRId64, entry->partition, entry->offset);
    struct status_client_renewal renewal = {.id = letter->request_id,
                                            .error_code = error_code_name(letter->code),
                                            .fingerprint = letter->fingerprint,
                                            .mark = mark};
    enum status_client_status status =
        status_client_renew(replay->client, &renewal, clock_unix_ms(NULL),
                            replay->config->status_ttl_s, &renewed, &entry->state, err, sizeof err);
    if (status != STATUS_CLIENT_OK) {
        return status == STATUS_CLIENT_UNREACHABLE
                   ? command_fail_redis("replay", err)
                   : command_fail("replay", COMMAND_EXIT_UNREACHABLE, "%s; see --redis", err);
    }
    if (renewed == STATUS_CLIENT_HELD) {
        entry->action = REPLAY_HELD;
    }
    return COMMAND_EXIT_OK;
}

static int command_replay_send(struct command_replay *replay, const struct replay_letter *letter,
                               const struct record *record, struct replay_entry *entry) {
    struct kafka_producer_delivery *delivery = &entry->delivery;
    int code = command_replay_renew(replay, letter, entry);
    if (code != COMMAND_EXIT_OK || entry->action != REPLAY_SENT) {
        return code;
    }
    enum kafka_client_status status = kafka_producer_send_record(
        replay->producer, replay->config->jobs_topic, record, replay->headers, letter->header_count,
        delivery, delivery->error, sizeof delivery->error);
    delivery->status = status; /* until it is taken; the window is far smaller than the queue */
    replay->sent_count += status == KAFKA_CLIENT_OK;
    return COMMAND_EXIT_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool command_replay_is_wanted(const struct command_replay *replay,
                                     const struct replay_letter *letter,
                                     const struct kafka_reader_record *record) {
    const struct command_replay_options *options = replay->options;
    return (options->partition < 0 || record->partition == options->partition) &&
           record->offset >= options->from && (options->to < 0 || record->offset <= options->to) &&
           (!options->code || strcmp(options->code, error_code_name(letter->code)) == 0) &&
           (!options->id || strcmp(options->id, letter->request_id) == 0);
}

static enum replay_action command_replay_judge(const struct command_replay *replay,
                                               const struct replay_letter *letter) {
    return letter->code == ERROR_NONE                                 ? REPLAY_NONE
           : !replay_letter_is_of(letter, replay->config->jobs_topic) ? REPLAY_FOREIGN
           : letter->value_left_out                                   ? REPLAY_LEFT_OUT
           : replay->options->dry_run                                 ? REPLAY_WOULD
                                                                      : REPLAY_SENT;
}

static int command_replay_take(struct command_replay *replay,
                               const struct kafka_reader_record *read) {
    struct record record = {.key = read->key,
                            .key_bytes = read->key_bytes,
                            .value = read->value,
                            .value_bytes = read->value_bytes};
    struct replay_letter letter;
    size_t count = kafka_reader_headers(replay->reader, replay->headers, RECORD_HEADERS_MAX);
    if (!replay_letter_read(&letter, &record, replay->headers, count)) {
        return command_fail("replay", COMMAND_EXIT_BUG, "out of memory");
    }
    if (!command_replay_is_wanted(replay, &letter, read)) {
        return COMMAND_EXIT_OK;
    }
    struct replay_entry *entry = &replay->entries[replay->entry_count++];
    *entry = (struct replay_entry){.action = command_replay_judge(replay, &letter),
                                   .code = letter.code,
                                   .partition = read->partition,
                                   .offset = read->offset};
    memcpy(entry->request_id, letter.request_id, sizeof entry->request_id);
    if (letter.value_left_out) {
        snprintf(entry->left_out_bytes, sizeof entry->left_out_bytes, "%.*s",
                 (int)letter.left_out_bytes.value_bytes, (const char *)letter.left_out_bytes.value);
    }
    int code = COMMAND_EXIT_OK;
    if (entry->action == REPLAY_SENT) {
        code = command_replay_send(replay, &letter, &record, entry);
    }
    if (code != COMMAND_EXIT_OK) {
        replay->entry_count--; /* nothing is known of it */
    }
    return code;
}

static int command_replay_all(struct command_replay *replay) {
    struct kafka_reader_record record;
    char err[512];
    int code = COMMAND_EXIT_OK;
    while (code == COMMAND_EXIT_OK) {
        if (interrupt_take(replay->interrupt)) {
            return COMMAND_EXIT_INTERRUPTED;
        }
        enum kafka_client_status status =
            kafka_reader_read(replay->reader, 100, false, &record, err, sizeof err);
        if (status == KAFKA_CLIENT_END) {
            return COMMAND_EXIT_OK;
        }
        if (status == KAFKA_CLIENT_OK) {
            code = command_replay_take(replay, &record);
        } else if (status != KAFKA_CLIENT_NONE) {
            code = command_fail_client("replay", status, err);
        }
        if (code == COMMAND_EXIT_OK && replay->entry_count == COMMAND_REPLAY_WINDOW) {
            code = command_replay_collect(replay);
        }
    }
    return code;
}

/* ---- entry ----------------------------------------------------------------------------------- */

static int command_replay_check(struct command_replay *replay) {
    const struct command_replay_options *options = replay->options;
    enum error_code code;
    if (options->code && !error_code_parse(options->code, &code)) {
        return command_fail("replay", COMMAND_EXIT_USAGE,
                            "--code: '%s' is no code of a dead letter", options->code);
    }
    if (options->since &&
        !since_parse(options->since, clock_unix_ms(NULL), &replay->since_unix_ms)) {
        return command_fail("replay", COMMAND_EXIT_USAGE,
                            "--since: '%s' is no past moment: give unix ms, ISO 8601 or how long "
                            "ago (90s, 15m, 2h, 7d)",
                            options->since);
    }
    return COMMAND_EXIT_OK;
}

static int command_replay_open_targets(struct command_replay *replay) {
    const struct config *config = replay->config;
    int64_t timeout_ms = replay->options->connect_timeout_ms;
    char err[512];
    enum kafka_client_status status =
        kafka_producer_open(config, timeout_ms, &replay->producer, err, sizeof err);
    if (status == KAFKA_CLIENT_OK) {
        status =
            kafka_producer_check(replay->producer, config->jobs_topic, timeout_ms, err, sizeof err);
    }
    if (status != KAFKA_CLIENT_OK) {
        return command_fail_client("replay", status, err);
    }
    switch (status_client_open(config->redis, config->key_prefix, timeout_ms, &replay->client, err,
                               sizeof err)) {
    case STATUS_CLIENT_OK: return COMMAND_EXIT_OK;
    case STATUS_CLIENT_BAD_SETTING: return command_fail("replay", COMMAND_EXIT_USAGE, "%s", err);
    case STATUS_CLIENT_REFUSED: return command_fail("replay", COMMAND_EXIT_UNREACHABLE, "%s", err);
    default: return command_fail_redis("replay", err);
    }
}

static int command_replay_open(struct command_replay *replay) {
    const struct config *config = replay->config;
    char err[512];
    enum kafka_client_status status =
        kafka_reader_open(config, config->dead_letter_topic,
                          replay->since_unix_ms < 0 ? KAFKA_READER_BEGINNING : KAFKA_READER_SINCE,
                          replay->since_unix_ms, replay->options->connect_timeout_ms,
                          &replay->reader, err, sizeof err);
    if (status != KAFKA_CLIENT_OK) {
        return command_fail_client("replay", status, err);
    }
    return replay->options->dry_run ? COMMAND_EXIT_OK : command_replay_open_targets(replay);
}

static int command_replay_work(struct command_replay *replay) {
    int code = command_replay_check(replay);
    code = code ? code : command_replay_open(replay);
    if (code) {
        return code;
    }
    code = command_replay_all(replay);
    int collected = command_replay_collect(replay); /* what was sent is told, whatever happened */
    code = code ? code : collected;
    replay_report_sum(&replay->report);
    if (code == COMMAND_EXIT_OK && replay->report.counts[REPLAY_LEFT_OUT] > 0) {
        code = COMMAND_EXIT_JOB_NOT_DONE;
    }
    return code;
}

static int command_replay_letters(const struct config *config, void *own,
                                  struct interrupt *interrupt) {
    struct command_replay *replay = calloc(1, sizeof *replay);
    if (!replay) {
        return command_fail("replay", COMMAND_EXIT_BUG, "out of memory");
    }
    replay->config = config;
    replay->options = own;
    replay->interrupt = interrupt;
    replay->since_unix_ms = -1;
    replay->report = (struct replay_report){.to = stdout,
                                            .json = config->json,
                                            .dry_run = replay->options->dry_run,
                                            .topic = config->jobs_topic};
    int code = command_replay_work(replay);
    kafka_reader_close(replay->reader);
    kafka_producer_close(replay->producer);
    status_client_close(replay->client);
    free(replay);
    return code;
}

static int command_replay_run(int argc, char **argv) {
    struct command_replay_options options = {0};
    const struct config_spec spec = {
        .name = "replay",
        .command = CONFIG_REPLAY,
        .usage = "",
        .summary = command_replay_help,
        .own = command_replay_table,
        .own_count = sizeof command_replay_table / sizeof command_replay_table[0],
        .own_values = &options,
    };
    return command_run_interruptible(&spec, argc, argv, command_replay_letters);
}

const struct command command_replay_entry = {"replay", "put dead letters back onto the jobs topic",
                                             command_replay_run};
