/* The watch over every load and store of a .cu file. They are compiled with -fsanitize=thread, and
 * not linked with its library: gcc puts a call of __tsan_* before each access, and these are ours.
 *
 * An access must lie in an allocation, be aligned, read only what was written, and not race: of two
 * accesses to a byte by different threads, one of them a write, a barrier of their block (or of
 * their warp) must stand between; across the blocks of a launch nothing can. Atomics race only
 * with plain accesses. */
#include "tests/cuda_emulation/internal.h"

extern "C" {
extern const char __executable_start, end;
}

static uint32_t access_time, access_launch_time;

uint32_t emulation_tick() {
    return ++access_time;
}

void emulation_begin_launch() {
    access_launch_time = ++access_time;
}

/* Whether all of `before` happened before what the thread does now. */
static bool is_ordered(const emulation_touch &before, const emulation_thread &now) {
    if (before.scope == SCOPE_NONE || before.time < access_launch_time ||
        (before.scope == SCOPE_THREAD && before.thread == now.id)) {
        return true;
    }
    if (before.scope == SCOPE_GRID || before.block != now.block) {
        return false;
    }
    bool in_warp = before.scope != SCOPE_BLOCK && before.warp == now.warp;
    return before.time < now.block_time || (in_warp && before.time < now.warp_time);
}

static emulation_touch touch_of(const emulation_thread &now, bool is_atomic) {
    return {access_time, now.id, now.warp, now.block, SCOPE_THREAD, is_atomic};
}

static void note_read(emulation_touch &read, const emulation_thread &now, bool is_atomic) {
    emulation_touch mine = touch_of(now, is_atomic);
    if (!is_ordered(read, now)) {
        bool same_block = read.scope != SCOPE_GRID && read.block == now.block;
        bool same_warp = same_block && read.scope != SCOPE_BLOCK && read.warp == now.warp;
        mine.scope = same_warp ? SCOPE_WARP : same_block ? SCOPE_BLOCK : SCOPE_GRID;
        mine.is_atomic = is_atomic && read.is_atomic;
    }
    read = mine;
}

static bool races(const emulation_touch &before, const emulation_thread &now, bool is_atomic) {
    return !is_ordered(before, now) && !(is_atomic && before.is_atomic);
}

static void touch_byte(const emulation_allocation &one, size_t offset, emulation_byte &byte,
                       bool writes, bool is_atomic) {
    const emulation_thread &now = *emulation_current();
    if ((!writes || is_atomic) && !byte.is_known) {
        emulation_report(EMULATION_UNINITIALISED, "byte %zu of allocation %u (%s)", offset,
                         one.number, one.name);
    }
    if (races(byte.write, now, is_atomic) || (writes && races(byte.read, now, is_atomic))) {
        bool after_write = races(byte.write, now, is_atomic);
        emulation_report(EMULATION_RACE, "%s byte %zu of allocation %u (%s) that thread %u %s",
                         writes ? "writes" : "reads", offset, one.number, one.name,
                         (after_write ? byte.write.thread : byte.read.thread) - 1,
                         after_write ? "wrote" : "read");
    }
    if (!writes || is_atomic) {
        note_read(byte.read, now, is_atomic);
    }
    if (writes) {
        byte.write = touch_of(now, is_atomic);
        byte.is_known = true;
    }
}

static bool lies_in(const void *address, size_t bytes, const void *range, size_t range_bytes) {
    auto first = reinterpret_cast<uintptr_t>(address);
    auto begin = reinterpret_cast<uintptr_t>(range);
    return first >= begin && first - begin <= range_bytes && bytes <= range_bytes - (first - begin);
}

/* Constants and what threadIdx is made of. */
static bool is_of_program(const void *address, size_t bytes) {
    return lies_in(address, bytes, &__executable_start,
                   static_cast<size_t>(&end - &__executable_start));
}

static void touch_in_host_code(const void *address) {
    const emulation_allocation *one = emulation_find(address);
    if (one != nullptr && one->kind != EMULATION_PINNED) {
        emulation_report(EMULATION_HOST, "touches allocation %u (%s)", one->number, one->name);
    }
}

void emulation_touch_memory(const void *address, size_t bytes, bool writes, bool is_atomic) {
    const emulation_thread *now = emulation_current();
    if (now == nullptr) {
        touch_in_host_code(address);
        return;
    }
    if (lies_in(address, bytes, now->stack, now->stack_bytes) ||
        (!writes && (lies_in(address, bytes, now->arguments, now->argument_bytes) ||
                     is_of_program(address, bytes)))) {
        return;
    }
    emulation_allocation *one = emulation_find(address);
    const char *verb = writes ? "writes" : "reads";
    if (one == nullptr || one->kind == EMULATION_PINNED) {
        emulation_report(EMULATION_OUT_OF_BOUNDS, "%s %zu bytes of host or no memory at %p", verb,
                         bytes, address);
        return;
    }
    std::ptrdiff_t offset = static_cast<const unsigned char *>(address) - one->data;
    if (!lies_in(address, bytes, one->data, one->bytes)) {
        emulation_report(EMULATION_OUT_OF_BOUNDS,
                         "%s %zu bytes at %td of allocation %u (%s, %zu bytes)", verb, bytes,
                         offset, one->number, one->name, one->bytes);
    }
    for (size_t i = 0; i < bytes; i++) {
        size_t at = static_cast<size_t>(offset) + i;
        touch_byte(*one, at, one->watch[at], writes, is_atomic);
    }
}

void emulation_check_alignment(const void *address, size_t bytes) {
    if (emulation_current() != nullptr && reinterpret_cast<uintptr_t>(address) % bytes != 0) {
        emulation_report(EMULATION_MISALIGNED, "a vector of %zu bytes at %p", bytes, address);
    }
}

/* ---------------------------------------------------------------- called by instrumented code */

static void touch_aligned(void *address, size_t bytes, bool writes) {
    emulation_check_alignment(address, bytes);
    emulation_touch_memory(address, bytes, writes, false);
}

extern "C" {
void __tsan_init();
void __tsan_func_entry(void *);
void __tsan_func_exit();
void __tsan_read_range(void *address, unsigned long bytes);
void __tsan_write_range(void *address, unsigned long bytes);

void __tsan_init() {
}
void __tsan_func_entry(void *) {
}
void __tsan_func_exit() {
}
void __tsan_read_range(void *address, unsigned long bytes) {
    emulation_touch_memory(address, bytes, false, false);
}
void __tsan_write_range(void *address, unsigned long bytes) {
    emulation_touch_memory(address, bytes, true, false);
}

#define ACCESS(bytes)                                         \
    void __tsan_read##bytes(void *address);                   \
    void __tsan_write##bytes(void *address);                  \
    void __tsan_unaligned_read##bytes(void *address);         \
    void __tsan_unaligned_write##bytes(void *address);        \
    void __tsan_read##bytes(void *address) {                  \
        touch_aligned(address, bytes, false);                 \
    }                                                         \
    void __tsan_write##bytes(void *address) {                 \
        touch_aligned(address, bytes, true);                  \
    }                                                         \
    void __tsan_unaligned_read##bytes(void *address) {        \
        emulation_touch_memory(address, bytes, false, false); \
    }                                                         \
    void __tsan_unaligned_write##bytes(void *address) {       \
        emulation_touch_memory(address, bytes, true, false);  \
    }

ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
}

/* ---------------------------------------------------------------- atomics */

template <typename T, typename F> static T atomic(T *address, F next) {
    emulation_check_alignment(address, sizeof *address);
    emulation_touch_memory(address, sizeof *address, true, true);
    T before = *address;
    *address = next(before);
    return before;
}

int atomicAdd(int *address, int value) {
    return atomic(address, [=](int before) {
        return static_cast<int>(static_cast<unsigned>(before) + static_cast<unsigned>(value));
    });
}
unsigned atomicAdd(unsigned *address, unsigned value) {
    return atomic(address, [=](unsigned before) { return before + value; });
}
unsigned long long atomicAdd(unsigned long long *address, unsigned long long value) {
    return atomic(address, [=](unsigned long long before) { return before + value; });
}
int atomicMax(int *address, int value) {
    return atomic(address, [=](int before) { return before > value ? before : value; });
}
unsigned atomicMax(unsigned *address, unsigned value) {
    return atomic(address, [=](unsigned before) { return before > value ? before : value; });
}
int atomicMin(int *address, int value) {
    return atomic(address, [=](int before) { return before < value ? before : value; });
}
unsigned atomicMin(unsigned *address, unsigned value) {
    return atomic(address, [=](unsigned before) { return before < value ? before : value; });
}
unsigned atomicOr(unsigned *address, unsigned value) {
    return atomic(address, [=](unsigned before) { return before | value; });
}
unsigned atomicCAS(unsigned *address, unsigned compare, unsigned value) {
    return atomic(address, [=](unsigned before) { return before == compare ? value : before; });
}
