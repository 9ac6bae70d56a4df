"""Tests of the tables that tools/studies/study.py writes: what a cell shows, what of a page changes, and what is refused."""
import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import study  # noqa: E402


def figure(value, spread=0.25):
    return {"value": value, "low": value - spread, "high": value + spread, "bca_low": None, "bca_high": None}


def result(dataset, method, value):
    return {"dataset": dataset, "method": method, "of": "all", "queries": 1234, "weight": 0.35 if method == "slerp" else None,
            "figures": {"r1": figure(value), "r50": {"value": None, "low": None, "high": None}},
            "curve": [{"n": 3, "r1": figure(0.5)}, {"n": 5, "r1": figure(value)}],
            "effective": {"value": 4, "low": 3, "high": 5}}


METRICS = {
    "results": [result("edits", "sum", 0.5), result("edits", "slerp", 0.625), result("edits-2", "sum", 0.75)],
    "ablations": [
        {"dataset": "edits", "name": "full", "figures": {"r1": figure(0.5)}, "differences": {}},
        {"dataset": "edits", "name": "no-places", "figures": {"r1": figure(0.25)},
         "differences": {"r1": {"difference": -0.25, "low": -0.5, "high": 0.125, "p_value": 0.5, "significant": False}}},
        {"dataset": "edits-2", "name": "full", "figures": {"r1": figure(0.75)}, "differences": {}}]}
RUN = {"datasets": [{"name": "edits", "path": "e.jsonl#split=library", "sha256": "a" * 64},
                    {"name": "edits-2", "path": "e.jsonl#format=manifest,split=val", "sha256": "b" * 64}]}
STUDY = {
    "page": "docs/studies/small.md",
    "data": {"made": {"files": ["make.txt", "more.txt"], "commands": ["true"]}},
    "runs": {"one": {"data": ["made"], "command": "saccade-lab eval composed -o {runs}/one"},
             "trained": {"data": ["made"], "folder": "trained/run", "command": "saccade-lab train composed -o {runs}/trained"},
             "seeded": {"data": ["made"], "seeds": [1, 3], "command": "{train} --seed {seed} -o {runs}/seeded-{seed}"},
             "compared": {"data": ["made"], "reads": ["seeded"], "command": "saccade-lab eval --training {trainings} -o {runs}/compared"}},
    "words": {"size": "--small", "train": "saccade-lab train {size}"},
    "tables": {
        "methods": {"runs": ["one"], "header": ["{one results[dataset=library,method=sum].queries} queries", "r@1"],
                    "rows": [{"each": [{"method": "sum"}, {"method": "slerp"}],
                              "rows": [["{method}", "{one results[dataset=library,method={method}].figures.r1}"]]}]},
        "ablations": {"runs": ["trained"], "header": ["", "r@1", "less full"],
                      "rows": [{"over": "trained ablations[dataset=library]",
                                "rows": [["{.name}", "{.figures.r1}", "{.differences.r1?}"]]}]}}}
PAGE = """# Small

Text before.

<!-- table: methods -->
| 9 queries | r@1 |
| --- | --- |
| sum | 0.999 |
<!-- end -->

Text between.

<!-- table: ablations -->
Not measured yet.
<!-- end -->
"""


class Small(unittest.TestCase):
    """A tree with one study, whose runs are there."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("make.txt", "one\n")
        self.write("more.txt", "two\n")
        self.write("docs/studies/small.md", PAGE)
        self.write_study(STUDY)
        for name in ("one", "trained/run"):
            self.write(f"build/studies/small/{name}/run.json", json.dumps(RUN))
            self.write(f"build/studies/small/{name}/metrics.json", json.dumps(METRICS))
        self.begin(study.hash_of(self.root, ["make.txt", "more.txt"]))
        self.finish("one", "trained")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_study(self, described):
        self.write("tools/studies/small.json", json.dumps(described))

    def begin(self, data):
        self.write("build/studies/small/began.json", json.dumps({"commit": "0123456789ab", "data": data}))

    def finish(self, *runs):
        known = self.study()
        self.write("build/studies/small/done.json", json.dumps(
            {run: {"command": known.runs[run]["command"], "seconds": 7, "reads": known.read_by(run)} for run in runs}))

    def study(self):
        return study.Study("small", self.root)

    def repository(self):
        """A repository of the tree, and a program that notes its arguments."""
        self.write("build/release/bin/saccade-lab", "#!/bin/sh\necho \"$@\" >>log\nexit 3\n")
        (self.root / "build/release/bin/saccade-lab").chmod(0o755)
        git = ["git", "-C", str(self.root), "-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
        shutil.rmtree(self.root / "build/studies/small")

    def measure(self, *names):
        """The lines that the program noted, and what was said."""
        (self.root / "log").unlink(missing_ok=True)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.study().measure(names)
        log = self.root / "log"
        return log.read_text().splitlines() if log.exists() else [], said.getvalue()

    def page(self):
        return (self.root / "docs/studies/small.md").read_text()

    def table(self, header, rows):
        run = study.Run(self.root / "build/studies/small/one")
        return study.Table("t", {"header": header, "rows": rows}, {"one": run}).markdown()

    def refused(self, action, *parts):
        with self.assertRaises(study.StudyError) as raised:
            action()
        for part in parts:
            self.assertIn(part, str(raised.exception))


class Tables(Small):
    def test_the_page_has_the_records_figures_and_keeps_its_text(self):
        self.assertEqual(self.study().write_tables(), (["methods", "ablations"], []))
        digest = study.hash_of(self.root, ["make.txt", "more.txt"])
        behind = f"\nCommit 0123456789ab. SHA-256 of the data: `library` {'a' * 12}, `val` {'b' * 12}.\n<!-- end -->\n"
        data = f"<!-- data: make.txt more.txt sha256:{digest} -->\n"
        self.assertEqual(self.page(), "# Small\n\nText before.\n\n<!-- table: methods -->\n" + data +
                         "| 1,234 queries | r@1 |\n| --- | --- |\n"
                         "| sum | 0.500 [0.250, 0.750] |\n| slerp | 0.625 [0.375, 0.875] |\n" + behind +
                         "\nText between.\n\n<!-- table: ablations -->\n" + data +
                         "| | r@1 | less full |\n| --- | --- | --- |\n"
                         "| full | 0.500 [0.250, 0.750] | |\n"
                         "| no-places | 0.250 [0.000, 0.500] | -0.250 [-0.500, 0.125] |\n" + behind)
        before = self.page()
        self.study().write_tables()
        self.assertEqual(self.page(), before)

    def test_tables_know_when_their_data_have_changed(self):
        self.study().write_tables()
        check = pathlib.Path(__file__).resolve().parents[3] / "tools/check/tables"

        def faults():
            return subprocess.run([str(check), str(self.root)], check=False, capture_output=True, text=True).stdout

        self.assertEqual(faults(), "")
        self.write("more.txt", "three\n")
        self.assertIn("its data have changed since the table was made", faults())
        self.refused(self.study().write_tables, "the files that make its data have changed since")

    def test_what_cells_show(self):
        where = "one results[dataset=library,method=slerp]"
        cells = {f"{{{where}.figures.r1|value}}": "0.625", f"{{{where}.figures.r50}}": "-", f"{{{where}.weight|g}}": "0.35",
                 f"{{{where}.weight}}": "0.350", f"{{{where}.curve[-1].r1|value}}": "0.625",
                 f"{{{where}.curve[n=3].r1|value}}": "0.500", f"{{{where}.effective}}": "4 [3, 5]",
                 f"{{{where}.method}} of {{{where}.queries}}": "slerp of 1,234", f"{{{where}.nothing?}}": ""}
        for cell, shown in cells.items():
            self.assertEqual(self.table(["a"], [[cell]]), f"| a |\n| --- |\n|{' ' + shown if shown else ''} |\n", cell)

    def test_shares_of_zero_and_one_have_wilsons_interval(self):
        for value, end, text in ((0, "wilson_high", "0.000 [Wilson 0.004]"), (1, "wilson_low", "1.000 [Wilson 0.996]")):
            figure = {"value": float(value), "low": value, "high": value, end: abs(value - 0.004)}
            self.assertEqual(study.value_text(figure), text)

    def test_what_an_interval_says(self):
        for low, high, said in ((0.01, 0.2, "better"), (-0.2, -0.01, "worse"), (-0.01, 0.2, "cannot be called better")):
            self.assertEqual(study.value_text({"difference": 0.1, "low": low, "high": high}, "said"), said)

    def test_what_is_no_figure_is_refused(self):
        for cell, parts in {
                "{one results[dataset=library].figures.r1}": ["2 values, expected one"],
                "{one results[dataset=train].figures.r1}": ["0 values, expected one"],
                "{one results[dataset=val].figures.r7}": ['no "r7" (there are: r1, r50)'],
                "{one results[dataset=val].figures}": ["not a figure: it has r1, r50"],
                "{one results[dataset=val].curve}": ["a list is no figure"],
                "{one results[dataset=val].curve[7].r1}": ["there are 2"],
                "{one results[dataset=val]figures}": ["cannot read the path"],
                "{other results[dataset=val].figures.r1}": ['no run "other" among this table\'s']}.items():
            self.refused(lambda cell=cell: self.table(["a"], [[cell]]), *parts)
        self.refused(lambda: self.table(["a", "b"], [["c"]]), "a row of 1 cells, the header has 2")
        self.refused(lambda: self.table(["a"], [["{one results[dataset].figures}"]]), "cannot read [dataset]")

    def test_rows_over_a_list(self):
        over = {"over": "one results[dataset=library,method=sum].curve", "rows": [["{.n}", "{.r1|value}"]]}
        self.assertEqual(self.table(["n", "r"], [over]), "| n | r |\n| --- | --- |\n| 3 | 0.500 |\n| 5 | 0.500 |\n")

    def test_a_part_of_a_value_selects(self):
        cell = "{one results[dataset=library,method~sl].figures.r1|value}"
        self.assertEqual(self.table(["a"], [[cell]]), "| a |\n| --- |\n| 0.625 |\n")

    def test_a_checkpoint_of_another_run_has_its_name(self):
        checkpoints = [{"name": "starter", "path": "/x/models/starter"},
                       {"name": "tuned", "path": "/x/build/studies/small/tuned/model"},
                       {"name": "fuse", "path": "/x/build/studies/small/scratch/fuse/model"}]
        metrics = {"results": [{"dataset": "edits", "model": "starter", "r": 0.5},
                               {"dataset": "edits", "model": "fuse", "attention": {"r": -0.25, "low": -0.5, "high": 0.25}}],
                   "comparisons": [{"dataset": "edits", "a": "tuned", "b": "starter", "r1": {"difference": 0.5}}]}
        self.write("build/studies/small/one/run.json", json.dumps(dict(RUN, checkpoints=checkpoints)))
        self.write("build/studies/small/one/metrics.json", json.dumps(metrics))
        self.assertEqual(self.table(["a"], [["{one results[model=scratch].attention}"], ["{one comparisons[a=tuned,b=starter].r1}"]]),
                         "| a |\n| --- |\n| -0.250 [-0.500, 0.250] |\n| 0.500 |\n")
        checkpoints[2]["path"] = "/x/build/studies/small/tuned/fuse/model"
        self.write("build/studies/small/one/run.json", json.dumps(dict(RUN, checkpoints=checkpoints)))
        self.refused(lambda: self.table(["a"], [["b"]]), "two checkpoints of one run: tuned, tuned")

    def test_a_leaderboard_is_a_run(self):
        folder = "build/studies/small/one"
        for name in ("run.json", "metrics.json"):
            (self.root / folder / name).unlink()
        checkpoints = [{"name": "starter", "path": "/x/models/starter"},
                       {"name": "tuned", "path": "/x/build/studies/small/tuned/model"}]

        def row(model, rank, value, above_chance):
            return {"rank": rank, "model": model, "retrieval": {"t2i": {"r1": figure(value)}}, "gap": {"difference": 0.25, "low": 0.0,
                    "high": 0.5}, "benchmark": {"queries_per_s": 1234.56}, "missing": [],
                    "lengths": [{"value": 4, "low": 3, "high": 5, "above_chance": above_chance}]}

        board = {"rows": [row("tuned", 1, 0.5, True), row("starter", 2, 0.25, False)],
                 "parts": [{"info": {"checkpoints": checkpoints, "datasets": [dataset]}, "metrics": {}}
                           for dataset in RUN["datasets"]]}
        self.write(f"{folder}/leaderboard.json", json.dumps(board))
        self.assertEqual(self.table(["a", "b", "c", "d"], [
            [f"{{one rows[model={model}].{path}}}" for path in ("rank", "retrieval.t2i.r1", "lengths[0]", "benchmark.queries_per_s|1")]
            for model in ("tuned", "starter")]),
            "| a | b | c | d |\n| --- | --- | --- | --- |\n"
            "| 1 | 0.500 [0.250, 0.750] | 4 [3, 5] | 1,234.6 |\n"
            "| 2 | 0.250 [0.000, 0.500] | no better than chance | 1,234.6 |\n")
        self.assertEqual(study.Run(self.root / folder).datasets, {"library": "a" * 64, "val": "b" * 64})
        board["rows"][1]["missing"] = ["length"]
        self.write(f"{folder}/leaderboard.json", json.dumps(board))
        self.refused(lambda: study.Run(self.root / folder), "starter lacks length")

    def test_a_table_of_data_without_files_has_no_line_for_them(self):
        data = {"made": {"files": [], "commands": [], "needs": ["photos"], "says": "from their authors"}}
        self.write_study(dict(STUDY, data=data))
        self.write("photos", "")
        self.begin(study.hash_of(self.root, []))
        self.study().write_tables()
        self.assertNotIn("<!-- data:", self.page())
        self.assertIn("<!-- table: methods -->\n| 1,234 queries | r@1 |\n", self.page())


class Files(Small):
    def test_a_study_and_its_page_are_checked(self):
        study.check_all(self.root)
        without = dict(STUDY, tables={"methods": STUDY["tables"]["methods"]})
        self.write_study(without)
        self.refused(lambda: study.check_all(self.root), "marks the tables ablations, methods; small.json has methods")
        self.write_study(dict(STUDY, runs={"one": STUDY["runs"]["one"]}))
        self.refused(lambda: study.check_all(self.root), "table ablations reads the run trained")
        self.write_study(dict(STUDY, data={}))
        self.refused(lambda: study.check_all(self.root), "run one reads made, which is not among its data")
        self.write_study(STUDY)
        (self.root / "more.txt").unlink()
        self.refused(lambda: study.check_all(self.root), "no file more.txt")
        self.write("more.txt", "two\n")
        self.write("docs/studies/small.md", PAGE.replace("<!-- end -->\n", "", 1))
        self.refused(lambda: study.check_all(self.root), "without its end")
        self.write("docs/studies/small.md", PAGE)
        for page in ("docs/studies/other.md", "models/other.md"):
            self.write(page, "<!-- table: mine -->\n<!-- end -->\n")
            self.refused(lambda: study.check_all(self.root), "other.md: marks tables, but no study writes them")
            (self.root / page).unlink()

    def test_a_figure_of_another_commit_is_not_mixed_in(self):
        self.repository()
        commit = ["git", "-C", str(self.root), "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-a", "-m"]
        subprocess.run(["git", "-C", str(self.root), "add", "make.txt", "more.txt", "docs", "tools"], check=True)
        subprocess.run([*commit, "two"], check=True)
        self.assertRegex(study.commit_of(self.root), "^[0-9a-f]{12}$")
        self.measure("one")
        # Documents and the commands of other runs change nothing, committed or not.
        self.write(STUDY["page"], PAGE + "More.\n")
        self.write_study(dict(STUDY, words={"size": "--large", "train": "saccade-lab train {size}"}))
        self.assertRegex(study.commit_of(self.root), "^[0-9a-f]{12}$")
        self.measure("trained")
        subprocess.run([*commit, "three"], check=True)
        self.measure("seeded")
        for name in ("make.txt", "code.cc"):
            self.write(name, "another\n")
            if name == "code.cc":  # which the data do not depend on
                subprocess.run(["git", "-C", str(self.root), "add", name], check=True)
            changed = study.commit_of(self.root)
            self.assertRegex(changed, "^[0-9a-f]{12} with changes [0-9a-f]{12}$")
            self.refused(self.study().measure, "was begun at another commit or with other data")
            subprocess.run(["git", "-C", str(self.root), "checkout", "-q", "HEAD", "--", "make.txt"], check=True)
        subprocess.run([*commit, "four"], check=True)
        self.refused(self.study().measure, "was begun at another commit or with other data")

    def test_commands_run_one_after_the_other_and_once(self):
        self.repository()
        self.study().make_data()
        folder = "build/studies/small"
        self.assertEqual(self.measure()[0], [
            f"eval composed -o {folder}/one",
            f"train composed -o {folder}/trained",
            f"train --small --seed 1 -o {folder}/seeded-1",
            f"train --small --seed 3 -o {folder}/seeded-3",
            f"eval --training seeded={folder}/seeded-1 seeded={folder}/seeded-3 -o {folder}/compared"])
        self.assertEqual(self.measure()[0], [])  # all are done
        changed = dict(STUDY, words={"size": "--large", "train": "saccade-lab train {size}"})
        self.write_study(changed)
        self.assertEqual(set(self.study().done()), {"one", "trained"})
        self.assertEqual(self.measure()[0], [  # with what reads the new trainings
            f"train --large --seed 1 -o {folder}/seeded-1",
            f"train --large --seed 3 -o {folder}/seeded-3",
            f"eval --training seeded={folder}/seeded-1 seeded={folder}/seeded-3 -o {folder}/compared"])
        self.assertEqual(self.measure()[0], [])

    def test_what_other_commands_left_is_moved_away(self):
        self.repository()
        program = self.root / "build/release/bin/saccade-lab"
        # Refuses a folder with the run of another command, like saccade-lab, and stops a training of seed 1 the first time.
        program.write_text("""#!/bin/sh
echo "$@" >>log
for last; do :; done
mkdir -p "$last"
if [ -e "$last/command" ] && [ "$(cat "$last/command")" != "$*" ]; then exit 1; fi
echo "$*" >"$last/command"
case "$*" in *"--seed 1"*) if [ ! -e "$last/state" ]; then touch "$last/state"; exit 1; fi ;; esac
""")
        runs = self.root / "build/studies/small"
        self.refused(self.measure, "failed: seeded-1;")
        self.assertNotIn("before", self.measure()[1])  # the same command goes on
        self.assertTrue((runs / "seeded-1/state").exists())
        for seeds, moved in (([1, 3, 5], ["compared.before"]), ([3, 5], ["compared.before"])):
            described = json.loads(json.dumps(STUDY))
            described["runs"]["seeded"]["seeds"] = seeds
            self.write_study(described)
            self.assertIn("compared: begun with other commands before;", self.measure()[1])
            self.assertEqual(sorted(path.name for path in runs.glob("*.before")), moved)
            self.assertEqual((runs / "compared/command").read_text().count("seeded="), len(seeds))
        self.assertIn("seeded-1", (runs / "compared.before/command").read_text())
        self.write_study(dict(STUDY, words={"size": "--large", "train": "saccade-lab train {size}"}))
        self.refused(self.measure, "failed: seeded-1;")
        self.assertIn("--small", (runs / "seeded-3.before/command").read_text())
        self.assertIn("--large", (runs / "seeded-3/command").read_text())
        self.measure()
        self.assertEqual(set(self.study().done()), {"one", "trained", "seeded-1", "seeded-3", "compared"})

    def test_some_runs_with_what_they_read(self):
        self.repository()
        self.assertEqual(len(self.measure("seeded-3")[0]), 1)
        lines, said = self.measure("compared")
        self.assertEqual([line.split()[0] for line in lines], ["train", "eval"])
        self.assertIn("compared (3 of 3)", said)
        self.refused(lambda: self.study().measure(["nonsense"]), 'no run named "nonsense" (there are: one, trained, seeded, compared)')

    def test_where_a_run_fails_the_others_go_on(self):
        self.repository()
        program = self.root / "build/release/bin/saccade-lab"
        program.write_text("#!/bin/sh\necho \"$@\" >>log\ncase \"$*\" in *seeded-1*) exit 1 ;; esac\n")
        self.refused(self.measure, "failed: seeded-1;")
        self.assertEqual(set(self.study().done()), {"one", "trained", "seeded-3"})
        program.write_text("#!/bin/sh\necho \"$@\" >>log\n")
        self.assertEqual([line.split()[0] for line in self.measure()[0]], ["train", "eval"])

    def test_runs_without_their_data_are_left_out(self):
        self.repository()
        data = {"made": STUDY["data"]["made"],
                "photographs": {"files": ["make.txt"], "commands": [], "needs": ["photos/list"], "says": "from their authors"}}
        runs = dict(STUDY["runs"], one={"data": ["made", "photographs"], "command": "saccade-lab eval composed -o {runs}/one"})
        self.write_study(dict(STUDY, data=data, runs=runs))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.study().make_data()
        self.assertIn("photographs: not made, without photos/list (from their authors)", said.getvalue())
        lines, said = self.measure()
        self.assertEqual(len(lines), 4)
        self.assertIn("one: left out, without photos/list (from their authors)", said)
        self.assertIn("photographs: not there: photos/list (from their authors)", self.study().plan([]))
        self.write("photos/list", "a\n")
        self.assertEqual(self.measure()[0], ["eval composed -o build/studies/small/one"])
        for name in ("one", "trained/run"):
            self.write(f"build/studies/small/{name}/run.json", json.dumps(RUN))
            self.write(f"build/studies/small/{name}/metrics.json", json.dumps(METRICS))
        self.assertEqual(self.study().write_tables(), (["methods", "ablations"], []))

    def test_tables_without_their_runs_stay_as_they_are(self):
        self.finish("trained")
        self.assertEqual(self.study().write_tables(), (["ablations"], ["methods"]))
        self.assertIn("| sum | 0.999 |", self.page())
        self.assertIn("| full | 0.500 [0.250, 0.750] | |", self.page())

    def test_a_plan_says_what_is_done_and_runs_nothing(self):
        (self.root / "build/studies/small/seeded-1").mkdir()
        plan = self.study().plan([])
        for line in ("page: docs/studies/small.md", "made: true", "    one: done in 7 s", "    seeded-1: begun",
                     "    seeded-3: to do", "        saccade-lab train --small --seed 3 -o build/studies/small/seeded-3",
                     "    methods: can be written"):
            self.assertIn(line + "\n", plan)
        self.finish("one")
        self.assertIn("    ablations: 1 of its runs to do\n", self.study().plan(["trained"]))
        self.assertNotIn("seeded-1:", self.study().plan(["trained"]))


class Repository(unittest.TestCase):
    def test_its_studies_fit_their_pages(self):
        study.check_all()
        self.assertIn("composed-retrieval", study.all_studies())

    def test_programs_use(self):
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(study.main(["nonsense"]), 2)
            self.assertEqual(study.main(["tables", "nonsense"]), 1)
        self.assertIn('no study named "nonsense" (there are: composed-retrieval, ', errors.getvalue())


if __name__ == "__main__":
    unittest.main()
