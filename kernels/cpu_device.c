#include "kernels/cpu_device.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/backend.h"
#include "kernels/cpu_features.h"
#include "kernels/ops.h"
#include "kernels/reference/reference.h"
#if defined(__x86_64__)
#include "kernels/x86/avx2/avx2.h"
#include "kernels/x86/avx512/avx512.h"
#endif

struct cpu_device {
    struct device base; /* first: device.c sees only this */
    struct pool *pool;
    float *rows; /* [threads, KERNELS_K_MAX] */
};

struct device_event {
    char nothing; /* all work is done when it is put on a stream */
};

/* ---------------------------------------------------------------- tiers */

static const struct kernel_ops cpu_device_reference = {.tier = "reference",
                                                       .packing_version = 1,
                                                       .workspace_bytes = reference_workspace_bytes,
                                                       .page_bytes = reference_page_bytes,
                                                       .weight_packed_bytes =
                                                           reference_weight_packed_bytes,
                                                       .weight_pack = reference_weight_pack,
                                                       .weight_prepare = reference_weight_prepare,
                                                       .weight_release = reference_weight_release,
#define CPU_DEVICE_REFERENCE(op, args) .op = reference_##op,
                                                       KERNEL_OPS(CPU_DEVICE_REFERENCE)
#undef CPU_DEVICE_REFERENCE
};

#if defined(__x86_64__)
static const struct kernel_ops cpu_device_avx2 = {.tier = "avx2",
                                                  .packing_version = 4,
                                                  .takes_head_sketch = true,
                                                  .workspace_bytes = avx2_workspace_bytes,
                                                  .page_bytes = reference_page_bytes,
                                                  .weight_packed_bytes = avx2_weight_packed_bytes,
                                                  .weight_pack = avx2_weight_pack,
                                                  .weight_prepare = reference_weight_prepare,
                                                  .weight_release = reference_weight_release,
#define CPU_DEVICE_AVX2(op, args) .op = avx2_##op,
                                                  KERNEL_OPS(CPU_DEVICE_AVX2)
#undef CPU_DEVICE_AVX2
};

static const struct kernel_ops cpu_device_avx512 = {.tier = "avx512",
                                                    .packing_version = 1,
                                                    .takes_head_sketch = true,
                                                    .workspace_bytes = avx512_workspace_bytes,
                                                    .page_bytes = reference_page_bytes,
                                                    .weight_packed_bytes =
                                                        avx512_weight_packed_bytes,
                                                    .weight_pack = avx512_weight_pack,
                                                    .weight_prepare = reference_weight_prepare,
                                                    .weight_release = reference_weight_release,
#define CPU_DEVICE_AVX512(op, args) .op = avx512_##op,
                                                    KERNEL_OPS(CPU_DEVICE_AVX512)
#undef CPU_DEVICE_AVX512
};
#endif

struct cpu_device_tier {
    const struct kernel_ops *ops;
    enum cpu_features_set needs;
    /* As in device_info. Measured on two cores of Zen 4, a step of 1, 4, 6, 8 rows of SmolLM2-135M
     * takes 4.3, 7.2, 10.3, 13.1 ms by AVX2 and 4.6, 5.4, 6.2, 7.7 ms by AVX-512. */
    uint32_t few_rows;
};

/* Ascending: "by cpuid" is the last that the processor can run. On x86-64 the reference is built
 * with AVX2, too. */
static const struct cpu_device_tier cpu_device_tiers[] = {
#if defined(__x86_64__)
    {&cpu_device_reference, CPU_FEATURES_AVX2, 4},
    {&cpu_device_avx2, CPU_FEATURES_AVX2, 4},
    {&cpu_device_avx512, CPU_FEATURES_AVX512, 6},
#else
    {&cpu_device_reference, CPU_FEATURES_NONE, 4},
#endif
};
#define CPU_DEVICE_TIERS (sizeof cpu_device_tiers / sizeof cpu_device_tiers[0])

/* By name: a test may have put other ops in place of a tier's. */
static uint32_t cpu_device_few_rows(const char *tier) {
    uint32_t few_rows = 1;
    for (size_t i = 0; i < CPU_DEVICE_TIERS; i++) {
        few_rows = strcmp(tier, cpu_device_tiers[i].ops->tier) == 0 ? cpu_device_tiers[i].few_rows
                                                                    : few_rows;
    }
    return few_rows;
}

static const struct kernel_ops *cpu_device_best(const struct cpu_features *features, char *err,
                                                size_t err_bytes) {
    const struct kernel_ops *best = NULL;
    for (size_t i = 0; i < CPU_DEVICE_TIERS; i++) {
        char missing[CPU_FEATURES_NAMES_BYTES];
        cpu_features_missing(features, cpu_device_tiers[i].needs, missing, sizeof missing);
        if (missing[0] == '\0') {
            best = cpu_device_tiers[i].ops;
        } else if (i == 0) {
            snprintf(err, err_bytes, "this processor lacks %s", missing);
        }
    }
    return best;
}

const struct kernel_ops *cpu_device_ops(const char *tier, const struct cpu_features *features,
                                        char *err, size_t err_bytes) {
    if (tier == NULL || tier[0] == '\0') {
        return cpu_device_best(features, err, err_bytes);
    }
    for (size_t i = 0; i < CPU_DEVICE_TIERS; i++) {
        char missing[CPU_FEATURES_NAMES_BYTES];
        if (strcmp(tier, cpu_device_tiers[i].ops->tier) != 0) {
            continue;
        }
        cpu_features_missing(features, cpu_device_tiers[i].needs, missing, sizeof missing);
        if (missing[0] != '\0') {
            snprintf(err, err_bytes, "tier %s: this processor lacks %s", tier, missing);
            return NULL;
        }
        return cpu_device_tiers[i].ops;
    }
    if (strcmp(tier, "avx512") == 0 || strcmp(tier, "avx2") == 0) {
        snprintf(err, err_bytes, "tier %s is not built: it needs an x86-64 processor", tier);
        return NULL;
    }
    snprintf(err, err_bytes, "tier '%.32s' is unknown: use reference, avx2 or avx512", tier);
    return NULL;
}

/* ---------------------------------------------------------------- description */

static size_t cpu_device_meminfo(const char *field) {
    FILE *file = fopen("/proc/meminfo", "r");
    size_t kibibytes = 0;
    char line[128];
    size_t length = strlen(field);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, length) == 0 && line[length] == ':') {
            kibibytes = strtoull(line + length + 1, NULL, 10);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kibibytes * 1024u;
}

/* MemAvailable counts the page cache that can be given up, which sysconf's figure does not. */
static size_t cpu_device_free_bytes(void) {
    size_t available = cpu_device_meminfo("MemAvailable");
    long pages = sysconf(_SC_AVPHYS_PAGES);
    return available > 0 || pages < 0 ? available : (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void cpu_device_describe(const struct device *device, struct device_info *info) {
    const struct cpu_device *cpu = (const struct cpu_device *)device;
    *info = (struct device_info){.threads = pool_threads(cpu->pool),
                                 .few_rows = cpu_device_few_rows(device->ops->tier),
                                 .memory_is_host = true};
    cpu_features_name(info->name, sizeof info->name);
    snprintf(info->tier, sizeof info->tier, "%s", device->ops->tier);
    snprintf(info->numerics, sizeof info->numerics, "cpu-1");
    long pages = sysconf(_SC_PHYS_PAGES);
    info->memory_bytes = pages > 0 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
    info->memory_free_bytes = cpu_device_free_bytes();
}

static uint32_t cpu_device_cores(void) {
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                    ? CPU_COUNT(&allowed)
                    : (int)sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cores = count > 0 ? (uint32_t)count : 1u;
    return cores < POOL_THREADS_MAX ? cores : POOL_THREADS_MAX;
}

/* ---------------------------------------------------------------- memory and streams */

#define CPU_DEVICE_HUGE_BYTES ((size_t)2 << 20)
#define CPU_DEVICE_STREAMED_BYTES ((size_t)16 << 20)

/* Weights and keys and values, which are streamed in each step, ask for huge pages; smaller blocks
 * take no more than what is touched of them. */
static enum kernels_status cpu_device_alloc(struct device *device, enum device_memory kind,
                                            size_t bytes, void **out) {
    (void)device, (void)kind;
    size_t alignment =
        bytes >= CPU_DEVICE_STREAMED_BYTES ? CPU_DEVICE_HUGE_BYTES : KERNELS_ALIGNMENT_BYTES;
    if (bytes > SIZE_MAX - alignment) {
        return KERNELS_NO_MEMORY;
    }
    size_t rounded = (bytes + alignment - 1) & ~(alignment - 1);
    *out = aligned_alloc(alignment, rounded);
    if (*out != NULL && alignment == CPU_DEVICE_HUGE_BYTES) {
        (void)madvise(*out, rounded, MADV_HUGEPAGE); /* a wish: correct without */
    }
    return *out != NULL ? KERNELS_OK : KERNELS_NO_MEMORY;
}

static void cpu_device_free(struct device *device, enum device_memory kind, void *memory) {
    (void)device, (void)kind;
    free(memory);
}

static enum kernels_status cpu_device_copy(struct device *device, enum device_stream stream,
                                           void *to, const void *from, size_t bytes) {
    (void)device;
    if (bytes == 0) {
        return KERNELS_OK;
    }
    if (to == NULL || from == NULL || (unsigned)stream >= DEVICE_STREAM_COUNT) {
        return KERNELS_INVALID;
    }
    memmove(to, from, bytes);
    return KERNELS_OK;
}

static enum kernels_status cpu_device_fill(struct device *device, enum device_stream stream,
                                           void *to, uint8_t value, size_t bytes) {
    (void)device;
    if (bytes == 0) {
        return KERNELS_OK;
    }
    if (to == NULL || (unsigned)stream >= DEVICE_STREAM_COUNT) {
        return KERNELS_INVALID;
    }
    memset(to, value, bytes);
    return KERNELS_OK;
}

static enum kernels_status cpu_device_event_open(struct device *device, struct device_event **out) {
    (void)device;
    *out = malloc(sizeof **out);
    return *out != NULL ? KERNELS_OK : KERNELS_NO_MEMORY;
}

static void cpu_device_event_close(struct device *device, struct device_event *event) {
    (void)device;
    free(event);
}

static enum kernels_status cpu_device_event_pass(struct device *device, struct device_event *event,
                                                 enum device_stream stream) {
    (void)device;
    return event != NULL && (unsigned)stream < DEVICE_STREAM_COUNT ? KERNELS_OK : KERNELS_INVALID;
}

static enum kernels_status cpu_device_sync(struct device *device, char *err, size_t err_bytes) {
    (void)device, (void)err, (void)err_bytes;
    return KERNELS_OK;
}

static enum kernels_status cpu_device_sync_stream(struct device *device, enum device_stream stream,
                                                  char *err, size_t err_bytes) {
    (void)device, (void)err, (void)err_bytes;
    return (unsigned)stream < DEVICE_STREAM_COUNT ? KERNELS_OK : KERNELS_INVALID;
}

static void cpu_device_enter_thread(struct device *device) {
    (void)device;
    pool_enter_thread();
}

/* ---------------------------------------------------------------- life */

static void cpu_device_close(struct device *device) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    pool_close(cpu->pool);
    free(cpu->rows);
    free(cpu);
}

static const struct backend cpu_device_backend = {
    .close = cpu_device_close,
    .describe = cpu_device_describe,
    .enter_thread = cpu_device_enter_thread,
    .alloc = cpu_device_alloc,
    .free = cpu_device_free,
    .copy_in = cpu_device_copy,
    .copy_out = cpu_device_copy,
    .copy_within = cpu_device_copy,
    .fill = cpu_device_fill,
    .event_open = cpu_device_event_open,
    .event_close = cpu_device_event_close,
    .event_record = cpu_device_event_pass,
    .event_wait = cpu_device_event_pass,
    .sync = cpu_device_sync,
    .sync_stream = cpu_device_sync_stream,
};

enum kernels_status cpu_device_open(const struct device_options *options, struct device **out,
                                    char *err, size_t err_bytes) {
    *out = NULL;
    const struct cpu_features features = cpu_features_read();
    const struct kernel_ops *ops = cpu_device_ops(options->tier, &features, err, err_bytes);
    if (ops == NULL) {
        return KERNELS_NO_DEVICE;
    }
    uint32_t threads = options->threads > 0 ? options->threads : cpu_device_cores();
    if (threads > POOL_THREADS_MAX) {
        snprintf(err, err_bytes, "%u threads: at most %u", threads, POOL_THREADS_MAX);
        return KERNELS_INVALID;
    }
    struct cpu_device *cpu = calloc(1, sizeof *cpu);
    if (cpu != NULL) {
        cpu->base = (struct device){.backend = &cpu_device_backend, .ops = ops};
        cpu->pool = pool_open(threads);
        cpu->rows = aligned_alloc(KERNELS_ALIGNMENT_BYTES, threads * KERNELS_K_MAX * sizeof(float));
    }
    if (cpu == NULL || cpu->pool == NULL || cpu->rows == NULL) {
        snprintf(err, err_bytes, "no memory or threads for a CPU device with %u threads", threads);
        if (cpu != NULL) {
            cpu_device_close(&cpu->base);
        }
        return KERNELS_NO_MEMORY;
    }
    *out = &cpu->base;
    return KERNELS_OK;
}

struct pool *cpu_device_pool(const struct device *device) {
    return ((const struct cpu_device *)device)->pool;
}

float *cpu_device_row(const struct device *device, uint32_t worker) {
    const struct cpu_device *cpu = (const struct cpu_device *)device;
    assert(worker < pool_threads(cpu->pool));
    return cpu->rows + (size_t)worker * KERNELS_K_MAX;
}
