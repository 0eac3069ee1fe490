#include "consumer/bench_engine_profile.h"

#include <stdio.h>

void bench_engine_profile_print(const char *what, const struct step_profile *profile) {
    printf("  %s: %.3f ms a step, %.1f MB of weights (operations one by one, each waited for)\n",
           what, profile->wall_ms_per_step, profile->weight_mb_per_step);
    for (size_t i = 0; i < profile->line_count; i++) {
        const struct step_profile_line *line = &profile->lines[i];
        printf("    %5.1f %%  %9.3f ms  %6.1f calls  %-36s", line->share * 100, line->ms_per_step,
               line->calls_per_step, line->name);
        if (line->tera_ops_per_s > 0) {
            printf("  %7.4f TOP/s  %6.1f GB/s", line->tera_ops_per_s, line->weight_gb_per_s);
        }
        printf("\n");
    }
}

void bench_engine_profile_write(struct json_writer *writer, const struct step_profile *profile) {
    json_writer_begin_object(writer);
    json_writer_key(writer, "wall_ms_per_step");
    json_writer_double(writer, profile->wall_ms_per_step);
    json_writer_key(writer, "weight_mb_per_step");
    json_writer_double(writer, profile->weight_mb_per_step);
    json_writer_key(writer, "operations");
    json_writer_begin_array(writer);
    for (size_t i = 0; i < profile->line_count; i++) {
        const struct step_profile_line *line = &profile->lines[i];
        const struct {
            const char *key;
            double value;
        } figures[] = {{"ms_per_step", line->ms_per_step},
                       {"share", line->share},
                       {"calls_per_step", line->calls_per_step},
                       {"tera_ops_per_s", line->tera_ops_per_s},
                       {"weight_gb_per_s", line->weight_gb_per_s}};
        json_writer_begin_object(writer);
        json_writer_key(writer, "name");
        json_writer_string(writer, line->name);
        for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
            json_writer_key(writer, figures[f].key);
            json_writer_double(writer, figures[f].value);
        }
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
    json_writer_end_object(writer);
}
