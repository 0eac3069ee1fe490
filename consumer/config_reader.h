/* A reader of a configuration: the values so far, and where each came from.
 *
 * What the places that options are read from have in common: names, refusals, who beats whom.
 * Private to config_*.c. One thread; lives while config_read runs; strings it keeps belong to the
 * configuration. */
#ifndef SOLFLEET_CONSUMER_CONFIG_READER_H
#define SOLFLEET_CONSUMER_CONFIG_READER_H

#include "consumer/config.h"
#include "consumer/config_table.h"

#define CONFIG_READER_NAME_BYTES_MAX 96
#define CONFIG_READER_OPTIONS_MAX 128

/* A string that lives as long as the configuration. */
struct config_text {
    struct config_text *next;
    char bytes[];
};

/* Where the value in effect came from; a later one of the same or a higher rank replaces it. */
enum config_source {
    CONFIG_SOURCE_DEFAULT,
    CONFIG_SOURCE_FILE,
    CONFIG_SOURCE_ENV_FILE,
    CONFIG_SOURCE_ENVIRONMENT,
    CONFIG_SOURCE_FLAG
};

struct config_reader {
    struct config *config;
    const struct config_spec *spec;
    unsigned char source[CONFIG_READER_OPTIONS_MAX]; /* of the table's options */
    unsigned char pass_source[CONFIG_PASS_MAX];
    char *err;
    size_t err_bytes;
};

const char *config_reader_keep(struct config *config, const char *bytes, size_t size);

/* The option of that name in the table, in the command's own; NULL when there is none. */
const struct config_option *config_reader_find_shared(const char *name);
const struct config_option *config_reader_find_own(const struct config_reader *reader,
                                                   const char *name);
/* What is called `name` elsewhere, in whatever case and with - or _; NULL when nothing is. */
const struct config_table_alias *config_reader_find_alias(const char *name, size_t size);

/* The valid name most like `name` that one of `commands` heeds; NULL when none is near. */
const char *config_reader_suggest(const struct config_reader *reader, const char *name,
                                  unsigned commands);
/* Says that there is no such option here, and what may be meant. Returns false. */
bool config_reader_refuse_name(struct config_reader *reader, const char *name, const char *where);
void config_reader_warn(struct config_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

bool config_reader_takes_kafka(const struct config_reader *reader);

/* `where` is how messages name the place. False: err says why. */
bool config_reader_set_shared(struct config_reader *reader, const struct config_option *option,
                              const char *text, enum config_source source, const char *where);
/* A property of librdkafka; `text` outlives the configuration or was kept. */
bool config_reader_set_pass(struct config_reader *reader, const char *name, const char *text,
                            enum config_source source, const char *where);

#endif
