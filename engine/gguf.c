#include "engine/gguf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/gguf_internal.h"

/* ---------------------------------------------------------------- open and close */

static enum gguf_status gguf_adopt(struct gguf *gguf, struct gguf **out, char *err,
                                   size_t err_bytes) {
    enum gguf_status status = gguf_parse_file(gguf, err, err_bytes);
    if (status != GGUF_OK) {
        gguf_close(gguf);
        return status;
    }
    *out = gguf;
    return GGUF_OK;
}

enum gguf_status gguf_parse(const uint8_t *bytes, size_t size, struct gguf **out, char *err,
                            size_t err_bytes) {
    struct gguf *gguf = calloc(1, sizeof *gguf);
    if (gguf == NULL) {
        snprintf(err, err_bytes, "out of memory");
        return GGUF_NO_MEMORY;
    }
    gguf->bytes = bytes;
    gguf->size = size;
    return gguf_adopt(gguf, out, err, err_bytes);
}

/* Maps a regular, non-empty file; NULL with errno or a reason in err. */
static void *gguf_map(const char *path, size_t *size, char *err, size_t err_bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        snprintf(err, err_bytes, "%s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    void *mapping = NULL;
    if (!S_ISREG(info.st_mode)) {
        snprintf(err, err_bytes, "not a regular file");
    } else if (info.st_size == 0) {
        snprintf(err, err_bytes, "the file is empty");
    } else {
        *size = (size_t)info.st_size;
        mapping = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (mapping == MAP_FAILED) {
            snprintf(err, err_bytes, "cannot map the file: %s", strerror(errno));
            mapping = NULL;
        }
    }
    close(fd);
    return mapping;
}

enum gguf_status gguf_open(const char *path, struct gguf **out, char *err, size_t err_bytes) {
    struct gguf *gguf = calloc(1, sizeof *gguf);
    if (gguf == NULL) {
        snprintf(err, err_bytes, "out of memory");
        return GGUF_NO_MEMORY;
    }
    gguf->mapping = gguf_map(path, &gguf->size, err, err_bytes);
    if (gguf->mapping == NULL) {
        free(gguf);
        return GGUF_UNREADABLE;
    }
    gguf->bytes = gguf->mapping;
    return gguf_adopt(gguf, out, err, err_bytes);
}

void gguf_close(struct gguf *gguf) {
    if (gguf == NULL) {
        return;
    }
    if (gguf->mapping != NULL) {
        munmap(gguf->mapping, gguf->size);
    }
    free(gguf->entries);
    free(gguf->tensors);
    free(gguf->entry_order);
    free(gguf->tensor_order);
    free(gguf);
}

void gguf_rest(const struct gguf *gguf, const uint8_t *data, size_t bytes) {
    if (gguf->mapping == NULL) {
        return;
    }
    /* Whole pages only; those of a page with others stay. A refusal costs memory, nothing else. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = (size_t)(data - gguf->bytes);
    size_t first = (begin + page - 1) / page * page, end = (begin + bytes) / page * page;
    if (first < end) {
        (void)madvise((uint8_t *)gguf->mapping + first, end - first, MADV_DONTNEED);
    }
}

const uint8_t *gguf_bytes(const struct gguf *gguf, size_t *size) {
    *size = gguf->size;
    return gguf->bytes;
}

/* ---------------------------------------------------------------- metadata */

static const struct gguf_entry *gguf_find_entry(const struct gguf *gguf, const char *key) {
    struct gguf_string wanted = {key, strlen(key)};
    size_t low = 0, high = gguf->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct gguf_entry *entry = &gguf->entries[gguf->entry_order[middle]];
        int order = gguf_parse_compare(entry->key, wanted);
        if (order == 0) {
            return entry;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* An integer of any type as i64; u64 beyond that saturates, which every caller's range refuses. */
static bool gguf_read_integer(enum gguf_type type, const uint8_t *at, int64_t *out) {
    uint64_t raw = 0;
    memcpy(&raw, at, gguf_parse_type_bytes[type]);
    switch (type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32: *out = (int64_t)raw; return true;
    case GGUF_I8: *out = (int8_t)raw; return true;
    case GGUF_I16: *out = (int16_t)raw; return true;
    case GGUF_I32: *out = (int32_t)raw; return true;
    case GGUF_I64: *out = (int64_t)raw; return true;
    case GGUF_U64: *out = raw > INT64_MAX ? INT64_MAX : (int64_t)raw; return true;
    default: return false;
    }
}

enum gguf_lookup gguf_get_u32(const struct gguf *gguf, const char *key, uint32_t *out) {
    const struct gguf_entry *entry = gguf_find_entry(gguf, key);
    int64_t value;
    if (entry == NULL) {
        return GGUF_ABSENT;
    }
    if (!gguf_read_integer(entry->type, entry->value, &value)) {
        return GGUF_WRONG_TYPE;
    }
    if (value < 0 || value > UINT32_MAX) {
        return GGUF_OUT_OF_RANGE;
    }
    *out = (uint32_t)value;
    return GGUF_FOUND;
}

enum gguf_lookup gguf_get_f32(const struct gguf *gguf, const char *key, float *out) {
    const struct gguf_entry *entry = gguf_find_entry(gguf, key);
    if (entry == NULL) {
        return GGUF_ABSENT;
    }
    if (entry->type == GGUF_F32) {
        memcpy(out, entry->value, sizeof *out);
        return GGUF_FOUND;
    }
    if (entry->type == GGUF_F64) {
        double value;
        memcpy(&value, entry->value, sizeof value);
        *out = (float)value;
        return GGUF_FOUND;
    }
    return GGUF_WRONG_TYPE;
}

enum gguf_lookup gguf_get_bool(const struct gguf *gguf, const char *key, bool *out) {
    const struct gguf_entry *entry = gguf_find_entry(gguf, key);
    if (entry == NULL) {
        return GGUF_ABSENT;
    }
    if (entry->type != GGUF_BOOL) {
        return GGUF_WRONG_TYPE;
    }
    *out = entry->value[0] != 0;
    return GGUF_FOUND;
}

enum gguf_lookup gguf_get_string(const struct gguf *gguf, const char *key,
                                 struct gguf_string *out) {
    const struct gguf_entry *entry = gguf_find_entry(gguf, key);
    if (entry == NULL) {
        return GGUF_ABSENT;
    }
    if (entry->type != GGUF_STRING) {
        return GGUF_WRONG_TYPE;
    }
    *out = entry->text;
    return GGUF_FOUND;
}

enum gguf_lookup gguf_get_array(const struct gguf *gguf, const char *key, struct gguf_array *out) {
    const struct gguf_entry *entry = gguf_find_entry(gguf, key);
    if (entry == NULL) {
        return GGUF_ABSENT;
    }
    if (entry->type != GGUF_ARRAY) {
        return GGUF_WRONG_TYPE;
    }
    *out = entry->array;
    return GGUF_FOUND;
}

const char *gguf_type_name(const struct gguf *gguf, const char *key) {
    const struct gguf_entry *entry = gguf_find_entry(gguf, key);
    return entry == NULL ? "nothing" : gguf_parse_type_names[entry->type];
}

bool gguf_array_integer(const struct gguf_array *array, size_t index, int64_t *out) {
    assert(index < array->count);
    size_t element_bytes = gguf_parse_type_bytes[array->type];
    return gguf_read_integer(array->type, array->data + index * element_bytes, out);
}

bool gguf_array_strings(const struct gguf_array *array, struct gguf_string *out) {
    if (array->type != GGUF_STRING) {
        return false;
    }
    const uint8_t *at = array->data;
    for (size_t i = 0; i < array->count; i++) {
        uint64_t bytes;
        memcpy(&bytes, at, sizeof bytes);
        out[i] = (struct gguf_string){(const char *)at + sizeof bytes, (size_t)bytes};
        at += sizeof bytes + bytes;
    }
    return true;
}

bool gguf_string_is(struct gguf_string string, const char *text) {
    return string.bytes == strlen(text) && memcmp(string.data, text, string.bytes) == 0;
}

size_t gguf_key_count(const struct gguf *gguf) {
    return gguf->entry_count;
}

struct gguf_string gguf_key_at(const struct gguf *gguf, size_t index) {
    assert(index < gguf->entry_count);
    return gguf->entries[index].key;
}

/* ---------------------------------------------------------------- tensors */

size_t gguf_tensor_count(const struct gguf *gguf) {
    return gguf->tensor_count;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *gguf, size_t index) {
    assert(index < gguf->tensor_count);
    return &gguf->tensors[index];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf, const char *name) {
    struct gguf_string wanted = {name, strlen(name)};
    size_t low = 0, high = gguf->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct gguf_tensor *tensor = &gguf->tensors[gguf->tensor_order[middle]];
        int order = gguf_parse_compare(tensor->name, wanted);
        if (order == 0) {
            return tensor;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}
