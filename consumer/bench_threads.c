#include "consumer/bench_threads.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/clock.h"

/* The first line of a thread's file; false when the thread has just ended. */
static bool bench_threads_line(const char *thread, const char *file, char *line, int line_bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%.16s/%s", thread, file);
    FILE *from = fopen(path, "r");
    bool found = from && fgets(line, line_bytes, from);
    if (from) {
        fclose(from);
    }
    return found;
}

static void bench_threads_add(struct bench_threads *threads, const char *thread) {
    char name[32], times[96];
    if (!bench_threads_line(thread, "comm", name, sizeof name) ||
        !bench_threads_line(thread, "schedstat", times, sizeof times)) {
        return;
    }
    name[strcspn(name, "\n")] = '\0';
    int64_t ns = strtoll(times, NULL, 10);
    if (strcmp(name, BENCH_THREADS_WORKER) == 0) {
        threads->worker_ns += ns;
    } else if (strcmp(name, "engine") == 0) {
        threads->engine_ns += ns;
    } else if (strncmp(name, "rdk:", 4) == 0) {
        threads->kafka_ns += ns;
    }
}

void bench_threads_read(struct bench_threads *threads) {
    struct timespec all = {0};
    DIR *list = opendir("/proc/self/task");
    memset(threads, 0, sizeof *threads);
    for (struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        if (entry->d_name[0] != '.') {
            bench_threads_add(threads, entry->d_name);
        }
    }
    if (list) {
        closedir(list);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    threads->load_ns = all.tv_sec * CLOCK_NS_PER_S + all.tv_nsec - threads->worker_ns -
                       threads->engine_ns - threads->kafka_ns;
}
