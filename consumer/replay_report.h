/* A report of a replay: a line for each letter, and their sum.
 *
 * Plain lines or JSON. The caller's memory, one thread. Refuses to know how letters are sent. */
#ifndef SOLFLEET_CONSUMER_REPLAY_REPORT_H
#define SOLFLEET_CONSUMER_REPLAY_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "consumer/kafka_producer.h"
#include "schemas/error.h"
#include "schemas/job.h"
#include "schemas/status.h"

/* What becomes of a letter. */
enum replay_action {
    REPLAY_SENT,
    REPLAY_WOULD, /* be sent, but for a dry run */
    REPLAY_HELD,  /* its id has a status that is not to be changed */
    REPLAY_LEFT_OUT,
    REPLAY_FOREIGN, /* of another jobs topic */
    REPLAY_NONE,    /* no dead letter */
    REPLAY_ACTION_COUNT
};

/* A letter that has been dealt with, but for its delivery. */
struct replay_entry {
    struct kafka_producer_delivery delivery; /* SENT */
    enum replay_action action;
    enum status_state state; /* HELD: what it is; STATUS_UNKNOWN = no status of ours */
    enum error_code code;    /* ERROR_NONE = none */
    int32_t partition;       /* its place among the letters */
    int64_t offset;
    char request_id[JOB_ID_BYTES_MAX + 1]; /* "" = none */
    char left_out_bytes[24];               /* LEFT_OUT: the size of its value */
};

struct replay_report {
    FILE *to;
    bool json, dry_run;
    const char *topic; /* where letters are sent to; borrowed */
    uint64_t counts[REPLAY_ACTION_COUNT];
    uint64_t failed_count; /* the caller's: SENT, but not delivered; not printed */
};

/* Prints and counts it. */
void replay_report_print(struct replay_report *report, const struct replay_entry *entry);
void replay_report_sum(const struct replay_report *report);

#endif
