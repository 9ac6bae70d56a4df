#include "saccade/search/matching/background.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "saccade/core/counts.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"
#include "saccade/core/seconds_since.h"
#include "saccade/search/keywords/caption_texts.h"
#include "saccade/search/matching/evidence.h"

namespace saccade {
namespace {

constexpr int64_t kVersion = 2;
constexpr std::string_view kMetadata = "saccade_background";
constexpr uint64_t kSeed = 0;
constexpr int64_t kPictureQueries = 512;
// Share of everyday words among the texts, one in this many, if captions provide the rest.
constexpr int64_t kEverydayShare = 3;

int64_t text_count(int64_t items) {
  return std::clamp(items / 10, kFewestBackgroundTexts, kMostBackgroundTexts);
}

int64_t count_of(MatrixView<const float> rows, std::span<const uint8_t> allowed) {
  if (allowed.empty()) return rows.rows();
  return std::ranges::count_if(allowed, [](uint8_t flag) { return flag != 0; });
}

std::string too_few(int64_t pictures) {
  if (pictures >= kFewestRows) return {};
  return fmt::format("{} {} too few to calibrate scores, {} are needed", counted(pictures, "image"),
                     pictures == 1 ? "is" : "are", kFewestRows);
}

// Without a shared space, or the words to reach it, texts find nothing.
std::string why_no_texts(const EncoderBackend& encoder) {
  if (encoder.tokenizer() == nullptr) return "the checkpoint reads no texts";
  if (!encoder.info().shared_space)
    return "the checkpoint has not learned to bring images and texts together";
  return {};
}

// Measures how far the texts' scores tell right images from others.
void measure_separation(MatrixView<const float> rows, double logit_scale, const Surroundings& surroundings,
                        const LabelledQueries& queries, Background::Texts& texts) {
  double sum = 0;
  double deviation = 0;
  for (int64_t q = 0; q < queries.rows.rows(); ++q) {
    const std::span<const float> query = queries.rows.row(q);
    const ScoreScale scale = score_scale(surroundings.sample.view(), query);
    deviation += scale.deviation / static_cast<double>(queries.rows.rows());
    const std::vector<int64_t>& right = queries.right[static_cast<size_t>(q)];
    if (right.empty()) continue;
    double mean = 0;
    for (const int64_t row : right) {
      const std::span<const float> image = rows.row(row);
      mean += std::inner_product(image.begin(), image.end(), query.begin(), 0.0) /
              static_cast<double>(right.size());
    }
    sum += scale.standard(mean);
    ++texts.labelled;
  }
  texts.measured = texts.labelled >= kFewestLabelled;
  texts.separation = texts.measured ? std::clamp(sum / static_cast<double>(texts.labelled), 0.05, 4.0)
                                    : estimated_separation(deviation, logit_scale);
}

// Pictures of the collection as queries. Right is what has all words of one of its
// caption's parts, by that part.
Result<Background::Kind> measure_pictures(const CollectionReader& collection, const EncoderBackend& encoder,
                                          const CaptionIndex& captions, const std::vector<std::string>& texts,
                                          ThreadPool& pool, const std::stop_token& stop) {
  if (std::string reason = too_few(collection.item_count()); !reason.empty()) {
    Background::Kind kind;
    kind.model.reason = std::move(reason);
    return kind;
  }
  std::vector<int64_t> there;
  for (int64_t r = 0; r < collection.rows().rows(); ++r) {
    if (collection.alive()[static_cast<size_t>(r)] != 0) there.push_back(r);
  }
  const int64_t count = std::min(kPictureQueries, std::ssize(there));
  LabelledQueries queries;
  queries.rows = Matrix<float>(count, collection.rows().columns());
  queries.fewest = kFewestLabelledPictures;
  for (int64_t q = 0; q < count; ++q) {
    const int64_t row = there[static_cast<size_t>(q * std::ssize(there) / count)];
    std::ranges::copy(collection.rows().row(row), queries.rows.row(q).begin());
    const auto parts = caption_parts(texts[static_cast<size_t>(row)]);
    std::vector<int64_t> right =
        parts.empty() ? std::vector<int64_t>() : captions.with_all_words(parts.front());
    std::erase(right, row);
    if (std::ssize(right) > kMostRight) right.clear();
    queries.right.push_back(std::move(right));
    queries.itself.push_back(row);
    queries.words.push_back(0);
  }
  return measure_queries(collection.rows(), collection.alive(), queries, encoder.info().logit_scale, pool,
                         stop);
}

// ---- the file

Json regression_json(const HitRegression& regression) {
  return {{"centre", regression.centre}, {"spread", regression.spread}, {"weight", regression.weight}};
}

Json numbers_json(const Background::Kind& kind) {
  const MatchModel& model = kind.model;
  return {{"temperature", kind.surroundings.temperature},
          {"hub_mean", kind.surroundings.hub_mean},
          {"hub_deviation", kind.surroundings.hub_deviation},
          {"hit", regression_json(model.hit)},
          {"there", regression_json(model.there)},
          {"tells", model.tells},
          {"reason", model.reason},
          {"queries", model.queries},
          {"labelled", model.labelled},
          {"right_hits", model.right_hits},
          {"gain", model.gain},
          {"gain_error", model.gain_error},
          {"rows", model.rows}};
}

Json texts_json(const Background::Texts& texts) {
  return {{"separation", texts.separation},
          {"measured", texts.measured},
          {"labelled", texts.labelled},
          {"described", texts.described}};
}

Status parse_texts(const Json& json, Background::Texts& texts) {
  if (!json.is_object()) return fail(ErrorCode::kBadData, "no object");
  SACCADE_ASSIGN(texts.separation, json_field<double>(json, "separation"));
  SACCADE_ASSIGN(texts.measured, json_field<bool>(json, "measured"));
  SACCADE_ASSIGN(texts.labelled, json_field<int64_t>(json, "labelled"));
  SACCADE_ASSIGN(texts.described, json_field<double>(json, "described"));
  if (!(texts.separation >= 0 && texts.separation <= 4)) {
    return fail(ErrorCode::kBadData, "a separation of {}, expected 0 to 4", texts.separation);
  }
  if (!(texts.described >= 0 && texts.described <= 1)) {
    return fail(ErrorCode::kBadData, "a share of {} with words, expected 0 to 1", texts.described);
  }
  return {};
}

template <size_t n>
Status read_numbers(const Json& json, const char* name, std::array<double, n>& to) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array() || found->size() != n) {
    return fail(ErrorCode::kBadData, "\"{}\" is no list of {} numbers", name, n);
  }
  for (size_t i = 0; i < n; ++i) {
    const Json& number = (*found)[i];
    if (!number.is_number()) return fail(ErrorCode::kBadData, "\"{}\" is no list of {} numbers", name, n);
    to[i] = number.get<double>();
  }
  return {};
}

Status parse_regression(const Json& json, HitRegression& regression) {
  if (!json.is_object()) return fail(ErrorCode::kBadData, "no object");
  SACCADE_TRY(read_numbers(json, "centre", regression.centre));
  SACCADE_TRY(read_numbers(json, "spread", regression.spread));
  SACCADE_TRY(read_numbers(json, "weight", regression.weight));
  for (const double spread : regression.spread) {
    if (!(spread > 0)) return fail(ErrorCode::kBadData, "a spread of {}", spread);
  }
  return {};
}

Status parse_numbers(const Json& json, Background::Kind& kind) {
  MatchModel& model = kind.model;
  if (!json.is_object()) return fail(ErrorCode::kBadData, "no object");
  SACCADE_ASSIGN(kind.surroundings.temperature, json_field<double>(json, "temperature"));
  SACCADE_ASSIGN(kind.surroundings.hub_mean, json_field<double>(json, "hub_mean"));
  SACCADE_ASSIGN(kind.surroundings.hub_deviation, json_field<double>(json, "hub_deviation"));
  const std::pair<const char*, HitRegression*> regressions[] = {{"hit", &model.hit}, {"there", &model.there}};
  for (const auto& [name, regression] : regressions) {
    if (!json.contains(name)) return fail(ErrorCode::kBadData, "\"{}\" is missing", name);
    SACCADE_TRY(parse_regression(json[name], *regression).in(name));
  }
  if (!(kind.surroundings.hub_deviation > 0))
    return fail(ErrorCode::kBadData, "\"hub_deviation\" is not above 0");
  SACCADE_ASSIGN(model.tells, json_field<bool>(json, "tells"));
  SACCADE_ASSIGN(model.reason, json_field<std::string>(json, "reason"));
  SACCADE_ASSIGN(model.queries, json_field<int64_t>(json, "queries"));
  SACCADE_ASSIGN(model.labelled, json_field<int64_t>(json, "labelled"));
  SACCADE_ASSIGN(model.right_hits, json_field<int64_t>(json, "right_hits"));
  SACCADE_ASSIGN(model.gain, json_field<double>(json, "gain"));
  SACCADE_ASSIGN(model.gain_error, json_field<double>(json, "gain_error"));
  SACCADE_ASSIGN(model.rows, json_field<int64_t>(json, "rows"));
  return {};
}

NamedTensor tensor_of(std::string name, std::span<const float> values, std::vector<int64_t> shape) {
  return {std::move(name), {DType::kF32, std::move(shape), std::as_bytes(values)}};
}

void add_tensors(const std::string& prefix, const Background::Kind& kind, std::vector<NamedTensor>& tensors) {
  const auto list = [&](const char* name, const std::vector<float>& values) {
    tensors.push_back(tensor_of(prefix + name, values, {std::ssize(values)}));
  };
  list("mean_query", kind.surroundings.mean_query);
  list("best", kind.model.best);
  list("false_score", kind.model.false_score);
  list("false_count", kind.model.false_count);
  const Matrix<float>& sample = kind.surroundings.sample;
  tensors.push_back(tensor_of(prefix + "sample", sample.values(), {sample.rows(), sample.columns()}));
}

Result<std::vector<float>> read_tensor(const SafeTensors& file, const std::string& name, size_t rank) {
  const TensorView* tensor = file.find(name);
  if (tensor == nullptr) return fail(ErrorCode::kBadData, "tensor {} is missing", name);
  if (tensor->shape.size() != rank) {
    return fail(ErrorCode::kBadData, "tensor {} has shape {}, expected {} dimensions", name,
                shape_text(tensor->shape), rank);
  }
  SACCADE_ASSIGN(std::vector<float> values, tensor->to_floats().in(name));
  for (const float value : values) {
    if (!std::isfinite(value))
      return fail(ErrorCode::kBadData, "tensor {} has a value that is not finite", name);
  }
  return values;
}

Status read_tensors(const SafeTensors& file, const std::string& prefix, int64_t dim, Background::Kind& kind) {
  SACCADE_ASSIGN(kind.surroundings.mean_query, read_tensor(file, prefix + "mean_query", 1));
  SACCADE_ASSIGN(kind.model.best, read_tensor(file, prefix + "best", 1));
  SACCADE_ASSIGN(kind.model.false_score, read_tensor(file, prefix + "false_score", 1));
  SACCADE_ASSIGN(kind.model.false_count, read_tensor(file, prefix + "false_count", 1));
  SACCADE_ASSIGN(const std::vector<float> sample, read_tensor(file, prefix + "sample", 2));
  const std::vector<int64_t>& shape = file.find(prefix + "sample")->shape;
  const bool measured = !kind.surroundings.mean_query.empty();
  // A search compares the query with the sample, whether the rest is measured or not.
  const bool sampled = measured || shape[0] > 0;
  if ((measured && std::ssize(kind.surroundings.mean_query) != dim) || (sampled && shape[1] != dim)) {
    return fail(ErrorCode::kBadData, "{} columns, the collection has {}", shape[1], dim);
  }
  if (kind.model.false_score.size() != kind.model.false_count.size()) {
    return fail(ErrorCode::kBadData, "{} scores with {} counts", kind.model.false_score.size(),
                kind.model.false_count.size());
  }
  if (!std::ranges::is_sorted(kind.model.best) || !std::ranges::is_sorted(kind.model.false_score)) {
    return fail(ErrorCode::kBadData, "scores out of order");
  }
  if (!measured && (kind.model.tells || !kind.model.best.empty())) {
    return fail(ErrorCode::kBadData, "a null without its queries");
  }
  kind.surroundings.sample = Matrix<float>(shape[0], shape[1]);
  std::ranges::copy(sample, kind.surroundings.sample.values().begin());
  return {};
}

// The file's tensors, which are views of the calibration data, and its metadata.
struct FileContent {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
};

FileContent file_content(const Background& background) {
  const Json json = {{"version", kVersion},
                     {"fingerprint", background.fingerprint},
                     {"items", background.items},
                     {"captions", background.captions},
                     {"sample", background.sample},
                     {"seconds", background.seconds},
                     {"texts", texts_json(background.texts)},
                     {"text", numbers_json(background.text)},
                     {"picture", numbers_json(background.picture)}};
  FileContent content;
  add_tensors("text.", background.text, content.tensors);
  add_tensors("picture.", background.picture, content.tensors);
  content.metadata.emplace(kMetadata, dump_json(json));
  return content;
}

Result<Background> background_in(const SafeTensors& file, const CheckpointId& checkpoint) {
  const auto found = file.metadata().find(kMetadata);
  if (found == file.metadata().end()) return fail(ErrorCode::kBadData, "metadata {} is missing", kMetadata);
  SACCADE_ASSIGN(const Json json, parse_json(found->second));
  SACCADE_ASSIGN(const auto version, json_field<int64_t>(json, "version"));
  if (version != kVersion)
    return fail(ErrorCode::kBadData, "version {}, this program reads {}", version, kVersion);
  Background background;
  SACCADE_ASSIGN(background.fingerprint, json_field<std::string>(json, "fingerprint"));
  if (background.fingerprint != checkpoint.fingerprint) {
    return fail(ErrorCode::kBadData, "measured with another checkpoint");
  }
  SACCADE_ASSIGN(background.items, json_field<int64_t>(json, "items"));
  SACCADE_ASSIGN(background.captions, json_field<int64_t>(json, "captions"));
  SACCADE_ASSIGN(background.sample, json_field_or<int64_t>(json, "sample", 0));
  SACCADE_ASSIGN(background.seconds, json_field<double>(json, "seconds"));
  if (!json.contains("texts")) return fail(ErrorCode::kBadData, "\"texts\" is missing");
  SACCADE_TRY(parse_texts(json["texts"], background.texts).in("texts"));
  const std::pair<const char*, Background::Kind*> kinds[] = {{"text", &background.text},
                                                             {"picture", &background.picture}};
  for (const auto& [name, kind] : kinds) {
    if (!json.is_object() || !json.contains(name))
      return fail(ErrorCode::kBadData, "\"{}\" is missing", name);
    SACCADE_TRY(parse_numbers(json[name], *kind).in(name));
    SACCADE_TRY(read_tensors(file, std::string(name) + ".", checkpoint.dim, *kind).in(name));
  }
  return background;
}

// Measures a vector database by a sample of its items.
Result<Background> measure_sample(const CollectionReader& collection, EncoderBackend& encoder,
                                  ThreadPool& pool, const std::stop_token& stop) {
  SACCADE_ASSIGN(std::vector<WholeItem> items, collection.index()->sample_items(kBackgroundSample));
  SACCADE_ASSIGN(const CollectionSummary summary, collection.summary());
  const int64_t drawn = std::ssize(items);
  SACCADE_ASSIGN(const CollectionReader sample,
                 CollectionReader::of_items(
                     {collection.info(), std::move(items), WordStatistics(), collection.folder()}));
  SACCADE_ASSIGN(Background background, measure_background(sample, encoder, pool, stop));
  background.items = collection.item_count();
  background.captions = summary.captions;
  background.sample = drawn < background.items ? drawn : 0;
  return background;
}

bool outgrown(int64_t before, int64_t now) {
  const double was = std::max(1.0, static_cast<double>(before));
  const double is = std::max(1.0, static_cast<double>(now));
  return is >= was * kBackgroundGrowth || was >= is * kBackgroundGrowth;
}

}  // namespace

Result<Background::Kind> measure_queries(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                                         const LabelledQueries& queries, double temperature, ThreadPool& pool,
                                         const std::stop_token& stop) {
  Background::Kind kind;
  kind.model.reason = too_few(count_of(rows, allowed));
  if (!kind.model.reason.empty()) return kind;
  kind.surroundings = surroundings_of(rows, allowed, queries.rows.view(), temperature);
  SACCADE_ASSIGN(kind.model, fit_matches(rows, allowed, kind.surroundings, queries, pool, stop));
  return kind;
}

Result<Background::Kind> measure_texts(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                                       EncoderBackend& encoder, const CaptionIndex& captions,
                                       ThreadPool& pool, const std::stop_token& stop,
                                       Background::Texts* evidence) {
  const int64_t pictures = count_of(rows, allowed);
  Background::Kind kind;
  kind.model.reason = too_few(pictures);
  if (kind.model.reason.empty()) kind.model.reason = why_no_texts(encoder);
  if (!kind.model.reason.empty()) return kind;
  const int64_t count = text_count(pictures);
  std::vector<std::string> texts;
  LabelledQueries queries;
  for (CaptionQuery& query : captions.draw(count - count / kEverydayShare, kMostRight, kSeed)) {
    texts.push_back(std::move(query.text));
    queries.right.push_back(std::move(query.right));
  }
  for (const std::string_view word : everyday_words()) {
    if (std::ssize(texts) >= count) break;
    texts.emplace_back(word);
    queries.right.emplace_back();
  }
  queries.itself.assign(texts.size(), -1);
  for (const std::string& text : texts) queries.words.push_back(std::ssize(caption_words(text)));
  SACCADE_ASSIGN(queries.rows, encode_all_texts(encoder, texts, stop).in("background texts"));
  const auto temperature = double{encoder.info().logit_scale};
  SACCADE_ASSIGN(kind, measure_queries(rows, allowed, queries, temperature, pool, stop));
  if (evidence != nullptr) measure_separation(rows, temperature, kind.surroundings, queries, *evidence);
  return kind;
}

Result<Background> measure_background(const CollectionReader& collection, EncoderBackend& encoder,
                                      ThreadPool& pool, const std::stop_token& stop) {
  if (collection.has_late_rows()) {
    return fail(
        ErrorCode::kUnsupported,
        "match probabilities are not measured for late interaction: its scores grow with the text's number of tokens");
  }
  const auto start = std::chrono::steady_clock::now();
  SACCADE_TRY(check_same_checkpoint(collection.info(),
                                    {"the encoder", "", encoder.info().fingerprint, encoder.info().dim}));
  if (collection.index() != nullptr) return measure_sample(collection, encoder, pool, stop);
  SACCADE_TRY(collection.check_files().in("collection"));
  SACCADE_ASSIGN(const std::vector<std::string> texts, captions_by_row(collection));
  const CaptionIndex captions(texts);
  Background background;
  background.fingerprint = encoder.info().fingerprint;
  background.items = collection.item_count();
  background.captions = std::ranges::count_if(texts, [](const std::string& text) { return !text.empty(); });
  SACCADE_ASSIGN(const std::vector<std::string> descriptions, descriptions_by_row(collection));
  const auto described =
      std::ranges::count_if(descriptions, [](const std::string& text) { return !text.empty(); });
  background.texts.described =
      static_cast<double>(described) / static_cast<double>(std::max<int64_t>(1, collection.item_count()));
  SACCADE_ASSIGN(background.text, measure_texts(collection.rows(), collection.alive(), encoder,
                                                CaptionIndex(descriptions), pool, stop, &background.texts));
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
  SACCADE_ASSIGN(background.picture, measure_pictures(collection, encoder, captions, texts, pool, stop));
  background.seconds = seconds_since(start);
  return background;
}

Status write_background(const std::filesystem::path& folder, const Background& background) {
  const FileContent content = file_content(background);
  return write_safetensors(folder / kBackgroundName, content.tensors, content.metadata).in("background");
}

Result<Background> read_background(const CollectionReader& collection) {
  const CheckpointId& checkpoint = collection.info().checkpoint;
  if (const VectorIndex* index = collection.index()) {
    SACCADE_ASSIGN(const std::string bytes, index->kept(kBackgroundName));
    const auto read = [&]() -> Result<Background> {
      SACCADE_ASSIGN(const SafeTensors file, SafeTensors::parse(std::as_bytes(std::span(bytes))));
      return background_in(file, checkpoint);
    };
    return read().in(std::string(kBackgroundName));
  }
  const std::filesystem::path path = collection.files() / kBackgroundName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return fail(ErrorCode::kNotFound, "{}: not measured yet", path.string());
  }
  SACCADE_ASSIGN(const SafeTensors file, SafeTensors::open(path));
  return background_in(file, checkpoint).in(path.string());
}

Result<bool> background_is_due(const CollectionReader& collection) {
  if (collection.has_late_rows()) return false;
  const auto there = read_background(collection);
  // Data that cannot be reached now may be there.
  if (!there && collection.index() != nullptr && there.error().code == ErrorCode::kIo) {
    return fail(there.error());
  }
  if (!there) return true;
  const int64_t items = collection.item_count();
  // A collection that was too small is measured as soon as it has grown: it may be large enough, and its reason says
  // how many images there are.
  if (there->items < kFewestRows && items > there->items) return true;
  SACCADE_ASSIGN(const CollectionSummary summary, collection.summary());
  return outgrown(there->items, items) || outgrown(there->captions, summary.captions);
}

Result<std::optional<Background>> refresh_background(const CollectionReader& collection,
                                                     EncoderBackend& encoder, ThreadPool& pool,
                                                     const std::stop_token& stop) {
  SACCADE_ASSIGN(const bool due, background_is_due(collection));
  if (!due) return std::optional<Background>();
  SACCADE_ASSIGN(Background background, measure_background(collection, encoder, pool, stop));
  if (const VectorIndex* index = collection.index()) {
    const FileContent content = file_content(background);
    SACCADE_ASSIGN(const std::string bytes, safetensors_bytes(content.tensors, content.metadata));
    SACCADE_TRY(index->keep(kBackgroundName, bytes));
  } else {
    SACCADE_TRY(write_background(collection.files(), background));
  }
  return std::optional<Background>(std::move(background));
}

}  // namespace saccade
