#!/usr/bin/env python3
"""Fits the factors of match probabilities (src/saccade/search/matching/evidence.cc) to runs of `saccade eval answers`.

    saccade eval answers --dataset SET.jsonl --fitted-half -o RUNS/SET-fit      # for each set
    saccade eval answers --dataset SET.jsonl -o RUNS/SET-held
    fit.py --fit RUNS/*-fit --held RUNS/*-held [--leave-out]

Reads answers.jsonl of each run: the evidence of the first ten hits of every query (docs/runs.md). Each set counts alike, and hits
of absent queries a quarter. Prints the factors, and for each held run the expected calibration error, the share of hits at 0.5 or
above that are right, of right first hits that have 0.5, and of absent queries that are told at 10% of false alarms. With --leave-out
each held run is judged by factors that were fitted without the set of the same name. Needs numpy.
"""
import argparse
import json
import pathlib

import numpy as np

ABSENT_WEIGHT = 0.25
NAMES = ["ratio", "odds", "all", "coverage", "bm25", "no_all", "unknown"]
WITH_WORDS = [True] * len(NAMES)
BY_SCORE = [name in ("ratio", "odds") for name in NAMES]


def features(query, hit):
    """The evidence of a hit, in the order of NAMES."""
    d = query["separation"]
    ratio = d * hit["standard"] - d * d / 2
    no_all = 0.0 if query["any_all"] else 1.0
    return [ratio, hit["odds"], float(hit["all"]), hit["coverage"], hit["bm25"], no_all, query["unknown"]]


class Run:
    def __init__(self, folder):
        self.name = pathlib.Path(folder).name.rsplit("-", 1)[0]
        with open(pathlib.Path(folder) / "answers.jsonl", encoding="utf-8") as lines:
            self.queries = [json.loads(line) for line in lines]
        hits = [(i, query, hit) for i, query in enumerate(self.queries) for hit in query["hits"]]
        self.query = np.array([i for i, _, _ in hits])
        self.x = np.array([features(query, hit) for _, query, hit in hits])
        self.right = np.array([float(hit["right"]) for _, _, hit in hits])
        self.known = np.array([hit["known"] for _, _, hit in hits])
        self.shown = np.array([hit["probability"] for _, _, hit in hits], dtype=float)
        weight = np.array([ABSENT_WEIGHT if query["group"] == "absent" else 1.0 for _, query, _ in hits])
        self.weight = weight / weight.sum()


def fit(runs, used, known):
    """Factors and constant of a logistic regression, by Newton's method; a factor that is not used is 0."""
    take = [run.known == known for run in runs]
    x = np.concatenate([run.x[t] for run, t in zip(runs, take)])[:, used]
    if len(x) == 0:
        return np.zeros(len(used) + 1)
    x = np.c_[x, np.ones(len(x))]
    y = np.concatenate([run.right[t] for run, t in zip(runs, take)])
    w = np.concatenate([run.weight[t] for run, t in zip(runs, take)])
    w = w / w.sum()
    ridge = 1e-4 * np.r_[np.ones(x.shape[1] - 1), 1e-6]
    factors = np.zeros(x.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(x @ factors, -30, 30)))
        gradient = x.T @ (w * (p - y)) + ridge * factors
        step = np.linalg.solve((x * (w * p * (1 - p))[:, None]).T @ x + np.diag(ridge), gradient)
        factors -= step
        if np.abs(step).max() < 1e-9:
            break
    whole = np.zeros(len(used) + 1)
    whole[np.append(np.flatnonzero(used), len(used))] = factors
    return whole


def predict(run, with_words, by_score):
    x = np.c_[run.x, np.ones(len(run.x))]
    logit = np.where(run.known, x @ with_words, x @ by_score)
    return 1 / (1 + np.exp(-logit))


def figures(run, p):
    bins = np.minimum(9, (p * 10).astype(int))
    ece = sum(abs((p - run.right)[bins == b].sum()) for b in range(10)) / len(p)
    at = p >= 0.5
    best = np.array([p[run.query == i].max(initial=0) for i in range(len(run.queries))])
    absent = np.array([query["group"] == "absent" for query in run.queries])
    first = np.unique(run.query, return_index=True)[1]
    first = first[~absent[run.query[first]] & (run.right[first] == 1)]
    threshold = np.quantile(best[~absent], 0.1)
    return (ece, run.right[at].mean() if at.any() else np.nan, (p[first] >= 0.5).mean(), (best[absent] < threshold).mean(),
            (best[absent] < 0.2).mean(), (best[~absent] < 0.2).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", nargs="+", required=True)
    parser.add_argument("--held", nargs="+", required=True)
    parser.add_argument("--leave-out", action="store_true")
    arguments = parser.parse_args()
    fitted = [Run(folder) for folder in arguments.fit]
    both = [fit(fitted, WITH_WORDS, True), fit(fitted, BY_SCORE, False)]
    print("factors:", ", ".join(NAMES + ["constant"]))
    for name, factors in zip(["with words", "by score"], both):
        print(f"  {name}: " + ", ".join(f"{value:.2f}" for value in factors))
    print(f"{'held run':<24} {'':<8} ece   right at 0.5   right first at 0.5   absent told   absent weak   present weak")
    for folder in arguments.held:
        run = Run(folder)
        use = both
        if arguments.leave_out:
            rest = [other for other in fitted if other.name != run.name]
            use = [fit(rest, WITH_WORDS, True), fit(rest, BY_SCORE, False)]
        for name, p in [("shown", run.shown), ("fitted", predict(run, *use))]:
            print(f"{run.name:<24} {name:<8} " + "   ".join(f"{value:.3f}" for value in figures(run, p)))


if __name__ == "__main__":
    main()
