#include "consumer/bench_machine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"

size_t bench_machine_peak_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %zu kB", &kib) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kib * 1024;
}

void bench_machine_load_start(struct bench_machine_load *load) {
    enum { IDLE = 3, IO_WAIT = 4, STEAL = 7, FIELDS = 8 }; /* proc(5): guests are in user, nice */
    unsigned long long ticks[FIELDS] = {0};
    struct timespec own = {0};
    memset(load, 0, sizeof *load);
    FILE *file = fopen("/proc/stat", "r");
    if (file) {
        int found =
            fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1],
                   &ticks[2], &ticks[IDLE], &ticks[IO_WAIT], &ticks[5], &ticks[6], &ticks[STEAL]);
        for (int i = 0; i < FIELDS && found == FIELDS; i++) {
            load->total_ticks += ticks[i];
        }
        load->idle_ticks = found == FIELDS ? ticks[IDLE] + ticks[IO_WAIT] : 0;
        fclose(file);
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
