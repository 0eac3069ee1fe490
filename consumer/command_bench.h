/* The two benchmarks behind `solfleet bench`, each with its own options and help. Main thread. */
#ifndef SOLFLEET_CONSUMER_COMMAND_BENCH_H
#define SOLFLEET_CONSUMER_COMMAND_BENCH_H

/* argv[0] is the benchmark's name. Both return a command_exit. */
int command_bench_engine_run(int argc, char **argv);
int command_bench_pipeline_run(int argc, char **argv);

#endif
