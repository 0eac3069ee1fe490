/* Device, shared and pinned memory: fresh bytes are NaN patterns, each allocation stands between
 * red zones of its own, and each byte remembers who touched it. */
#include <cstdlib>
#include <map>
#include <memory>

#include "tests/cuda_emulation/internal.h"

#define FRESH_BYTE 0xFF /* a NaN in f32, f16 and bf16; -1 as an integer */
#define RED_BYTE 0xA5

static std::map<uintptr_t, std::unique_ptr<emulation_allocation>> memory_map; /* by its red zone */
static unsigned memory_number;

static size_t padded(size_t bytes) {
    return (bytes + EMULATION_ALIGNMENT - 1) / EMULATION_ALIGNMENT * EMULATION_ALIGNMENT;
}

/* Red zones: one alignment before the data; what pads the data, and one more, after it. */
static size_t whole_bytes(size_t bytes) {
    return padded(bytes) + 2 * EMULATION_ALIGNMENT;
}

void *emulation_allocate(emulation_kind kind, const char *name, size_t bytes) {
    auto made = std::make_unique<emulation_allocation>();
    auto *start =
        static_cast<unsigned char *>(aligned_alloc(EMULATION_ALIGNMENT, whole_bytes(bytes)));
    memset(start, RED_BYTE, whole_bytes(bytes));
    *made = {kind, name, ++memory_number, start + EMULATION_ALIGNMENT, bytes, {}};
    memset(made->data, FRESH_BYTE, bytes);
    if (kind != EMULATION_PINNED) {
        made->watch.resize(bytes);
    }
    void *data = made->data;
    memory_map[reinterpret_cast<uintptr_t>(start)] = std::move(made);
    return data;
}

static void check_red_zone(const emulation_allocation &one) {
    const unsigned char *start = one.data - EMULATION_ALIGNMENT;
    for (size_t i = 0; i < whole_bytes(one.bytes); i++) {
        bool is_red = i < EMULATION_ALIGNMENT || i >= EMULATION_ALIGNMENT + one.bytes;
        if (is_red && start[i] != RED_BYTE) {
            emulation_report(EMULATION_RED_ZONE, "byte %td of allocation %u (%s, %zu bytes)",
                             static_cast<std::ptrdiff_t>(i) - EMULATION_ALIGNMENT, one.number,
                             one.name, one.bytes);
            return;
        }
    }
}

void emulation_check_red_zones() {
    for (const auto &[start, one] : memory_map) {
        check_red_zone(*one);
    }
}

emulation_allocation *emulation_find(const void *address) {
    auto where = reinterpret_cast<uintptr_t>(address);
    auto after = memory_map.upper_bound(where);
    if (after == memory_map.begin()) {
        return nullptr;
    }
    --after;
    return where < after->first + whole_bytes(after->second->bytes) ? after->second.get() : nullptr;
}

emulation_allocation *emulation_at(const void *data) {
    emulation_allocation *one = emulation_find(data);
    return one != nullptr && one->data == data ? one : nullptr;
}

bool emulation_holds(const void *address, size_t bytes, emulation_kind kind) {
    const emulation_allocation *one = emulation_find(address);
    const auto *first = static_cast<const unsigned char *>(address);
    return one != nullptr && one->kind == kind && first >= one->data &&
           static_cast<size_t>(first - one->data) <= one->bytes &&
           bytes <= one->bytes - static_cast<size_t>(first - one->data);
}

void emulation_release(void *data) {
    emulation_allocation *one = emulation_at(data);
    unsigned char *start = one->data - EMULATION_ALIGNMENT;
    check_red_zone(*one);
    memory_map.erase(reinterpret_cast<uintptr_t>(start));
    free(start);
}

void emulation_mark_known(void *address, size_t bytes) {
    emulation_allocation *one = emulation_find(address);
    size_t first = static_cast<size_t>(static_cast<unsigned char *>(address) - one->data);
    for (size_t i = 0; i < bytes; i++) {
        one->watch[first + i].is_known = true;
    }
}

void emulation_copy_known(void *to, const void *from, size_t bytes) {
    emulation_allocation *target = emulation_find(to);
    const emulation_allocation *source = emulation_find(from);
    size_t first = static_cast<size_t>(static_cast<unsigned char *>(to) - target->data);
    size_t begin = static_cast<size_t>(static_cast<const unsigned char *>(from) - source->data);
    for (size_t i = 0; i < bytes; i++) {
        target->watch[first + i].is_known = source->watch[begin + i].is_known;
    }
}

size_t emulation_device_bytes() {
    size_t bytes = 0;
    for (const auto &[start, one] : memory_map) {
        bytes += one->kind == EMULATION_DEVICE ? padded(one->bytes) : 0;
    }
    return bytes;
}

void emulation_forget_memory() {
    for (const auto &[start, one] : memory_map) {
        free(one->data - EMULATION_ALIGNMENT);
    }
    memory_map.clear();
    memory_number = 0;
}
