#!/usr/bin/env python3
"""Simulates an import by several workers into a collection in a cluster, with failures of workers and nodes.

Prints the time that the import takes and the work that is done more than once. Between two events (a failure, a restart, the end
of a phase) all rates are constant, so that a thousand million rows take no longer than a thousand. The rules are those of
src/saccade/collection/weaviate: requests of 200 objects, writes to a quorum of the replicas, failed requests sent again with
growing waits, and a restarted worker that passes over what is stored. docs/scale.md says where the rates come from.
"""
import argparse
import json
import math
import random
from dataclasses import dataclass, field

BATCH = 200  # objects of a request: kObjectsPerBatch in weaviate_writer.cc
FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0  # seconds: Retry in weaviate_client.h


def retry_times(rounds=9):
    """Returns the seconds after a failed request at which it is sent again; a worker gives up after the last."""
    times, wait, total = [], FIRST_WAIT, 0.0
    for _ in range(rounds - 1):
        total += wait
        times.append(total)
        wait = min(2 * wait, LONGEST_WAIT)
    return times


@dataclass
class Settings:
    """An import. Rates are rows a second, times are seconds."""

    rows: int
    workers: int = 1
    nodes: int = 1
    replicas: int = 1
    worker_rate: float = math.inf  # rows that one worker makes (encoding, or reading an import's lines)
    replica_writes: float = 1000.0  # objects that one node stores; of all nodes together if they share a host
    shared_host: bool = False  # the nodes share one machine's processors
    look_up_rate: float = 1000.0  # stored rows that a restarted worker passes over
    start: float = 0.0  # from the start of a worker to its first row
    restart: float = 30.0  # from the end of a worker that failed to its next start
    repair: float = 600.0  # from the failure of a node to its return
    # Failures at fixed times: ("node" or "worker", second, number, seconds until it is back).
    failures: list = field(default_factory=list)
    # Failures at fixed amounts of stored rows, as the measured run has them: (kind, rows, number, seconds until it is back).
    failures_at_rows: list = field(default_factory=list)
    node_mtbf: float = math.inf  # mean time between failures of one node
    worker_mtbf: float = math.inf
    seed: int = 0
    limit: float = 1e9


@dataclass
class Worker:
    share: float
    phase: str = "start"  # start, look-up, write, waiting, down, done
    until: float = 0.0  # end of start, waiting or down
    written: float = 0.0
    looked_up: float = 0.0
    failed_at: float = 0.0


@dataclass
class Outcome:
    seconds: float = 0.0
    finished: bool = True
    repeated_rows: float = 0.0  # sent again after a failure
    looked_up_rows: float = 0.0  # passed over by restarted workers
    worker_failures: int = 0
    node_failures: int = 0
    gave_up: int = 0  # workers that ended because writes failed too long
    without_quorum: float = 0.0  # seconds


def capacity(settings, live):
    """Returns the rows a second that the live nodes store, 0 without a quorum of each row's replicas.

    Every row lies on `replicas` of the nodes. A shard has lost its quorum for certain if more nodes are down than it can lose.
    """
    lost = settings.nodes - live
    if lost > settings.replicas - (settings.replicas // 2 + 1):
        return 0.0
    copies = settings.replicas * live / settings.nodes
    nodes = 1 if settings.shared_host else live
    return settings.replica_writes * nodes / copies


def rate_of(settings, live, writing):
    """Returns the rows a second of each of the workers that write."""
    return min(settings.worker_rate, capacity(settings, live) / writing) if writing else 0.0


def fail_worker(settings, worker, now, back, outcome):
    """Ends a worker. Its unfinished request is sent again, and it looks up what is stored once it is back."""
    if worker.phase == "done":
        return
    if worker.phase in ("write", "waiting"):
        lost = worker.written % BATCH
        worker.written -= lost
        outcome.repeated_rows += lost
    worker.looked_up = 0.0
    worker.phase, worker.until = "down", now + back


def simulate(settings):
    """Returns the Outcome of an import."""
    chance = random.Random(settings.seed)
    workers = [Worker(settings.rows / settings.workers, until=settings.start) for _ in range(settings.workers)]
    down = {}  # node: when it is back
    planned = sorted(settings.failures, key=lambda failure: failure[1])
    at_rows = sorted(settings.failures_at_rows, key=lambda failure: failure[1])
    draw = lambda mtbf, count: chance.expovariate(count / mtbf) if mtbf < math.inf else math.inf
    next_node = draw(settings.node_mtbf, settings.nodes)
    next_worker = draw(settings.worker_mtbf, settings.workers)
    retries = retry_times()
    outcome, now = Outcome(), 0.0

    def fail_node(number, back):
        outcome.node_failures += 1
        down[number] = max(down.get(number, 0), now + back)
        for index, worker in enumerate(workers):
            if worker.phase == "write" and index % settings.nodes == number:
                lost = worker.written % BATCH  # its request was under way there
                worker.written -= lost
                outcome.repeated_rows += lost

    def fail(kind, number, back):
        if kind == "node":
            fail_node(number, back)
        else:
            outcome.worker_failures += 1
            fail_worker(settings, workers[number], now, back, outcome)

    while now < settings.limit:
        # Everything that is due now.
        for number in [node for node, back in down.items() if back <= now + 1e-9]:
            del down[number]
        live = settings.nodes - len(down)
        quorum = capacity(settings, live) > 0
        for worker in workers:
            if worker.phase in ("start", "down", "waiting") and worker.until <= now + 1e-9:
                if worker.phase == "down":
                    worker.phase, worker.until = "start", now + settings.start
                elif worker.phase == "start":
                    worker.phase = "look-up"
                elif quorum:
                    worker.phase = "write"
                else:
                    later = [at for at in retries if worker.failed_at + at > now + 1e-6]
                    if later:
                        worker.until = worker.failed_at + later[0]
                    else:
                        outcome.gave_up += 1
                        fail_worker(settings, worker, now, settings.restart, outcome)
            if worker.phase == "look-up" and (worker.looked_up >= worker.written - 1e-6):
                worker.phase = "write"
            if worker.phase == "write" and worker.written >= worker.share - 1e-6:
                worker.phase = "done"
            if worker.phase == "write" and not quorum:
                worker.phase, worker.failed_at, worker.until = "waiting", now, now + retries[0]
        if all(worker.phase == "done" for worker in workers):
            outcome.seconds = now
            return outcome
        total = sum(worker.written for worker in workers)
        due = [failure for failure in at_rows if failure[1] <= total + 1e-6]
        if due:
            at_rows.remove(due[0])
            fail(due[0][0], due[0][2], due[0][3])
            continue
        if planned and planned[0][1] <= now + 1e-9:
            kind, _, number, back = planned.pop(0)
            fail(kind, number, back)
            continue
        if next_node <= now + 1e-9:
            fail("node", chance.randrange(settings.nodes), settings.repair)
            next_node = now + draw(settings.node_mtbf, settings.nodes)
            continue
        if next_worker <= now + 1e-9:
            fail("worker", chance.randrange(settings.workers), settings.restart)
            next_worker = now + draw(settings.worker_mtbf, settings.workers)
            continue
        # The time until something changes.
        writing = sum(worker.phase == "write" for worker in workers)
        rate = rate_of(settings, live, writing)
        ends = [settings.limit, next_node, next_worker, *down.values()]
        if planned:
            ends.append(planned[0][1])
        if at_rows and rate > 0:
            ends.append(now + (at_rows[0][1] - total) / (rate * writing))
        for worker in workers:
            if worker.phase in ("start", "down", "waiting"):
                ends.append(worker.until)
            elif worker.phase == "look-up":
                ends.append(now + (worker.written - worker.looked_up) / settings.look_up_rate)
            elif worker.phase == "write" and rate > 0:
                ends.append(now + (worker.share - worker.written) / rate)
        step = max(min(ends) - now, 1e-9)
        for worker in workers:
            if worker.phase == "write":
                worker.written = min(worker.share, worker.written + rate * step)
            elif worker.phase == "look-up":
                passed = min(worker.written - worker.looked_up, settings.look_up_rate * step)
                worker.looked_up += passed
                outcome.looked_up_rows += passed
        if not quorum:
            outcome.without_quorum += step
        now += step
    outcome.seconds, outcome.finished = now, False
    return outcome


def parse_failure(text):
    """node:SECOND:NUMBER:BACK or worker:SECOND:NUMBER:BACK."""
    kind, at, number, back = text.split(":")
    if kind not in ("node", "worker"):
        raise argparse.ArgumentTypeError(f"{text}: expected node:... or worker:...")
    return kind, float(at), int(number), float(back)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, required=True, help="number of images")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--worker-rate", type=float, default=math.inf, help="images a second that one worker encodes")
    parser.add_argument("--replica-writes", type=float, required=True, help="objects a second that one node stores")
    parser.add_argument("--shared-host", action="store_true", help="--replica-writes is that of all nodes together")
    parser.add_argument("--look-up-rate", type=float, default=1000.0, help="stored images a second that a restarted worker passes over")
    parser.add_argument("--start", type=float, default=0.0, help="seconds from a worker's start to its first image")
    parser.add_argument("--restart", type=float, default=30.0, help="seconds until a failed worker is started again")
    parser.add_argument("--repair", type=float, default=600.0, help="seconds until a failed node is back")
    parser.add_argument("--node-mtbf", type=float, default=math.inf, help="mean seconds between failures of one node")
    parser.add_argument("--worker-mtbf", type=float, default=math.inf, help="mean seconds between failures of one worker")
    parser.add_argument("--failure", type=parse_failure, action="append", default=[], help="KIND:SECOND:NUMBER:SECONDS, repeatable")
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args())
    given["failures"] = given.pop("failure")
    print(json.dumps(vars(simulate(Settings(**given)))))


if __name__ == "__main__":
    main()
