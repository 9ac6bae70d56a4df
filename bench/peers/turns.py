"""Programs that do the same work in turns, and the figures of it: what bench/peers/compare and from_python share."""
import dataclasses
import math
import pathlib
import statistics
import subprocess
import time

LEAST_ROUNDS = 3
PRECISIONS = ("fp32", "bf16", "int8")


@dataclasses.dataclass(frozen=True)
class Model:
    """Shape of a model whose checkpoint Saccade's side writes (ours.cc)."""
    width: int          # of embeddings
    side: int = 224     # of images, in pixels
    positions: int = 0  # SigLIP: tokens that each text is padded to; 0: CLIP, whose texts have any number of tokens


MODELS = {"ViT-B/32": Model(512), "ViT-L/14": Model(768), "so400m/384": Model(1152, side=384, positions=64)}


def reason_of(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160] if text else ''}"


def repeated(work):
    """Returns function(least) -> (seconds, result): runs work() until `least` seconds have passed, at least once. The
    seconds are the median of one run."""
    def run(least=0):
        each, began = [], time.perf_counter()
        while True:
            start = time.perf_counter()
            result = work()
            now = time.perf_counter()
            each.append(now - start)
            if now - began >= least:
                return statistics.median(each), result
    return run


def cosine(mine, theirs):
    """Returns the minimum cosine similarity of a row of one matrix to the same row of the other."""
    import numpy
    mine = mine / numpy.linalg.norm(mine, axis=1, keepdims=True)
    theirs = theirs / numpy.linalg.norm(theirs, axis=1, keepdims=True)
    return float((mine * theirs).sum(axis=1).min())


def same(mine, theirs):
    """Returns the share of equal values."""
    return float((mine == theirs).mean())


@dataclasses.dataclass
class Budget:
    """Limits of a measurement. A cell has at least LEAST_ROUNDS rounds, unless the end comes before."""
    rounds: int = 7
    pause: float = 0.3           # seconds between two programs
    cell_seconds: float = 20     # of work in a cell, all programs and rounds together; 0: each works once a round
    end: float = math.inf        # time.monotonic() after which no cell and no round begins

    def over(self):
        return time.monotonic() >= self.end


class Cell:
    """One thing that several programs do, such as encoding 32 images in int8. A program is a function(least) ->
    (seconds, result), as repeated() makes it. Saccade's is named "saccade"."""

    def __init__(self, title, unit, count, check=None, agreement="", **facts):
        """`count`: units in one run. check(mine, theirs) returns the agreement of two results. `facts` go to the JSON."""
        self.title, self.unit, self.count, self.facts = title, unit, count, facts
        self.check, self.agreement = check, agreement
        self.programs, self.cannot = {}, {}

    def add(self, name, make):
        """make() returns the program. What it raises is the reason why the program cannot."""
        try:
            program = make()
            program(0)  # loads, compiles, packs
            self.programs[name] = program
        except Exception as error:  # pylint: disable=broad-except  # whatever it is, the report says it
            self.cannot[name] = reason_of(error)

    def run(self, budget):
        """Runs the rounds, in an order that turns from round to round. Returns a dictionary for the JSON."""
        names = list(self.programs)
        if "saccade" not in names:
            return self.report(0, {})
        least = budget.cell_seconds / budget.rounds / len(names)
        seconds, results = {name: [] for name in names}, {}
        worked = 0.0
        for turn in range(budget.rounds):
            if turn > 0 and (budget.over() or turn >= LEAST_ROUNDS and 0 < budget.cell_seconds < worked):
                break
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                time.sleep(budget.pause)
                start = time.perf_counter()
                taken, result = self.programs[name](least)
                worked += time.perf_counter() - start
                seconds[name].append(taken)
                results.setdefault(name, result)
        ours = seconds["saccade"]
        return self.report(len(ours), {name: self.figures(seconds[name], ours, results["saccade"], results[name])
                                       for name in names})

    def figures(self, seconds, ours, mine, theirs):
        ratios = [their / our for their, our in zip(seconds, ours)]
        figures = {"rate": self.count / statistics.median(seconds), "best_rate": self.count / min(seconds),
                   "ratio": statistics.median(ratios), "ratio_least": min(ratios), "ratio_most": max(ratios)}
        if self.check:
            figures["agreement"] = self.check(mine, theirs)
        return figures

    def report(self, rounds, figures):
        return {"title": self.title, "unit": self.unit, **self.facts, "rounds": rounds, "agreement": self.agreement,
                "figures": figures, "not_measured": self.cannot}


def show(cell):
    """Prints the report of a cell."""
    print(f"{cell['title']} (rounds: {cell['rounds']})")
    for name, of in cell["figures"].items():
        line = f"  {name:34} {of['rate']:8.1f} {cell['unit']} (best {of['best_rate']:.1f})"
        if name != "saccade":
            line += f"  ratio {of['ratio']:.2f} ({of['ratio_least']:.2f} to {of['ratio_most']:.2f})"
            if "agreement" in of:
                line += f"  {cell['agreement']} {of['agreement']:.4f}"
        print(line)
    if "shares" in cell:
        print("  saccade's work: " + ", ".join(f"{stage} {share:.0%}" for stage, share in cell["shares"].items()))
    for name, reason in cell["not_measured"].items():
        print(f"  {name:34} not measured: {reason}")
    print(flush=True)


def versions(packages):
    """Returns the installed version of each package, or "absent"."""
    import importlib.metadata as metadata
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found


def processor_lines():
    """Returns the lines of `lscpu` that describe the processor."""
    lines = subprocess.run(["lscpu"], stdout=subprocess.PIPE, text=True, check=True,
                           env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout.splitlines()
    return [" ".join(line.split()) for line in lines if not line.startswith(("Vulnerability", "NUMA"))]


def write_whole(file, text):
    """Replaces a file's content, so that a reader never sees a part of it."""
    path = pathlib.Path(file)
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)
