#include "consumer/progress_view.h"

#include <string.h>

#include "consumer/terminal.h"
#include "consumer/watch.h"
#include "engine/clock.h"

#define PROGRESS_VIEW_ID_COLUMNS 40
#define PROGRESS_VIEW_RUNNING_MAX 16              /* of them are told of with each sum */
#define PROGRESS_VIEW_SUM_NS (5 * CLOCK_NS_PER_S) /* between two sums in a plain view */

struct progress_view_tally {
    size_t queued, running, done, other, unknown;
    int64_t tokens;
};

void progress_view_init(struct progress_view *view, FILE *to, const struct watch_entry *entries,
                        size_t count) {
    *view = (struct progress_view){.to = to,
                                   .entries = entries,
                                   .count = count,
                                   .drawing = terminal_is(to),
                                   .started_ns = clock_monotonic_ns(NULL),
                                   .summed_ns = clock_monotonic_ns(NULL)};
}

static const char *progress_view_state(const struct watch_entry *entry) {
    return entry->given_up ? "unknown" : status_state_name(entry->status.state);
}

/* Seconds from queueing to the end or to now; -1 when it is not known. */
static double progress_view_age_s(const struct watch_entry *entry) {
    const struct status *status = &entry->status;
    int64_t from = status->queued_at >= 0 ? status->queued_at : status->started_at;
    int64_t to = status->finished_at >= 0 ? status->finished_at
                 : entry->ended           ? -1
                                          : clock_unix_ms(NULL);
    return from >= 0 && to >= from ? (double)(to - from) / 1000.0 : -1;
}

static struct progress_view_tally progress_view_count(const struct progress_view *view) {
    struct progress_view_tally tally = {0};
    for (size_t i = 0; i < view->count; i++) {
        const struct watch_entry *entry = &view->entries[i];
        enum status_state state = entry->status.state;
        if (entry->given_up || state == STATUS_UNKNOWN) {
            tally.unknown++;
        } else if (state == STATUS_QUEUED) {
            tally.queued++;
        } else if (state == STATUS_RUNNING) {
            tally.running++;
        } else if (state == STATUS_DONE) {
            tally.done++;
        } else {
            tally.other++;
        }
        tally.tokens += entry->status.completion_tokens > 0 ? entry->status.completion_tokens : 0;
    }
    return tally;
}

static double progress_view_elapsed_s(const struct progress_view *view) {
    return (double)(clock_monotonic_ns(NULL) - view->started_ns) / (double)CLOCK_NS_PER_S;
}

static void progress_view_print_tally(const struct progress_view *view, const char *end) {
    struct progress_view_tally tally = progress_view_count(view);
    fprintf(view->to, "%zu done, %zu running, %zu queued", tally.done, tally.running, tally.queued);
    if (tally.unknown) {
        fprintf(view->to, ", %zu not heard of", tally.unknown);
    }
    if (tally.other) {
        fprintf(view->to, ", %zu ended otherwise", tally.other);
    }
    fprintf(view->to, "; %lld tokens, %.1f s%s", (long long)tally.tokens,
            progress_view_elapsed_s(view), end);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void progress_view_print_cells(FILE *to, const struct watch_entry *entry) {
    int64_t tokens = entry->status.completion_tokens;
    double age_s = progress_view_age_s(entry);
    fprintf(to, "%-*.*s %-9s", PROGRESS_VIEW_ID_COLUMNS, PROGRESS_VIEW_ID_COLUMNS,
            entry->status.request_id, progress_view_state(entry));
    if (tokens >= 0) {
        fprintf(to, " %5lld tokens", (long long)tokens);
    } else {
        fprintf(to, " %12s", "");
    }
    if (age_s >= 0) {
        fprintf(to, " %8.1f s", age_s);
    }
}

void progress_view_print_entry(FILE *to, const struct watch_entry *entry) {
    const struct status *status = &entry->status;
    fprintf(to, "%-*s %-9s", PROGRESS_VIEW_ID_COLUMNS, status->request_id,
            progress_view_state(entry));
    if (status->completion_tokens >= 0) {
        fprintf(to, " %5lld tokens", (long long)status->completion_tokens);
    }
    if (progress_view_age_s(entry) >= 0) {
        fprintf(to, " %8.1f s", progress_view_age_s(entry));
    }
    if (status->error_code) {
        const char *message = status->error_message ? status->error_message : "";
        fprintf(to, "  %s: ", status->error_code);
        terminal_print(to, message, strlen(message));
    }
    fputc('\n', to);
}

/* Running jobs first, then those that wait, then those that have ended: what moves is seen even
 * when the window is small. */
static int progress_view_rank(const struct watch_entry *entry) {
    if (entry->ended || entry->given_up) {
        return 2;
    }
    return entry->status.state == STATUS_RUNNING ? 0 : 1;
}

static void progress_view_draw_rows(struct progress_view *view, int rows_max) {
    bool fits = view->count <= (size_t)rows_max;
    int drawn = 0;
    for (int rank = 0; rank < (fits ? 1 : 3); rank++) {
        for (size_t i = 0; i < view->count && drawn < rows_max; i++) {
            if (fits || progress_view_rank(&view->entries[i]) == rank) {
                progress_view_print_cells(view->to, &view->entries[i]);
                fputs("\x1b[K\n", view->to);
                drawn++;
            }
        }
    }
    view->drawn_rows = drawn;
}

void progress_view_clear(struct progress_view *view) {
    if (view->drawing && view->drawn_rows) {
        fprintf(view->to, "\x1b[%dA\r\x1b[J", view->drawn_rows);
        view->drawn_rows = 0;
    }
}

static void progress_view_draw_table(struct progress_view *view) {
    int columns, rows;
    terminal_size(view->to, &columns, &rows);
    if (view->drawn_rows) {
        fprintf(view->to, "\x1b[%dA\r", view->drawn_rows);
    }
    fputs("\x1b[?7l", view->to); /* a narrow window cuts lines instead of wrapping them */
    fprintf(view->to, "%-*s %-9s %12s %10s\x1b[K\n", PROGRESS_VIEW_ID_COLUMNS, "request", "state",
            "so far", "time");
    progress_view_draw_rows(view, rows > 4 ? rows - 3 : 1);
    progress_view_print_tally(view, "\x1b[K\n\x1b[?7h");
    view->drawn_rows += 2;
    fflush(view->to);
}

static void progress_view_print_running(const struct progress_view *view) {
    size_t printed = 0;
    for (size_t i = 0; i < view->count && printed < PROGRESS_VIEW_RUNNING_MAX; i++) {
        if (view->entries[i].status.state == STATUS_RUNNING) {
            progress_view_print_cells(view->to, &view->entries[i]);
            fputc('\n', view->to);
            printed++;
        }
    }
}

void progress_view_draw(struct progress_view *view) {
    if (view->drawing) {
        progress_view_draw_table(view);
        return;
    }
    int64_t now_ns = clock_monotonic_ns(NULL);
    if (now_ns - view->summed_ns >= PROGRESS_VIEW_SUM_NS) {
        view->summed_ns = now_ns;
        progress_view_print_running(view);
        progress_view_print_tally(view, "\n");
        fflush(view->to);
    }
}

void progress_view_change(struct progress_view *view, size_t index, enum status_state before) {
    if (!view->drawing && view->entries[index].status.state != before) {
        progress_view_print_cells(view->to, &view->entries[index]);
        fputc('\n', view->to);
        fflush(view->to);
    }
}

void progress_view_print_sum(const struct progress_view *view) {
    struct progress_view_tally tally = progress_view_count(view);
    double elapsed_s = progress_view_elapsed_s(view);
    fprintf(view->to, "%zu job%s: %zu done", view->count, view->count == 1 ? "" : "s", tally.done);
    if (tally.done < view->count) {
        fprintf(view->to, ", %zu not", view->count - tally.done);
    }
    fprintf(view->to, " in %.1f s, %lld tokens, %.1f tokens/s\n", elapsed_s,
            (long long)tally.tokens, elapsed_s > 0 ? (double)tally.tokens / elapsed_s : 0.0);
}
