/* A model's loader: the model's one piece of device memory, given out bit by bit, and the host
 * scratch in which weights are made ready for it.
 *
 * One thread. Private to model_weights and model_sketch. Refuses to know what a weight is for. */
#ifndef SOLFLEET_ENGINE_MODEL_LOADER_H
#define SOLFLEET_ENGINE_MODEL_LOADER_H

#include "engine/gguf.h"
#include "engine/model.h"

struct model_loader {
    struct model *model;
    const struct gguf *gguf;
    const struct model_options *options;
    const struct kernel_ops *ops;
    bool memory_is_host;
    size_t used_bytes; /* of model->memory */

    bool is_packed; /* all but the rotary tables came packed, from a cache: nothing is to be read,
                       packed or copied, only places are to be given */

    /* Host scratch for one weight. */
    float *row;
    void *values;
    float *scale;
    void *packed; /* NULL where packing goes straight to the device's memory */

    char *err;
    size_t err_bytes;
};

void model_loader_open(struct model_loader *loader, struct model *model, const struct gguf *gguf,
                       const struct model_options *options, char *err, size_t err_bytes);
void model_loader_close(struct model_loader *loader);

/* Says why in loader->err; returns status. */
enum model_status model_loader_fail(const struct model_loader *loader, enum model_status status,
                                    const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Makes scratch for a weight of this form; nothing where all is packed. */
enum model_status model_loader_scratch(struct model_loader *loader, const struct weight_form *form)
    __attribute__((warn_unused_result));

/* The next piece of the model's one allocation; the plan counted every piece. */
void *model_loader_reserve(struct model_loader *loader, size_t bytes);

/* Copies and waits: the host's buffer is used again for the next weight. Nothing where all is
 * packed. */
enum model_status model_loader_upload(struct model_loader *loader, void *to, const void *from,
                                      size_t bytes) __attribute__((warn_unused_result));

/* Packs loader->values (and scale) into the place of a weight whose form is set, unless it came
 * packed, and makes its plans. */
enum model_status model_loader_pack(struct model_loader *loader, struct weight *weight)
    __attribute__((warn_unused_result));

#endif
