#include "tests/bench/cpu_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/values.h"

void cpu_rig_must(enum kernels_status status, const char *what) {
    if (status != KERNELS_OK) {
        fprintf(stderr, "%s: status %d\n", what, (int)status);
        exit(1);
    }
}

void cpu_rig_open(struct cpu_rig *rig, int argc, char **argv) {
    const struct device_options options = {.spec = "cpu",
                                           .tier = argc > 1 ? argv[1] : NULL,
                                           .threads =
                                               argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0};
    char err[256];
    if (device_open(&options, &rig->device, err, sizeof err) != KERNELS_OK) {
        fprintf(stderr, "%s\n", err);
        exit(6);
    }
    rig->ops = device_ops(rig->device);
    device_enter_thread(rig->device);
    device_describe(rig->device, &rig->info);
    printf("%s, tier %s, %u threads\n", rig->info.name, rig->info.tier, rig->info.threads);
}

void cpu_rig_close(struct cpu_rig *rig) {
    device_close(rig->device);
}

double cpu_rig_now_s(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void *cpu_rig_memory(const struct cpu_rig *rig, size_t bytes, int value) {
    void *block = NULL;
    cpu_rig_must(device_alloc(rig->device, DEVICE_MEMORY, bytes, &block), "device_alloc");
    memset(block, value, bytes);
    return block;
}

struct weight cpu_rig_weight(const struct cpu_rig *rig, enum element_type type, uint32_t n,
                             uint32_t k) {
    struct weight weight = {.form = {.type = type, .n = n, .k = k}};
    weight.form.activation = type == ELEMENT_I8 ? ACTIVATION_PER_TOKEN : ACTIVATION_F32;
    size_t bytes = (size_t)n * k * element_bytes(type);
    uint8_t *values = malloc(bytes);
    float *scale = calloc(n, sizeof *scale);
    cpu_rig_must(values != NULL && scale != NULL ? KERNELS_OK : KERNELS_NO_MEMORY, "values");
    for (size_t i = 0; i < bytes; i++) {
        values[i] = (uint8_t)(i * 2654435761u >> 13 & 0x3Fu); /* finite as f16 and f32 */
    }
    if (type == ELEMENT_I8) {
        values_weights((int8_t *)values, n, k);
    }
    const struct weight_source source = {.values = values, .scale = scale};
    char err[256];
    cpu_rig_must(rig->ops->weight_packed_bytes(&weight.form, &bytes, err, sizeof err), "bytes");
    weight.packed = cpu_rig_memory(rig, bytes, 0);
    cpu_rig_must(rig->ops->weight_pack(&weight.form, &source, weight.packed, err, sizeof err),
                 "pack");
    free(values);
    free(scale);
    return weight;
}
