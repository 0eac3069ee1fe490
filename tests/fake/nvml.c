/* NVIDIA's management library as the test of consumer/gpu_monitor needs it: two cards, and answers
 * that change with each question. FAKE_NVML_REFUSES names a call that fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct utilization {
    unsigned gpu, memory;
};
struct memory {
    unsigned long long total, free, used;
};
struct card {
    const char *name, *uuid;
    unsigned questions;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **card);
int nvmlDeviceGetName(void *card, char *name, unsigned bytes);
int nvmlDeviceGetUtilizationRates(void *card, struct utilization *out);
int nvmlDeviceGetMemoryInfo(void *card, struct memory *out);
int nvmlDeviceGetTemperature(void *card, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(void *card, unsigned *milliwatts);

enum { OK = 0, UNINITIALISED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static int users;
static struct card cards[] = {{"Card A", "GPU-aaaa", 0}, {"Card B", "GPU-bbbb", 0}};

static int refusal(const char *call) {
    const char *refused = getenv("FAKE_NVML_REFUSES");
    return users == 0                                      ? UNINITIALISED
           : refused != NULL && strcmp(refused, call) == 0 ? NOT_SUPPORTED
                                                           : OK;
}

int nvmlInit_v2(void) {
    users++;
    int code = refusal("init");
    users -= code != OK;
    cards[0].questions = cards[1].questions = 0;
    return code;
}

int nvmlShutdown(void) {
    users--;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card) {
    *card = index < 2 ? &cards[index] : NULL;
    return index < 2 ? refusal("by_index") : NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **card) {
    for (int i = 0; i < 2; i++) {
        if (strcmp(cards[i].uuid, uuid) == 0) {
            *card = &cards[i];
            return refusal("by_uuid");
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetName(void *card, char *name, unsigned bytes) {
    snprintf(name, bytes, "%s", ((struct card *)card)->name);
    return refusal("name");
}

/* 50, 60, 70, ... percent */
int nvmlDeviceGetUtilizationRates(void *card, struct utilization *out) {
    struct card *one = card;
    one->questions++;
    *out = (struct utilization){40 + 10 * one->questions, 1};
    return refusal("utilization");
}

/* The second question finds most in use. */
int nvmlDeviceGetMemoryInfo(void *card, struct memory *out) {
    struct card *one = card;
    unsigned long long used = one->questions == 2 ? 3000 : 1000;
    *out = (struct memory){8000, 8000 - used, used};
    return refusal("memory");
}

int nvmlDeviceGetTemperature(void *card, int sensor, unsigned *celsius) {
    struct card *one = card;
    *celsius = sensor == 0 ? 60 + one->questions : 999;
    return refusal("temperature");
}

/* 100.5, 101, 101.5, ... W */
int nvmlDeviceGetPowerUsage(void *card, unsigned *milliwatts) {
    struct card *one = card;
    *milliwatts = 100000 + 500 * one->questions;
    return refusal("power");
}
