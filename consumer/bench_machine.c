#include "consumer/bench_machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"

/* The text after `name` at the start of a line of a file of /proc; false when it is not there. */
static bool bench_machine_find_line(const char *path, const char *name, char *line,
                                    size_t line_bytes, char **after) {
    FILE *file = fopen(path, "r");
    bool found = false;
    while (file && !found && fgets(line, (int)line_bytes, file)) {
        found = strncmp(line, name, strlen(name)) == 0;
    }
    if (file) {
        fclose(file);
    }
    *after = line + strlen(name);
    return found;
}

size_t bench_machine_peak_bytes(void) {
    char line[256], *after;
    bool found = bench_machine_find_line("/proc/self/status", "VmHWM:", line, sizeof line, &after);
    return found ? strtoull(after, NULL, 10) * 1024 : 0;
}

void bench_machine_load_start(struct bench_machine_load *load) {
    enum { IDLE = 3, IO_WAIT = 4, FIELDS = 8 }; /* proc(5); guests are counted in the first two */
    char line[512], *at;
    struct timespec own = {0};
    memset(load, 0, sizeof *load);
    bool found = bench_machine_find_line("/proc/stat", "cpu ", line, sizeof line, &at);
    for (int i = 0; i < FIELDS && found; i++) {
        uint64_t ticks = strtoull(at, &at, 10);
        load->total_ticks += ticks;
        load->idle_ticks += i == IDLE || i == IO_WAIT ? ticks : 0;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    load->own_ns = own.tv_sec * CLOCK_NS_PER_S + own.tv_nsec;
}

double bench_machine_foreign_share(const struct bench_machine_load *start) {
    struct bench_machine_load now;
    bench_machine_load_start(&now);
    double total = (double)(now.total_ticks - start->total_ticks);
    double idle = (double)(now.idle_ticks - start->idle_ticks);
    double own = (double)(now.own_ns - start->own_ns) / (double)CLOCK_NS_PER_S *
                 (double)sysconf(_SC_CLK_TCK);
    double foreign = total > 0 ? (total - idle - own) / total : 0;
    return foreign > 0 ? foreign : 0;
}
