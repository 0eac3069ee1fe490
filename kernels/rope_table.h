/* The tables of rotary embedding: cosines and sines of every position, made on the host.
 *
 * Own f64 power, cosine and sine, so that the tables do not depend on a libm: built from correctly
 * rounded operations only, they are the same on every machine; each entry is the f64 value rounded
 * once to f32 (within 1 ulp of f32 for positions below 2^20). Pure functions, any thread; the
 * caller's memory. */
#ifndef SOLFLEET_KERNELS_ROPE_TABLE_H
#define SOLFLEET_KERNELS_ROPE_TABLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ROPE_TABLE_POSITIONS_MAX (1u << 20)

/* cos_table, sin_table: f32 [positions, rotary_dims / 2]; entry (p, i) is of the angle
 * p * theta^(-2i / rotary_dims). positions <= ROPE_TABLE_POSITIONS_MAX, rotary_dims even, theta >=
 * 1 and finite: asserted. */
void rope_table_fill(float *cos_table, float *sin_table, uint32_t positions, uint32_t rotary_dims,
                     double theta);

#ifdef __cplusplus
}
#endif

#endif
