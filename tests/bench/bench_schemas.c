/* A table of what a job costs on the wire: microseconds of processor time for each codec.
 *
 * Each line is the best of many runs of its own processor time, so that other load hardly shows. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "schemas/job.h"
#include "schemas/result.h"
#include "schemas/sha256.h"
#include "schemas/solution.h"

#define RUNS 200
#define CALLS_PER_RUN 100
#define PROMPT_BYTES 400 /* of a job of about 512 bytes */
#define ANSWER_BYTES 512 /* of a result of about 1 KB */

static const char problem_job[] =
    "{\"request_id\":\"bench-2026-11-29-000001\",\"problem\":{\"title\":\"Two Sum\",\"statement\":"
    "\"Given an array of integers nums and an integer target, return the indices of the two "
    "numbers that add up to target. You may not use the same element twice.\",\"examples\":[{"
    "\"input\":\"nums = [2,7,11,15], target = 9\",\"output\":\"[0,1]\"}],\"constraints\":"
    "\"2 <= nums.length <= 10^4\",\"code_language\":\"cpp\"},\"params\":{\"max_tokens\":512,"
    "\"temperature\":0.7,\"top_p\":0.95,\"seed\":7},\"priority\":3,\"timeout_ms\":60000,"
    "\"metadata\":{\"user\":\"u-1\"},\"version\":1}";

static const char answer[] =
    "## Idea\nKeep each number's index in a hash map and look for its complement.\n\n"
    "## Time complexity\nO(n)\n\n## Space complexity\nO(n)\n\n## Code\n```cpp\n"
    "vector<int> twoSum(vector<int>& nums, int target) {\n    unordered_map<int, int> seen;\n"
    "    for (int i = 0; i < (int)nums.size(); i++) {\n        auto it = seen.find(target - "
    "nums[i]);\n        if (it != seen.end()) return {it->second, i};\n        seen[nums[i]] = i;\n"
    "    }\n    return {};\n}\n```\n";

struct bench {
    char *prompt_job;
    struct job job;
    struct result result;
    char text[ANSWER_BYTES + 1];
};

static void must(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static void decode(const char *value) {
    const struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    must(job_decode(value, strlen(value), &limits, &job, &error) == ERROR_NONE, "job_decode");
    job_deinit(&job);
}

static void run_decode_prompt(struct bench *bench) {
    decode(bench->prompt_job);
}

static void run_decode_problem(struct bench *bench) {
    (void)bench;
    decode(problem_job);
}

static void run_encode_job(struct bench *bench) {
    char *value = job_encode(&bench->job);
    must(value != NULL, "job_encode");
    free(value);
}

static void run_fingerprint(struct bench *bench) {
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    must(sha256_of(bench->prompt_job, strlen(bench->prompt_job), digest), "sha256_of");
    sha256_hex(digest, hex);
}

static void run_solution(struct bench *bench) {
    struct result_solution solution;
    (void)bench;
    must(solution_parse(answer, "cpp", false, &solution) == SOLUTION_OK, "solution_parse");
    solution_deinit(&solution);
}

static void run_encode_result(struct bench *bench) {
    char *value = result_encode(&bench->result, NULL);
    must(value != NULL, "result_encode");
    free(value);
}

static void run_decode_result(struct bench *bench) {
    size_t size;
    struct result result;
    struct job_error error;
    char *value = result_encode(&bench->result, &size);
    must(value != NULL, "result_encode");
    must(result_decode(value, size, &result, &error) == ERROR_NONE, "result_decode");
    result_deinit(&result);
    free(value);
}

static void bench_init(struct bench *bench) {
    char prompt[PROMPT_BYTES + 1];
    for (size_t i = 0; i < PROMPT_BYTES; i++) {
        prompt[i] = (char)(i % 7 == 6 ? ' ' : 'a' + i % 26);
    }
    prompt[PROMPT_BYTES] = '\0';
    job_init(&bench->job);
    memcpy(bench->job.request_id, "bench-2026-1", sizeof "bench-2026-1");
    bench->job.kind = JOB_PROMPT;
    bench->job.prompt = strdup(prompt);
    bench->job.params.max_tokens = 128;
    bench->job.params.temperature = 0;
    bench->prompt_job = job_encode(&bench->job);
    must(bench->prompt_job != NULL, "job_encode");
    for (size_t i = 0; i < ANSWER_BYTES; i++) {
        bench->text[i] = answer[i % (sizeof answer - 1)];
    }
    bench->text[ANSWER_BYTES] = '\0';
    result_init(&bench->result);
    memcpy(bench->result.request_id, bench->job.request_id, sizeof bench->job.request_id);
    bench->result.text = bench->text;
    bench->result.params = bench->job.params;
    bench->result.params_present = true;
    must(result_answer_sha256(NULL, 0, bench->text, FINISH_STOP, bench->result.answer_sha256),
         "result_answer_sha256");
}

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void measure(const char *name, void (*run)(struct bench *), struct bench *bench) {
    double best_us = 1e9;
    for (int i = 0; i < RUNS; i++) {
        double begin_us = now_us();
        for (int call = 0; call < CALLS_PER_RUN; call++) {
            run(bench);
        }
        double took_us = (now_us() - begin_us) / CALLS_PER_RUN;
        best_us = took_us < best_us ? took_us : best_us;
    }
    printf("%-34s %8.2f us\n", name, best_us);
}

int main(void) {
    struct bench bench = {0};
    bench_init(&bench);
    size_t result_bytes;
    char *result = result_encode(&bench.result, &result_bytes);
    must(result != NULL, "result_encode");
    free(result);
    printf("a job of %zu bytes, a problem of %zu, a result of %zu\n", strlen(bench.prompt_job),
           strlen(problem_job), result_bytes);
    measure("job_decode (prompt)", run_decode_prompt, &bench);
    measure("job_decode (problem)", run_decode_problem, &bench);
    measure("job_encode (prompt)", run_encode_job, &bench);
    measure("sha256 of the job, in hex", run_fingerprint, &bench);
    measure("solution_parse", run_solution, &bench);
    measure("result_encode", run_encode_result, &bench);
    measure("result_encode and result_decode", run_decode_result, &bench);
    free(bench.prompt_job);
    job_deinit(&bench.job);
    return 0;
}
