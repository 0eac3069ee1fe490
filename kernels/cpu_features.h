/* The processor's vector instructions, as far as a tier needs them, and its name.
 *
 * Any thread; asks the processor at every call and keeps nothing. Counts an instruction set only if
 * the operating system saves its registers, too. */
#ifndef SOLFLEET_KERNELS_CPU_FEATURES_H
#define SOLFLEET_KERNELS_CPU_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the names of those of avx2, fma and f16c that are missing ("avx2, f16c"), or "". On a
 * processor that is not x86-64 nothing is missing: portable code needs none of them. */
void cpu_features_missing(char *names, size_t names_bytes);

void cpu_features_name(char *name, size_t name_bytes);

#endif
