"""The whole pipeline: a real Kafka and a real Redis on the same machine."""

from report import measure, number, show

LATE_MS_MAX = 10  # how long after its delay an idle worker may cut (99 % of cuts)
PIPELINE = {"load": "load", "jobs": "jobs", "jobs_per_s": "jobs/s", "tokens_per_s": "tok/s",
            "engine_share": "engine", "within_slo_share": "in slo", "p50_ms": "p50 ms",
            "p99_ms": "p99 ms", "batch_size_mean": "batch", "cut_late_ms_p99": "cut late ms p99"}


def run(bench):
    services = ("--brokers", bench.kafka.brokers, "--redis", bench.redis.url)
    null = ("--engine", "null", *services)
    real = ("--engine", "real", "--model", bench.model, *services)
    jobs = 2000 if bench.quick else 20000
    answers = 8 if bench.quick else 64
    loads = [
        ("null, burst", *null, "--jobs", jobs),
        ("null, 2 ms apart", *null, "--jobs", 1000, "--interval-ms", 2),
        ("128+128, burst", *real, "--jobs", answers, "--completion-tokens",
         16 if bench.quick else 128),
        ("32..1024+16, 1 a second", *real, "--jobs", answers // 2, "--rate", 1,
         "--prompt-tokens", "32..1024", "--completion-tokens", 16),
        ("short, alone", *real, "--jobs", 20 if bench.quick else 100, "--interval-ms", 300,
         "--prompt-tokens", 16, "--completion-tokens", 1),
    ]
    rows = []
    for name, *arguments in loads:
        [row] = measure(bench.program, "pipeline", *arguments)
        rows.append({"bench": "pipeline", "load": name, **row})
    show("Whole pipeline (real Kafka and Redis on the same machine)", rows, PIPELINE)
    late = rows[-1]["cut_late_ms_p99"]
    verdict = "holds" if late is not None and late <= LATE_MS_MAX else "DOES NOT HOLD"
    print(f"\nOn an idle worker a batch is cut within {LATE_MS_MAX} ms of its delay "
          f"(99 % of {rows[-1]['cuts_delayed']} cuts: {number(late)} ms): {verdict}")
    return rows
