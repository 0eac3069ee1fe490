#include "kernels/cuda/cuda_table.h"

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"

/* ---------------------------------------------------------------- ops */

static enum kernels_status rms_norm_quantize(struct device *device,
                                             const struct norm_quantize_args *args) {
    return cuda_rms_norm_quantize(cuda_device_stream(device), args);
}

/* ---------------------------------------------------------------- the table */

static constexpr struct kernel_ops make_table() {
    struct kernel_ops table = {};
    table.tier = "cuda";
    table.packing_version = 1;
    table.rms_norm_quantize = rms_norm_quantize;
    return table;
}

static constexpr struct kernel_ops cuda_table_ops = make_table();

const struct kernel_ops *cuda_table(void) {
    return &cuda_table_ops;
}
