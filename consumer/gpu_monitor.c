#include "consumer/gpu_monitor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ---- */

#define NVML_FILE "libnvidia-ml.so.1" /* comes with the driver */
#define NVML_SENSOR_GPU 0
#define NVML_NAME_BYTES 96

struct nvml_utilization {
    unsigned gpu, memory; /* percent of the time since the last question */
};

struct nvml_memory {
    unsigned long long total, free, used;
};

/* The entry points in use; 0 is success in all of them. */
struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_index)(unsigned index, void **card);
    int (*by_uuid)(const char *uuid, void **card);
    int (*name)(void *card, char *name, unsigned bytes);
    int (*utilization)(void *card, struct nvml_utilization *out);
    int (*memory)(void *card, struct nvml_memory *out);
    int (*temperature)(void *card, int sensor, unsigned *celsius);
    int (*power)(void *card, unsigned *milliwatts);
};

static const struct {
    const char *name;
    size_t offset;
} gpu_monitor_calls[] = {
    {"nvmlInit_v2", offsetof(struct nvml, init)},
    {"nvmlShutdown", offsetof(struct nvml, shutdown)},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml, by_index)},
    {"nvmlDeviceGetHandleByUUID", offsetof(struct nvml, by_uuid)},
    {"nvmlDeviceGetName", offsetof(struct nvml, name)},
    {"nvmlDeviceGetUtilizationRates", offsetof(struct nvml, utilization)},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct nvml, memory)},
    {"nvmlDeviceGetTemperature", offsetof(struct nvml, temperature)},
    {"nvmlDeviceGetPowerUsage", offsetof(struct nvml, power)},
};

struct gpu_monitor {
    void *library;
    struct nvml nvml;
    bool is_initialised;
    void *card;
    int64_t asked_ms;               /* 0 = never */
    struct gpu_monitor_report sums; /* averages are sums here */
};

static bool gpu_monitor_load(struct gpu_monitor *monitor, const char *file, char *err,
                             size_t err_bytes) {
    monitor->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (monitor->library == NULL) {
        snprintf(err, err_bytes, "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof gpu_monitor_calls / sizeof gpu_monitor_calls[0]; i++) {
        void *call = dlsym(monitor->library, gpu_monitor_calls[i].name);
        if (call == NULL) {
            snprintf(err, err_bytes, "%s lacks %s", file, gpu_monitor_calls[i].name);
            return false;
        }
        memcpy((char *)&monitor->nvml + gpu_monitor_calls[i].offset, &call, sizeof call);
    }
    int code = monitor->nvml.init();
    monitor->is_initialised = code == 0;
    if (code != 0) {
        snprintf(err, err_bytes, "%s: nvmlInit_v2 answers %d", file, code);
    }
    return code == 0;
}

/* ---- which card ---- */

/* Entry `index` of CUDA_VISIBLE_DEVICES, by which CUDA counts; without one `index` itself. */
static int gpu_monitor_find(struct gpu_monitor *monitor, uint32_t index) {
    const char *entry = getenv("CUDA_VISIBLE_DEVICES");
    if (entry == NULL) {
        return monitor->nvml.by_index(index, &monitor->card);
    }
    for (; index > 0; index--) {
        entry += strcspn(entry, ",");
        entry += *entry == ',';
    }
    char id[96];
    snprintf(id, sizeof id, "%.*s", (int)strcspn(entry, ","), entry);
    char *end;
    unsigned long number = strtoul(id, &end, 10);
    return end != id && *end == '\0' ? monitor->nvml.by_index((unsigned)number, &monitor->card)
                                     : monitor->nvml.by_uuid(id, &monitor->card);
}

/* CUDA may count unequal cards in another order: then the name tells. */
static bool gpu_monitor_choose(struct gpu_monitor *monitor, uint32_t index, const char *name,
                               char *err, size_t err_bytes) {
    char found[NVML_NAME_BYTES] = "";
    int code = gpu_monitor_find(monitor, index);
    code = code == 0 ? monitor->nvml.name(monitor->card, found, sizeof found) : code;
    if (code != 0) {
        snprintf(err, err_bytes, "NVML answers %d about cuda:%u", code, index);
        return false;
    }
    if (strcmp(found, name) != 0) {
        snprintf(err, err_bytes,
                 "cuda:%u is a %s, and NVML's card of that number a %s: "
                 "set CUDA_DEVICE_ORDER=PCI_BUS_ID",
                 index, name, found);
        return false;
    }
    return true;
}

struct gpu_monitor *gpu_monitor_open(const char *file, uint32_t index, const char *name, char *err,
                                     size_t err_bytes) {
    struct gpu_monitor *monitor = calloc(1, sizeof *monitor);
    if (monitor == NULL) {
        snprintf(err, err_bytes, "out of memory");
        return NULL;
    }
    if (!gpu_monitor_load(monitor, file != NULL ? file : NVML_FILE, err, err_bytes) ||
        !gpu_monitor_choose(monitor, index, name, err, err_bytes)) {
        gpu_monitor_close(monitor);
        return NULL;
    }
    return monitor;
}

void gpu_monitor_close(struct gpu_monitor *monitor) {
    if (monitor == NULL) {
        return;
    }
    if (monitor->is_initialised) {
        monitor->nvml.shutdown();
    }
    if (monitor->library != NULL) {
        dlclose(monitor->library);
    }
    free(monitor);
}

/* ---- samples ---- */

static void gpu_monitor_ask(struct gpu_monitor *monitor) {
    const struct nvml *nvml = &monitor->nvml;
    struct gpu_monitor_report *sums = &monitor->sums;
    struct nvml_utilization utilization;
    struct nvml_memory memory;
    unsigned celsius, milliwatts;
    if (nvml->utilization(monitor->card, &utilization) == 0) {
        sums->utilization_samples++;
        sums->utilization_percent += utilization.gpu;
    }
    if (nvml->memory(monitor->card, &memory) == 0) {
        sums->memory_samples++;
        sums->memory_total_bytes = memory.total;
        if (memory.used > sums->memory_used_bytes_max) {
            sums->memory_used_bytes_max = memory.used;
        }
    }
    if (nvml->temperature(monitor->card, NVML_SENSOR_GPU, &celsius) == 0) {
        sums->temperature_samples++;
        if (celsius > sums->temperature_celsius_max) {
            sums->temperature_celsius_max = celsius;
        }
    }
    if (nvml->power(monitor->card, &milliwatts) == 0) {
        sums->power_samples++;
        sums->power_watts += milliwatts / 1000.0;
    }
}

void gpu_monitor_sample(struct gpu_monitor *monitor, int64_t now_ms) {
    if (monitor == NULL ||
        (monitor->asked_ms != 0 && now_ms - monitor->asked_ms < GPU_MONITOR_PAUSE_MS)) {
        return;
    }
    monitor->asked_ms = now_ms;
    gpu_monitor_ask(monitor);
}

static double gpu_monitor_average(double sum, uint64_t samples) {
    return samples > 0 ? sum / (double)samples : 0;
}

void gpu_monitor_report(const struct gpu_monitor *monitor, struct gpu_monitor_report *out) {
    *out = (struct gpu_monitor_report){0};
    if (monitor != NULL) {
        *out = monitor->sums;
        out->utilization_percent =
            gpu_monitor_average(out->utilization_percent, out->utilization_samples);
        out->power_watts = gpu_monitor_average(out->power_watts, out->power_samples);
    }
}
