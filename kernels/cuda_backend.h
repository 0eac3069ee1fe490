/* The CUDA back end, as device.c sees it.
 *
 * A program has it when the objects of kernels/cuda are linked into it (make CUDA=1; tests, with
 * their emulation), else cuda_backend.c stands in its place and has no device. Private to
 * kernels. */
#ifndef SOLFLEET_KERNELS_CUDA_BACKEND_H
#define SOLFLEET_KERNELS_CUDA_BACKEND_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The card of that index, with cuBLASLt from options->cublaslt. NO_DEVICE: no back end, driver or
 * card, "no CUDA device: …" in err. UNSUPPORTED: there is a card, but it or the library lacks what
 * the kernels need. NO_MEMORY, FAILED: the card's own words. */
enum kernels_status cuda_backend_open(uint32_t index, const struct device_options *options,
                                      struct device **out, char *err,
                                      size_t err_bytes) KERNELS_CHECK_RESULT;

#ifdef __cplusplus
}
#endif

#endif
