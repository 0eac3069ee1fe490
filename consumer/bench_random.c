#include "consumer/bench_random.h"

uint64_t bench_random_next(uint64_t *state) {
    uint64_t mixed = *state += 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
}

uint32_t bench_random_below(uint64_t *state, uint32_t bound) {
    return (uint32_t)(((bench_random_next(state) >> 32) * bound) >> 32);
}

double bench_random_unit(uint64_t *state) {
    return (double)((bench_random_next(state) >> 11) + 1) / (double)(1ull << 53);
}
