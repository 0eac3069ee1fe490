/* A progress view: how the jobs of a watch are shown while they run, and in the end.
 *
 * On a terminal a table that is drawn over itself; elsewhere a plain line for each change of state,
 * and every few seconds the running jobs and a line that sums up. Owns nothing: it looks at the
 * watch's entries. One thread. Refuses to know where statuses come from. */
#ifndef SOLFLEET_CONSUMER_PROGRESS_VIEW_H
#define SOLFLEET_CONSUMER_PROGRESS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "schemas/status.h"

struct watch_entry;

struct progress_view {
    FILE *to;
    const struct watch_entry *entries;
    size_t count;
    bool drawing; /* over itself: `to` is a terminal */
    int drawn_rows;
    int64_t started_ns, summed_ns;
};

void progress_view_init(struct progress_view *view, FILE *to, const struct watch_entry *entries,
                        size_t count);

/* An entry changed from the state `before`: a plain view tells of a new state, a table waits for
 * the next draw. */
void progress_view_change(struct progress_view *view, size_t index, enum status_state before);

/* Draws the table anew, or sums up when it is time. */
void progress_view_draw(struct progress_view *view);

/* Takes the table away, so that what follows stands where it was. */
void progress_view_clear(struct progress_view *view);

/* One line for an entry: "two-sum-3f9a2c  done     160 tokens    12.3 s". */
void progress_view_print_entry(FILE *to, const struct watch_entry *entry);

/* "12 jobs: 12 done in 45.2 s, 1920 tokens, 42.5 tokens/s". */
void progress_view_print_sum(const struct progress_view *view);

#endif
