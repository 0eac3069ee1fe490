#include "consumer/replay_report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "schemas/json_writer.h"

static const char *const replay_report_names[] = {"replayed", "would_replay", "held",
                                                  "left_out", "foreign",      "no_letter"};

/* ---- JSON ---- */

static void replay_report_put_text(struct json_writer *writer, const char *key, const char *text) {
    json_writer_key(writer, key);
    json_writer_string(writer, text);
}

static void replay_report_put_int(struct json_writer *writer, const char *key, int64_t value) {
    json_writer_key(writer, key);
    json_writer_int(writer, value);
}

static void replay_report_end(const struct replay_report *report, struct json_writer *writer) {
    json_writer_end_object(writer);
    char *text = json_writer_finish(writer, NULL);
    fprintf(report->to, "%s\n", text ? text : "");
    free(text);
}

static void replay_report_print_json(const struct replay_report *report,
                                     const struct replay_entry *entry) {
    struct json_writer writer;
    json_writer_init(&writer, 256);
    json_writer_begin_object(&writer);
    replay_report_put_text(&writer, "action", replay_report_names[entry->action]);
    replay_report_put_int(&writer, "letter_partition", entry->partition);
    replay_report_put_int(&writer, "letter_offset", entry->offset);
    replay_report_put_text(&writer, "request_id", entry->request_id[0] ? entry->request_id : NULL);
    replay_report_put_text(&writer, "code", entry->code ? error_code_name(entry->code) : NULL);
    if (entry->action == REPLAY_HELD) {
        replay_report_put_text(&writer, "state", status_state_name(entry->state));
    } else if (entry->action == REPLAY_SENT) {
        replay_report_put_text(&writer, "topic", report->topic);
        replay_report_put_int(&writer, "partition", entry->delivery.partition);
        replay_report_put_int(&writer, "offset", entry->delivery.offset);
    }
    replay_report_end(report, &writer);
}

/* ---- lines ---- */

static void replay_report_print_line(const struct replay_report *report,
                                     const struct replay_entry *entry) {
    fprintf(report->to, "%" PRId32 ":%" PRId64 " %-12s %s %s", entry->partition, entry->offset,
            replay_report_names[entry->action], entry->request_id[0] ? entry->request_id : "-",
            entry->code ? error_code_name(entry->code) : "-");
    switch (entry->action) {
    case REPLAY_SENT:
        fprintf(report->to, " -> %s %" PRId32 ":%" PRId64, report->topic, entry->delivery.partition,
                entry->delivery.offset);
        break;
    case REPLAY_HELD: fprintf(report->to, " (is %s)", status_state_name(entry->state)); break;
    case REPLAY_LEFT_OUT:
        fprintf(report->to, " (%s bytes, left out: its client must send it again)",
                entry->left_out_bytes);
        break;
    default: break;
    }
    fputc('\n', report->to);
}

void replay_report_print(struct replay_report *report, const struct replay_entry *entry) {
    report->counts[entry->action]++;
    if (report->json) {
        replay_report_print_json(report, entry);
    } else {
        replay_report_print_line(report, entry);
    }
}

/* ---- the sum ---- */

static uint64_t replay_report_total(const struct replay_report *report) {
    uint64_t total = report->failed_count;
    for (size_t i = 0; i < REPLAY_ACTION_COUNT; i++) {
        total += report->counts[i];
    }
    return total;
}

void replay_report_sum(const struct replay_report *report) {
    const uint64_t *counts = report->counts;
    if (report->json) {
        struct json_writer writer;
        json_writer_init(&writer, 256);
        json_writer_begin_object(&writer);
        replay_report_put_int(&writer, "letters", (int64_t)replay_report_total(report));
        for (size_t i = 0; i < REPLAY_ACTION_COUNT; i++) {
            replay_report_put_int(&writer, replay_report_names[i], (int64_t)counts[i]);
        }
        replay_report_put_int(&writer, "failed", (int64_t)report->failed_count);
        replay_report_end(report, &writer);
        return;
    }
    fprintf(report->to,
            "%" PRIu64 " letters: %" PRIu64 " %s, %" PRIu64 " held, %" PRIu64
            " without their value, %" PRIu64 " of other topics, %" PRIu64 " no letters\n",
            replay_report_total(report), counts[report->dry_run ? REPLAY_WOULD : REPLAY_SENT],
            report->dry_run ? "to be replayed" : "replayed", counts[REPLAY_HELD],
            counts[REPLAY_LEFT_OUT], counts[REPLAY_FOREIGN], counts[REPLAY_NONE]);
}
