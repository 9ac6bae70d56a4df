#!/usr/bin/env python3
"""Runs a study of docs/studies, and writes the tables of its page from the records of its runs.

    python3 study.py plan NAME [--runs RUN...]       prints data, commands and tables, and what is done already
    python3 study.py data NAME [--runs RUN...]       makes the study's data
    python3 study.py measure NAME [--runs RUN...]    runs its commands
    python3 study.py tables NAME                     writes the tables of its page from the runs that are done
    python3 study.py check                           checks all studies' files and the markers in their pages

`./dev study NAME` does the middle three, after it has built the programs and fetched the sets of pictures. With --runs only
these runs are made, and those that they read.

A study is the file NAME.json beside this program:

    page     its document
    words    {name: text}: {name} in a command, or in a later text, stands for the text (optional)
    data     {name: {"files": [...], "commands": [...]}}: how its data are made, and the files that decide what
             they are: a change to one makes tables of these data stale (tools/check/tables). "needs": paths that no
             command makes, without which its runs are left out; "says": where a reader gets them. A data set that its user
             brings is put, or linked, below build/data
    runs     {name: {"data": [...], "command": "..."}}: in the order in which they are run; {runs} is the study's folder,
             below build/studies, and the run is written to {runs}/NAME ("folder": another one below it). "seeds": [1, 2, 3]
             makes the runs NAME-1, NAME-2 and NAME-3, {seed} in the command, and NAME stands for all of them.
             "reads": the runs that must be there before it; {trainings} in the command is NAME=FOLDER of each of them, NAME
             that of the run without its seed, and {models} is FOLDER/model of each
    tables   {name: {"runs": [...], "header": [...], "rows": [...]}}

A run that is done is not repeated: its command, those of the runs that it read, and the time that it took, stand in done.json of
the study's folder. It is repeated where one of these commands changes. One that was killed is begun again with the same command;
trainings go on from their last state. What another command left in a run's folder is moved to NAME.before, in place of what was
moved there earlier; began.json says which commands a folder is of. Where a run fails, the others go on.

A row is a list of cells. {"each": [{variable: text}, ...], "rows": [...]} repeats rows with variables. {"over": PATH,
"rows": [...]} repeats them for every value of a path, which a path that begins with a point reads from. In a cell, {name} is
a variable and {PATH} a value of a record:

    RUN results[dataset=a,method={method}].figures.r1     a figure of the run's metrics.json
    RUN results[dataset=a].t2i.curve[-1].r1               the last of a list
    RUN verdicts[b~linear on].mean_recall                 the one with these words in it
    .differences.r1?                                      of `over`; nothing if it is not there
    ...|g, ...|value                                      a number with as many digits as it has; without its interval
    ...|said                                              of a difference: what its interval lets one say
    ...|1                                                 a number with one digit behind the point
    RUN rows[model=starter].retrieval.t2i.r1              of the leaderboard.json of `eval study`, where the run is a study

A figure or a difference is written with its interval, a number with three digits behind the point, a count with commas. A
dataset of a run that is one split of a file has the split's name here, and a checkpoint of another run that run's.

In the page a table stands between <!-- table: NAME --> and <!-- end -->. What stands there is replaced by the table, behind it
the commit and the hashes of the datasets, and before it the line that tools/check/tables reads.
"""
import argparse
import hashlib
import itertools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FIGURES = ("value", "difference", "r")  # r: of a correlation
CELL = re.compile(r"\{([^{}]+)\}")
STEP = re.compile(r"([A-Za-z0-9_]+)((?:\[[^\]]*\])?)(?:\.|$)")
MARKER = re.compile(r"<!-- table: ([a-z0-9-]+) -->\n(.*?)<!-- end -->\n", re.DOTALL)


class StudyError(Exception):
    """Says what is wrong with a study, a record or a page."""


class Missing(StudyError):
    """A path leads nowhere."""


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: {error}") from error


def selected(values, selector, where):
    """The values of a list that a selector names: [-1], or [key=value,key~part of the value,...]."""
    if re.fullmatch(r"-?\d+", selector):
        if not -len(values) <= int(selector) < len(values):
            raise Missing(f"{where}: there are {len(values)}")
        return [values[int(selector)]]
    wanted = [re.fullmatch(r"(\w+)([=~])(.*)", part) for part in selector.split(",")]
    if None in wanted:
        raise StudyError(f"{where}: cannot read [{selector}]")

    def fits(one, match):
        key, sign, value = match.groups()
        return key in one and (value in str(one[key]) if sign == "~" else str(one[key]) == value)

    return [one for one in values if all(fits(one, match) for match in wanted)]


def values_at(value, path, where):
    """All values at a path."""
    steps = list(STEP.finditer(path))
    if "".join(match.group(0) for match in steps) != path:
        raise StudyError(f"{where}: cannot read the path")
    values = [value]
    for step in steps:
        key, selector = step.group(1), step.group(2)
        below = []
        for one in values:
            if not isinstance(one, dict) or key not in one:
                known = ", ".join(one) if isinstance(one, dict) else f"a {type(one).__name__}"
                raise Missing(f"{where}: no \"{key}\" (there are: {known})")
            below += selected(one[key], selector[1:-1], where) if selector else [one[key]]
        values = below
    return values


def number_text(value):
    if value is None:
        return "-"
    if isinstance(value, bool):
        raise StudyError("true or false is no figure")
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def said(difference):
    """What the interval of a difference lets one say."""
    if difference["low"] > 0:
        return "better"
    return "worse" if difference["high"] < 0 else "cannot be called better"


def value_text(value, form=""):
    """What a cell shows of a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        key = next((key for key in FIGURES if key in value), None)
        if key is None:
            raise StudyError(f"not a figure: it has {', '.join(value)}")
        if form == "said":
            return said(value)
        if value.get("above_chance") is False:  # an effective length
            return "no better than chance"
        text = number_text(value[key])
        if form == "value" or value.get("low") is None or value.get("high") is None:
            return text
        end = value.get("wilson_high", value.get("wilson_low"))  # resampling says nothing about a share of 0 or 1
        if end is not None:
            return f"{text} [Wilson {number_text(end)}]"
        return f"{text} [{number_text(value['low'])}, {number_text(value['high'])}]"
    if isinstance(value, list):
        raise StudyError("a list is no figure")
    if form == "g":
        return "-" if value is None else f"{value:g}"
    if form == "1":
        return "-" if value is None else f"{value:,.1f}"
    return number_text(value)


def renamed(value, names):
    """A record with other names of models."""
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    if isinstance(value, dict):
        return {key: names.get(one, one) if key in ("model", "a", "b") and isinstance(one, str) else renamed(one, names)
                for key, one in value.items()}
    return value


def records_of(folder):
    """What a run's folder says of its checkpoints and datasets, and its metrics: of the folder of `eval study` its leaderboard."""
    board = folder / "leaderboard.json"
    if not board.is_file():
        return read_json(folder / "run.json"), read_json(folder / "metrics.json")
    metrics = read_json(board)
    for row in metrics["rows"]:
        if row["missing"]:
            raise StudyError(f"{folder}: {row['model']} lacks {', '.join(row['missing'])}; remove it to measure again")
    parts = [part["info"] for part in metrics.pop("parts")]
    return {key: [one for part in parts for one in part[key]] for key in ("checkpoints", "datasets")}, metrics


class Run:
    """A run's folder. Its datasets have the names of their splits, where they are one of a file; a checkpoint that another
    run of a study trained has that run's name."""

    def __init__(self, folder):
        self.info, metrics = records_of(folder)
        trained = {}
        for checkpoint in self.info.get("checkpoints", []):
            if run := re.search(r"/build/studies/[^/]+/([^/]+)/", checkpoint["path"]):
                trained[checkpoint["name"]] = run.group(1)
        if len(set(trained.values())) < len(trained):
            raise StudyError(f"{folder}: two checkpoints of one run: {', '.join(trained.values())}")
        self.metrics = renamed(metrics, trained)
        names = {}
        for dataset in self.info["datasets"]:
            split = re.search(r"#(?:.*,)?split=([^,]+)", dataset["path"])
            names[dataset["name"]] = split.group(1) if split else dataset["name"]
        if len(set(names.values())) < len(names):
            raise StudyError(f"{folder}: two datasets of one name: {', '.join(names.values())}")
        self.datasets = {names[dataset["name"]]: dataset["sha256"] for dataset in self.info["datasets"]}
        for entries in self.metrics.values():
            for entry in entries if isinstance(entries, list) else []:
                if isinstance(entry, dict) and entry.get("dataset") in names:
                    entry["dataset"] = names[entry["dataset"]]


class Table:
    """A table of a study's file."""

    def __init__(self, name, described, runs):
        self.name, self.described, self.runs = name, described, runs

    def markdown(self):
        rows = [self.cells(self.described["header"], {}, None)]
        rows.append(["---"] * len(rows[0]))
        rows += self.rows(self.described["rows"], {}, None)
        for row in rows:
            if len(row) != len(rows[0]):
                raise StudyError(f"table {self.name}: a row of {len(row)} cells, the header has {len(rows[0])}")
        return "".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n" for row in rows)

    def rows(self, described, variables, item):
        rows = []
        for one in described:
            if isinstance(one, list):
                rows.append(self.cells(one, variables, item))
            elif "each" in one:
                for more in one["each"]:
                    rows += self.rows(one["rows"], {**variables, **more}, item)
            else:
                for value in self.find(self.filled(one["over"], variables), item):
                    for each in value if isinstance(value, list) else [value]:
                        rows += self.rows(one["rows"], variables, each)
        return rows

    def cells(self, described, variables, item):
        return [self.cell(self.filled(cell, variables), item) for cell in described]

    @staticmethod
    def filled(text, variables):
        for name, value in variables.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def cell(self, text, item):
        def shown(match):
            path, _, form = match.group(1).partition("|")
            try:
                values = self.find(path.removesuffix("?"), item)
                if len(values) != 1:
                    raise Missing(f"{self.where(path)}: {len(values)} values, expected one")
                return value_text(values[0], form)
            except Missing:
                if path.endswith("?"):
                    return ""
                raise

        return CELL.sub(shown, text)

    def where(self, path):
        return f"table {self.name}: {path}"

    def find(self, path, item):
        if path.startswith("."):
            return values_at(item, path[1:], self.where(path))
        run, _, rest = path.partition(" ")
        if run not in self.runs:
            raise StudyError(f"{self.where(path)}: no run \"{run}\" among this table's")
        return values_at(self.runs[run].metrics, rest, self.where(path))


class Study:
    def __init__(self, name, root=ROOT):
        path = root / "tools" / "studies" / f"{name}.json"
        if not path.is_file():
            raise StudyError(f"no study named \"{name}\" (there are: {', '.join(all_studies(root))})")
        self.name, self.root, self.path = name, root, path
        self.described = read_json(path)
        for key in ("page", "data", "runs", "tables"):
            if key not in self.described:
                raise StudyError(f"{self.path}: \"{key}\" is missing")
        self.page = root / self.described["page"]
        self.folder = root / "build" / "studies" / name
        self.groups, self.runs = self.expanded()

    def expanded(self):
        """The names that stand for several runs, and the runs, in their order."""
        groups, runs = {}, {}
        for name, run in self.described["runs"].items():
            seeds = run.get("seeds", [])
            names = [f"{name}-{seed}" for seed in seeds] or [name]
            groups[name] = names
            for at, each in enumerate(names):
                command = run["command"].replace("{seed}", str(seeds[at])) if seeds else run["command"]
                for word, text in reversed(self.described.get("words", {}).items()):  # a text may have words before it
                    command = command.replace(f"{{{word}}}", text)
                reads = [one for read in run.get("reads", []) for one in groups.get(read, [read])]
                names_of = {one: group for group, ones in groups.items() for one in ones}
                command = command.replace("{trainings}", " ".join(
                    f"{names_of.get(one, one)}={{runs}}/{runs[one]['folder']}" for one in reads if one in runs))
                command = command.replace("{models}", " ".join(
                    f"{{runs}}/{runs[one]['folder']}/model" for one in reads if one in runs))
                runs[each] = {"data": run["data"], "reads": reads, "folder": run.get("folder", each),
                              "command": command.replace("{runs}", str(self.folder.relative_to(self.root)))}
        return groups, runs

    def named(self, names):
        """The runs that names stand for."""
        runs = []
        for name in names:
            if name not in self.groups and name not in self.runs:
                raise StudyError(f"{self.path}: no run named \"{name}\" (there are: {', '.join(self.groups)})")
            runs += self.groups.get(name, [name])
        return runs

    def asked(self, names):
        """The runs with these names and those that they read, in the study's order; without names all."""
        if not names:
            return list(self.runs)
        wanted, left = set(), self.named(names)
        while left:
            run = left.pop()
            if run not in wanted:
                wanted.add(run)
                left += self.runs[run]["reads"]
        return [run for run in self.runs if run in wanted]

    def folder_of(self, run):
        return self.folder / self.runs[run]["folder"]

    def output_of(self, run):
        """The folder that a run's command writes."""
        return self.folder / self.runs[run]["folder"].split("/")[0]

    def data_of(self, runs):
        """The data of some runs, each once: {name: how they are made}."""
        return {name: each for name, each in self.described["data"].items() if any(name in self.runs[run]["data"] for run in runs)}

    def files(self, runs):
        """The files that decide what the data of some runs are, each once."""
        return list(dict.fromkeys(itertools.chain.from_iterable(each["files"] for each in self.data_of(runs).values())))

    def absent(self, data):
        """What these data need, is made by no command, and is not there; with where a reader gets it."""
        return [f"{path} ({each['says']})" for each in data.values() for path in each.get("needs", [])
                if not (self.root / path).exists()]

    def done(self):
        """{run: its command, its seconds and those that it read} of the runs that are done with the commands of today."""
        path = self.folder / "done.json"
        done = read_json(path) if path.is_file() else {}
        return {run: one for run, one in done.items()
                if run in self.runs and {key: one.get(key) for key in ("command", "reads")} == self.commands_of(run)}

    def commands_of(self, run):
        """A run's command, and those of the runs that it reads."""
        return {"command": self.runs[run]["command"], "reads": self.read_by(run)}

    def read_by(self, run):
        """{run: its command} of all runs that must be there before a run."""
        return {read: self.runs[read]["command"] for read in self.asked([run]) if read != run}

    def state(self):
        return {"commit": commit_of(self.root), "code": code_of(self.root), "data": hash_of(self.root, self.files(self.runs))}

    def plan(self, names):
        """What the study would do, as text."""
        runs, done = self.asked(names), self.done()
        lines = [f"page: {self.described['page']}", f"folder: {self.folder.relative_to(self.root)}", "data:"]
        for name, each in self.data_of(runs).items():
            lines += [f"    {name}: {command}" for command in each["commands"]]
            lines += [f"    {name}: not there: {path}" for path in self.absent({name: each})]
        lines.append("runs:")
        for run in runs:
            if run in done:
                how = f"done in {done[run]['seconds']} s"
            elif self.absent(self.data_of(self.asked([run]))):
                how = "left out, without its data"
            else:
                how = "begun" if self.output_of(run).exists() else "to do"
            lines += [f"    {run}: {how}", f"        {self.runs[run]['command']}"]
        lines.append("tables:")
        for name, table in self.described["tables"].items():
            missing = [run for run in self.asked(table["runs"]) if run not in done]
            lines.append(f"    {name}: " + (f"{len(missing)} of its runs to do" if missing else "can be written"))
        return "\n".join(lines) + "\n"

    def make_data(self, names=()):
        for name, each in self.data_of(self.asked(names)).items():
            if absent := self.absent({name: each}):
                print(f"    {name}: not made, without {', '.join(absent)}", file=sys.stderr, flush=True)
                continue
            for command in each["commands"]:
                execute(shlex.split(command), self.root)

    def begin(self, run):
        """Records the commands that a run is begun with. A folder that was begun with others is moved away."""
        path, output, commands = self.folder / "began.json", self.output_of(run), self.commands_of(run)
        state = read_json(path)
        if state.setdefault("runs", {}).get(run) == commands:
            return
        if output.exists():
            before = output.with_name(f"{output.name}.before")
            if before.exists():
                shutil.rmtree(before)
            output.rename(before)
            print(f"    {run}: begun with other commands before; {output} is now {before.name}", file=sys.stderr, flush=True)
        state["runs"][run] = commands
        replace_text(path, json.dumps(state) + "\n")

    def measure(self, names=()):
        began = self.folder / "began.json"
        state = self.state()
        if not began.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            began.write_text(json.dumps(state) + "\n")
        before = read_json(began)
        if any(before.get(key) != state[key] for key in ("code", "data")):
            raise StudyError(f"{self.folder} was begun at another commit or with other data; remove it to measure again")
        runs, failed = self.asked(names), []
        for number, run in enumerate(runs):
            done = self.done()
            if run in done:
                continue
            missing = self.absent(self.data_of(self.asked([run]))) + [read for read in self.runs[run]["reads"] if read not in done]
            if missing:
                print(f"    {run}: left out, without {', '.join(missing)}", file=sys.stderr, flush=True)
                continue
            print(f"    {run} ({number + 1} of {len(runs)})", file=sys.stderr, flush=True)
            self.begin(run)
            words = shlex.split(self.runs[run]["command"])
            start = time.monotonic()
            try:
                execute([str(self.root / "build/release/bin" / words[0]), *words[1:]], self.root)
            except StudyError as error:
                print(f"    {run}: {error}", file=sys.stderr, flush=True)
                failed.append(run)
                continue
            done[run] = {**self.commands_of(run), "seconds": round(time.monotonic() - start)}
            replace_text(self.folder / "done.json", json.dumps(done, indent=1) + "\n")
        if failed:
            raise StudyError(f"failed: {', '.join(failed)}; the same command repeats them and leaves out what is done")

    def write_tables(self):
        """Rewrites the tables whose runs are done. Returns their names, and those of the others."""
        self.check()
        if not (self.folder / "began.json").is_file():
            raise StudyError(f"{self.folder}: nothing was measured")
        state = read_json(self.folder / "began.json")
        if state["data"] != hash_of(self.root, self.files(self.runs)):
            raise StudyError(f"{self.folder}: the files that make its data have changed since; remove it to measure again")
        done = self.done()
        tables = {name: self.table_text(name, state["commit"]) for name, table in self.described["tables"].items()
                  if all(run in done for run in self.asked(table["runs"]))}

        def written(match):
            if match.group(1) not in tables:
                return match.group(0)
            return f"<!-- table: {match.group(1)} -->\n{tables[match.group(1)]}<!-- end -->\n"

        self.page.write_text(MARKER.sub(written, self.page.read_text()))
        return list(tables), [name for name in self.described["tables"] if name not in tables]

    def table_text(self, name, commit):
        described = self.described["tables"][name]
        runs = {run: Run(self.folder_of(run)) for run in self.named(described["runs"])}
        datasets = {}
        for run in runs.values():
            datasets.update(run.datasets)
        hashes = ", ".join(f"`{dataset}` {sha256[:12]}" for dataset, sha256 in sorted(datasets.items()))
        files = self.files(self.asked(described["runs"]))
        # Data that their users bring have no files here: the hashes behind the table are theirs.
        line = f"<!-- data: {' '.join(files)} sha256:{hash_of(self.root, files)} -->\n" if files else ""
        return (f"{line}{Table(name, described, runs).markdown()}\n"
                f"Commit {commit}. SHA-256 of the data: {hashes}.\n")

    def check(self):
        """Checks the file and the page's markers against each other."""
        if not self.page.is_file():
            raise StudyError(f"{self.path}: no page {self.described['page']}")
        for name, each in self.described["data"].items():
            for file in each["files"]:
                if not (self.root / file).is_file():
                    raise StudyError(f"{self.path}: no file {file}")
            if each.get("needs") and not each.get("says"):
                raise StudyError(f"{self.path}: data {name} does not say where a reader gets what it needs")
        for name, run in self.runs.items():
            for data in run["data"]:
                if data not in self.described["data"]:
                    raise StudyError(f"{self.path}: run {name} reads {data}, which is not among its data")
            before = list(self.runs)[:list(self.runs).index(name)]
            for read in run["reads"]:
                if read not in before:
                    raise StudyError(f"{self.path}: run {name} reads the run {read}, which is not before it")
            if unknown := re.search(r"\{[a-z_]+\}", run["command"]):
                raise StudyError(f"{self.path}: run {name}: nothing stands for {unknown.group(0)}")
        for name, table in self.described["tables"].items():
            for run in table["runs"]:
                if run not in self.groups and run not in self.runs:
                    raise StudyError(f"{self.path}: table {name} reads the run {run}, which is not among its runs")
        text = self.page.read_text()
        marked = [match.group(1) for match in MARKER.finditer(text)]
        if text.count("<!-- table: ") != len(marked) or text.count("<!-- end -->") != len(marked):
            raise StudyError(f"{self.page}: a table's marker without its end, or the other way round")
        if sorted(marked) != sorted(self.described["tables"]):
            raise StudyError(f"{self.page}: marks the tables {', '.join(sorted(marked))}; {self.path.name} has "
                             f"{', '.join(sorted(self.described['tables']))}")


def all_studies(root=ROOT):
    return sorted(path.stem for path in (root / "tools" / "studies").glob("*.json"))


def hash_of(root, files):
    """As tools/check/tables has it."""
    return hashlib.sha256(b"".join((root / file).read_bytes() for file in files)).hexdigest()[:12]


# What changes no figure. The commands of a study's file are compared run by run.
NO_CODE = (":!docs", ":!*.md", ":!tools/studies/*.json")


def git(root, *words):
    return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True).stdout


def changes_of(root, *against):
    """The changes of tracked files against a commit, or without one against the index; none in documents."""
    return git(root, "diff", "--binary", "--no-ext-diff", "--no-color", *against, "--", ".", *NO_CODE)


def commit_of(root):
    """The commit, and a hash of the changes of tracked files, if there are any but in documents."""
    commit = git(root, "rev-parse", "--short=12", "HEAD").decode().strip()
    changes = changes_of(root, "HEAD")
    return f"{commit} with changes {hashlib.sha256(changes).hexdigest()[:12]}" if changes else commit


def code_of(root):
    """A hash of all tracked files but documents, the same for commits that differ in documents alone."""
    index = git(root, "ls-files", "--stage", "--", ".", *NO_CODE)
    return hashlib.sha256(index + changes_of(root)).hexdigest()[:12]


def replace_text(path, text):
    """Writes a file as a whole, or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def execute(command, root):
    """Runs a command. That some pictures could not be read (exit code 3) is no failure."""
    code = subprocess.run(command, cwd=root, check=False).returncode
    if code not in (0, 3):
        raise StudyError(f"exit code {code}: {' '.join(command)}")


def check_all(root=ROOT):
    for name in all_studies(root):
        Study(name, root).check()
    for page in sorted(itertools.chain((root / "docs").rglob("*.md"), (root / "models").rglob("*.md"))):
        if "<!-- table: " in page.read_text() and not any(Study(name, root).page == page for name in all_studies(root)):
            raise StudyError(f"{page}: marks tables, but no study writes them")


def main(words):
    parser = argparse.ArgumentParser(prog="study.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="another tree, for tests")
    steps = parser.add_subparsers(dest="step", required=True)
    for step in ("plan", "data", "measure", "tables"):
        command = steps.add_parser(step)
        command.add_argument("name")
        if step != "tables":
            command.add_argument("--runs", nargs="+", default=[], metavar="RUN")
        if step == "plan":
            command.add_argument("--json", action="store_true", help="the runs alone, for programs")
    steps.add_parser("check")
    try:
        given = parser.parse_args(words)
    except SystemExit as end:
        return end.code
    root = given.root.resolve()
    try:
        if given.step == "check":
            check_all(root)
            return 0
        study = Study(given.name, root)
        if given.step == "plan" and given.json:
            print(json.dumps({run: study.runs[run] for run in study.asked(given.runs)}))
        elif given.step == "plan":
            print(study.plan(given.runs), end="")
        elif given.step == "data":
            study.make_data(given.runs)
        elif given.step == "measure":
            study.measure(given.runs)
        else:
            written, left = study.write_tables()
            print(f"{study.described['page']}: wrote {', '.join(written) or 'nothing'}"
                  + (f"; without their runs: {', '.join(left)}" if left else ""))
    except StudyError as error:
        print(f"study: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
