/* The processor's vector instructions, as far as a tier needs them, and its name.
 *
 * Any thread; asks the processor at every call and keeps nothing. Counts an instruction set only if
 * the operating system saves its registers, too. */
#ifndef SOLFLEET_KERNELS_CPU_FEATURES_H
#define SOLFLEET_KERNELS_CPU_FEATURES_H

#include <stddef.h>
#include <stdint.h>

/* What cpuid and xgetbv say: the registers that hold the instruction sets of our tiers. All zero
 * where the processor is not x86-64. */
struct cpu_features {
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx;
    uint32_t xcr0; /* register files that the system saves */
};

enum cpu_features_set {
    CPU_FEATURES_NONE,  /* portable code */
    CPU_FEATURES_AVX2,  /* avx2, fma, f16c */
    CPU_FEATURES_AVX512 /* those and avx512f, avx512dq, avx512bw, avx512vl, avx512_vnni */
};

struct cpu_features cpu_features_read(void);

#define CPU_FEATURES_NAMES_BYTES 96 /* room for all names of a set */

/* Writes the names, as Linux lists them, of what a set needs and the processor lacks
 * ("avx512vl, avx512_vnni"), or "". */
void cpu_features_missing(const struct cpu_features *features, enum cpu_features_set set,
                          char *names, size_t names_bytes);

void cpu_features_name(char *name, size_t name_bytes);

#endif
