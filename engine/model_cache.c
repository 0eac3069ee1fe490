#include "engine/model_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/sha256.h"

#define CACHE_MAGIC "solfleet weights"
#define CACHE_CHUNK_BYTES ((size_t)1 << 20)

enum { CACHE_KEY_TEXT_BYTES = 512 };

struct model_cache_header {
    char magic[16];
    uint8_t key[SHA256_BYTES];
    uint64_t bytes; /* of the payload that follows */
    uint8_t payload_sha256[SHA256_BYTES];
};

/* ---------------------------------------------------------------- key and places */

/* Bytes of everything before the rotary tables. */
static size_t model_cache_bytes(const struct model *model) {
    return model->plan.total_bytes - model->plan.rope_bytes;
}

static bool model_cache_fill_header(const struct model_loader *loader,
                                    struct model_cache_header *header) {
    const struct model *model = loader->model;
    const struct model_plan *plan = &model->plan;
    char text[CACHE_KEY_TEXT_BYTES];
    int count =
        snprintf(text, sizeof text, "%s %s %s %u: %zu %zu %zu %zu %zu", model->sha256,
                 model_policy_name(model->policy), loader->ops->tier, loader->ops->packing_version,
                 plan->block_weight_bytes, plan->embedding_bytes, plan->head_bytes,
                 plan->sketch_bytes, plan->norm_bytes);
    *header = (struct model_cache_header){.bytes = model_cache_bytes(model)};
    memcpy(header->magic, CACHE_MAGIC, sizeof header->magic);
    return count > 0 && count < CACHE_KEY_TEXT_BYTES && sha256_of(text, (size_t)count, header->key);
}

/* Beside the checkpoint; false when there is to be none. */
static bool model_cache_path_beside(const struct model_loader *loader, char path[]) {
    const struct model_options *options = loader->options;
    int count = snprintf(path, MODEL_CACHE_PATH_BYTES, "%s.%s-%s.packed", options->path,
                         model_policy_name(options->policy), loader->ops->tier);
    return options->cache_beside && count > 0 && count < MODEL_CACHE_PATH_BYTES;
}

/* In the folder, where checkpoints of one name from several places may meet. */
static bool model_cache_path_folder(const struct model_loader *loader, char path[]) {
    const struct model_options *options = loader->options;
    if (options->cache_folder == NULL || options->cache_folder[0] == '\0') {
        return false;
    }
    char copy[MODEL_CACHE_PATH_BYTES];
    snprintf(copy, sizeof copy, "%s", options->path);
    int count = snprintf(path, MODEL_CACHE_PATH_BYTES, "%s/%s.%.12s.%s-%s.packed",
                         options->cache_folder, basename(copy), loader->model->sha256,
                         model_policy_name(options->policy), loader->ops->tier);
    return count > 0 && count < MODEL_CACHE_PATH_BYTES;
}

static void model_cache_say(struct model_loader *loader, enum model_cache_state state,
                            const char *path, const char *why) {
    struct model_cache_note *note = &loader->model->cache;
    note->state = state;
    snprintf(note->path, sizeof note->path, "%s", path);
    snprintf(note->why, sizeof note->why, "%s", why);
}

/* ---------------------------------------------------------------- read */

static bool model_cache_read_all(int fd, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = read(fd, (char *)to + done, bytes - done);
        if (count <= 0 && !(count < 0 && errno == EINTR)) {
            return false;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* Brings the payload to the device; NULL, or why not. */
static const char *model_cache_take(struct model_loader *loader, int fd, char *chunk,
                                    const struct model_cache_header *header) {
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    const char *why = NULL;
    sha256_init(&hash);
    for (uint64_t at = 0; at < header->bytes && why == NULL; at += CACHE_CHUNK_BYTES) {
        uint64_t left = header->bytes - at;
        size_t count = left < CACHE_CHUNK_BYTES ? (size_t)left : CACHE_CHUNK_BYTES;
        if (!model_cache_read_all(fd, chunk, count)) {
            why = "it cannot be read";
            break;
        }
        sha256_update(&hash, chunk, count);
        if (model_loader_upload(loader, (char *)loader->model->memory + at, chunk, count) !=
            MODEL_OK) {
            why = "the device refused a copy";
        }
    }
    if (!sha256_finish(&hash, digest)) {
        return "out of memory";
    }
    if (why == NULL && memcmp(digest, header->payload_sha256, sizeof digest) != 0) {
        why = "its bytes have changed";
    }
    return why;
}

/* NULL when the weights are there; else why not. */
static const char *model_cache_check(struct model_loader *loader, int fd,
                                     const struct model_cache_header *wanted) {
    struct model_cache_header header;
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        (uint64_t)info.st_size != sizeof header + wanted->bytes ||
        !model_cache_read_all(fd, &header, sizeof header)) {
        return "it is no cache of this size";
    }
    if (memcmp(header.magic, wanted->magic, sizeof header.magic) != 0 ||
        memcmp(header.key, wanted->key, sizeof header.key) != 0 || header.bytes != wanted->bytes) {
        return "it was made of something else";
    }
    char *chunk = malloc(CACHE_CHUNK_BYTES);
    if (chunk == NULL) {
        return "out of memory";
    }
    const char *why = model_cache_take(loader, fd, chunk, &header);
    free(chunk);
    return why;
}

static bool model_cache_read_path(struct model_loader *loader, const char *path,
                                  const struct model_cache_header *wanted) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* never waits for a pipe's writer */
    if (fd < 0) {
        return false;
    }
    const char *why = model_cache_check(loader, fd, wanted);
    close(fd);
    model_cache_say(loader, why == NULL ? MODEL_CACHE_READ : MODEL_CACHE_UNUSABLE, path,
                    why == NULL ? "" : why);
    return why == NULL;
}

bool model_cache_read(struct model_loader *loader) {
    char path[MODEL_CACHE_PATH_BYTES];
    struct model_cache_header wanted;
    return model_cache_fill_header(loader, &wanted) &&
           ((model_cache_path_beside(loader, path) &&
             model_cache_read_path(loader, path, &wanted)) ||
            (model_cache_path_folder(loader, path) &&
             model_cache_read_path(loader, path, &wanted)));
}

/* ---------------------------------------------------------------- write */

static bool model_cache_write_all(int fd, const void *from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(fd, (const char *)from + done, bytes - done);
        if (count <= 0 && !(count < 0 && errno == EINTR)) {
            return false;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* The payload from the device, then the header, which could not be known before, in front. */
static bool model_cache_give(struct model_loader *loader, int fd, char *chunk,
                             struct model_cache_header *header) {
    struct device *device = loader->model->device;
    char err[128];
    struct sha256 hash;
    bool ok = lseek(fd, sizeof *header, SEEK_SET) == (off_t)sizeof *header;
    sha256_init(&hash);
    for (uint64_t at = 0; at < header->bytes && ok; at += CACHE_CHUNK_BYTES) {
        uint64_t left = header->bytes - at;
        size_t count = left < CACHE_CHUNK_BYTES ? (size_t)left : CACHE_CHUNK_BYTES;
        ok = device_copy_out(device, DEVICE_STREAM_COPY, chunk,
                             (const char *)loader->model->memory + at, count) == KERNELS_OK &&
             device_sync(device, err, sizeof err) == KERNELS_OK &&
             model_cache_write_all(fd, chunk, count);
        sha256_update(&hash, chunk, ok ? count : 0);
    }
    return sha256_finish(&hash, header->payload_sha256) && ok && lseek(fd, 0, SEEK_SET) == 0 &&
           model_cache_write_all(fd, header, sizeof *header);
}

/* 0, or errno. */
static int model_cache_write_path(struct model_loader *loader, const char *path,
                                  struct model_cache_header *header) {
    char under_way[MODEL_CACHE_PATH_BYTES + 32];
    snprintf(under_way, sizeof under_way, "%s.%ld", path, (long)getpid());
    char *chunk = malloc(CACHE_CHUNK_BYTES);
    if (chunk == NULL) {
        return ENOMEM;
    }
    int fd = open(under_way, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0) {
        error = model_cache_give(loader, fd, chunk, header) ? 0 : errno != 0 ? errno : EIO;
        error = close(fd) != 0 && error == 0 ? errno : error;
        error = error == 0 && rename(under_way, path) != 0 ? errno : error;
        if (error != 0) {
            (void)unlink(under_way);
        }
    }
    free(chunk);
    return error;
}

void model_cache_write(struct model_loader *loader) {
    char path[MODEL_CACHE_PATH_BYTES];
    struct model_cache_header header;
    int error = 0;
    if (!model_cache_fill_header(loader, &header) || loader->used_bytes != header.bytes) {
        return;
    }
    if (model_cache_path_beside(loader, path)) {
        error = model_cache_write_path(loader, path, &header);
        model_cache_say(loader, error == 0 ? MODEL_CACHE_WRITTEN : MODEL_CACHE_FAILED, path,
                        error == 0 ? "" : strerror(error));
        if (error == 0) {
            return;
        }
    }
    if (model_cache_path_folder(loader, path)) {
        (void)mkdir(loader->options->cache_folder, 0700); /* the write tells whether it is there */
        error = model_cache_write_path(loader, path, &header);
        model_cache_say(loader, error == 0 ? MODEL_CACHE_WRITTEN : MODEL_CACHE_FAILED, path,
                        error == 0 ? "" : strerror(error));
    }
}
