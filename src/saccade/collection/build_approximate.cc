#include "saccade/collection/build_approximate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "saccade/core/seconds_since.h"

namespace saccade {
namespace {

// The collection's rows as queries: some of those that items have, spread over all.
struct ImageQueries {
  Matrix<float> rows;
  std::vector<int64_t> itself;
};

ImageQueries image_queries(const CollectionReader& collection, int64_t most) {
  std::vector<int64_t> there;
  const std::span<const uint8_t> alive = collection.alive();
  for (int64_t r = 0; r < std::ssize(alive); ++r) {
    if (alive[static_cast<size_t>(r)] != 0) there.push_back(r);
  }
  const auto all = std::ssize(there);
  const int64_t count = std::min(most, all);
  ImageQueries queries;
  queries.rows = Matrix<float>(count, collection.rows().columns());
  for (int64_t q = 0; q < count; ++q) {
    // Neighboring queries lie far apart, so that those that tune are as those that measure.
    const int64_t place = q % 2 == 0 ? q / 2 : count - 1 - q / 2;
    const int64_t row = there[static_cast<size_t>(place * all / count)];
    std::ranges::copy(collection.rows().row(row), queries.rows.row(q).begin());
    queries.itself.push_back(row);
  }
  return queries;
}

// Writes the file, once more if a writer of the collection that opened meanwhile took the temporary file for debris.
Status write_again(const CollectionReader& collection, const BuiltLists& built,
                   const ApproximateIndex& figures) {
  const auto write = [&] {
    return write_approximate(collection.files(), collection.generation(), collection.rows(), built, figures);
  };
  Status written = write();
  if (!written && written.error().code == ErrorCode::kNotFound) written = write();
  return written;
}

}  // namespace

Result<std::unique_ptr<const ApproximateIndex>> build_approximate(const CollectionReader& collection,
                                                                  const ApproximateOptions& options,
                                                                  ThreadPool& pool,
                                                                  const ProgressCallback& progress,
                                                                  const std::stop_token& stop) {
  const auto made = [&]() -> Result<std::unique_ptr<const ApproximateIndex>> {
    SACCADE_TRY(collection.check_has_rows("an approximate index"));
    if (collection.has_late_rows()) {
      return fail(ErrorCode::kUnsupported, "collections of late interaction are searched exactly");
    }
    SACCADE_TRY(check_recall(options.recall));
    const auto start = std::chrono::steady_clock::now();
    SACCADE_TRY(collection.check_files());
    const MatrixView<const float> rows = collection.rows();
    SACCADE_ASSIGN(const BuiltLists built,
                   build_lists(rows, collection.alive(), options.lists, pool, progress, stop));
    const ListIndex lists = built.view();
    const ListChecks checks(lists.lists());
    const SearchedRows searched{rows, collection.alive(), collection.int8_rows(), stop};
    const TuningOptions tuning{.recall = options.recall, .stop = stop};
    if (progress) progress({"measuring recall", 0, 2, {}});
    ListRecall texts;
    if (options.texts.rows() > 0) {
      SACCADE_ASSIGN(texts, tune_lists(searched, lists, checks, {options.texts, {}}, tuning, pool));
    }
    if (progress) progress({"measuring recall", 1, 2, {}});
    const ImageQueries queries = image_queries(collection, options.image_queries);
    SACCADE_ASSIGN(const ListRecall images,
                   tune_lists(searched, lists, checks, {queries.rows.view(), queries.itself}, tuning, pool));
    ApproximateIndex figures;
    figures.texts = texts;
    figures.images = images;
    figures.from = options.from;
    figures.seconds = seconds_since(start);
    SACCADE_TRY(write_again(collection, built, figures));
    SACCADE_TRY(check_not_compacted(collection));
    auto opened = open_approximate(collection.files(), collection.generation(), rows);
    // A compaction removes the file once it is done.
    if (!opened && opened.error().code == ErrorCode::kNotFound) SACCADE_TRY(check_not_compacted(collection));
    return opened;
  };
  return made().in("build approximate index");
}

Status check_not_compacted(const CollectionReader& built_from) {
  const int64_t generation = built_from.generation();
  SACCADE_ASSIGN(const CollectionReader now, CollectionReader::open(built_from.files()));
  if (now.generation() == generation) return {};
  std::error_code error;
  std::filesystem::remove(approximate_path(built_from.files(), generation), error);
  return fail(ErrorCode::kMismatch, "the collection was compacted meanwhile: build the index again");
}

Result<bool> remove_approximate(const CollectionReader& collection) {
  SACCADE_TRY(collection.check_has_rows("an approximate index"));
  std::error_code error;
  const std::filesystem::path path = approximate_path(collection.files(), collection.generation());
  const bool removed = std::filesystem::remove(path, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", path.string(), error.message());
  return removed;
}

}  // namespace saccade
