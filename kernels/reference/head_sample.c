/* LM head and sampling. The CPU has room for all logits of a step: they stand in the workspace. */
#include "kernels/reference/head_sample.h"

#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/sample.h"

static size_t head_sample_logits_bytes(uint32_t rows, uint32_t vocabulary) {
    return kernels_aligned((size_t)rows * vocabulary * sizeof(float));
}

size_t reference_head_sample_bytes(uint32_t threads, uint32_t rows, uint32_t vocabulary) {
    return head_sample_logits_bytes(rows, vocabulary) + reference_sample_bytes(threads, vocabulary);
}

enum kernels_status reference_head_sample_by(struct device *device,
                                             const struct head_sample_args *args,
                                             reference_head_logits_fn *head_logits) {
    if (args->rows < 1 || !check_weight_f32(args->weight) || !check_sample_params(&args->params) ||
        !check_words(args->token) || args->bad == NULL) {
        return KERNELS_INVALID;
    }
    uint32_t threads = pool_threads(cpu_device_pool(device)), vocabulary = args->weight->form.n;
    if (!check_workspace(&args->workspace,
                         reference_head_sample_bytes(threads, args->rows, vocabulary))) {
        return KERNELS_INVALID;
    }
    size_t logits_bytes = head_sample_logits_bytes(args->rows, vocabulary);
    float *logits = args->workspace.data;
    const struct head_logits_args head = {
        .x = args->x, .weight = args->weight, .logits = logits, .rows = args->rows};
    enum kernels_status status = head_logits(device, &head);
    if (status != KERNELS_OK) {
        return status;
    }
    const struct sample_args sample = {
        .logits = logits,
        .vocabulary = vocabulary,
        .params = args->params,
        .token = args->token,
        .bad = args->bad,
        .workspace = {(char *)args->workspace.data + logits_bytes,
                      args->workspace.bytes - logits_bytes},
        .rows = args->rows,
    };
    return reference_sample(device, &sample);
}

enum kernels_status reference_head_sample(struct device *device,
                                          const struct head_sample_args *args) {
    return reference_head_sample_by(device, args, reference_head_logits);
}
