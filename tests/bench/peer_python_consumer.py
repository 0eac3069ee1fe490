#!/usr/bin/env python3
"""What users build instead of a worker: a Python consumer in front of llama.cpp's server.

Takes the jobs of the benchmark from Kafka, asks the server's chat endpoint with a thread for each
job in flight, keeps the status in Redis, produces the result, and commits an offset once all
results up to it are acknowledged. Written for speed as such a program can be: connections are kept,
statuses go in one round trip, nothing waits for the slowest of a batch.
"""

import argparse
import collections
import concurrent.futures
import http.client
import json
import signal
import threading
import time
import urllib.parse

import redis
from confluent_kafka import Consumer, Producer, TopicPartition

STATUS_TTL_S = 3600
COMMIT_EVERY_S = 0.5


class Offsets:
    """Which offset of each partition may be committed: all before it are done."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = collections.defaultdict(dict)  # partition: {offset: done}, in order
        self.moved = {}

    def begin(self, message):
        with self.lock:
            self.running[message.partition()][message.offset()] = False

    def end(self, message):
        with self.lock:
            running = self.running[message.partition()]
            running[message.offset()] = True
            while running and next(iter(running.values())):
                offset = next(iter(running))
                del running[offset]
                self.moved[message.partition()] = offset + 1

    def take(self):
        with self.lock:
            moved, self.moved = self.moved, {}
        return moved


class Gateway:
    def __init__(self, options):
        self.options = options
        self.statuses = redis.Redis.from_url(options.redis)
        self.producer = Producer({"bootstrap.servers": options.brokers, "linger.ms": 5})
        self.offsets = Offsets()
        self.places = threading.Semaphore(options.in_flight)
        self.local = threading.local()

    def ask(self, job):
        if not hasattr(self.local, "link"):
            self.local.link = http.client.HTTPConnection(
                urllib.parse.urlsplit(self.options.server).netloc, timeout=600)
        body = {"messages": job["messages"], "max_tokens": job["params"]["max_tokens"],
                "temperature": job["params"]["temperature"]}
        self.local.link.request("POST", "/v1/chat/completions", json.dumps(body),
                                {"Content-Type": "application/json"})
        answer = self.local.link.getresponse()
        document = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {document}")
        return document

    def set_status(self, job, **fields):
        key = f"{self.options.group}:job:{job['request_id']}"
        with self.statuses.pipeline(transaction=False) as pipeline:
            pipeline.hset(key, mapping=fields)
            pipeline.expire(key, STATUS_TTL_S)
            pipeline.execute()

    def work(self, message):
        job = json.loads(message.value())
        try:
            self.set_status(job, state="running", started_at=int(time.time() * 1000))
            document = self.ask(job)
            result = {"request_id": job["request_id"], "status": "done",
                      "text": document["choices"][0]["message"]["content"],
                      "finish_reason": document["choices"][0]["finish_reason"],
                      "usage": {name: document["usage"][name]
                                for name in ("prompt_tokens", "completion_tokens")}}
        except Exception as error:  # a job that fails must not stop the others
            result = {"request_id": job["request_id"], "status": "failed", "error": str(error)}
        value = json.dumps(result)
        self.producer.produce(self.options.results_topic, key=job["request_id"], value=value,
                              on_delivery=lambda error, _: error or self.offsets.end(message))
        self.set_status(job, state=result["status"], result=value,
                        finished_at=int(time.time() * 1000))
        self.places.release()


def serve(options):
    gateway = Gateway(options)
    consumer = Consumer({"bootstrap.servers": options.brokers, "group.id": options.group,
                         "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    consumer.subscribe([options.jobs_topic], on_assign=lambda *_: print("ready", flush=True))
    committed = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.in_flight) as threads:
        while not stop.is_set():
            message = None
            if gateway.places.acquire(timeout=0.05):
                message = consumer.poll(0.05)
                if message is None or message.error():
                    gateway.places.release()
                else:
                    gateway.offsets.begin(message)
                    threads.submit(gateway.work, message)
            gateway.producer.poll(0)
            if time.monotonic() - committed > COMMIT_EVERY_S:
                committed = time.monotonic()
                moved = gateway.offsets.take()
                if moved:
                    consumer.commit(offsets=[TopicPartition(options.jobs_topic, partition, offset)
                                             for partition, offset in moved.items()],
                                    asynchronous=True)
    gateway.producer.flush(10)
    consumer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("brokers", "redis", "server", "jobs-topic", "results-topic", "group"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--in-flight", type=int, default=32)
    serve(parser.parse_args())


if __name__ == "__main__":
    main()
