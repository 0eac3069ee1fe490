/* What benches of the CPU's kernels stand on: a device of a tier, memory and weights on it.
 * Whatever fails ends the program, having said what.
 *
 * One thread. */
#ifndef SOLFLEET_TESTS_BENCH_CPU_RIG_H
#define SOLFLEET_TESTS_BENCH_CPU_RIG_H

#include <time.h>

#include "kernels/ops.h"

struct cpu_rig {
    struct device *device;
    const struct kernel_ops *ops;
    struct device_info info;
};

/* By a command line `[TIER [THREADS]]`; says which device it is. Exit code 6 where there is
 * none. */
void cpu_rig_open(struct cpu_rig *rig, int argc, char **argv);
void cpu_rig_close(struct cpu_rig *rig);

void cpu_rig_must(enum kernels_status status, const char *what);
double cpu_rig_now_s(clockid_t clock);

/* Every byte is `value`; for device_free. */
void *cpu_rig_memory(const struct cpu_rig *rig, size_t bytes, int value);
/* Packed, of values as models have them; its memory is for device_free. */
struct weight cpu_rig_weight(const struct cpu_rig *rig, enum element_type type, uint32_t n,
                             uint32_t k);

#endif
