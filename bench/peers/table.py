"""The tables of docs/benchmarks.md, from the JSON files of bench/peers/compare."""

# Names by vendor, family and model of `lscpu`, as far as they have been measured on or are common servers.
GENERATIONS = {("GenuineIntel", 6, 106): "Intel Ice Lake", ("GenuineIntel", 6, 143): "Intel Sapphire Rapids",
               ("GenuineIntel", 6, 207): "Intel Emerald Rapids", ("GenuineIntel", 6, 173): "Intel Granite Rapids",
               ("AuthenticAMD", 25, 1): "AMD Zen 3", ("AuthenticAMD", 25, 17): "AMD Zen 4",
               ("AuthenticAMD", 26, 2): "AMD Zen 5"}
EXTENSIONS = [("amx_tile", "AMX"), ("avx512f", "AVX-512"), ("avx512_vnni", "VNNI"), ("avx512_bf16", "bf16"),
              ("asimddp", "dotprod"), ("i8mm", "i8mm")]


def processor_name(report):
    """Returns a name for people, such as `AMD Zen 5 (AVX-512, VNNI, bf16), 2 threads`."""
    facts = dict(line.split(": ", 1) for line in report["processor"] if ": " in line)
    flags = facts.get("Flags", "").split()
    key = (facts.get("Vendor ID"), *(int(facts[name]) if facts.get(name, "").isdigit() else None
                                     for name in ("CPU family", "Model")))
    name = GENERATIONS.get(key, f"{facts.get('Model name', 'unknown')}, family {key[1]}, model {key[2]}")
    has = ", ".join(shown for flag, shown in EXTENSIONS if flag in flags)
    return f"{name}{f' ({has})' if has else ''}, {report['threads']} threads"


def rate(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(value):
    return f"{value:.2f}" if value < 2 else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def cells_by_processor(reports):
    """Returns {processor: {title: cell}}; of equal titles the last counts. Cells that Saccade could not do are left out."""
    found = {}
    for report in reports:
        cells = found.setdefault(processor_name(report), {})
        for cell in report["cells"]:
            if cell["figures"]:
                cells[cell["title"]] = cell
    return found


def for_choosing(found):
    """Yields the lines of the first table: Saccade against the fastest other program."""
    yield "| processor | work | Saccade | fastest other program | ratio |"
    yield "| --- | --- | ---: | --- | ---: |"
    for processor, cells in found.items():
        shown = processor
        for title, cell in cells.items():
            others = {name: of for name, of in cell["figures"].items() if name != "saccade"}
            ours = f"{rate(cell['figures']['saccade']['rate'])} {cell['unit']}"
            best = min(others, key=lambda name: others[name]["ratio"], default=None)
            last = f"{best} | {ratio(others[best]['ratio'])}" if best else "not measured | "
            yield f"| {shown} | {title} | {ours} | {last} |"
            shown = ""


def in_detail(cells, part):
    """Yields the lines of a table with a column for each other program, and Saccade's shares where a cell has them."""
    names = list(dict.fromkeys(name for cell in cells for name in [*cell["figures"], *cell["not_measured"]]
                               if name != "saccade"))
    shares = list(dict.fromkeys(stage for cell in cells for stage in cell.get("shares", {})))
    yield "| " + " | ".join([part, "rounds", "Saccade", *names, *(f"Saccade's {stage}" for stage in shares)]) + " |"
    yield "| " + " | ".join(["---", "---:", "---:"] + ["---"] * len(names) + ["---:"] * len(shares)) + " |"
    for cell in cells:
        row = [cell["title"], str(cell["rounds"]), f"{rate(cell['figures']['saccade']['rate'])} {cell['unit']}"]
        for name in names:
            of = cell["figures"].get(name)
            row.append(f"{ratio(of['ratio'])} ({ratio(of['ratio_least'])} to {ratio(of['ratio_most'])})" if of
                       else "failed" if name in cell["not_measured"] else "")
        row += [f"{cell['shares'][stage]:.0%}" if "shares" in cell else "" for stage in shares]
        yield "| " + " | ".join(row) + " |"


def markdown(reports):
    """Returns the tables: one for people who choose, then all programs by processor and part."""
    found = cells_by_processor(reports)
    lines = list(for_choosing(found))
    for processor, cells in found.items():
        lines += ["", f"{processor}. A column of another program has Saccade's rate over its rate: median (least to most) of "
                  "the rounds."]
        for part in dict.fromkeys(cell["part"] for cell in cells.values()):
            lines += ["", *in_detail([cell for cell in cells.values() if cell["part"] == part], part)]
    lines.append("")
    versions = dict.fromkeys(f"{package} {version}" for report in reports for package, version in report["versions"].items()
                             if version != "absent")
    lines.append("Versions: " + ", ".join(versions) + ".")
    return "\n".join(lines) + "\n"
