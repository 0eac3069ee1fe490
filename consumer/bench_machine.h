/* What the machine says about a measurement: this process's peak memory, and how much of the
 * processors others took meanwhile.
 *
 * From /proc. One thread; the caller's memory. */
#ifndef SOLFLEET_CONSUMER_BENCH_MACHINE_H
#define SOLFLEET_CONSUMER_BENCH_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Most memory this process has had resident (VmHWM); 0 when the system does not tell. */
size_t bench_machine_peak_bytes(void);

struct bench_machine_load {
    uint64_t total_ticks, idle_ticks; /* of all processors since boot */
    int64_t own_ns;                   /* processor time of this process */
};

void bench_machine_load_start(struct bench_machine_load *load);

/* Share of the machine's processor time since the start that went to anyone but this process: a
 * figure measured beside foreign load is worth less. To the 10 ms that the system counts in. */
double bench_machine_foreign_share(const struct bench_machine_load *start);

#endif
