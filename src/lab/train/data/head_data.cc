#include "lab/train/data/head_data.h"

#include <algorithm>
#include <numeric>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "lab/data/dataset_json.h"
#include "lab/eval/rows/given.h"
#include "lab/train/math/step_random.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/rows.h"
#include "saccade/model/checkpoints/build_versions.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

// Version of the features. Increase it when their computation changes, so that old files are not used.
constexpr int kFeaturesVersion = 1;
constexpr uint64_t kSubset = 11;  // purpose of the keyed random numbers
constexpr int64_t kPicturesAtOnce = 4096;
constexpr size_t kTextsAtOnce = 16'384;
constexpr int64_t kRowsAtOnce = 8192;

// Functions that compute a head's inputs. The encoder's own embeddings are cached as such, so that evaluations
// and heads share them.
struct Inputs {
  static Result<Inputs> of(EncoderBackend& encoder, const HeadInput& input) {
    SACCADE_ASSIGN(const HeadInputWidths widths, head_input_widths(encoder, input));
    Inputs inputs{own_images(encoder), own_texts(encoder)};
    const std::string key = "\nread by heads: " + describe(input);
    if (inputs.images.late || input.images != ImageStates::kRows) {
      inputs.images = {key, widths.images, false, [&encoder, input](auto pixels) {
                         return one_each(image_head_input(encoder, input, pixels));
                       }};
    }
    if (inputs.texts.late || input.texts != TextStates::kRows) {
      inputs.texts = {key, widths.texts, false, [&encoder, input](auto texts) {
                        return one_each(text_head_input(encoder, input, texts));
                      }};
    }
    return inputs;
  }
  ImageFunction images;
  TextFunction texts;
};

// Collects rows piece by piece in an unnamed file.
class Spool {
 public:
  static Result<Spool> open(const fs::path& beside) {
    Spool spool;
    spool.path_ = beside;
    spool.path_ += ".rows";
    SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(spool.path_));
    spool.file_.emplace(std::move(file));
    return spool;
  }
  Spool(Spool&&) noexcept = default;
  Spool& operator=(Spool&&) = delete;
  ~Spool() {
    std::error_code ignored;
    if (!path_.empty() && written_) fs::remove(path_, ignored);
  }
  Status write(std::span<const float> values) { return file_->write(std::as_bytes(values)); }
  Result<MappedFile> finish() {
    SACCADE_TRY(file_->commit());
    written_ = true;
    return MappedFile::open(path_);
  }

 private:
  Spool() = default;
  fs::path path_;
  std::optional<AtomicFile> file_;
  bool written_ = false;
};

// Returns options that report a chunk's progress as that of the whole.
EmbedOptions for_chunk(const EmbedOptions& options, size_t first, size_t total) {
  EmbedOptions chunk = options;
  if (options.progress) {
    chunk.progress = [&options, first, total](const ProgressUpdate& update) {
      options.progress({.what = update.what,
                        .done = static_cast<int64_t>(first) + update.done,
                        .total = static_cast<int64_t>(total),
                        .detail = update.detail});
    };
  }
  return chunk;
}

// Returns the hash of everything that features are computed from; empty if an image file has no reliable
// stamp.
std::string made_of(EncoderBackend& encoder, const HeadInput& input, const FeatureItems& items,
                    const EmbedOptions& options) {
  Sha256 hash;
  hash.update(fmt::format("features of version {}\n{}\n{}\n{}\n{}\n", kFeaturesVersion,
                          encoder.info().fingerprint, describe(input), enum_name(encoder.info().precision),
                          with_transparency(encoder.preprocessing(), options.transparency).describe()));
  for (const auto& [name, version] : library_versions()) hash.update(fmt::format("{} {}\n", name, version));
  std::string last;
  for (const ImageRef& picture : items.pictures) {
    if (picture.path != last) {
      const auto stamp = file_stamp(picture.path);
      if (!stamp || !is_settled(*stamp)) return {};
      hash.update(stamp->text());
      last = picture.path;
    }
    hash.update(fmt::format(" {} {} {}\n", picture.offset, picture.size, picture.column));
  }
  for (size_t t = 0; t < items.texts.size(); ++t) {
    hash.update(fmt::format("{} {} {} ", items.text_image[t], items.text_number[t], items.texts[t].size()));
    hash.update(items.texts[t]);
  }
  return hash.hex();
}

std::vector<std::string> names_of(const std::string& json) {
  std::vector<std::string> names;
  const auto list = parse_json(json);
  if (!list || !list->is_array()) return names;
  for (const Json& name : *list) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

// Encodes the readable images. place[i] becomes the index of image i among them, or -1.
Status spool_pictures(EncoderBackend& encoder, const ImageFunction& function,
                      std::span<const ImageRef> pictures, const EmbedOptions& options, ThreadPool& pool,
                      Spool& spool, std::vector<int64_t>& place, std::vector<std::string>& left_out) {
  int64_t next = 0;
  const auto at_once = static_cast<size_t>(rows_at_once(function.dim, kPicturesAtOnce));
  for (size_t first = 0; first < pictures.size(); first += at_once) {
    const size_t count = std::min(at_once, pictures.size() - first);
    SACCADE_ASSIGN(const EmbeddedPictures embedded,
                   embed_pictures(encoder, function, pictures.subspan(first, count),
                                  for_chunk(options, first, pictures.size()), pool));
    for (size_t i = 0; i < count; ++i) {
      const auto& begin = embedded.rows.sets.begin;
      place.push_back(begin[i + 1] > begin[i] ? next++ : -1);
    }
    for (const auto& [number, error] : embedded.failed) {
      left_out.push_back(
          fmt::format("{}: {}", pictures[first + static_cast<size_t>(number)].name(), error.message));
    }
    SACCADE_TRY(spool.write(embedded.rows.sets.rows.values()));
  }
  return {};
}

Status spool_texts(EncoderBackend& encoder, const TextFunction& function,
                   std::span<const std::string_view> texts, const std::string& named,
                   const EmbedOptions& options, Spool& spool) {
  int64_t cut = 0;
  for (size_t first = 0; first < texts.size(); first += kTextsAtOnce) {
    const size_t count = std::min(kTextsAtOnce, texts.size() - first);
    std::vector<TokenizedText> tokenized;
    for (const std::string_view text : texts.subspan(first, count)) {
      tokenized.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
      cut += tokenized.back().dropped > 0 ? 1 : 0;
    }
    SACCADE_ASSIGN(const EmbeddedRows rows,
                   embed_texts(encoder, function, tokenized, for_chunk(options, first, texts.size())));
    SACCADE_TRY(spool.write(rows.sets.rows.values()));
  }
  if (cut > 0 && options.warning) {
    options.warning(fmt::format("{}: {} cut to the encoder's {} tokens", named, counted(cut, "text"),
                                encoder.info().context));
  }
  return {};
}

}  // namespace

Result<PendingFile> PendingFile::at(const fs::path& path) {
  PendingFile file;
  SACCADE_ASSIGN(file.folders_, MadeFolders::make(path.parent_path()));
  file.path_ = path;
  file.temporary_ = fs::path(path) += fmt::format(".tmp-{}-0", ::getpid());
  return file;
}

PendingFile& PendingFile::operator=(PendingFile&& other) noexcept {
  std::swap(folders_, other.folders_);
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  return *this;
}

PendingFile::~PendingFile() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

Status PendingFile::keep() {
  if (path_.empty()) return {};
  std::error_code error;
  fs::rename(temporary_, path_, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", path_.string(), error.message());
  path_.clear();
  return {};
}

Result<BuiltFeatures> build_features(EncoderBackend& encoder, const HeadInput& input,
                                     const FeatureItems& items, const fs::path& path,
                                     const std::string& named, const EmbedOptions& options,
                                     ThreadPool& pool) {
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUsage, "the encoder has no tokenizer files, so no texts");
  }
  SACCADE_ASSIGN(const Inputs inputs, Inputs::of(encoder, input));
  const std::string key = made_of(encoder, input, items, options);
  std::error_code ignored;
  BuiltFeatures built;
  if (!key.empty() && fs::exists(path, ignored)) {
    if (auto there = FeatureFile::open(path); there && there->metadata("made_of") == key) {
      built.features = *std::move(there);
      built.left_out = names_of(built.features.metadata("left_out"));
      return built;
    }
  }

  SACCADE_ASSIGN(built.file, PendingFile::at(path));
  fs::path beside = built.file.temporary();
  SACCADE_ASSIGN(Spool images, Spool::open(fs::path(beside) += "-images"));
  SACCADE_ASSIGN(Spool texts, Spool::open(fs::path(beside) += "-texts"));
  std::vector<int64_t> place;
  SACCADE_TRY(
      spool_pictures(encoder, inputs.images, items.pictures, options, pool, images, place, built.left_out)
          .in(named));
  std::vector<std::string_view> kept;
  std::vector<int64_t> text_image;
  std::vector<int64_t> text_number;
  for (size_t t = 0; t < items.texts.size(); ++t) {
    const int64_t at = place[static_cast<size_t>(items.text_image[t])];
    if (at < 0) continue;
    kept.push_back(items.texts[t]);
    text_image.push_back(at);
    text_number.push_back(items.text_number[t]);
  }
  if (kept.empty()) {
    return fail(
        ErrorCode::kBadData, "{}: no image with a text could be read{}{}", named,
        built.left_out.empty() ? "" : ", the first: ", built.left_out.empty() ? "" : built.left_out.front());
  }
  SACCADE_TRY(spool_texts(encoder, inputs.texts, kept, named, options, texts).in(named));

  SACCADE_ASSIGN(const MappedFile image_rows, images.finish());
  SACCADE_ASSIGN(const MappedFile text_rows, texts.finish());
  const auto count = static_cast<int64_t>(kept.size());
  const auto readable = static_cast<int64_t>(items.pictures.size() - built.left_out.size());
  const std::vector<NamedTensor> tensors = {
      {"image_features", {DType::kF32, {readable, inputs.images.dim}, image_rows.bytes()}},
      {"text_features", {DType::kF32, {count, inputs.texts.dim}, text_rows.bytes()}},
      {"text_image", {DType::kI64, {count}, std::as_bytes(std::span(text_image))}},
      {"text_number", {DType::kI64, {count}, std::as_bytes(std::span(text_number))}}};
  SACCADE_TRY(write_safetensors(built.file.temporary(), tensors,
                                {{"made_of", key}, {"left_out", dump_json(Json(built.left_out))}}));
  SACCADE_ASSIGN(built.features, FeatureFile::open(built.file.temporary()));
  return built;
}

std::vector<int64_t> choose_pairs(int64_t all, int64_t count, uint64_t seed) {
  std::vector<int64_t> numbers(static_cast<size_t>(all));
  std::iota(numbers.begin(), numbers.end(), 0);
  if (count <= 0 || count >= all) return numbers;
  KeyedRandom random(seed, kSubset, 0);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::swap(numbers[i], numbers[i + random.below(numbers.size() - i)]);
  }
  numbers.resize(static_cast<size_t>(count));
  std::ranges::sort(numbers);
  return numbers;
}

Result<HeadSet> head_set_of_dataset(const NamedDataset& dataset, EncoderBackend& encoder,
                                    const HeadInput& input, CaptionPolicy captions, const fs::path& path,
                                    const EmbedOptions& options, ThreadPool& pool) {
  SACCADE_ASSIGN(const RetrievalSource source, retrieval_source(dataset.dataset).in(dataset.name));
  HeadSet set;
  set.name = dataset.name;
  set.described = describe_dataset(dataset);
  SACCADE_ASSIGN(set.task, make_retrieval_task(source, captions, {}, false).in(dataset.name));
  SACCADE_ASSIGN(set.ties, tie_break(TiePolicy::kPessimistic, set.task));
  EmbedOptions embed = options;
  embed.progress_detail = dataset.name;
  FeatureItems items;
  items.pictures = image_list(source.images);
  for (const SourceText& text : source.texts) {
    items.texts.emplace_back(text.caption);
    items.text_image.push_back(text.image);
    items.text_number.push_back(std::ssize(items.text_number));
  }
  SACCADE_ASSIGN(BuiltFeatures built, build_features(encoder, input, items, path, dataset.name, embed, pool));
  if (!built.left_out.empty()) {
    return fail(ErrorCode::kBadData,
                "{}: {} cannot be read, the first: {}; without them it would be another measurement",
                dataset.name, counted(std::ssize(built.left_out), "image"), built.left_out.front());
  }
  set.file = std::move(built.file);
  set.features = std::move(built.features);
  SACCADE_ASSIGN(EmbeddedPictures own, embed_pictures(encoder, items.pictures, embed, pool));
  set.described.images_sha256 = hash_of_hashes(own.sha256);
  set.own = std::make_unique<OwnRows>();
  set.own->images = std::move(own.rows);
  std::vector<TokenizedText> tokenized;
  for (const std::string_view text : items.texts) {
    tokenized.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
  }
  SACCADE_ASSIGN(set.own->texts, embed_texts(encoder, tokenized, embed));
  SACCADE_ASSIGN(set.own->scores, scores_of(set.own->texts, set.own->images));
  set.described.images = std::ssize(set.task.images);
  set.described.texts = std::ssize(set.task.texts);
  set.description = {{"name", set.name},
                     {"sha256", dataset.dataset.hash},
                     {"features_sha256", set.features.sha256()},
                     {"images", set.described.images},
                     {"texts", set.described.texts},
                     {"excluded", exclusion_counts(dataset.dataset.excluded)}};
  return set;
}

Result<HeadSet> head_set_of_file(const fs::path& path, CaptionPolicy captions) {
  HeadSet set;
  set.name = path.stem().string();
  SACCADE_ASSIGN(set.features, FeatureFile::open(path));
  const FeatureFile& features = set.features;
  RetrievalSource source;
  source.captions_known = false;
  for (int64_t i = 0; i < features.images(); ++i) source.images.push_back({std::to_string(i), {}});
  for (const int64_t image : features.text_image()) source.texts.push_back({{}, image});
  SACCADE_ASSIGN(set.task, make_retrieval_task(source, captions, {}, false).in(path.string()));
  SACCADE_ASSIGN(set.ties, tie_break(TiePolicy::kPessimistic, set.task));
  if (features.image_width() == features.text_width()) {
    const auto unit = [](Matrix<float> rows) {
      EmbeddedRows result;
      for (int64_t i = 0; i < rows.rows(); ++i) {
        normalize_row(rows.row(i));
        result.sets.begin.push_back(i + 1);
      }
      result.sets.rows = std::move(rows);
      return result;
    };
    set.own = std::make_unique<OwnRows>();
    set.own->images = unit(features.image_rows(0, features.images()));
    set.own->texts = unit(features.text_rows(0, features.texts()));
    SACCADE_ASSIGN(set.own->scores, scores_of(set.own->texts, set.own->images));
  }
  set.described.name = set.name;
  set.described.path = path.string();
  set.described.layout = "features";
  set.described.sha256 = features.sha256();
  set.described.images = std::ssize(set.task.images);
  set.described.texts = std::ssize(set.task.texts);
  set.description = {{"name", set.name},
                     {"features_sha256", features.sha256()},
                     {"images", set.described.images},
                     {"texts", set.described.texts}};
  return set;
}

Result<RetrievalOutcome> measure_rows(const HeadSet& set, MatrixView<const float> images,
                                      MatrixView<const float> texts, const BootstrapOptions& bootstrap,
                                      ThreadPool& pool) {
  SACCADE_ASSIGN(const auto all, dot_scores(texts, images));
  const auto scores = selected_scores(*all, set.task.texts, set.task.images);
  return evaluate_retrieval(*scores, set.task, set.ties, bootstrap, pool);
}

Result<HeadRows> head_rows(FeatureHead& head, const HeadSet& set) {
  HeadRows rows{Matrix<float>(set.features.images(), head.config().width),
                Matrix<float>(set.features.texts(), head.config().width)};
  const int64_t images = rows_at_once(set.features.image_width(), kRowsAtOnce);
  for (int64_t first = 0; first < set.features.images(); first += images) {
    const int64_t count = std::min(images, set.features.images() - first);
    SACCADE_ASSIGN(const Matrix<float> some, head.image_rows(set.features.image_rows(first, count).view()));
    std::ranges::copy(some.values(), rows.images.row(first).begin());
  }
  const int64_t texts = rows_at_once(set.features.text_width(), kRowsAtOnce);
  for (int64_t first = 0; first < set.features.texts(); first += texts) {
    const int64_t count = std::min(texts, set.features.texts() - first);
    SACCADE_ASSIGN(const Matrix<float> some, head.text_rows(set.features.text_rows(first, count).view()));
    std::ranges::copy(some.values(), rows.texts.row(first).begin());
  }
  return rows;
}

Result<std::optional<RetrievalOutcome>> measure_own(const HeadSet& set, const BootstrapOptions& bootstrap,
                                                    ThreadPool& pool) {
  if (set.own == nullptr) return std::nullopt;
  const auto scores = selected_scores(*set.own->scores, set.task.texts, set.task.images);
  SACCADE_ASSIGN(RetrievalOutcome outcome, evaluate_retrieval(*scores, set.task, set.ties, bootstrap, pool));
  return outcome;
}

}  // namespace saccade::lab
