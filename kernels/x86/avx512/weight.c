/* INT8 weights as the AVX-512 kernels read them: the AVX2 tier's panels, each value plus 128. */
#include "kernels/x86/avx2/weight.h"

#include "kernels/x86/avx512/avx512.h"

enum kernels_status avx512_weight_pack(const struct weight_form *form,
                                       const struct weight_source *source, void *packed, char *err,
                                       size_t err_bytes) {
    enum kernels_status status = avx2_weight_pack(form, source, packed, err, err_bytes);
    if (status == KERNELS_OK && avx2_takes(form)) {
        uint8_t *values = packed;
        for (size_t i = 0; i < avx2_weight_values_bytes(form); i++) {
            values[i] ^= 0x80u; /* w + 128, from two's complement */
        }
    }
    return status;
}
