/* CUDA's vectors: every copy of a whole vector checks that both sides are aligned to its size, as
 * the hardware does. Part of the shadow of CUDA's headers. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_INCLUDE_VECTOR_TYPES_H
#define SOLFLEET_TESTS_CUDA_EMULATION_INCLUDE_VECTOR_TYPES_H

#include <cstddef>

/* Stops the thread with a report; opaque, so that no compiler believes the type's alignment. */
void emulation_check_alignment(const void *address, size_t bytes);

/* A copy that the linker takes from a file that is not watched would not be watched. */
#define EMULATION_INLINE inline __attribute__((always_inline))

#define EMULATION_VECTOR2(name, type)                            \
    struct alignas(2 * sizeof(type)) name {                      \
        type x, y;                                               \
        name() = default;                                        \
        EMULATION_INLINE name(type x_, type y_) : x(x_), y(y_) { \
        }                                                        \
        EMULATION_INLINE name(const name &from) {                \
            *this = from;                                        \
        }                                                        \
        EMULATION_INLINE name &operator=(const name &from) {     \
            emulation_check_alignment(&from, sizeof from);       \
            emulation_check_alignment(this, sizeof from);        \
            x = from.x, y = from.y;                              \
            return *this;                                        \
        }                                                        \
    };                                                           \
    EMULATION_INLINE name make_##name(type x, type y) {          \
        return name(x, y);                                       \
    }

#define EMULATION_VECTOR4(name, type)                                                            \
    struct alignas(4 * sizeof(type)) name {                                                      \
        type x, y, z, w;                                                                         \
        name() = default;                                                                        \
        EMULATION_INLINE name(type x_, type y_, type z_, type w_) : x(x_), y(y_), z(z_), w(w_) { \
        }                                                                                        \
        EMULATION_INLINE name(const name &from) {                                                \
            *this = from;                                                                        \
        }                                                                                        \
        EMULATION_INLINE name &operator=(const name &from) {                                     \
            emulation_check_alignment(&from, sizeof from);                                       \
            emulation_check_alignment(this, sizeof from);                                        \
            x = from.x, y = from.y, z = from.z, w = from.w;                                      \
            return *this;                                                                        \
        }                                                                                        \
    };                                                                                           \
    EMULATION_INLINE name make_##name(type x, type y, type z, type w) {                          \
        return name(x, y, z, w);                                                                 \
    }

EMULATION_VECTOR2(float2, float)
EMULATION_VECTOR4(float4, float)
EMULATION_VECTOR2(int2, int)
EMULATION_VECTOR4(int4, int)
EMULATION_VECTOR2(uint2, unsigned)
EMULATION_VECTOR4(uint4, unsigned)
EMULATION_VECTOR2(char2, signed char)
EMULATION_VECTOR4(char4, signed char)

#endif
