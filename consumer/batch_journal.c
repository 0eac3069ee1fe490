#include "consumer/batch_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The form: a line that names the input, then a line for each event: `S 12`, `D 12 {...}` or
 * `F 12 {...}`. A last line without its newline was cut by a crash, and is dropped. */
#define BATCH_JOURNAL_HEAD "solfleet batch journal 1, input %s, %zu lines\n"
#define BATCH_JOURNAL_HEAD_BYTES_MAX 160

static bool batch_journal_say(const struct batch_journal *journal, char *err, size_t err_bytes) {
    snprintf(err, err_bytes, "%s: %s", journal->path, strerror(errno));
    return false;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool batch_journal_write(struct batch_journal *journal, const char *bytes, size_t size,
                                char *err, size_t err_bytes) {
    while (size) {
        ssize_t written = pwrite(journal->fd, bytes, size, (off_t)journal->end);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return batch_journal_say(journal, err, err_bytes);
        }
        bytes += written;
        size -= (size_t)written;
        journal->end += (uint64_t)written;
    }
    return true;
}

bool batch_journal_note_sent(struct batch_journal *journal, size_t index, char *err,
                             size_t err_bytes) {
    char text[32];
    int size = snprintf(text, sizeof text, "S %zu\n", index);
    journal->marks[index].kind = BATCH_MARK_SENT;
    return batch_journal_write(journal, text, (size_t)size, err, err_bytes);
}

static void batch_journal_mark(struct batch_journal *journal, size_t index, bool failed,
                               uint64_t offset, size_t bytes) {
    if (!batch_journal_has_ended(journal, index)) {
        journal->done_count += !failed;
        journal->failed_count += failed;
    }
    journal->marks[index] =
        (struct batch_mark){.offset = offset,
                            .bytes = (uint32_t)bytes,
                            .kind = failed ? BATCH_MARK_FAILED : BATCH_MARK_DONE};
}

bool batch_journal_note_end(struct batch_journal *journal, size_t index, bool failed,
                            const char *line, char *err, size_t err_bytes) {
    char *text = NULL;
    int size = asprintf(&text, "%c %zu %s\n", failed ? 'F' : 'D', index, line);
    if (size < 0) {
        snprintf(err, err_bytes, "out of memory");
        return false;
    }
    size_t bytes = strlen(line);
    uint64_t offset = journal->end + (uint64_t)size - bytes - 1;
    bool written = batch_journal_write(journal, text, (size_t)size, err, err_bytes);
    free(text);
    if (written) {
        batch_journal_mark(journal, index, failed, offset, bytes);
    }
    return written;
}

bool batch_journal_has_ended(const struct batch_journal *journal, size_t index) {
    return journal->marks[index].kind >= BATCH_MARK_DONE;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Takes one whole line; false when it is none of ours. */
static bool batch_journal_take(struct batch_journal *journal, const char *line, size_t bytes,
                               uint64_t offset) {
    char *end;
    if (bytes < 3 || line[1] != ' ') {
        return false;
    }
    size_t index = strtoull(line + 2, &end, 10);
    if (end == line + 2 || index >= journal->count) {
        return false;
    }
    if (line[0] == 'S' && *end == '\n') {
        if (!batch_journal_has_ended(journal, index)) {
            journal->marks[index].kind = BATCH_MARK_SENT;
        }
        return true;
    }
    if ((line[0] == 'D' || line[0] == 'F') && *end == ' ') {
        size_t skipped = (size_t)(end + 1 - line);
        batch_journal_mark(journal, index, line[0] == 'F', offset + skipped, bytes - skipped - 1);
        return true;
    }
    return false;
}

static bool batch_journal_load_lines(struct batch_journal *journal, FILE *stream, const char *head,
                                     char *err, size_t err_bytes) {
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    bool right = true;
    for (bool first = true; right && (bytes = getline(&line, &room, stream)) > 0; first = false) {
        if (line[bytes - 1] != '\n') {
            break;
        }
        if (first ? strcmp(line, head) != 0
                  : !batch_journal_take(journal, line, (size_t)bytes, journal->end)) {
            snprintf(err, err_bytes,
                     first ? "%s: belongs to another batch, or to this file before it was changed; "
                             "remove it to begin anew"
                           : "%s: is damaged; remove it to begin anew",
                     journal->path);
            right = false;
        }
        journal->end += (uint64_t)bytes;
    }
    free(line);
    return right;
}

/* Reads what is there and cuts off a last line that is not whole. */
static bool batch_journal_load(struct batch_journal *journal, const char *head, char *err,
                               size_t err_bytes) {
    FILE *stream = fopen(journal->path, "rb");
    if (!stream) {
        return batch_journal_say(journal, err, err_bytes);
    }
    bool right = batch_journal_load_lines(journal, stream, head, err, err_bytes);
    fclose(stream);
    return right && (ftruncate(journal->fd, (off_t)journal->end) == 0 ||
                     batch_journal_say(journal, err, err_bytes));
}

bool batch_journal_open(struct batch_journal *journal, const char *path, const char *input_sha256,
                        size_t count, bool *resumed, char *err, size_t err_bytes) {
    *journal = (struct batch_journal){.path = strdup(path),
                                      .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666),
                                      .marks = calloc(count + 1, sizeof *journal->marks),
                                      .count = count};
    *resumed = false;
    if (!journal->path || !journal->marks) {
        snprintf(err, err_bytes, "out of memory");
        return false;
    }
    if (journal->fd < 0) {
        return batch_journal_say(journal, err, err_bytes);
    }
    if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0) {
        snprintf(err, err_bytes, "%s: another run of this batch is under way", path);
        return false;
    }
    char head[BATCH_JOURNAL_HEAD_BYTES_MAX];
    snprintf(head, sizeof head, BATCH_JOURNAL_HEAD, input_sha256, count);
    if (!batch_journal_load(journal, head, err, err_bytes)) {
        return false;
    }
    *resumed = journal->end > 0;
    return *resumed || batch_journal_write(journal, head, strlen(head), err, err_bytes);
}

void batch_journal_close(struct batch_journal *journal) {
    if (journal->fd >= 0) {
        close(journal->fd);
    }
    free(journal->path);
    free(journal->marks);
    *journal = (struct batch_journal){.fd = -1};
}

/* ---- publishing ------------------------------------------------------------------------------ */

static bool batch_journal_copy(const struct batch_journal *journal, const struct batch_mark *mark,
                               FILE *to) {
    char *text = malloc(mark->bytes + 1);
    bool copied =
        text && pread(journal->fd, text, mark->bytes, (off_t)mark->offset) == (ssize_t)mark->bytes;
    if (copied) {
        text[mark->bytes] = '\n';
        copied = fwrite(text, 1, mark->bytes + 1, to) == mark->bytes + 1;
    }
    free(text);
    return copied;
}

static bool batch_journal_write_lines(const struct batch_journal *journal,
                                      enum batch_mark_kind kind, FILE *to) {
    bool written = true;
    for (size_t i = 0; written && i < journal->count; i++) {
        if (journal->marks[i].kind == (uint32_t)kind) {
            written = batch_journal_copy(journal, &journal->marks[i], to);
        }
    }
    return written;
}

/* Writes beside the file first: whoever waits for it sees it whole. */
static bool batch_journal_write_file(const struct batch_journal *journal, const char *path,
                                     enum batch_mark_kind kind, char *err, size_t err_bytes) {
    char *beside = NULL;
    if (asprintf(&beside, "%s.tmp", path) < 0) {
        snprintf(err, err_bytes, "out of memory");
        return false;
    }
    FILE *to = fopen(beside, "wb");
    bool written = to && batch_journal_write_lines(journal, kind, to) && fflush(to) == 0 &&
                   fsync(fileno(to)) == 0;
    written = to && fclose(to) == 0 && written;
    written = written && rename(beside, path) == 0;
    if (!written) {
        snprintf(err, err_bytes, "%s: %s", path, strerror(errno));
        unlink(beside);
    }
    free(beside);
    return written;
}

bool batch_journal_publish(struct batch_journal *journal, const char *output_path,
                           const char *errors_path, char *err, size_t err_bytes) {
    bool written = true;
    if (journal->failed_count) {
        written = batch_journal_write_file(journal, errors_path, BATCH_MARK_FAILED, err, err_bytes);
    } else if (unlink(errors_path) != 0 && errno != ENOENT) {
        snprintf(err, err_bytes, "%s: %s", errors_path, strerror(errno));
        written = false;
    }
    written =
        written && batch_journal_write_file(journal, output_path, BATCH_MARK_DONE, err, err_bytes);
    return written && (unlink(journal->path) == 0 || batch_journal_say(journal, err, err_bytes));
}
