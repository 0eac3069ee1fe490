/* The CPU device: host memory, a pool of threads and the kernels of one tier.
 *
 * Private to kernels. Every kernel has finished when its call returns, so copies are memcpy, events
 * are empty and device_sync has nothing to wait for. One thread at a time; the pool's own threads
 * run tiles of the op under way only. Refuses to know models and sequences. */
#ifndef SOLFLEET_KERNELS_CPU_DEVICE_H
#define SOLFLEET_KERNELS_CPU_DEVICE_H

#include "kernels/cpu_features.h"
#include "kernels/device.h"
#include "kernels/pool.h"

/* As device_open, for the specs "cpu" and "auto". */
enum kernels_status cpu_device_open(const struct device_options *options, struct device **out,
                                    char *err, size_t err_bytes) KERNELS_CHECK_RESULT;

/* The table of a tier by its name; NULL or "" is the best that such a processor can run. NULL with
 * the reason in err when the name is unknown or the processor lacks what the tier needs. */
const struct kernel_ops *cpu_device_ops(const char *tier, const struct cpu_features *features,
                                        char *err, size_t err_bytes);

/* Borrowed until device_close. */
struct pool *cpu_device_pool(const struct device *device);

/* One row of KERNELS_K_MAX floats for each worker of the pool: for fused ops that must see a whole
 * row twice. Contents undefined before and after an op. */
float *cpu_device_row(const struct device *device, uint32_t worker);

#endif
