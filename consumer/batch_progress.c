#include "consumer/batch_progress.h"

#include <string.h>

#include "consumer/terminal.h"
#include "engine/clock.h"

#define BATCH_PROGRESS_DRAW_NS (CLOCK_NS_PER_S / 5)
#define BATCH_PROGRESS_LINE_NS (5 * CLOCK_NS_PER_S)
#define BATCH_PROGRESS_BAR_MAX 40
#define BATCH_PROGRESS_BAR_MIN 10

void batch_progress_init(struct batch_progress *progress, FILE *to, size_t total,
                         size_t ended_before) {
    int64_t now_ns = clock_monotonic_ns(NULL);
    *progress = (struct batch_progress){.to = to,
                                        .drawing = terminal_is(to),
                                        .total = total,
                                        .ended_before = ended_before,
                                        .started_ns = now_ns,
                                        .shown_ns = now_ns};
}

/* "1:02:03", "2:03". */
static void batch_progress_time(char *out, size_t out_bytes, double seconds) {
    long long whole = (long long)(seconds + 0.5);
    if (whole >= 3600) {
        snprintf(out, out_bytes, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(out, out_bytes, "%lld:%02lld", whole / 60, whole % 60);
    }
}

static void batch_progress_facts(char *out, size_t out_bytes, size_t total, size_t ended,
                                 size_t failed, size_t ended_here, double elapsed_s) {
    double percent = total ? 100.0 * (double)ended / (double)total : 100.0;
    size_t used = (size_t)snprintf(out, out_bytes, "%3.0f %%  %zu/%zu",
                                   ended < total && percent > 99 ? 99 : percent, ended, total);
    if (failed && used < out_bytes) {
        used += (size_t)snprintf(out + used, out_bytes - used, ", %zu failed", failed);
    }
    if (ended_here && elapsed_s > 0 && used < out_bytes) {
        double rate = (double)ended_here / elapsed_s;
        char left[32];
        batch_progress_time(left, sizeof left, (double)(total - ended) / rate);
        snprintf(out + used, out_bytes - used,
                 rate < 100 ? ", %.3g/s, %s left" : ", %.0f/s, %s left", rate, left);
    }
}

void batch_progress_format(char *out, size_t out_bytes, int columns, size_t total, size_t ended,
                           size_t failed, size_t ended_here, double elapsed_s) {
    char facts[160];
    batch_progress_facts(facts, sizeof facts, total, ended, failed, ended_here, elapsed_s);
    int room = columns - (int)strlen(facts) - 4;
    int width = room < BATCH_PROGRESS_BAR_MAX ? room : BATCH_PROGRESS_BAR_MAX;
    if (width < BATCH_PROGRESS_BAR_MIN) {
        snprintf(out, out_bytes, "%s", facts);
        return;
    }
    char bar[BATCH_PROGRESS_BAR_MAX + 1];
    int full = total ? (int)((double)width * (double)ended / (double)total) : width;
    memset(bar, '.', (size_t)width);
    memset(bar, '#', (size_t)full);
    bar[width] = '\0';
    snprintf(out, out_bytes, "[%s] %s", bar, facts);
}

void batch_progress_show(struct batch_progress *progress, size_t ended, size_t failed, bool now) {
    int64_t now_ns = clock_monotonic_ns(NULL);
    int64_t pause_ns = progress->drawing ? BATCH_PROGRESS_DRAW_NS : BATCH_PROGRESS_LINE_NS;
    if (!now && now_ns - progress->shown_ns < pause_ns) {
        return;
    }
    progress->shown_ns = now_ns;
    int columns = 0, rows = 0;
    if (progress->drawing) {
        terminal_size(progress->to, &columns, &rows);
    }
    char text[256];
    double elapsed_s = (double)(now_ns - progress->started_ns) / (double)CLOCK_NS_PER_S;
    batch_progress_format(text, sizeof text, columns, progress->total, ended, failed,
                          ended - progress->ended_before, elapsed_s);
    fprintf(progress->to, progress->drawing ? "\r\x1b[?7l%s\x1b[K\x1b[?7h" : "%s\n", text);
    fflush(progress->to);
}

void batch_progress_clear(struct batch_progress *progress) {
    if (progress->drawing) {
        fputs("\r\x1b[K", progress->to);
        fflush(progress->to);
    }
}
