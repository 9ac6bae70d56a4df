#include "lab/eval/rows/given.h"

#include <array>
#include <cmath>

#include "saccade/core/hash.h"
#include "saccade/core/rows.h"

namespace saccade::lab {

Result<const TensorView*> given_tensor(const SafeTensors& file, std::string_view name, size_t dimensions) {
  const TensorView* found = file.find(name);
  if (found == nullptr) {
    std::string there;
    for (const auto& [other, view] : file.tensors()) there += (there.empty() ? "" : ", ") + other;
    return fail(ErrorCode::kBadData, "no tensor \"{}\"; there are: {}", name, there.empty() ? "none" : there);
  }
  if (found->shape.size() != dimensions) {
    return fail(ErrorCode::kBadData, "\"{}\" of shape {}, expected {}", name, shape_text(found->shape),
                dimensions == 1 ? "[texts]" : "[rows, width]");
  }
  return found;
}

Result<Matrix<float>> given_rows(const SafeTensors& file, std::string_view name, Similarity similarity) {
  SACCADE_ASSIGN(const TensorView* view, given_tensor(file, name, 2));
  Matrix<float> rows(view->shape[0], view->shape[1]);
  const auto row_bytes = static_cast<size_t>(rows.columns() * dtype_size(view->dtype));
  for (int64_t r = 0; r < rows.rows(); ++r) {
    // Row by row: a conversion of the whole would take the rows' memory twice.
    const TensorView row{
        view->dtype, {rows.columns()}, view->bytes.subspan(static_cast<size_t>(r) * row_bytes, row_bytes)};
    SACCADE_ASSIGN(const std::vector<float> values, row.to_floats().in(fmt::format("\"{}\"", name)));
    std::ranges::copy(values, rows.row(r).begin());
    const double length = row_length(rows.row(r));
    if (!std::isfinite(length)) {
      return fail(ErrorCode::kBadData, "row {} of \"{}\" is not finite", r, name);
    }
    if (similarity == Similarity::kDot) continue;
    if (length == 0) {
      return fail(ErrorCode::kBadData, "row {} of \"{}\" is zero: it has no cosine with anything", r, name);
    }
    normalize_row(rows.row(r));
  }
  return rows;
}

namespace {

Result<std::vector<int64_t>> read_text_image(const SafeTensors& file, int64_t texts, int64_t images) {
  SACCADE_ASSIGN(const TensorView* view, given_tensor(file, "text_image", 1));
  SACCADE_ASSIGN(std::vector<int64_t> values, view->to_int64s().in("\"text_image\""));
  if (static_cast<int64_t>(values.size()) != texts) {
    return fail(ErrorCode::kBadData, "\"text_image\" for {} texts, there are {}", values.size(), texts);
  }
  for (size_t t = 0; t < values.size(); ++t) {
    if (values[t] < -1 || values[t] >= images) {
      return fail(ErrorCode::kBadData, "\"text_image\": text {} has image {}, there are {}", t, values[t],
                  images);
    }
  }
  return values;
}

class SelectedScores : public PairScores {
 public:
  SelectedScores(const PairScores& all, std::span<const int64_t> texts, std::span<const int64_t> images)
      : all_(all), texts_(texts), images_(images) {}

  [[nodiscard]] int64_t texts() const override { return static_cast<int64_t>(texts_.size()); }
  [[nodiscard]] int64_t images() const override { return static_cast<int64_t>(images_.size()); }

  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    for (int64_t t = 0; t < text_count;) {
      const int64_t text_run = run(texts_, first_text + t, text_count - t);
      for (int64_t i = 0; i < image_count;) {
        const int64_t image_run = run(images_, first_image + i, image_count - i);
        all_.score(texts_[static_cast<size_t>(first_text + t)], text_run,
                   images_[static_cast<size_t>(first_image + i)], image_run,
                   out + t * text_stride + i * image_stride, text_stride, image_stride);
        i += image_run;
      }
      t += text_run;
    }
  }

 private:
  // Returns how many numbers from `at` on are consecutive, at most `most`.
  static int64_t run(std::span<const int64_t> numbers, int64_t at, int64_t most) {
    const auto first = static_cast<size_t>(at);
    int64_t length = 1;
    while (length < most && numbers[first + static_cast<size_t>(length)] == numbers[first] + length) ++length;
    return length;
  }

  const PairScores& all_;
  std::span<const int64_t> texts_;
  std::span<const int64_t> images_;
};

}  // namespace

std::span<const EnumName<Similarity>> enum_names(Similarity) {
  static constexpr std::array<EnumName<Similarity>, 2> kWords{
      {{Similarity::kCosine, "cosine"}, {Similarity::kDot, "dot"}}};
  return kWords;
}

Result<GivenFile> GivenFile::open(const std::filesystem::path& path) {
  GivenFile given;
  given.path_ = path.string();
  SACCADE_ASSIGN(given.sha256_, sha256_file(path));
  SACCADE_ASSIGN(given.file_, SafeTensors::open(path));
  return given;
}

Result<GivenFile> GivenFile::open_embeddings(const std::filesystem::path& path, Similarity similarity) {
  SACCADE_ASSIGN(GivenFile given, open(path));
  const auto read = [&]() -> Status {
    SACCADE_ASSIGN(given.image_rows_, given_rows(given.file_, "image_embeds", similarity));
    SACCADE_ASSIGN(given.text_rows_, given_rows(given.file_, "text_embeds", similarity));
    if (given.image_rows_.columns() != given.text_rows_.columns()) {
      return fail(ErrorCode::kBadData, "\"image_embeds\" of width {}, \"text_embeds\" of width {}",
                  given.image_rows_.columns(), given.text_rows_.columns());
    }
    SACCADE_ASSIGN(given.text_image_,
                   read_text_image(given.file_, given.text_rows_.rows(), given.image_rows_.rows()));
    SACCADE_ASSIGN(given.scores_, dot_scores(given.text_rows_.view(), given.image_rows_.view()));
    return {};
  };
  SACCADE_TRY(read().in(path.string()));
  return given;
}

Result<GivenFile> GivenFile::open_scores(const std::filesystem::path& path) {
  SACCADE_ASSIGN(GivenFile given, open(path));
  const auto read = [&]() -> Status {
    SACCADE_ASSIGN(const TensorView* view, given_tensor(given.file_, "scores", 2));
    SACCADE_ASSIGN(given.scores_, given_scores(*view));
    SACCADE_ASSIGN(given.text_image_,
                   read_text_image(given.file_, given.scores_->texts(), given.scores_->images()));
    return {};
  };
  SACCADE_TRY(read().in(path.string()));
  return given;
}

bool GivenFile::means() const {
  const auto found = file_.metadata().find("rows");
  return found != file_.metadata().end() && found->second == "mean";
}

RetrievalSource GivenFile::source() const {
  RetrievalSource source;
  source.captions_known = false;
  for (int64_t i = 0; i < images(); ++i) source.images.push_back({std::to_string(i), {}});
  for (const int64_t image : text_image_) source.texts.push_back({{}, image});
  return source;
}

Status GivenFile::check_belongs_to(const RetrievalSource& dataset) const {
  const auto dataset_images = static_cast<int64_t>(dataset.images.size());
  const auto dataset_texts = static_cast<int64_t>(dataset.texts.size());
  if (dataset_images != images() || dataset_texts != texts()) {
    return fail(ErrorCode::kMismatch, "{} has {} images and {} texts, the dataset {} and {}", path_, images(),
                texts(), dataset_images, dataset_texts);
  }
  for (size_t t = 0; t < text_image_.size(); ++t) {
    if (text_image_[t] == dataset.texts[t].image) continue;
    return fail(ErrorCode::kMismatch, "{}: text {} belongs to image {}, in the dataset to {}", path_, t,
                text_image_[t], dataset.texts[t].image);
  }
  return {};
}

std::unique_ptr<PairScores> selected_scores(const PairScores& scores, std::span<const int64_t> texts,
                                            std::span<const int64_t> images) {
  return std::make_unique<SelectedScores>(scores, texts, images);
}

}  // namespace saccade::lab
