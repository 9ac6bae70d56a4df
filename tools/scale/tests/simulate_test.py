"""Tests of the simulated import: closed forms, and what failures may cost."""
import dataclasses
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from simulate import BATCH, Settings, capacity, retry_times, simulate  # noqa: E402

PLAIN = Settings(rows=60_000, workers=3, nodes=3, replicas=3, replica_writes=300, start=2)


class Simulation(unittest.TestCase):
    def test_without_failures_time_is_rows_by_rate(self):
        # Three nodes store 300 objects a second each, and each row three times.
        self.assertAlmostEqual(simulate(PLAIN).seconds, 2 + 60_000 / 300, places=3)
        slow = dataclasses.replace(PLAIN, worker_rate=50)
        self.assertAlmostEqual(simulate(slow).seconds, 2 + 60_000 / 150, places=3)
        one = dataclasses.replace(PLAIN, workers=1, worker_rate=50)
        self.assertAlmostEqual(simulate(one).seconds, 2 + 60_000 / 50, places=3)

    def test_capacity_follows_replicas_and_quorum(self):
        self.assertEqual(capacity(PLAIN, 3), 300)
        self.assertEqual(capacity(PLAIN, 2), 300)  # two nodes, two copies
        self.assertEqual(capacity(PLAIN, 1), 0)
        shared = dataclasses.replace(PLAIN, shared_host=True)
        self.assertEqual(capacity(shared, 3), 100)
        self.assertEqual(capacity(shared, 2), 150)
        # With two replicas both are the quorum.
        self.assertEqual(capacity(dataclasses.replace(PLAIN, replicas=2), 2), 0)

    def test_waits_are_those_of_the_client(self):
        waits = retry_times()
        self.assertEqual(len(waits), 8)
        self.assertAlmostEqual(waits[0], 0.2)
        self.assertAlmostEqual(waits[-1], 32.6)

    def test_a_killed_worker_repeats_less_than_a_request_and_looks_up_the_rest(self):
        slow = dataclasses.replace(PLAIN, worker_rate=50, failures=[("worker", 202, 1, 10)])
        slow.look_up_rate = 1000
        outcome = simulate(slow)
        self.assertEqual(outcome.worker_failures, 1)
        self.assertLess(outcome.repeated_rows, BATCH)
        self.assertAlmostEqual(outcome.looked_up_rows, 10_000, delta=BATCH)
        # Down for 10 s, a start of 2 s, a look-up of 10 s.
        self.assertAlmostEqual(outcome.seconds, 402 + 22, delta=BATCH / 50)

    def test_a_short_outage_is_waited_out_and_a_long_one_ends_workers(self):
        two = dataclasses.replace(PLAIN, replicas=2, replica_writes=200, failures=[("node", 100, 0, 20)])
        outcome = simulate(two)
        self.assertEqual(outcome.gave_up, 0)
        self.assertAlmostEqual(outcome.without_quorum, 20, places=3)
        # Tried again after 22.6 s at the latest, of which 20 were without a quorum.
        self.assertAlmostEqual(outcome.seconds, 202 + 22.6, delta=1)
        two.failures = [("node", 100, 0, 100)]
        outcome = simulate(two)
        self.assertGreaterEqual(outcome.gave_up, 3)
        self.assertTrue(outcome.finished)
        self.assertGreater(outcome.looked_up_rows, 0)

    def test_random_failures_repeat_with_the_seed_and_lose_nothing(self):
        random = dataclasses.replace(PLAIN, rows=3_000_000, worker_mtbf=3000, node_mtbf=9000, repair=60)
        first, second = simulate(random), simulate(random)
        self.assertEqual(first, second)
        self.assertTrue(first.finished)
        self.assertGreater(first.worker_failures, 0)
        self.assertGreater(first.seconds, simulate(dataclasses.replace(PLAIN, rows=3_000_000)).seconds)
        self.assertNotEqual(first, simulate(dataclasses.replace(random, seed=1)))

    def test_a_failure_may_be_at_an_amount_of_rows(self):
        by_rows = dataclasses.replace(PLAIN, failures_at_rows=[("worker", 30_000, 0, 10)])
        by_time = dataclasses.replace(PLAIN, failures=[("worker", 102, 0, 10)])
        self.assertAlmostEqual(simulate(by_rows).seconds, simulate(by_time).seconds, delta=1)

    def test_agrees_with_the_measured_run(self):
        # docs/scale.md, "The simulated import": three nodes on one machine, each class on all of them, two workers of 4,000 rows.
        # A node is killed for good at 2,000 rows, a worker at 4,000, and started again 2 s later. The rates are those of runs
        # without failures.
        measured = [67.0, 65.3, 56.7]
        run = Settings(rows=8_000, workers=2, nodes=3, replicas=3, worker_rate=72.6, replica_writes=1e6, look_up_rate=556, start=1.5)
        self.assertAlmostEqual(simulate(run).seconds, 56.6, delta=0.1)
        run.failures_at_rows = [("node", 2_000, 1, 1e6), ("worker", 4_000, 0, 2)]
        outcome = simulate(run)
        for seconds in measured:
            self.assertLess(abs(outcome.seconds / seconds - 1), 0.2)
        self.assertLessEqual(outcome.repeated_rows, 3 * BATCH)
        self.assertAlmostEqual(outcome.looked_up_rows, 2_000, delta=BATCH)


if __name__ == "__main__":
    unittest.main()
