/* head_sample of the CUDA back end equals that of `reference`, on the emulation, also where it goes
 * through the head slice by slice. */
#include <cmath>

#include "tests/cuda_emulation/linears_rig.h"

#define VOCABULARY 67u
#define DIM 21u

/* Rows with parameters of every kind; row 3 is bad. */
struct posed {
    uint32_t rows;
    reference_device reference;
    kernel_test test;
    linears_blas blas;
    weight on_host, on_device;
    twin<float> x, temperature, repetition, presence, frequency;
    twin<uint32_t> top_k, top_p, min_p;
    twin<uint64_t> seed, position;
    twin<int32_t> seen_begin, seen_id, seen_count, token;
    twin<uint8_t> bad;
    kernels_workspace workspace[2]; /* by side */

    template <typename T, typename Make> static std::vector<T> each(uint32_t rows, Make make) {
        std::vector<T> values(rows);
        for (uint32_t t = 0; t < rows; t++) {
            values[t] = static_cast<T>(make(t));
        }
        return values;
    }
    static std::vector<float> rows_of(uint32_t rows, uint64_t *random) {
        std::vector<float> x = twin_floats(random, size_t{rows} * DIM);
        if (rows > 3) {
            x[3 * DIM + 1] = NAN;
        }
        return x;
    }

    posed(const rig &rig, uint32_t count, uint64_t *random)
        : rows(count), test{reference.device(), &reference.ops(), "reference"}, on_host(),
          on_device(), x(rig, rows_of(count, random)),
          temperature(rig, each<float>(count, [](uint32_t t) { return t % 16 < 3 ? 0.8f : 0.0f; })),
          repetition(rig, each<float>(count, [](uint32_t t) { return t % 3 == 0 ? 1.5f : 1.0f; })),
          presence(rig, each<float>(count, [](uint32_t t) { return t % 5 == 0 ? 0.5f : 0.0f; })),
          frequency(rig, each<float>(count, [](uint32_t t) { return t % 7 == 0 ? 0.2f : 0.0f; })),
          top_k(rig, each<uint32_t>(count, [](uint32_t t) { return t % 6; })),
          top_p(rig, each<uint32_t>(count, [](uint32_t t) { return t % 2 == 0 ? 65536 : 50000; })),
          min_p(rig, each<uint32_t>(count, [](uint32_t t) { return t % 5 == 0 ? 3000 : 0; })),
          seed(rig, each<uint64_t>(count, [](uint32_t t) { return t * 77 + 1; })),
          position(rig, each<uint64_t>(count, [](uint32_t t) { return t % 9; })),
          seen_begin(rig, each<int32_t>(count + 1, [](uint32_t t) { return 2 * t; })),
          seen_id(rig, each<int32_t>(2 * count, [](uint32_t i) { return i % 2 * 40 + i % 13; })),
          seen_count(rig, each<int32_t>(2 * count, [](uint32_t i) { return i % 3; })),
          token(rig, std::vector<int32_t>(count, -1)), bad(rig, std::vector<uint8_t>(count)),
          workspace() {
        weight_form form = {};
        form.type = ELEMENT_F32, form.n = VOCABULARY, form.k = DIM;
        std::vector<float> values = twin_floats(random, size_t{VOCABULARY} * DIM);
        weight_source source = {};
        source.values = values.data();
        on_host = kernel_test_weight(&test, &form, &source);
        on_device = linears_weight(rig, blas.blas, form, source, {});
        kernels_shape shape = {};
        shape.sampled_max = rows, shape.vocabulary = VOCABULARY;
        size_t bytes =
            reference.ops().workspace_bytes(reference.device(), KERNEL_OP_head_sample, &shape);
        workspace[ON_HOST] = {kernel_test_alloc(bytes), bytes};
        workspace[ON_DEVICE] = linears_workspace(cuda_head_sample_bytes(&shape));
    }
    ~posed() {
        kernel_test_weight_free(&test, &on_host);
        linears_weight_free(blas.blas, &on_device);
        kernel_test_free(workspace[ON_HOST].data);
        assert_cuda(cudaFree(workspace[ON_DEVICE].data));
    }
    posed(const posed &) = delete;
    posed &operator=(const posed &) = delete;

    head_sample_args at(side where) {
        head_sample_args args = {};
        args.x = x.at(where);
        args.weight = where == ON_HOST ? &on_host : &on_device;
        args.params = {temperature.at(where), top_k.at(where),      top_p.at(where),
                       min_p.at(where),       repetition.at(where), presence.at(where),
                       frequency.at(where),   seed.at(where),       position.at(where),
                       seen_begin.at(where),  seen_id.at(where),    seen_count.at(where)};
        args.token = token.at(where);
        args.bad = bad.at(where);
        args.workspace = workspace[where];
        args.rows = rows;
        return args;
    }
};

static void equals_reference_within_a_slice_and_beyond(void **state) {
    static const uint32_t counts[] = {1, 5, 131};
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        for (uint32_t count : counts) {
            posed p(rig, count, &random);
            auto arguments = [&](side where) { return p.at(where); };
            RUN_TWINS_BLAS(rig, p.blas, p.reference, head_sample, arguments);
            p.token.same("token");
            p.bad.same("bad");
            assert_true(count < 4 || p.bad.at(ON_HOST)[3] == 1);
        }
    });
}

static void refuses_bad_arguments_and_failed_launches(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 1;
        posed p(rig, 5, &random);
        head_sample_args bad[6] = {p.at(ON_DEVICE), p.at(ON_DEVICE), p.at(ON_DEVICE),
                                   p.at(ON_DEVICE), p.at(ON_DEVICE), p.at(ON_DEVICE)};
        bad[0].rows = 0;
        bad[1].x = nullptr;
        bad[2].params.seed = nullptr;
        bad[3].token = nullptr;
        bad[4].bad = nullptr;
        bad[5].workspace.bytes--;
        for (const head_sample_args &one : bad) {
            assert_int_equal(cuda_head_sample(p.blas.blas, rig.stream, &one), KERNELS_INVALID);
        }
        const head_sample_args good = p.at(ON_DEVICE);
        for (unsigned nth = 1; nth <= 2; nth++) { /* the head, then the choice */
            emulation_fail_call("launch", nth, cudaErrorLaunchFailure);
            assert_int_equal(cuda_head_sample(p.blas.blas, rig.stream, &good), KERNELS_FAILED);
        }
    });
}

TEST_MAIN(cmocka_unit_test(equals_reference_within_a_slice_and_beyond),
          cmocka_unit_test(refuses_bad_arguments_and_failed_launches))
