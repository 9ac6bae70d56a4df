#include "lab/train/data/feature_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lab/eval/rows/given.h"
#include "saccade/core/files/mapped_pages.h"
#include "saccade/core/hash.h"

namespace saccade::lab {
namespace {

// Bytes of rows to read before their memory is released.
constexpr size_t kBytesAtOnce = size_t{64} << 20;

Result<const TensorView*> features(const SafeTensors& file, std::string_view name) {
  SACCADE_ASSIGN(const TensorView* view, given_tensor(file, name, 2));
  if (view->dtype != DType::kF32 && view->dtype != DType::kF16 && view->dtype != DType::kBF16) {
    return fail(ErrorCode::kBadData, "\"{}\" of {}, expected F32, F16 or BF16", name,
                dtype_name(view->dtype));
  }
  if (view->shape[0] == 0 || view->shape[1] == 0) {
    return fail(ErrorCode::kBadData, "\"{}\" of shape {}: nothing to train on", name,
                shape_text(view->shape));
  }
  return view;
}

std::span<const std::byte> row_bytes(const TensorView& tensor, int64_t i) {
  const auto bytes = static_cast<size_t>(tensor.shape[1] * dtype_size(tensor.dtype));
  return tensor.bytes.subspan(static_cast<size_t>(i) * bytes, bytes);
}

// Numbers equal rows, and hashes all rows into `content`. Returns kBadData for a row that has no cosine.
Result<std::vector<int64_t>> classes_of(const TensorView& tensor, std::string_view name, Sha256& content) {
  std::unordered_map<uint64_t, int64_t> numbers;  // by 64 bits of the row's hash: two in a million million
                                                  // pairs of a million rows would collide
  std::vector<int64_t> classes;
  classes.reserve(static_cast<size_t>(tensor.shape[0]));
  std::vector<float> values(static_cast<size_t>(tensor.shape[1]));
  size_t released = 0;
  for (int64_t i = 0; i < tensor.shape[0]; ++i) {
    const std::span<const std::byte> bytes = row_bytes(tensor, i);
    const std::string hash = sha256_hex(bytes);
    content.update(hash);
    uint64_t key = 0;
    for (const char digit : hash.substr(0, 16)) {
      key = key * 16 + static_cast<uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    const auto [found, fresh] = numbers.emplace(key, static_cast<int64_t>(numbers.size()));
    classes.push_back(found->second);
    if (fresh) {
      const TensorView row{tensor.dtype, {tensor.shape[1]}, bytes};
      SACCADE_ASSIGN(values, row.to_floats());
      const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
      if (bad != values.end()) {
        return fail(ErrorCode::kBadData, "row {} of \"{}\" has a value that is {}", i, name,
                    std::isnan(*bad) ? "NaN" : "infinite");
      }
      if (std::ranges::all_of(values, [](float x) { return x == 0; })) {
        return fail(ErrorCode::kBadData, "row {} of \"{}\" is all zeros", i, name);
      }
    }
    const size_t read = static_cast<size_t>(i + 1) * bytes.size();
    if (read - released >= kBytesAtOnce) {
      release_mapped_pages(tensor.bytes.subspan(released, read - released));
      released = read;
    }
  }
  return classes;
}

}  // namespace

Result<FeatureFile> FeatureFile::open(const std::filesystem::path& path) {
  FeatureFile result;
  SACCADE_ASSIGN(result.file_, SafeTensors::open(path));
  SACCADE_TRY(result.read().in(path.string()));
  return result;
}

Status FeatureFile::read() {
  SACCADE_ASSIGN(images_, features(file_, "image_features"));
  SACCADE_ASSIGN(texts_, features(file_, "text_features"));
  SACCADE_ASSIGN(const TensorView* relation, given_tensor(file_, "text_image", 1));
  SACCADE_ASSIGN(text_image_, relation->to_int64s().in("\"text_image\""));
  if (std::ssize(text_image_) != texts()) {
    return fail(ErrorCode::kBadData, "\"text_image\" for {} texts, there are {}", text_image_.size(),
                texts());
  }
  for (size_t t = 0; t < text_image_.size(); ++t) {
    if (text_image_[t] >= -1 && text_image_[t] < images()) continue;
    return fail(ErrorCode::kBadData, "\"text_image\": text {} has image {}, there are {}", t, text_image_[t],
                images());
  }
  if (file_.find("text_number") != nullptr) {
    SACCADE_ASSIGN(const TensorView* numbers, given_tensor(file_, "text_number", 1));
    SACCADE_ASSIGN(text_number_, numbers->to_int64s().in("\"text_number\""));
    if (std::ssize(text_number_) != texts() || !std::ranges::is_sorted(text_number_)) {
      return fail(ErrorCode::kBadData, "\"text_number\" does not number {} texts in order", texts());
    }
  } else {
    text_number_.resize(text_image_.size());
    std::iota(text_number_.begin(), text_number_.end(), 0);
  }

  Sha256 content;
  content.update(fmt::format("{} {}\n{} {}\n", dtype_name(images_->dtype), shape_text(images_->shape),
                             dtype_name(texts_->dtype), shape_text(texts_->shape)));
  content.update(std::as_bytes(std::span(text_image_)));
  content.update(std::as_bytes(std::span(text_number_)));
  SACCADE_ASSIGN(image_class_, classes_of(*images_, "image_features", content));
  SACCADE_ASSIGN(text_class_, classes_of(*texts_, "text_features", content));
  sha256_ = content.hex();

  std::vector<std::pair<int64_t, int64_t>> pairs;  // image class, text class
  pairs.reserve(text_image_.size());
  for (size_t t = 0; t < text_image_.size(); ++t) {
    if (text_image_[t] < 0) continue;
    pairs.emplace_back(image_class_[static_cast<size_t>(text_image_[t])], text_class_[t]);
  }
  std::ranges::sort(pairs);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  const int64_t classes = *std::ranges::max_element(image_class_) + 1;
  class_begin_.assign(static_cast<size_t>(classes) + 1, 0);
  for (const auto& [image, text] : pairs) {
    ++class_begin_[static_cast<size_t>(image) + 1];
    class_texts_.push_back(text);
  }
  std::partial_sum(class_begin_.begin(), class_begin_.end(), class_begin_.begin());
  release();
  return {};
}

std::string FeatureFile::metadata(std::string_view key) const {
  const auto found = file_.metadata().find(key);
  return found == file_.metadata().end() ? std::string() : found->second;
}

bool FeatureFile::belong(int64_t image, int64_t text) const {
  const auto at = static_cast<size_t>(image_class_[static_cast<size_t>(image)]);
  return std::binary_search(class_texts_.begin() + class_begin_[at],
                            class_texts_.begin() + class_begin_[at + 1],
                            text_class_[static_cast<size_t>(text)]);
}

bool FeatureFile::one_class(std::span<const int64_t> texts) const {
  const auto image_of = [&](int64_t text) {
    return image_class_[static_cast<size_t>(text_image_[static_cast<size_t>(text)])];
  };
  const auto class_of = [&](int64_t text) { return text_class_[static_cast<size_t>(text)]; };
  return std::ranges::all_of(texts, [&](int64_t text) { return image_of(text) == image_of(texts[0]); }) ||
         std::ranges::all_of(texts, [&](int64_t text) { return class_of(text) == class_of(texts[0]); });
}

void FeatureFile::release() const {
  if (!file_.is_mapped()) return;
  release_mapped_pages(images_->bytes);
  release_mapped_pages(texts_->bytes);
}

void FeatureFile::row(const TensorView& tensor, int64_t i, std::span<float> out) {
  const std::span<const std::byte> bytes = row_bytes(tensor, i);
  if (tensor.dtype == DType::kF32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  // Its type was checked when the file was opened.
  const auto values = TensorView{tensor.dtype, {tensor.shape[1]}, bytes}.to_floats();
  if (values) std::ranges::copy(*values, out.begin());
}

Matrix<float> FeatureFile::rows(const TensorView& tensor, int64_t first, int64_t count) {
  Matrix<float> result(count, tensor.shape[1]);
  for (int64_t i = 0; i < count; ++i) row(tensor, first + i, result.row(i));
  return result;
}

}  // namespace saccade::lab
