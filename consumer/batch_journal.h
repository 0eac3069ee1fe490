/* A batch journal: what has become of the lines of a batch so far, in a file beside its output.
 *
 * Every line's outcome is appended as it comes, so a batch that was interrupted, or killed, goes on
 * where it was; at the end the outcomes are put in the order of the input and the journal goes. In
 * memory a line takes 16 bytes. Owns its file, locked against a second run. One thread. Refuses to
 * know what an outcome says. */
#ifndef SOLFLEET_CONSUMER_BATCH_JOURNAL_H
#define SOLFLEET_CONSUMER_BATCH_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum batch_mark_kind {
    BATCH_MARK_NONE = 0,
    BATCH_MARK_SENT,  /* a broker has the job */
    BATCH_MARK_DONE,  /* its line belongs to the output */
    BATCH_MARK_FAILED /* its line belongs to the errors */
};

struct batch_mark {
    uint64_t offset; /* of the outcome in the journal */
    uint32_t bytes;
    uint32_t kind; /* enum batch_mark_kind */
};

struct batch_journal {
    char *path; /* owned */
    int fd;
    struct batch_mark *marks; /* owned: of each line of the input */
    size_t count;
    size_t done_count, failed_count;
    uint64_t end; /* size of the file */
};

/* Opens the journal at `path`, or begins it, for an input of `count` lines with this hash. False
 * with the reason in err: another input's, another run's, or not to be written. *resumed says that
 * there was one. batch_journal_close is due in either case. */
bool batch_journal_open(struct batch_journal *journal, const char *path, const char *input_sha256,
                        size_t count, bool *resumed, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
/* Leaves the file as it is. */
void batch_journal_close(struct batch_journal *journal);

/* False with the reason in err: the disk is full, say. */
bool batch_journal_note_sent(struct batch_journal *journal, size_t index, char *err,
                             size_t err_bytes) __attribute__((warn_unused_result));
bool batch_journal_note_end(struct batch_journal *journal, size_t index, bool failed,
                            const char *line, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

bool batch_journal_has_ended(const struct batch_journal *journal, size_t index);

/* Writes both files, in the order of the input, and removes the journal. Without failed lines there
 * is no file of errors, and one that lies there from an earlier try is removed. */
bool batch_journal_publish(struct batch_journal *journal, const char *output_path,
                           const char *errors_path, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
