/* What a worker tells people: that it is ready, and at its end what it did. Any thread; no
 * state. */
#ifndef SOLFLEET_CONSUMER_WORKER_REPORT_H
#define SOLFLEET_CONSUMER_WORKER_REPORT_H

#include <stdbool.h>
#include <stdio.h>

struct config;
struct engine_info;
struct engine_stats;
struct gpu_monitor_report;
struct worker_stats;

/* One line that begins with "ready". */
void worker_report_ready(FILE *out, const struct config *config, const char *name,
                         const struct engine_info *info, const struct worker_stats *stats);

/* The batch statistics, as a table or as one JSON document. Of the card only what it told. */
void worker_report_statistics(FILE *out, bool json, const struct engine_stats *engine,
                              const struct worker_stats *worker,
                              const struct gpu_monitor_report *gpu);

#endif
