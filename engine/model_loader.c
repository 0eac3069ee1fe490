#include "engine/model_loader.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/model_plan.h"

static void model_loader_free(struct model_loader *loader) {
    free(loader->row);
    free(loader->values);
    free(loader->scale);
    free(loader->packed);
    loader->row = loader->scale = NULL;
    loader->values = loader->packed = NULL;
}

enum model_status model_loader_fail(const struct model_loader *loader, enum model_status status,
                                    const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(loader->err, loader->err_bytes, format, arguments);
    va_end(arguments);
    return status;
}

void *model_loader_reserve(struct model_loader *loader, size_t bytes) {
    void *piece = (uint8_t *)loader->model->memory + loader->used_bytes;
    loader->used_bytes += model_plan_align(bytes);
    assert(loader->used_bytes <= loader->model->plan.total_bytes);
    return piece;
}

enum model_status model_loader_upload(struct model_loader *loader, void *to, const void *from,
                                      size_t bytes) {
    struct device *device = loader->model->device;
    if (loader->is_packed) {
        return MODEL_OK; /* it is there */
    }
    if (device_copy_in(device, DEVICE_STREAM_COPY, to, from, bytes) != KERNELS_OK) {
        return model_loader_fail(loader, MODEL_FAILED, "the device refused a copy of %zu bytes",
                                 bytes);
    }
    return device_sync(device, loader->err, loader->err_bytes) == KERNELS_OK ? MODEL_OK
                                                                             : MODEL_FAILED;
}

enum model_status model_loader_pack(struct model_loader *loader, struct weight *weight) {
    struct device *device = loader->model->device;
    const struct weight_form *form = &weight->form;
    struct weight_source source = {.values = loader->values,
                                   .scale = form->type == ELEMENT_I8 ? loader->scale : NULL};
    size_t bytes;
    if (loader->ops->weight_packed_bytes(form, &bytes, loader->err, loader->err_bytes) !=
        KERNELS_OK) {
        return MODEL_BAD_FILE;
    }
    void *place = model_loader_reserve(loader, bytes);
    void *packed = loader->is_packed || loader->memory_is_host ? place : loader->packed;
    if (!loader->is_packed && loader->ops->weight_pack(form, &source, packed, loader->err,
                                                       loader->err_bytes) != KERNELS_OK) {
        return MODEL_BAD_FILE;
    }
    if (packed != place) {
        enum model_status status = model_loader_upload(loader, place, packed, bytes);
        if (status != MODEL_OK) {
            return status;
        }
    }
    weight->packed = place;
    enum kernels_status prepared = loader->ops->weight_prepare(
        device, weight, loader->options->row_buckets, loader->options->row_bucket_count,
        loader->err, loader->err_bytes);
    return prepared == KERNELS_OK            ? MODEL_OK
           : prepared == KERNELS_UNSUPPORTED ? MODEL_UNSUPPORTED
                                             : MODEL_FAILED;
}

enum model_status model_loader_scratch(struct model_loader *loader,
                                       const struct weight_form *form) {
    size_t packed_bytes = 0, values_bytes = (size_t)form->n * form->k * element_bytes(form->type);
    if (loader->is_packed) {
        return MODEL_OK;
    }
    model_loader_free(loader);
    /* The plan has asked the same before, so it cannot fail; if it did, packing would say so. */
    if (loader->ops->weight_packed_bytes(form, &packed_bytes, loader->err, loader->err_bytes) !=
        KERNELS_OK) {
        return MODEL_BAD_FILE;
    }
    loader->row = malloc(form->k * sizeof *loader->row);
    loader->values = malloc(values_bytes);
    loader->scale = malloc(form->n * sizeof *loader->scale);
    loader->packed = loader->memory_is_host ? NULL : malloc(packed_bytes);
    if (loader->row == NULL || loader->values == NULL || loader->scale == NULL ||
        (loader->packed == NULL && !loader->memory_is_host)) {
        return model_loader_fail(loader, MODEL_NO_MEMORY,
                                 "out of host memory: %zu bytes to convert a weight",
                                 values_bytes + packed_bytes);
    }
    return MODEL_OK;
}

void model_loader_open(struct model_loader *loader, struct model *model, const struct gguf *gguf,
                       const struct model_options *options, char *err, size_t err_bytes) {
    struct device_info info;
    device_describe(model->device, &info);
    *loader = (struct model_loader){.model = model,
                                    .gguf = gguf,
                                    .options = options,
                                    .ops = device_ops(model->device),
                                    .memory_is_host = info.memory_is_host,
                                    .err = err,
                                    .err_bytes = err_bytes};
}

void model_loader_close(struct model_loader *loader) {
    model_loader_free(loader);
    *loader = (struct model_loader){.used_bytes = 0};
}
