/* Kernels under the emulation: right ones give what they should under every order, and each of the
 * broken ones is found. */
#include "kernels/canonical.h"
#include "tests/cuda_emulation/rig.h"
#include "tests/cuda_emulation/sample_kernels.h"

static std::vector<int> ints(size_t count, int factor) {
    std::vector<int> values(count);
    for (size_t i = 0; i < count; i++) {
        values[i] = static_cast<int>(i) * factor % 101 - 50;
    }
    return values;
}

static std::vector<float> floats(size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++) {
        values[i] = static_cast<float>(i) * 0.37f - 11.0f;
    }
    return values;
}

/* ---------------------------------------------------------------- right */

static void sums_blocks_through_shared_memory(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<int> x = ints(150, 7);
        int *dx = rig_memory_of(rig, x), *dsum = rig_memory<int>(3);
        right_block_sum(dx, dsum, 150, rig.stream);
        std::vector<int> sum = rig_take(rig, dsum, 3);
        int wanted[3] = {0};
        for (size_t i = 0; i < x.size(); i++) {
            wanted[i / 64] += x[i];
        }
        assert_memory_equal(sum.data(), wanted, sizeof wanted);
        assert_cuda(cudaFree(dx));
    });
}

static void transposes_through_a_padded_tile(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<float> x = floats(37 * 21);
        float *dx = rig_memory_of(rig, x), *dy = rig_memory<float>(x.size());
        right_transpose(dx, dy, 37, 21, rig.stream);
        std::vector<float> y = rig_take(rig, dy, x.size());
        for (size_t row = 0; row < 37; row++) {
            for (size_t column = 0; column < 21; column++) {
                assert_true(y[column * 37 + row] == x[row * 21 + column]);
            }
        }
        assert_cuda(cudaFree(dx));
    });
}

static void sums_a_warp_by_shuffles(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<float> x(32), wanted(32);
        for (size_t i = 0; i < 32; i++) {
            x[i] = static_cast<float>(i * i);
        }
        float *dx = rig_memory_of(rig, x), *by_xor = rig_memory<float>(32);
        float *by_down = rig_memory<float>(1);
        right_warp_sum(dx, by_xor, by_down, rig.stream);
        std::vector<float> sums = rig_take(rig, by_xor, 32);
        for (float sum : sums) {
            assert_true(sum == 10416.0f);
        }
        assert_true(rig_take(rig, by_down, 1)[0] == 10416.0f);
        assert_cuda(cudaFree(dx));
    });
}

static void orders_memory_of_a_warp_by_syncwarp(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<int> x = ints(32, 3);
        int *dx = rig_memory_of(rig, x), *dy = rig_memory<int>(32);
        right_warp_exchange(dx, dy, rig.stream);
        std::vector<int> y = rig_take(rig, dy, 32);
        for (size_t i = 0; i < 32; i++) {
            assert_int_equal(y[i], x[31 - i]);
        }
        assert_cuda(cudaFree(dx));
    });
}

static void collects_the_votes_of_each_warp(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<int> x(64, 0);
        x[0] = x[31] = x[33] = 1;
        int *dx = rig_memory_of(rig, x);
        unsigned *dvotes = rig_memory<unsigned>(2);
        right_ballot(dx, dvotes, rig.stream);
        std::vector<unsigned> votes = rig_take(rig, dvotes, 2);
        assert_int_equal(votes[0], 0x80000001u);
        assert_int_equal(votes[1], 0x2u);
        assert_cuda(cudaFree(dx));
    });
}

static void multiplies_bytes_by_dp4a_over_vector_loads(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<int8_t> a(656), b(656);
        int wanted = 0;
        for (size_t i = 0; i < a.size(); i++) {
            a[i] = static_cast<int8_t>(i * 37 % 256 - 128);
            b[i] = static_cast<int8_t>(i * 91 % 256 - 128);
            wanted += a[i] * b[i];
        }
        int8_t *da = rig_memory_of(rig, a), *db = rig_memory_of(rig, b);
        int *dot = rig_memory<int>(1);
        right_dot(da, db, dot, 656, rig.stream);
        assert_int_equal(rig_take(rig, dot, 1)[0], wanted);
        assert_cuda(cudaFree(da));
        assert_cuda(cudaFree(db));
    });
}

static void counts_by_atomics_across_blocks(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<int> x(100, 2);
        x[7] = 0;
        int *dx = rig_memory_of(rig, x), *dcounts = rig_memory<int>(3);
        assert_cuda(cudaMemsetAsync(dcounts, 0, 3 * sizeof(int), rig.stream));
        right_histogram(dx, dcounts, 100, rig.stream);
        std::vector<int> counts = rig_take(rig, dcounts, 3);
        int wanted[3] = {1, 0, 99};
        assert_memory_equal(counts.data(), wanted, sizeof wanted);
        assert_cuda(cudaFree(dx));
    });
}

static void gives_a_launch_its_dynamic_shared_memory(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<float> x = floats(70);
        float *dx = rig_memory_of(rig, x), *dy = rig_memory<float>(70);
        right_reverse(dx, dy, 70, rig.stream);
        std::vector<float> y = rig_take(rig, dy, 70);
        for (size_t i = 0; i < 70; i++) {
            assert_true(y[i] == x[69 - i]);
        }
        assert_cuda(cudaFree(dx));
    });
}

static void stores_halves_as_canonical_arithmetic_rounds_them(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<float> x = floats(50);
        float *dx = rig_memory_of(rig, x);
        __half *dy = rig_memory<__half>(50);
        right_halves(dx, dy, 50, rig.stream);
        std::vector<__half> y = rig_take(rig, dy, 50);
        for (size_t i = 0; i < 50; i++) {
            assert_int_equal(y[i].bits, canonical_f32_to_f16(x[i]));
        }
        assert_cuda(cudaFree(dx));
    });
}

static void copies_aligned_vectors(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<float> x = floats(64);
        float *dx = rig_memory_of(rig, x), *dy = rig_memory<float>(64);
        right_copy4(dx, dy, 64, rig.stream);
        std::vector<float> y = rig_take(rig, dy, 64);
        assert_memory_equal(y.data(), x.data(), 64 * sizeof(float));
        assert_cuda(cudaFree(dx));
    });
}

static std::vector<int> order_of(uint64_t seed) {
    emulation_reset(seed);
    rig rig = {};
    assert_cuda(cudaStreamCreateWithFlags(&rig.stream, cudaStreamNonBlocking));
    int *ticket = rig_memory<int>(1), *order = rig_memory<int>(256);
    assert_cuda(cudaMemsetAsync(ticket, 0, sizeof(int), rig.stream));
    right_order(ticket, order, rig.stream);
    std::vector<int> taken = rig_take(rig, order, 256);
    emulation_reset(0);
    return taken;
}

static void runs_threads_in_the_order_of_the_seed(void **state) {
    std::vector<int> first = order_of(1), again = order_of(1), other = order_of(2);
    assert_true(first == again);
    assert_true(first != other);
    bool blocks_in_order = first[0] < 64 && first[64] >= 64 && first[64] < 128;
    bool other_in_order = other[0] < 64 && other[64] >= 64 && other[64] < 128;
    assert_false(blocks_in_order && other_in_order);
}

/* ---------------------------------------------------------------- broken */

static void finds_a_missing_barrier(void **state) {
    rig_each_seed([](rig &rig) {
        float *x = rig_memory_of(rig, floats(64)), *y = rig_memory<float>(64);
        broken_no_barrier(x, y, 64, rig.stream);
        assert_cuda(cudaGetLastError()); /* a launch only enqueues */
        cudaError_t error = cudaStreamSynchronize(rig.stream);
        assert_int_equal(error, cudaErrorLaunchFailure);
        /* Whether the reader or the writer comes first, the order decides. */
        assert_true(emulation_last_fault() == EMULATION_RACE ||
                    emulation_last_fault() == EMULATION_UNINITIALISED);
        assert_non_null(strstr(emulation_last_report(), "no_barrier, block (0, 0), thread ("));
    });
}

static void finds_a_missing_warp_barrier_beside_a_shuffle(void **state) {
    rig_each_seed([](rig &rig) {
        int *x = rig_memory_of(rig, ints(32, 3)), *y = rig_memory<int>(32);
        broken_no_warp_barrier(x, y, rig.stream);
        rig_expect(rig, EMULATION_RACE, cudaErrorLaunchFailure);
    });
}

static void finds_blocks_that_write_the_same_byte(void **state) {
    rig_each_seed([](rig &rig) {
        int *x = rig_memory<int>(1);
        broken_blocks_collide(x, rig.stream);
        rig_expect(rig, EMULATION_RACE, cudaErrorLaunchFailure);
    });
}

static void finds_a_plain_write_beside_atomics(void **state) {
    rig_each_seed([](rig &rig) {
        int *x = rig_memory_of(rig, ints(1, 0));
        broken_plain_beside_atomic(x, rig.stream);
        rig_expect(rig, EMULATION_RACE, cudaErrorLaunchFailure);
    });
}

static void finds_a_read_one_past_the_end(void **state) {
    rig_each_seed([](rig &rig) {
        float *x = rig_memory_of(rig, floats(33)), *y = rig_memory<float>(33);
        broken_read_past(x, y, 33, rig.stream);
        rig_expect(rig, EMULATION_OUT_OF_BOUNDS, cudaErrorIllegalAddress);
        assert_non_null(strstr(emulation_last_report(), "reads 4 bytes at 132"));
    });
}

static void finds_a_write_before_the_beginning(void **state) {
    rig_each_seed([](rig &rig) {
        float *y = rig_memory<float>(32);
        broken_write_before(y, rig.stream);
        rig_expect(rig, EMULATION_OUT_OF_BOUNDS, cudaErrorIllegalAddress);
    });
}

static void finds_a_write_past_a_shared_array(void **state) {
    rig_each_seed([](rig &rig) {
        float *y = rig_memory<float>(32);
        broken_shared_past(y, rig.stream);
        rig_expect(rig, EMULATION_OUT_OF_BOUNDS, cudaErrorIllegalAddress);
        assert_non_null(strstr(emulation_last_report(), "first"));
    });
}

static void finds_host_memory_given_to_a_kernel(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<int> x(32, 0);
        right_fill(x.data(), 1, 32, rig.stream);
        rig_expect(rig, EMULATION_OUT_OF_BOUNDS, cudaErrorIllegalAddress);
        assert_int_equal(x[0], 0);
    });
}

static void finds_reads_of_fresh_memory(void **state) {
    rig_each_seed([](rig &rig) {
        float *x = rig_memory<float>(64), *y = rig_memory<float>(64);
        right_copy4(x, y, 64, rig.stream);
        rig_expect(rig, EMULATION_UNINITIALISED, cudaErrorLaunchFailure);
    });
    rig_each_seed([](rig &rig) {
        float *y = rig_memory<float>(33);
        broken_uninitialised_shared(y, rig.stream);
        rig_expect(rig, EMULATION_UNINITIALISED, cudaErrorLaunchFailure);
    });
}

static void fills_fresh_memory_with_nan(void **state) {
    rig_each_seed([](rig &rig) {
        float *x = rig_memory<float>(3);
        std::vector<float> values = rig_take(rig, x, 3);
        for (float value : values) {
            assert_true(value != value);
        }
    });
}

static void finds_divergent_barriers(void **state) {
    static void (*const broken[])(int *, cudaStream_t) = {broken_branch_barrier,
                                                          broken_early_return, broken_two_barriers};
    for (auto launch : broken) {
        static void (*chosen)(int *, cudaStream_t);
        chosen = launch;
        rig_each_seed([](rig &rig) {
            int *y = rig_memory<int>(32);
            chosen(y, rig.stream);
            rig_expect(rig, EMULATION_DIVERGENT, cudaErrorLaunchFailure);
        });
    }
}

static void finds_misaligned_vectors(void **state) {
    rig_each_seed([](rig &rig) {
        float *x = rig_memory_of(rig, floats(16)), *y = rig_memory<float>(16);
        broken_misaligned4(x, y, rig.stream);
        rig_expect(rig, EMULATION_MISALIGNED, cudaErrorMisalignedAddress);
    });
    rig_each_seed([](rig &rig) {
        int *x = rig_memory_of(rig, ints(2, 1)), *y = rig_memory<int>(4);
        broken_misaligned2(x, y, rig.stream);
        rig_expect(rig, EMULATION_MISALIGNED, cudaErrorMisalignedAddress);
    });
}

static void finds_what_is_outside_the_subset(void **state) {
    rig_each_seed([](rig &rig) {
        int *y = rig_memory<int>(32);
        broken_partial_mask(y, rig.stream);
        rig_expect(rig, EMULATION_SUBSET, cudaErrorLaunchFailure);
    });
    rig_each_seed([](rig &rig) {
        float *y = rig_memory<float>(32);
        broken_too_much_shared(y, rig.stream);
        rig_expect(rig, EMULATION_SUBSET, cudaErrorLaunchFailure);
    });
}

static void finds_host_code_that_reads_device_memory(void **state) {
    rig_each_seed([](rig &rig) {
        float *x = rig_memory_of(rig, floats(1));
        (void)broken_host_reads(x);
        assert_int_equal(emulation_last_fault(), EMULATION_HOST);
        assert_int_equal(cudaPeekAtLastError(), cudaErrorLaunchFailure);
    });
}

static void finds_a_changed_red_zone_when_memory_is_freed(void **state) {
    rig_each_seed([](rig &rig) {
        auto *x = rig_memory<unsigned char>(33);
        x[33] = 1; /* code that is not watched */
        assert_int_equal(cudaFree(x), cudaErrorLaunchFailure);
        assert_int_equal(emulation_last_fault(), EMULATION_RED_ZONE);
    });
}

TEST_MAIN(cmocka_unit_test(sums_blocks_through_shared_memory),
          cmocka_unit_test(transposes_through_a_padded_tile),
          cmocka_unit_test(sums_a_warp_by_shuffles),
          cmocka_unit_test(orders_memory_of_a_warp_by_syncwarp),
          cmocka_unit_test(collects_the_votes_of_each_warp),
          cmocka_unit_test(multiplies_bytes_by_dp4a_over_vector_loads),
          cmocka_unit_test(counts_by_atomics_across_blocks),
          cmocka_unit_test(gives_a_launch_its_dynamic_shared_memory),
          cmocka_unit_test(stores_halves_as_canonical_arithmetic_rounds_them),
          cmocka_unit_test(copies_aligned_vectors),
          cmocka_unit_test(runs_threads_in_the_order_of_the_seed),
          cmocka_unit_test(finds_a_missing_barrier),
          cmocka_unit_test(finds_a_missing_warp_barrier_beside_a_shuffle),
          cmocka_unit_test(finds_blocks_that_write_the_same_byte),
          cmocka_unit_test(finds_a_plain_write_beside_atomics),
          cmocka_unit_test(finds_a_read_one_past_the_end),
          cmocka_unit_test(finds_a_write_before_the_beginning),
          cmocka_unit_test(finds_a_write_past_a_shared_array),
          cmocka_unit_test(finds_host_memory_given_to_a_kernel),
          cmocka_unit_test(finds_reads_of_fresh_memory),
          cmocka_unit_test(fills_fresh_memory_with_nan), cmocka_unit_test(finds_divergent_barriers),
          cmocka_unit_test(finds_misaligned_vectors),
          cmocka_unit_test(finds_what_is_outside_the_subset),
          cmocka_unit_test(finds_host_code_that_reads_device_memory),
          cmocka_unit_test(finds_a_changed_red_zone_when_memory_is_freed))
