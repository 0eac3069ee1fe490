/* A twin: an array in host memory and its copy on the device, so that one set of arguments is made
 * for `reference` and one for the kernel under test, and the results are compared. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_TWIN_H
#define SOLFLEET_TESTS_CUDA_EMULATION_TWIN_H

#include "kernels/device.h"
#include "tests/cuda_emulation/rig.h"
extern "C" {
#include "tests/support/kernel_test.h"
}

enum side { ON_HOST, ON_DEVICE };

/* Lives no longer than its rig. */
template <typename T> class twin {
  public:
    twin(const rig &on, std::vector<T> values)
        : rig_(on), host_(std::move(values)), device_(rig_memory_of(on, host_)) {
    }
    ~twin() {
        cudaFree(device_);
    }
    twin(const twin &) = delete;
    twin &operator=(const twin &) = delete;

    T *at(side where) {
        return where == ON_HOST ? host_.data() : device_;
    }
    size_t size() const {
        return host_.size();
    }

    /* Waits; fails, naming the label, unless the device holds what the host does. */
    void same(const char *label) {
        std::vector<T> got(host_.size());
        assert_cuda(cudaGetLastError());
        assert_cuda(cudaMemcpyAsync(got.data(), device_, got.size() * sizeof(T),
                                    cudaMemcpyDeviceToHost, rig_.stream));
        assert_cuda(cudaStreamSynchronize(rig_.stream));
        compare(got.data(), label);
    }

  private:
    const rig &rig_;
    std::vector<T> host_;
    T *device_;

    void compare(const T *got, const char *label) {
        if constexpr (std::is_same<T, float>::value) {
            kernel_test_same_floats(got, host_.data(), host_.size(), label);
        } else {
            kernel_test_same_bytes(got, host_.data(), host_.size() * sizeof(T), label);
        }
    }
};

/* The readable kernels, on this thread. */
class reference_device {
  public:
    reference_device() {
        struct device_options options = {"cpu", "reference", 1, nullptr};
        char err[256] = "";
        assert_int_equal(device_open(&options, &device_, err, sizeof err), KERNELS_OK);
        device_enter_thread(device_);
    }
    ~reference_device() {
        device_close(device_);
    }
    reference_device(const reference_device &) = delete;
    reference_device &operator=(const reference_device &) = delete;

    struct device *device() const {
        return device_;
    }
    const struct kernel_ops &ops() const {
        return *device_ops(device_);
    }

  private:
    struct device *device_ = nullptr;
};

/* Runs an op on both sides: `arguments(side)` makes what each is given. */
#define RUN_TWINS(rig, reference, op, arguments)                                             \
    do {                                                                                     \
        auto on_host_ = arguments(ON_HOST);                                                  \
        auto on_device_ = arguments(ON_DEVICE);                                              \
        assert_int_equal((reference).ops().op((reference).device(), &on_host_), KERNELS_OK); \
        assert_int_equal(cuda_##op((rig).stream, &on_device_), KERNELS_OK);                  \
    } while (0)

static inline std::vector<float> twin_floats(uint64_t *random, size_t count) {
    std::vector<float> values(count);
    kernel_test_floats(random, values.data(), count);
    return values;
}

static inline std::vector<float> twin_hostile_floats(uint64_t *random, size_t count) {
    std::vector<float> values(count);
    kernel_test_hostile_floats(random, values.data(), count);
    return values;
}

#endif
