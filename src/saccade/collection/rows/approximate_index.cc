#include "saccade/collection/rows/approximate_index.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/counts.h"
#include "saccade/core/json.h"

namespace saccade {
namespace {

constexpr int64_t kListsVersion = 1;
constexpr std::string_view kListsMetadata = "saccade_lists";

// Returns a hash of some of the rows [0, count): files that were put together by hand are found by it.
uint64_t sample_of_rows(MatrixView<const float> rows, int64_t count) {
  constexpr int64_t kLookedAt = 32;
  const int64_t looked = std::min(kLookedAt, count);
  uint64_t hash = static_cast<uint64_t>(count);
  for (int64_t i = 0; i < looked; ++i) {
    for (const float value : rows.row(i * (count - 1) / std::max<int64_t>(1, looked - 1))) {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      hash = (hash ^ bits) * 0x100000001b3U;  // FNV-1a
    }
  }
  return hash;
}

Json recall_json(const ListRecall& recall) {
  return {{"recall", recall.measured},       {"wanted", recall.wanted},
          {"queries", recall.queries},       {"tuned_with", recall.tuned_with},
          {"scanned", recall.probe.scanned}, {"rescored", recall.probe.rescored}};
}

Result<ListRecall> parse_recall(const Json& json, std::string_view name, int64_t covered) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_object()) return fail(ErrorCode::kBadData, "\"{}\" is missing", name);
  ListRecall recall;
  SACCADE_ASSIGN(recall.measured, json_field<double>(*found, "recall"));
  SACCADE_ASSIGN(recall.wanted, json_field<double>(*found, "wanted"));
  SACCADE_ASSIGN(recall.queries, json_field<int64_t>(*found, "queries"));
  SACCADE_ASSIGN(recall.tuned_with, json_field<int64_t>(*found, "tuned_with"));
  SACCADE_ASSIGN(recall.probe.scanned, json_field<int64_t>(*found, "scanned"));
  SACCADE_ASSIGN(recall.probe.rescored, json_field<int64_t>(*found, "rescored"));
  if (!(recall.measured >= 0 && recall.measured <= 1) || recall.queries < 0 || recall.probe.scanned < 0 ||
      recall.probe.scanned > covered || recall.probe.rescored < 0 || recall.probe.rescored > kMostRescored) {
    return fail(ErrorCode::kBadData, "\"{}\" is out of range", name);
  }
  return recall;
}

// Returns a tensor's elements, of that type and shape.
template <typename T>
Result<std::span<const T>> elements_of(const SafeTensors& file, std::string_view name, DType dtype,
                                       const std::vector<int64_t>& shape) {
  const TensorView* tensor = file.find(name);
  if (tensor == nullptr) return fail(ErrorCode::kBadData, "tensor {} is missing", name);
  if (tensor->dtype != dtype || tensor->shape != shape ||
      reinterpret_cast<uintptr_t>(tensor->bytes.data()) % alignof(T) != 0) {
    return fail(ErrorCode::kBadData, "tensor {} is {} {}, expected {} {}", name, dtype_name(tensor->dtype),
                shape_text(tensor->shape), dtype_name(dtype), shape_text(shape));
  }
  return std::span(reinterpret_cast<const T*>(tensor->bytes.data()), tensor->bytes.size() / sizeof(T));
}

Status read_lists(ApproximateIndex& index, int64_t dim) {
  const TensorView* ends = index.file.find("ends");
  const TensorView* rows = index.file.find("rows");
  if (ends == nullptr || rows == nullptr || ends->shape.size() != 1 || rows->shape.size() != 1 ||
      ends->shape[0] < 1) {
    return fail(ErrorCode::kBadData, "tensors ends and rows are missing, or no lists");
  }
  const int64_t lists = ends->shape[0];
  const int64_t entries = rows->shape[0];
  const int64_t words = sign_words(dim);
  ListIndex& view = index.lists;
  view.dim = dim;
  SACCADE_ASSIGN(const auto means, elements_of<float>(index.file, "means", DType::kF32, {lists, 64 * words}));
  view.means = {means.data(), lists, 64 * words};
  SACCADE_ASSIGN(view.ends, elements_of<int64_t>(index.file, "ends", DType::kI64, {lists}));
  SACCADE_ASSIGN(view.checks, elements_of<uint64_t>(index.file, "checks", DType::kU64, {lists}));
  SACCADE_ASSIGN(view.rows, elements_of<uint32_t>(index.file, "rows", DType::kU32, {entries}));
  SACCADE_ASSIGN(view.factors, elements_of<uint16_t>(index.file, "factors", DType::kBF16, {entries}));
  SACCADE_ASSIGN(view.signs, elements_of<uint64_t>(index.file, "signs", DType::kU64, {entries, words}));
  if (view.ends.front() < 0 || view.ends.back() != entries || !std::ranges::is_sorted(view.ends)) {
    return fail(ErrorCode::kBadData, "lists end out of order");
  }
  return {};
}

template <typename T>
NamedTensor named(std::string name, DType dtype, std::vector<int64_t> shape, const T& values) {
  return {std::move(name), {dtype, std::move(shape), std::as_bytes(std::span(values))}};
}

Status write_lists(const std::filesystem::path& path, const BuiltLists& lists, const Json& figures) {
  const auto count = std::ssize(lists.ends);
  const auto entries = std::ssize(lists.rows);
  const int64_t words = sign_words(lists.dim);
  const std::vector<NamedTensor> tensors = {
      named("means", DType::kF32, {count, 64 * words}, lists.means.values()),
      named("ends", DType::kI64, {count}, lists.ends),
      named("checks", DType::kU64, {count}, lists.checks),
      named("rows", DType::kU32, {entries}, lists.rows),
      named("factors", DType::kBF16, {entries}, lists.factors),
      named("signs", DType::kU64, {entries, words}, lists.signs)};
  return write_safetensors(path, tensors, {{std::string(kListsMetadata), dump_json(figures)}});
}

}  // namespace

std::filesystem::path approximate_path(const std::filesystem::path& folder, int64_t generation) {
  return folder / fmt::format("rows-{}.lists", generation);
}

Result<std::unique_ptr<const ApproximateIndex>> open_approximate(const std::filesystem::path& folder,
                                                                 int64_t generation,
                                                                 MatrixView<const float> rows) {
  const std::filesystem::path path = approximate_path(folder, generation);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return fail(ErrorCode::kNotFound, "{}: no such file", path.string());
  const auto opened = [&]() -> Result<std::unique_ptr<const ApproximateIndex>> {
    auto index = std::make_unique<ApproximateIndex>();
    SACCADE_ASSIGN(index->stamp, file_stamp(path));
    SACCADE_ASSIGN(index->file, SafeTensors::open(path));
    const auto text = index->file.metadata().find(kListsMetadata);
    if (text == index->file.metadata().end()) return fail(ErrorCode::kBadData, "no \"{}\"", kListsMetadata);
    SACCADE_ASSIGN(const Json json, parse_json(text->second));
    SACCADE_ASSIGN(const int64_t version, json_field<int64_t>(json, "version"));
    if (version != kListsVersion) {
      return fail(ErrorCode::kUnsupported, "version {}, this program reads {}", version, kListsVersion);
    }
    SACCADE_ASSIGN(index->lists.covered, json_field<int64_t>(json, "covered"));
    SACCADE_ASSIGN(const std::string sample, json_field<std::string>(json, "sample"));
    const int64_t covered = index->lists.covered;
    if (covered < 1 || covered > rows.rows() ||
        sample != fmt::format("{:016x}", sample_of_rows(rows, covered))) {
      return fail(ErrorCode::kBadData, "it was built from other rows");
    }
    SACCADE_TRY(read_lists(*index, rows.columns()));
    SACCADE_ASSIGN(index->from, json_field<int64_t>(json, "from"));
    SACCADE_ASSIGN(index->seconds, json_field<double>(json, "seconds"));
    SACCADE_ASSIGN(index->texts, parse_recall(json, "text", covered));
    SACCADE_ASSIGN(index->images, parse_recall(json, "image", covered));
    const int64_t added = rows.rows() - covered;
    if (static_cast<double>(added) > kMostAdded * static_cast<double>(covered)) {
      return fail(ErrorCode::kMismatch, "{} of {} were added since it was built", counted(added, "row"),
                  count_text(rows.rows()));
    }
    index->checks = std::make_unique<ListChecks>(index->lists.lists());
    return std::unique_ptr<const ApproximateIndex>(std::move(index));
  };
  return opened().in("approximate index");
}

Status write_approximate(const std::filesystem::path& folder, int64_t generation,
                         MatrixView<const float> rows, const BuiltLists& built,
                         const ApproximateIndex& figures) {
  const Json json = {{"version", kListsVersion},
                     {"covered", built.covered},
                     {"sample", fmt::format("{:016x}", sample_of_rows(rows, built.covered))},
                     {"from", figures.from},
                     {"seconds", figures.seconds},
                     {"text", recall_json(figures.texts)},
                     {"image", recall_json(figures.images)}};
  return write_lists(approximate_path(folder, generation), built, json);
}

}  // namespace saccade
