/* The table of options that all commands share. Static, read only, any thread. */
#ifndef SOLFLEET_CONSUMER_CONFIG_TABLE_H
#define SOLFLEET_CONSUMER_CONFIG_TABLE_H

#include "consumer/config.h"

/* A named set of defaults: what a profile changes. */
struct config_table_preset {
    const char *profile, *option, *value;
};

/* What other servers call an option of ours. */
struct config_table_alias {
    const char *name;   /* in lower case */
    const char *option; /* of the table */
    const char *note;   /* what differs; "" when nothing does */
};

extern const struct config_option config_table_options[];
extern const size_t config_table_option_count;
extern const struct config_table_preset config_table_presets[];
extern const size_t config_table_preset_count;
extern const struct config_table_alias config_table_aliases[];
extern const size_t config_table_alias_count;

/* The name of a command's bit; NULL when it is none. */
const char *config_table_command_name(unsigned bit);

#endif
