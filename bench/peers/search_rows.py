"""Exact search in rows in memory by Saccade and by other programs, for bench/peers/compare and from_python."""
import numpy

from turns import Cell, repeated, same

WIDTH, BEST = 512, 10


def rows_of_length_one(count):
    random = numpy.random.default_rng(8)
    rows = numpy.empty((count, WIDTH), numpy.float32)
    for first in range(0, count, 50_000):
        block = random.standard_normal((min(50_000, count - first), WIDTH), dtype=numpy.float32)
        rows[first:first + 50_000] = block / numpy.linalg.norm(block, axis=1, keepdims=True)
    return rows


def faiss_index(rows, threads):
    import faiss
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return index


def usearch_runs(rows, queries, threads):
    import usearch.index
    return repeated(lambda: usearch.index.search(rows, queries, BEST, usearch.index.MetricKind.IP, exact=True,
                                                 threads=threads).keys.reshape(len(queries), BEST))


def numpy_runs(rows, queries):
    def run():
        scores = queries @ rows.T
        part = numpy.argpartition(-scores, BEST, axis=1)[:, :BEST]
        order = numpy.argsort(-numpy.take_along_axis(scores, part, 1), axis=1)
        return numpy.take_along_axis(part, order, 1)
    return repeated(run)


def search_cells(context):
    """Yields the cells of each number of rows: 1 and 64 queries, in fp32 and by 8-bit codes first, which find the same
    rows."""
    ours, options = context.ours, context.options
    for count in options.rows:
        rows = rows_of_length_one(count)
        file, found = context.folder / "search-rows", context.folder / "found"
        rows.tofile(file)
        ours.ask("rows", file, len(rows), WIDTH)
        file.unlink()
        made = []  # the index of FAISS, once for all cells

        def faiss_runs(queries, rows=rows, made=made):
            if not made:
                made.append(faiss_index(rows, options.threads))
            return repeated(lambda: made[0].search(queries, BEST)[1])

        for several, how in ((1, "int8"), (1, "fp32"), (64, "int8"), (64, "fp32")):
            queries = numpy.ascontiguousarray(rows[count // 2:count // 2 + several])
            given = context.folder / "queries"
            queries.tofile(given)
            work = f"{count:,} rows of {WIDTH}, the best {BEST}, {several} quer{'y' if several == 1 else 'ies'} at a time"
            title = f"search, {work}, {'8-bit codes first' if how == 'int8' else 'fp32'}"
            cell = Cell(title, "queries/s", several, same, "same hits", part="search", precision=how, batch=several, work=work)
            cell.add("saccade", lambda: ours.runs(
                lambda: numpy.fromfile(found, numpy.int64).reshape(several, BEST), "search", given, several, BEST, how, found))
            cell.add("FAISS, IndexFlatIP", lambda: faiss_runs(queries))
            cell.add("usearch, exact", lambda: usearch_runs(rows, queries, options.threads))
            cell.add("NumPy", lambda: numpy_runs(rows, queries))
            yield cell
