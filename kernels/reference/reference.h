/* The reference kernels: portable C, readable, the truth that every other tier equals by memcmp.
 *
 * Private to kernels. Also the fallback of every CPU tier for what it has no kernel of its own, so
 * pages and 16- and 32-bit weights have the same layout in all of them. Ops run on the pool of a
 * CPU device, which splits outputs between threads and never a sum. */
#ifndef SOLFLEET_KERNELS_REFERENCE_REFERENCE_H
#define SOLFLEET_KERNELS_REFERENCE_REFERENCE_H

#include "kernels/ops.h"

#define REFERENCE_DECLARE(op, args) \
    enum kernels_status reference_##op(struct device *device, const struct args *arguments);
KERNEL_OPS(REFERENCE_DECLARE)
#undef REFERENCE_DECLARE

size_t reference_workspace_bytes(const struct device *device, enum kernel_op op,
                                 const struct kernels_shape *shape);
size_t reference_page_bytes(const struct kv_form *form);

enum kernels_status reference_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                                  char *err, size_t err_bytes);
enum kernels_status reference_weight_pack(const struct weight_form *form,
                                          const struct weight_source *source, void *packed,
                                          char *err, size_t err_bytes);
enum kernels_status reference_weight_prepare(struct device *device, struct weight *weight,
                                             const uint32_t *row_buckets, uint32_t bucket_count,
                                             char *err, size_t err_bytes);
void reference_weight_release(struct device *device, struct weight *weight);

#endif
