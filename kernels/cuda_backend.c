/* The CUDA back end of a program that has none. */
#include "kernels/cuda_backend.h"

#include <stdio.h>

enum kernels_status cuda_backend_open(uint32_t index, const struct device_options *options,
                                      struct device **out, char *err, size_t err_bytes) {
    (void)index, (void)options;
    *out = NULL;
    snprintf(err, err_bytes, "no CUDA device: this build has no CUDA back end");
    return KERNELS_NO_DEVICE;
}
