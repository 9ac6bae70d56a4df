#include "saccade/model/composers/composer.h"

#include <cmath>
#include <utility>

#include "saccade/core/rows.h"
#include "saccade/model/composers/token_states.h"
#include "saccade/model/encoder_parts.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnEncoder = "encoder";  // its folder in the composer's

// Returns row `at` of each item, normalized to length 1.
Matrix<float> rows_at(const RowSets& sets, std::span<const int64_t> at) {
  const auto n = std::ssize(sets.begin) - 1;
  Matrix<float> rows(n, sets.rows.columns());
  for (int64_t i = 0; i < n; ++i) {
    const auto item = static_cast<size_t>(i);
    const std::span<const float> row = std::as_const(sets.rows).row(sets.begin[item] + at[item]);
    std::copy(row.begin(), row.end(), rows.row(i).begin());
    normalize_row(rows.row(i), 0);
  }
  return rows;
}

// Repeats the rows of the first item `count` times.
RowSets repeated(const RowSets& sets, int64_t count) {
  const int64_t each = sets.begin[1];
  RowSets all;
  all.rows = Matrix<float>(count * each, sets.rows.columns());
  for (int64_t i = 0; i < count; ++i) {
    all.begin.push_back((i + 1) * each);
    for (int64_t r = 0; r < each; ++r)
      std::ranges::copy(sets.rows.row(r), all.rows.row(i * each + r).begin());
  }
  return all;
}

Result<ComposerConfig> composer_config_from_json(const Json& json) {
  ComposerConfig config;
  SACCADE_ASSIGN(config.kind, json_field<std::string>(json, "kind"));
  SACCADE_ASSIGN(config.dim, json_field<int64_t>(json, "dim"));
  if (config.dim < 1 || config.dim > 65'536) {
    return fail(ErrorCode::kBadData, "\"dim\" is {}, expected 1 to 65536", config.dim);
  }
  const auto options = json.find("options");
  if (options == json.end() || !options->is_object()) {
    return fail(ErrorCode::kBadData, "no object \"options\"");
  }
  config.options = *options;
  const auto encoder = json.find("encoder");
  if (encoder == json.end()) return fail(ErrorCode::kBadData, "no \"encoder\"");
  SACCADE_ASSIGN(config.encoder, encoder_id_from_json(*encoder).in("\"encoder\""));
  if (const auto texts = json.find("texts"); texts != json.end()) {
    SACCADE_ASSIGN(config.texts, encoder_id_from_json(*texts).in("\"texts\""));
  }
  return config;
}

}  // namespace

Json composer_config_json(const ComposerConfig& config) {
  Json json = {{"model_type", "composer"},
               {"kind", config.kind},
               {"dim", config.dim},
               {"options", config.options},
               {"encoder", encoder_id_json(config.encoder)}};
  if (config.texts) json["texts"] = encoder_id_json(*config.texts);
  return json;
}

Status check_composer_needs(EncoderBackend& encoder, const ComposerKind& kind) {
  const EncoderInfo& info = encoder.info();
  if (info.image_height == 0) {
    return fail(ErrorCode::kUnsupported, "{}: a text model, it encodes no reference image", info.family);
  }
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUnsupported, "{}: its checkpoint has no tokenizer, so it reads no words",
                info.family);
  }
  if (kind.needs.tokens && encoder.token_states() == nullptr) {
    return fail(
        ErrorCode::kUnsupported,
        "{}: it gives no token states in the shared space, which {} joins; CLIP with a vision transformer does",
        info.family, kind.name);
  }
  if (kind.needs.word_place && encoder.word_inserter() == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "{}: no vector can stand for a word in its text tower, which {} needs", info.family,
                kind.name);
  }
  if (kind.needs.prompts && (encoder.prompt_reader() == nullptr || encoder.frozen_features() == nullptr)) {
    return fail(ErrorCode::kUnsupported,
                "{}: it has no Q-Former that reads a prompt before a text, which {} needs; BLIP-2 for "
                "image-text retrieval has one",
                info.family, kind.name);
  }
  return {};
}

Result<ComposerInput> composer_input(EncoderBackend& pictures, EncoderBackend& texts,
                                     const ComposerNeeds& needs, MatrixView<const float> pixels,
                                     std::span<const std::string> words) {
  if (pixels.rows() != std::ssize(words) && pixels.rows() != 1) {
    return fail(ErrorCode::kUsage,
                "{} reference images with {} texts, expected one each, or one image for all", pixels.rows(),
                words.size());
  }
  const bool shared = pixels.rows() != std::ssize(words);
  const Tokenizer* tokenizer = texts.tokenizer();
  if (tokenizer == nullptr) {
    return fail(ErrorCode::kUnsupported, "{}: its checkpoint has no tokenizer, so it reads no words",
                texts.info().family);
  }
  std::vector<TokenizedText> tokenized;
  for (const std::string& text : words) tokenized.push_back(tokenizer->encode(text, texts.info().context));
  ComposerInput input;
  if (needs.words) input.words.assign(words.begin(), words.end());
  if (needs.tokens) {
    for (EncoderBackend* encoder : {&pictures, &texts}) {
      if (encoder->token_states() != nullptr) continue;
      return fail(ErrorCode::kUnsupported, "{}: it gives no token states in the shared space",
                  encoder->info().family);
    }
    SACCADE_ASSIGN(input.picture_tokens, pictures.token_states()->image_tokens(pixels));
    if (shared) input.picture_tokens = repeated(input.picture_tokens, std::ssize(words));
    TokenStates& states = *texts.token_states();
    SACCADE_ASSIGN(input.text_tokens, states.text_tokens(tokenized));
    std::vector<int64_t> ends;
    for (const TokenizedText& text : tokenized) ends.push_back(states.end_token(text));
    if (needs.picture_rows) {
      input.picture_rows = rows_at(input.picture_tokens, std::vector<int64_t>(tokenized.size(), 0));
    }
    if (needs.text_rows) input.text_rows = rows_at(input.text_tokens, ends);
    return input;
  }
  if (needs.prompts) {
    FrozenFeatures* features = pictures.frozen_features();
    if (features == nullptr) {
      return fail(ErrorCode::kUnsupported, "{}: it gives no states of its vision tower",
                  pictures.info().family);
    }
    SACCADE_ASSIGN(input.picture_states,
                   features->image_features(pixels, FrozenFeatures::ImageState::kVision));
  }
  if (needs.picture_rows) {
    SACCADE_ASSIGN(RowSets rows, one_each(pictures.encode_images(pixels)));
    if (shared) rows = repeated(rows, std::ssize(words));
    input.picture_rows = std::move(rows.rows);
  }
  if (needs.text_rows) {
    SACCADE_ASSIGN(input.text_rows, texts.encode_texts(tokenized));
  }
  return input;
}

Result<std::unique_ptr<Composer>> Composer::open(const fs::path& folder, const BackendOptions& options,
                                                 const Json& changed) {
  SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(folder));
  const std::string where = fmt::format("composer {}", folder.string());
  const std::string type = checkpoint.config.is_object() ? checkpoint.config.value("model_type", "") : "";
  if (type != "composer") {
    return fail(ErrorCode::kUnsupported, "checkpoint {}: no composer (model_type \"{}\")", folder.string(),
                type);
  }
  return nn::without_exceptions(where, [&]() -> Result<std::unique_ptr<Composer>> {
    auto result = std::make_unique<Composer>();
    SACCADE_ASSIGN(result->config_,
                   composer_config_from_json(checkpoint.config).in((folder / "config.json").string()));
    result->config_.options.update(changed);
    SACCADE_ASSIGN(result->kind_, find_composer_kind(result->config_.kind).in(where));
    SACCADE_ASSIGN(EncoderParts parts, open_parts(checkpoint, options, "composer"));
    nn::LoadedParameters source(parts.weights.tensors);
    SACCADE_ASSIGN(result->model_, result->kind_->load(result->config_, source).in(where));
    SACCADE_TRY(source.take("logit_scale", {}, {}).in(where));
    SACCADE_TRY(source.all_used({}).in(where));
    if (const auto& texts = result->config_.texts) {
      SACCADE_ASSIGN(result->texts_, load_encoder(folder / kOwnEncoder, options).in(where));
      const EncoderInfo& info = result->texts_->info();
      if (info.fingerprint != texts->fingerprint || info.dim != result->config_.dim) {
        return fail(
            ErrorCode::kMismatch,
            "{}: {} has the fingerprint {} and rows of {}, its config names {} and {}: it is another one",
            where, kOwnEncoder, info.fingerprint.substr(0, 16), info.dim, texts->fingerprint.substr(0, 16),
            result->config_.dim);
      }
    }
    result->folder_ = folder;
    result->memory_ = options.fingerprints;
    result->fingerprint_ = parts.info.fingerprint;
    result->parameters_ = parts.info.parameters;
    result->workspace_ = std::move(parts.workspace);
    result->weights_ = std::move(parts.weights);
    return result;
  });
}

std::string Composer::name() const {
  fs::path named = fs::absolute(folder_).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  // Skips folder names of a training run: RUN/fuse/model, or RUN/model of one-stage training.
  for (const char* part : {"model", "fuse"}) {
    if (named.filename() == part && named.parent_path().has_filename()) named = named.parent_path();
  }
  return named.filename().string();
}

Result<fs::path> Composer::encoder_folder() const {
  SACCADE_ASSIGN(const Checkpoint found,
                 open_named_encoder(config_.encoder, folder_, "composer", memory_, true)
                     .in(fmt::format("composer {}", folder_.string())));
  return found.folder;
}

Status Composer::check_encoder(const EncoderBackend& encoder) const {
  const EncoderInfo& info = encoder.info();
  if (info.fingerprint == config_.encoder.fingerprint) return {};
  return fail(
      ErrorCode::kMismatch,
      "composer {}: it was trained on {} ({}, fingerprint {}), the encoder here is {} with fingerprint {}",
      folder_.string(), config_.encoder.name, config_.encoder.family,
      config_.encoder.fingerprint.substr(0, 16), info.family, info.fingerprint.substr(0, 16));
}

Result<Composed> Composer::compose(EncoderBackend& encoder, const ComposerInput& input) {
  SACCADE_TRY(check_encoder(encoder));
  SACCADE_ASSIGN(Composed composed, [&]() -> Result<Composed> {
    const std::lock_guard lock(mutex_);
    return nn::without_exceptions("compose",
                                  [&] { return model_->compose(texts(encoder), input, workspace_.get()); });
  }());
  for (int64_t i = 0; i < composed.rows.rows(); ++i) {
    const double length = normalize_row(composed.rows.row(i), 0);
    if (std::isfinite(length) && length > 0) continue;
    return fail(
        ErrorCode::kBadData,
        "composer {}: the row of query {} has the length {}: its weights are damaged, or image and words "
        "cancel out",
        folder_.string(), i + 1, length);
  }
  return composed;
}

Result<Composed> Composer::compose(EncoderBackend& encoder, MatrixView<const float> pixels,
                                   std::span<const std::string> words) {
  SACCADE_TRY(check_encoder(encoder));
  SACCADE_ASSIGN(const ComposerInput input,
                 composer_input(encoder, texts(encoder), kind_->needs, pixels, words));
  return compose(encoder, input);
}

}  // namespace saccade
