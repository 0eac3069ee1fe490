/* Element types, shape letters and the statuses that every kernel header uses.
 *
 * Shape letters, used in every contract:
 *   T rows of a step (tokens)       D model width            N, K  outputs and inputs of a linear
 *   H query heads   G KV heads      d head width             F feed-forward width
 *   S sampled rows  V vocabulary    P pages of a slot        Q quantisation groups of a weight row
 * Arrays are dense and row-major unless a stride is given; strides count elements. Compiles as C11
 * and C++17, and includes only stdbool, stddef and stdint, so that no back end's type crosses. */
#ifndef SOLFLEET_KERNELS_VIEW_H
#define SOLFLEET_KERNELS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNELS_CHECK_RESULT __attribute__((warn_unused_result))
#define KERNELS_ALIGNMENT_BYTES 64 /* of every device allocation, page and packed weight */

/* Rounded up to the alignment: what a piece of memory takes that another one follows. */
static inline size_t kernels_aligned(size_t bytes) {
    return (bytes + KERNELS_ALIGNMENT_BYTES - 1) & ~(size_t)(KERNELS_ALIGNMENT_BYTES - 1);
}

enum kernels_status {
    KERNELS_OK = 0,
    KERNELS_INVALID,     /* an argument breaks the contract: a bug of the caller */
    KERNELS_UNSUPPORTED, /* this back end lacks the op or form: refuse the model, by name */
    KERNELS_NO_MEMORY,   /* retry smaller, or refuse the model */
    KERNELS_NO_DEVICE,   /* no such device here */
    KERNELS_FAILED       /* the device is lost: close and exit */
};

enum element_type { ELEMENT_F32, ELEMENT_F16, ELEMENT_I8 };

static inline size_t element_bytes(enum element_type type) {
    return type == ELEMENT_F32 ? 4u : type == ELEMENT_F16 ? 2u : 1u;
}

#endif
