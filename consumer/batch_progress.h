/* The progress of a batch, shown: a bar drawn over itself on a terminal, a plain line every few
 * seconds elsewhere. Owns nothing. One thread. Refuses to know what is being counted. */
#ifndef SOLFLEET_CONSUMER_BATCH_PROGRESS_H
#define SOLFLEET_CONSUMER_BATCH_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct batch_progress {
    FILE *to;
    bool drawing; /* over itself: `to` is a terminal */
    size_t total, ended_before;
    int64_t started_ns, shown_ns;
};

/* `ended_before`: those that an earlier run finished; they do not count for the rate. */
void batch_progress_init(struct batch_progress *progress, FILE *to, size_t total,
                         size_t ended_before);
/* Shows the state if it is time to, or at once when `now` is set. */
void batch_progress_show(struct batch_progress *progress, size_t ended, size_t failed, bool now);
/* Takes the bar away. */
void batch_progress_clear(struct batch_progress *progress);

/* "[#####.....]  50 %  6/12, 1 failed, 2.5/s, 0:02 left" in `columns`; without a bar where they do
 * not suffice or are 0. `ended_here` of the ended took elapsed_s. */
void batch_progress_format(char *out, size_t out_bytes, int columns, size_t total, size_t ended,
                           size_t failed, size_t ended_here, double elapsed_s);

#endif
