/* What the CPU tiers need of memory: workspaces and pages. */
#include "kernels/cpu_device.h"
#include "kernels/reference/head_sample.h"
#include "kernels/reference/kv_page.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/sample.h"

size_t reference_workspace_bytes(const struct device *device, enum kernel_op op,
                                 const struct kernels_shape *shape) {
    uint32_t threads = pool_threads(cpu_device_pool(device));
    switch (op) {
    case KERNEL_OP_sample: return reference_sample_bytes(threads, shape->vocabulary);
    case KERNEL_OP_head_sample:
        return reference_head_sample_bytes(threads, shape->sampled_max, shape->vocabulary);
    default: return 0; /* a worker's row of the device is enough */
    }
}

size_t reference_page_bytes(const struct kv_form *form) {
    bool valid = (form->type == ELEMENT_F32 || form->type == ELEMENT_F16) && form->kv_heads >= 1 &&
                 form->head_dim >= 1 && form->head_dim <= KERNELS_K_MAX;
    if (!valid) {
        return 0;
    }
    size_t bytes = 2 * form->kv_heads * kv_head_elements(form) * element_bytes(form->type);
    return kernels_aligned(bytes);
}
