/* Rotary embedding, KV pages and attention of the CUDA back end equal `reference` by memcmp, on the
 * emulation. Pages differ between the two; what is read from them does not. */
#include <cmath>
#include <cstdio>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/rope_table.h"
#include "tests/cuda_emulation/twin.h"

#define SLOTS 4u                    /* the last one's pages are the scratch page */
#define NO_SPLIT_CONTEXT (1u << 25) /* more canonical blocks than a grid: attention is not split */

struct shape {
    uint32_t heads, kv_heads, head_dim, rotary_dims;
    element_type type;
};

struct at_position {
    uint32_t slot, position;
};

/* Rows of slot `slot`: positions from .. to - 1. */
static void add_rows(std::vector<at_position> &rows, uint32_t slot, uint32_t from, uint32_t to) {
    for (uint32_t position = from; position < to; position++) {
        rows.push_back({slot, position});
    }
}

/* Rows of a step on both sides. */
struct given {
    twin<int32_t> position, slot;
    twin<float> qkv;

    given(const rig &rig, const std::vector<at_position> &rows, const std::vector<float> &projected)
        : position(rig, numbers(rows, &at_position::position)),
          slot(rig, numbers(rows, &at_position::slot)), qkv(rig, projected) {
    }
    uint32_t count() const {
        return static_cast<uint32_t>(position.size());
    }
    step_rows rows(side where) {
        return {position.at(where), slot.at(where), nullptr, count(), 0};
    }
    static std::vector<int32_t> numbers(const std::vector<at_position> &rows,
                                        uint32_t at_position::*field) {
        std::vector<int32_t> all;
        for (const at_position &row : rows) {
            all.push_back(static_cast<int32_t>(row.*field));
        }
        return all;
    }
};

/* Pages of one layer on both sides. */
class scene {
  public:
    scene(const rig &on, const reference_device &reference, shape shape, uint32_t context)
        : rig_(on), reference_(reference), shape_(shape),
          table_pages_(context / KV_PAGE_TOKENS + 1),
          width_((shape.heads + 2 * shape.kv_heads) * shape.head_dim),
          page_table_(on, shuffled_pages()), cos_(on, angles(context, true)),
          sin_(on, angles(context, false)) {
        const kv_form form = {shape.type, shape.kv_heads, shape.head_dim};
        const uint32_t pages = SLOTS * table_pages_;
        stride_[ON_HOST] = reference.ops().page_bytes(&form);
        stride_[ON_DEVICE] = cuda_page_bytes(&form) + KERNELS_ALIGNMENT_BYTES;
        assert_true(stride_[ON_DEVICE] > KERNELS_ALIGNMENT_BYTES);
        base_[ON_HOST] = kernel_test_alloc(pages * stride_[ON_HOST]);
        base_[ON_DEVICE] = rig_memory<char>(pages * stride_[ON_DEVICE]);
    }
    ~scene() {
        kernel_test_free(base_[ON_HOST]);
        cudaFree(base_[ON_DEVICE]);
    }
    scene(const scene &) = delete;
    scene &operator=(const scene &) = delete;

    std::vector<float> random_rows(uint64_t *random, size_t rows) const {
        return twin_floats(random, rows * width_);
    }
    uint32_t width() const {
        return width_;
    }

    /* Writes keys and values of rows. */
    void write(const std::vector<at_position> &rows, const std::vector<float> &projected) {
        given given(rig_, rows, projected);
        rope(given);
        assert_cuda(cudaStreamSynchronize(rig_.stream));
    }

    /* Writes them, then lets the rows attend. */
    void step(const std::vector<at_position> &rows, const std::vector<float> &projected,
              uint32_t context_max, const char *label) {
        given given(rig_, rows, projected);
        rope(given);
        attend(given, context_max, label);
    }

  private:
    const rig &rig_;
    const reference_device &reference_;
    shape shape_;
    uint32_t table_pages_, width_;
    twin<int32_t> page_table_;
    twin<float> cos_, sin_;
    size_t stride_[2];
    void *base_[2];

    /* In descending order; the scratch slot has one page for all positions. */
    std::vector<int32_t> shuffled_pages() const {
        std::vector<int32_t> pages(SLOTS * table_pages_, 0);
        for (uint32_t i = 0; i < (SLOTS - 1) * table_pages_; i++) {
            pages[i] = static_cast<int32_t>((SLOTS - 1) * table_pages_ - i);
        }
        return pages;
    }
    std::vector<float> angles(uint32_t context, bool cosine) const {
        size_t count = size_t{context} * shape_.rotary_dims / 2 + 1;
        std::vector<float> cosines(count), sines(count);
        rope_table_fill(cosines.data(), sines.data(), context, shape_.rotary_dims, 10000.0);
        return cosine ? cosines : sines;
    }
    kv_view view(side where) {
        return {{shape_.type, shape_.kv_heads, shape_.head_dim},
                base_[where],
                stride_[where],
                page_table_.at(where),
                table_pages_};
    }
    void rope(given &given) {
        auto args = [&](side where) {
            return rope_kv_write_args{given.qkv.at(where), cos_.at(where), sin_.at(where),
                                      given.rows(where),   view(where),    shape_.heads,
                                      shape_.rotary_dims};
        };
        RUN_TWINS(rig_, reference_, rope_kv_write, args);
    }

    void attend(given &given, uint32_t context_max, const char *label) {
        kernels_shape most = {};
        most.rows_max = given.count();
        most.heads = shape_.heads;
        most.context_max = context_max;
        most.kv = {shape_.type, shape_.kv_heads, shape_.head_dim};
        size_t bytes = context_max < NO_SPLIT_CONTEXT ? cuda_attention_bytes(&most) : 0;
        char *workspace = rig_memory<char>(bytes + 1);
        twin<float> out(rig_,
                        std::vector<float>(size_t{given.count()} * shape_.heads * shape_.head_dim));
        auto args = [&](side where) {
            return attention_args{given.qkv.at(where), width_,        given.rows(where),
                                  view(where),         out.at(where), {workspace, bytes},
                                  shape_.heads,        context_max};
        };
        RUN_TWINS(rig_, reference_, attention, args);
        out.same(label);
        assert_cuda(cudaFree(workspace));
    }
};

/* ---------------------------------------------------------------- one block */

/* Ragged prefill, then decode and prefill rows together, then rows of padding. */
static void check_shape(const rig &rig, const reference_device &reference, shape shape,
                        uint64_t *random) {
    char label[96];
    snprintf(label, sizeof label, "%u/%u heads of %u, rotary %u, %s", shape.heads, shape.kv_heads,
             shape.head_dim, shape.rotary_dims, shape.type == ELEMENT_F32 ? "f32" : "f16");
    scene scene(rig, reference, shape, 64);
    uint32_t first = kernel_test_between(random, 1, 17),
             second = kernel_test_between(random, 1, 21);
    std::vector<at_position> rows;
    add_rows(rows, 0, 0, first);
    add_rows(rows, 2, 0, second);
    scene.step(rows, scene.random_rows(random, rows.size()), 64, label);
    rows.clear();
    add_rows(rows, 0, first, first + 1);
    add_rows(rows, 1, 0, kernel_test_between(random, 1, 9));
    add_rows(rows, 2, second, second + kernel_test_between(random, 1, 11));
    add_rows(rows, 3, 0, 1);
    add_rows(rows, 3, 0, 1);
    add_rows(rows, 3, 0, 1);
    scene.step(rows, scene.random_rows(random, rows.size()), 64, label);
}

static void equals_reference_for_many_shapes(void **state) {
    static const shape shapes[] = {
        {1, 1, 1, 0, ELEMENT_F16},      {9, 3, 64, 64, ELEMENT_F16},   {4, 4, 32, 32, ELEMENT_F32},
        {8, 1, 16, 8, ELEMENT_F16},     {5, 5, 20, 20, ELEMENT_F16},   {6, 2, 80, 0, ELEMENT_F32},
        {3, 1, 7, 6, ELEMENT_F16},      {2, 1, 96, 96, ELEMENT_F16},   {4, 2, 128, 64, ELEMENT_F16},
        {19, 1, 8, 8, ELEMENT_F32},     {1, 1, 3, 2, ELEMENT_F32},     {2, 1, 129, 64, ELEMENT_F16},
        {11, 1, 160, 160, ELEMENT_F32}, {2, 2, 256, 256, ELEMENT_F16},
    };
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (const shape &shape : shapes) {
            check_shape(rig, reference, shape, &random);
        }
    });
}

/* ---------------------------------------------------------------- several blocks */

/* Fills slots, then decodes and prefills across an edge of blocks: whole and split. */
static void check_blocks(const rig &rig, const reference_device &reference, shape shape,
                         uint64_t *random) {
    scene scene(rig, reference, shape, 800);
    static const uint32_t lengths[] = {255, 513, 770};
    std::vector<at_position> rows;
    for (uint32_t slot = 0; slot < 3; slot++) {
        std::vector<at_position> rest;
        add_rows(rest, slot, 0, lengths[slot]);
        scene.write(rest, scene.random_rows(random, rest.size()));
        add_rows(rows, slot, lengths[slot], lengths[slot] + (slot == 0 ? 5 : 1));
    }
    std::vector<float> projected = scene.random_rows(random, rows.size());
    scene.step(rows, projected, 800, "split");
    scene.step(rows, projected, NO_SPLIT_CONTEXT, "whole");
}

static void merges_blocks_in_ascending_order_whole_and_split(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 1;
        reference_device reference;
        check_blocks(rig, reference, {3, 1, 16, 16, ELEMENT_F16}, &random);
        check_blocks(rig, reference, {4, 2, 24, 24, ELEMENT_F32}, &random);
        check_blocks(rig, reference, {20, 1, 5, 4, ELEMENT_F16}, &random);
    });
}

/* More rows than are split, over an edge of blocks. */
static void prefills_many_rows_over_an_edge_of_blocks(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 2;
        reference_device reference;
        scene scene(rig, reference, {2, 1, 8, 8, ELEMENT_F16}, 300);
        std::vector<at_position> rows;
        add_rows(rows, 1, 0, 220);
        scene.write(rows, scene.random_rows(&random, rows.size()));
        rows.clear();
        add_rows(rows, 1, 220, 290);
        add_rows(rows, 0, 0, 3);
        scene.step(rows, scene.random_rows(&random, rows.size()), 300, "many rows");
    });
}

/* ---------------------------------------------------------------- bad rows */

static void keeps_nan_and_infinity_to_the_rows_that_see_them(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 3;
        reference_device reference;
        for (float value : {NAN, INFINITY, -INFINITY, 3e38f}) {
            scene scene(rig, reference, {4, 2, 16, 16, ELEMENT_F16}, 300);
            std::vector<at_position> rows;
            add_rows(rows, 0, 0, 30);
            add_rows(rows, 1, 0, 9);
            std::vector<float> projected = scene.random_rows(&random, rows.size());
            for (uint32_t i = 0; i < scene.width(); i++) {
                projected[size_t{13} * scene.width() + i] = i % 3 == 0 ? value : 1.0f;
            }
            projected[size_t{35} * scene.width() + 4 * 16 + 3] = value; /* one key of slot 1 */
            scene.step(rows, projected, 300, "bad rows");
            scene.step(rows, projected, 64, "bad rows");
        }
    });
}

/* ---------------------------------------------------------------- arguments */

static void gives_page_bytes_of_the_forms_it_has(void **state) {
    kv_form form = {ELEMENT_F16, 2, 64};
    assert_int_equal(cuda_page_bytes(&form), 2 * 2 * 64 * 16 * 2);
    form = {ELEMENT_F32, 1, 5}; /* keys in whole vectors of 4 */
    assert_int_equal(cuda_page_bytes(&form), (8 + 5) * 16 * 4);
    form = {ELEMENT_F16, 1, 257};
    assert_int_equal(cuda_page_bytes(&form), 0);
    form = {ELEMENT_I8, 1, 64};
    assert_int_equal(cuda_page_bytes(&form), 0);
    form = {ELEMENT_F16, 0, 64};
    assert_int_equal(cuda_page_bytes(&form), 0);
    kernels_shape shape = {};
    shape.rows_max = 4096;
    shape.heads = 32;
    shape.kv = {ELEMENT_F16, 8, 128};
    shape.context_max = 256;
    assert_int_equal(cuda_attention_bytes(&shape), 0);
    shape.context_max = 4096;
    assert_int_equal(cuda_attention_bytes(&shape), 64 * 32 * 16 * 130 * 4);
    shape.context_max = 1u << 20;
    assert_int_equal(cuda_attention_bytes(&shape), 64 << 20);
}

static void refuses_arguments_that_break_the_contract(void **state) {
    rig_each_seed([](rig &rig) {
        const kv_form form = {ELEMENT_F16, 1, 16};
        size_t page = cuda_page_bytes(&form);
        char *pages = rig_memory<char>(2 * page);
        twin<float> x(rig, std::vector<float>(64)), out(rig, std::vector<float>(16));
        twin<int32_t> zero(rig, {0});
        attention_args good = {};
        good.q = x.at(ON_DEVICE);
        good.q_stride = 48;
        good.rows = {zero.at(ON_DEVICE), zero.at(ON_DEVICE), nullptr, 1, 0};
        good.kv = {form, pages, page, zero.at(ON_DEVICE), 1};
        good.out = out.at(ON_DEVICE);
        good.heads = 1;
        good.context_max = 1;
        attention_args bad[] = {good, good, good, good, good, good, good};
        bad[0].q = nullptr;
        bad[1].rows.rows = 0;
        bad[2].kv.stride_bytes = page - KERNELS_ALIGNMENT_BYTES;
        bad[3].kv.form.head_dim = 300;
        bad[4].q_stride = 15;
        bad[5].context_max = 257; /* split, and no workspace */
        bad[6].context_max = 0;
        for (const attention_args &one : bad) {
            assert_int_equal(cuda_attention(rig.stream, &one), KERNELS_INVALID);
        }
        rope_kv_write_args rope = {x.at(ON_DEVICE), nullptr, nullptr, good.rows, good.kv, 1, 16};
        assert_int_equal(cuda_rope_kv_write(rig.stream, &rope), KERNELS_INVALID); /* no tables */
        rope.rotary_dims = 0;
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_rope_kv_write(rig.stream, &rope), KERNELS_FAILED);
        assert_int_equal(cuda_rope_kv_write(rig.stream, &rope), KERNELS_OK);
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_attention(rig.stream, &good), KERNELS_FAILED);
        assert_int_equal(cuda_attention(rig.stream, &good), KERNELS_OK);
        assert_cuda(cudaStreamSynchronize(rig.stream));
        assert_cuda(cudaFree(pages));
    });
}

TEST_MAIN(cmocka_unit_test(equals_reference_for_many_shapes),
          cmocka_unit_test(merges_blocks_in_ascending_order_whole_and_split),
          cmocka_unit_test(prefills_many_rows_over_an_edge_of_blocks),
          cmocka_unit_test(keeps_nan_and_infinity_to_the_rows_that_see_them),
          cmocka_unit_test(gives_page_bytes_of_the_forms_it_has),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
