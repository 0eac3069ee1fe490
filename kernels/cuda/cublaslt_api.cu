/* Opens cuBLASLt, or stands for the emulation's. */
#include "kernels/cuda/cublaslt_api.h"

#include <stdio.h>

#if defined(__CUDACC__)

#include <dlfcn.h>

#if CUDART_VERSION >= 13000
#define CUBLASLT_API_FILE "libcublasLt.so.13"
#else
#define CUBLASLT_API_FILE "libcublasLt.so.12"
#endif

template <typename T>
static bool cublaslt_api_find(void *library, const char *name, T *out, char *err,
                              size_t err_bytes) {
    *out = reinterpret_cast<T>(dlsym(library, name));
    if (*out == nullptr) {
        snprintf(err, err_bytes, "the cuBLASLt that was opened lacks %s: %s is needed", name,
                 CUBLASLT_API_FILE);
    }
    return *out != nullptr;
}

bool cublaslt_api_open(struct cublaslt_api *api, const char *path, char *err, size_t err_bytes) {
    const char *file = path != nullptr && path[0] != '\0' ? path : CUBLASLT_API_FILE;
    *api = {};
    api->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (api->library == nullptr) {
        snprintf(err, err_bytes, "%s; --cublaslt FILE names another", dlerror());
        return false;
    }
    bool is_whole = true;
#define CUBLASLT_API_FIND(name) \
    is_whole =                  \
        is_whole && cublaslt_api_find(api->library, "cublasLt" #name, &api->name, err, err_bytes);
    CUBLASLT_API_CALLS(CUBLASLT_API_FIND)
#undef CUBLASLT_API_FIND
    if (!is_whole) {
        cublaslt_api_close(api);
    }
    return is_whole;
}

void cublaslt_api_close(struct cublaslt_api *api) {
    if (api->library != nullptr) {
        dlclose(api->library);
    }
    *api = {};
}

#else

/* Linked in; a path stands for a file that is not there, as it would be on a card's machine. */
bool cublaslt_api_open(struct cublaslt_api *api, const char *path, char *err, size_t err_bytes) {
    *api = {};
    if (path != nullptr && path[0] != '\0') {
        snprintf(err, err_bytes, "%s: cannot open shared object file", path);
        return false;
    }
#define CUBLASLT_API_TAKE(name) api->name = cublasLt##name;
    CUBLASLT_API_CALLS(CUBLASLT_API_TAKE)
#undef CUBLASLT_API_TAKE
    return true;
}

void cublaslt_api_close(struct cublaslt_api *api) {
    *api = {};
}

#endif
