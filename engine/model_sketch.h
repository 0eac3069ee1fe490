/* A model's head sketch on its way to a device: the INT8 copy of the head that kernels/ops.h
 * describes.
 *
 * One thread. Refuses to know how it is used. */
#ifndef SOLFLEET_ENGINE_MODEL_SKETCH_H
#define SOLFLEET_ENGINE_MODEL_SKETCH_H

#include "engine/model_loader.h"

/* Fills loader->model->sketch from the head's tensor, once the head itself is packed: its elements
 * are known to be finite in 16 bits. */
enum model_status model_sketch_load(struct model_loader *loader, const struct gguf_tensor *head)
    __attribute__((warn_unused_result));

#endif
