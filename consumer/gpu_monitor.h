/* A card's own account of itself: utilisation, memory, temperature and power, from NVIDIA's
 * management library (NVML), which is opened at run time where it is.
 *
 * One thread. What a card does not tell is left out; nothing here ever fails a worker. Knows
 * neither engine nor report. */
#ifndef SOLFLEET_CONSUMER_GPU_MONITOR_H
#define SOLFLEET_CONSUMER_GPU_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_MONITOR_PAUSE_MS 2000 /* a question takes a card milliseconds */

struct gpu_monitor;

/* Over all samples. A part that was never told has no samples. */
struct gpu_monitor_report {
    uint64_t utilization_samples, memory_samples, temperature_samples, power_samples;
    double utilization_percent; /* average */
    uint64_t memory_used_bytes_max, memory_total_bytes;
    uint32_t temperature_celsius_max;
    double power_watts; /* average */
};

/* The card that a process calls cuda:`index`, of which CUDA says `name`. `file` NULL: the library
 * where the system's loader finds it. NULL, with the reason in err, if it cannot be asked. */
struct gpu_monitor *gpu_monitor_open(const char *file, uint32_t index, const char *name, char *err,
                                     size_t err_bytes);
void gpu_monitor_close(struct gpu_monitor *monitor); /* accepts NULL */

/* Asks the card, unless it was asked less than GPU_MONITOR_PAUSE_MS ago. Accepts NULL. */
void gpu_monitor_sample(struct gpu_monitor *monitor, int64_t now_ms);

/* All zero for NULL. */
void gpu_monitor_report(const struct gpu_monitor *monitor, struct gpu_monitor_report *out);

#endif
