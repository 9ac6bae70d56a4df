#include "lab/train/data/visualness_data.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lab/data/dataset_json.h"
#include "lab/data/read_dataset.h"
#include "lab/train/loop.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/families/clip_checkpoint.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoPicture = "visual texts without an image";
constexpr const char* kAmbiguous = "ambiguous texts";
constexpr const char* kContradicted = "texts called visual and non-visual";
constexpr const char* kValidated = "texts that are among the validation's";
constexpr const char* kUnreadable = "visual texts whose image cannot be read";

// Cosine from which on the encoder cannot distinguish two images: identical pixels have it, and a
// photograph's copy in another format.
constexpr double kSamePicture = 0.9999;

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;  // limit for a config or a tokenizer's file

Status load_clip(const VisualnessTrainingOptions& options, const Checkpoint& checkpoint,
                 const std::string& where, VisualnessData& data) {
  SACCADE_ASSIGN(const BackendOptions there,
                 encoder_options(options.device, options.checkpoint,
                                 {.threads = options.threads, .fingerprints = options.fingerprints}));
  SACCADE_ASSIGN(data.loaded, load_checkpoint(options.checkpoint, there));
  const EncoderInfo& info = data.loaded.encoder->info();
  if (info.family != "clip") {
    return fail(ErrorCode::kUnsupported,
                "{}: family {}; visualness is trained into CLIP's architecture or BERT's", where,
                info.family);
  }
  data.layout = checkpoint.layout;
  data.tokenizer = data.loaded.encoder->tokenizer();
  SACCADE_ASSIGN(const Weights weights, map_weights(checkpoint));
  SACCADE_ASSIGN(data.config, read_clip_config(checkpoint, weights.tensors).in(where));
  data.context = data.config.positions;
  data.description["begins_with"] = info.fingerprint;
  SACCADE_ASSIGN(data.files, read_files_beside_weights(checkpoint));
  return {};
}

// Sets what holds for every classifier, whatever its initial weights: its config, with our classes.
Status settle_classifier(Json config, const std::string& where, VisualnessData& data) {
  SACCADE_ASSIGN(data.bert, bert_config_from_hugging_face(config).in(where));
  data.tokenizer = data.own_tokenizer.get();
  data.context = data.bert.positions;
  if (const int64_t tokens = data.tokenizer->vocabulary_size(); tokens > data.bert.vocabulary) {
    return fail(ErrorCode::kMismatch, "{}: the tokenizer has {} tokens, \"vocab_size\" is {}", where, tokens,
                data.bert.vocabulary);
  }
  config["architectures"] = {"BertForSequenceClassification"};
  config["model_type"] = "bert";
  Json ids = Json::object();
  Json labels = Json::object();
  for (size_t i = 0; i < kVisualnessLabels.size(); ++i) {
    labels[std::to_string(i)] = kVisualnessLabels[i];
    ids[std::string(kVisualnessLabels[i])] = i;
  }
  config["id2label"] = std::move(labels);
  config["label2id"] = std::move(ids);
  config.erase("num_labels");
  data.files["config.json"] = dump_json(config, 2) + "\n";
  return {};
}

Status load_bert(const VisualnessTrainingOptions& options, const Checkpoint& checkpoint,
                 const std::string& where, VisualnessData& data) {
  SACCADE_ASSIGN(data.own_tokenizer, load_tokenizer(checkpoint.folder, TextCleanup::kTokenizerFile));
  SACCADE_ASSIGN(data.files, read_files_beside_weights(checkpoint));
  SACCADE_ASSIGN(data.description["begins_with"], checkpoint_fingerprint(checkpoint, options.fingerprints));
  return settle_classifier(checkpoint.config, where, data);
}

// Sets up a classifier with random weights.
Status load_config(const VisualnessTrainingOptions& options, VisualnessData& data) {
  const std::string where = options.config.string();
  SACCADE_ASSIGN(const Json file, read_json(options.config));
  if (!file.is_object() || !file.contains("model") || !file["model"].is_object()) {
    return fail(ErrorCode::kBadData, "{}: needs \"model\", a BERT's config, and \"tokenizer\", a folder",
                where);
  }
  SACCADE_ASSIGN(const auto tokenizer_name, json_field<std::string>(file, "tokenizer").in(where));
  const fs::path folder = options.config.parent_path() / tokenizer_name;
  SACCADE_ASSIGN(data.own_tokenizer, load_tokenizer(folder, TextCleanup::kTokenizerFile).in(where));
  Sha256 hash;
  for (const char* name :
       {"tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json"}) {
    std::error_code ignored;
    if (!fs::exists(folder / name, ignored)) continue;
    SACCADE_ASSIGN(data.files[name], read_file(folder / name, kMaxFileBytes));
    hash.update(data.files[name]);
  }
  Json model = file["model"];
  model["vocab_size"] = data.own_tokenizer->vocabulary_size();
  model["pad_token_id"] = data.own_tokenizer->pad_id();
  data.description["begins_with"] = {{"random", model}, {"tokenizer_sha256", hash.hex()}};
  return settle_classifier(std::move(model), where, data);
}

Status refuse_options_of_clip(const VisualnessTrainingOptions& options) {
  const VisualnessTrainingOptions plain;
  const std::pair<const char*, bool> given[] = {
      {"NULL image", options.null_picture.kind != plain.null_picture.kind ||
                         options.null_picture.seed != plain.null_picture.seed},
      {"objective", options.objective != plain.objective},
      {"loss", options.loss != plain.loss},
      {"part to train", options.part != plain.part}};
  for (const auto& [what, is_given] : given) {
    if (is_given) return fail(ErrorCode::kUsage, "a {} is for CLIP: a classifier of texts has none", what);
  }
  if (options.checkpoint_activations) {
    return fail(ErrorCode::kUsage,
                "--checkpoint-activations is for CLIP's towers: a classifier of texts has none");
  }
  return {};
}

Status load_base(const VisualnessTrainingOptions& options, VisualnessData& data) {
  std::string where = options.config.string();
  if (!options.config.empty()) {
    data.classifier = true;
    SACCADE_TRY(load_config(options, data));
  } else {
    SACCADE_ASSIGN(data.checkpoint, find_checkpoint(options.checkpoint));
    where = fmt::format("checkpoint {}", data.checkpoint.string());
    SACCADE_ASSIGN(const Checkpoint checkpoint, open_checkpoint(data.checkpoint));
    data.classifier =
        checkpoint.config.is_object() && checkpoint.config.value("model_type", Json()) == "bert";
    SACCADE_TRY(data.classifier ? load_bert(options, checkpoint, where, data)
                                : load_clip(options, checkpoint, where, data));
  }
  if (data.tokenizer == nullptr) return fail(ErrorCode::kUsage, "{}: no tokenizer files, so no texts", where);
  if (data.classifier) SACCADE_TRY(refuse_options_of_clip(options));
  constexpr int64_t kBatch = 128;
  constexpr int64_t kClassifierBatch = 32;
  data.batch = options.batch > 0 ? options.batch : data.classifier ? kClassifierBatch : kBatch;
  return check_accumulation(options.accumulate, data.batch);
}

// Gathers one collection of texts from its datasets, without those that cannot be trained on.
class Gatherer {
 public:
  Gatherer(const VisualnessTrainingOptions& options, VisualnessData& data) : options_(options), data_(data) {}

  Result<VisualnessExamples> gather(std::string name, std::span<const DatasetSource> sources,
                                    const std::set<std::vector<int32_t>>& held_out, bool trains) {
    VisualnessExamples examples;
    examples.name = std::move(name);
    examples.described = Json::array();
    std::map<std::vector<int32_t>, bool> labels;
    std::set<std::vector<int32_t>> contradicted;
    std::vector<std::string> ids;
    for (const DatasetSource& source : sources) {
      SACCADE_ASSIGN(const Dataset dataset, read_dataset(source));
      SACCADE_ASSIGN(const RatedTexts* rated, dataset.need<RatedTexts>());
      examples.described.push_back(
          {{"name", dataset.name}, {"sha256", dataset.hash}, {"texts", dataset.size()}});
      for (const Exclusion& exclusion : dataset.excluded) {
        for (int64_t i = 0; i < exclusion.count; ++i)
          examples.exclude(exclusion.reason, exclusion.examples.front());
      }
      for (const RatedText& item : rated->items) {
        std::optional<VisualnessExample> example = take(item, held_out, trains, examples);
        if (!example) continue;
        const auto [label, fresh] = labels.emplace(example->text.ids, example->visual);
        if (!fresh && label->second != example->visual) contradicted.insert(example->text.ids);
        examples.items.push_back(*std::move(example));
        ids.push_back(item.id);
      }
    }
    if (trains && !contradicted.empty()) {
      size_t kept = 0;
      for (size_t i = 0; i < examples.items.size(); ++i) {
        if (contradicted.contains(examples.items[i].text.ids)) {
          examples.exclude(kContradicted, ids[i]);
        } else {
          examples.items[kept++] = std::move(examples.items[i]);
        }
      }
      examples.items.resize(kept);
    }
    return examples;
  }

 private:
  std::optional<VisualnessExample> take(const RatedText& item, const std::set<std::vector<int32_t>>& held_out,
                                        bool trains, VisualnessExamples& examples) {
    if (!item.visual) {
      examples.exclude(kAmbiguous, item.id);
      return std::nullopt;
    }
    const bool needs_picture = trains && *item.visual && !data_.classifier &&
                               options_.objective == VisualnessObjective::kOwnPictures;
    if (needs_picture && !item.image) {
      examples.exclude(kNoPicture, item.id);
      return std::nullopt;
    }
    VisualnessExample example{.text = data_.tokenizer->encode(item.text, data_.context),
                              .visual = *item.visual};
    if (held_out.contains(example.text.ids)) {
      examples.exclude(kValidated, item.id);
      return std::nullopt;
    }
    if (*item.visual && item.image && !data_.classifier) {
      const auto [place, fresh] = numbers_.emplace(item.image->name(), std::ssize(data_.pictures));
      if (fresh) data_.pictures.push_back(*item.image);
      example.picture = place->second;
    }
    return example;
  }

  const VisualnessTrainingOptions& options_;
  VisualnessData& data_;
  std::map<std::string, int64_t> numbers_;
};

Status check_classes(const VisualnessExamples& examples) {
  const int64_t visual = examples.count(true);
  const int64_t other = examples.count(false);
  if (visual > 0 && other > 0) return {};
  std::string left_out;
  for (const Exclusion& exclusion : examples.excluded) {
    left_out += fmt::format("; left out: {} {}", exclusion.count, exclusion.reason);
  }
  return fail(ErrorCode::kUsage, "the {} texts are {} visual and {} non-visual ones: it takes both{}",
              examples.name, visual, other, left_out);
}

// Removes visual texts with unreadable images, and renumbers the images of the others.
void drop_unreadable(const std::vector<int64_t>& number, bool needs_picture, VisualnessExamples& examples) {
  std::erase_if(examples.items, [&](VisualnessExample& example) {
    if (example.picture < 0) return false;
    example.picture = number[static_cast<size_t>(example.picture)];
    if (example.picture >= 0 || !needs_picture) return false;
    examples.exclude(kUnreadable, fmt::format("a text of {} tokens", example.text.used));
    return true;
  });
}

Status load_pictures(const VisualnessTrainingOptions& options, VisualnessData& data, ThreadPool& pool) {
  EncoderBackend& encoder = *data.loaded.encoder;
  SACCADE_ASSIGN(data.null_pixels, null_picture_pixels(options.null_picture, encoder.preprocessing()));
  SACCADE_ASSIGN(data.null_row, null_picture_row(encoder, options.null_picture));
  SACCADE_ASSIGN(EmbeddedPictures embedded, embed_pictures(encoder, data.pictures, options.embed, pool));
  std::vector<int64_t> number(data.pictures.size(), -1);
  std::set<int64_t> failed;
  for (const auto& [picture, error] : embedded.failed) failed.insert(picture);
  std::vector<ImageRef> readable;
  std::vector<std::string> hashes;
  for (size_t i = 0; i < data.pictures.size(); ++i) {
    if (failed.contains(static_cast<int64_t>(i))) continue;
    number[i] = std::ssize(readable);
    readable.push_back(data.pictures[i]);
    hashes.push_back(embedded.sha256[i]);
  }
  data.pictures = std::move(readable);
  data.picture_rows = std::move(embedded.rows.sets.rows);
  const bool own = options.objective == VisualnessObjective::kOwnPictures;
  for (VisualnessExamples& stage : data.stages) drop_unreadable(number, own, stage);
  drop_unreadable(number, false, data.validation);
  data.description["images"] = data.pictures.size();
  data.description["images_sha256"] = hash_of_hashes(hashes);
  for (int64_t i = 0; i < data.picture_rows.rows(); ++i) {
    double cosine = 0;
    for (size_t d = 0; d < data.null_row.size(); ++d) {
      cosine += static_cast<double>(data.null_row[d]) * std::as_const(data.picture_rows).row(i)[d];
    }
    if (cosine < kSamePicture) continue;
    return fail(
        ErrorCode::kUsage,
        "the NULL image is one of the texts' own images, {} (for the encoder, with a cosine of {:.6f}): "
        "what it stands for would be trained to be visual and not; choose another",
        data.pictures[static_cast<size_t>(i)].name(), cosine);
  }
  return {};
}

// Chooses one of the training's images for all its visual texts.
Status choose_common_picture(const VisualnessTrainingOptions& options, VisualnessData& data) {
  if (data.classifier || options.objective != VisualnessObjective::kOnePicture) return {};
  if (data.pictures.empty()) {
    return fail(ErrorCode::kUsage, "no image for the visual texts: one of them has to have one");
  }
  data.common_picture = static_cast<int64_t>(options.seed % data.pictures.size());
  for (VisualnessExamples& stage : data.stages) {
    for (VisualnessExample& example : stage.items) {
      if (example.visual) example.picture = data.common_picture;
    }
  }
  data.description["common_image"] = data.pictures[static_cast<size_t>(data.common_picture)].name();
  return {};
}

Json describe(const VisualnessExamples& examples) {
  return {{"datasets", examples.described},
          {"visual", examples.count(true)},
          {"non_visual", examples.count(false)},
          {"excluded", exclusion_counts(examples.excluded)}};
}

}  // namespace

Result<std::map<std::string, std::string>> read_files_beside_weights(const Checkpoint& checkpoint) {
  std::map<std::string, std::string> files;
  for (const fs::path& file : checkpoint.files) {
    const std::string name = file.filename().string();
    const std::string ending = file.extension().string();
    if (name.find("safetensors") != std::string::npos || ending == ".bin") continue;
    if (ending == ".pt" || ending == ".pth") continue;
    SACCADE_ASSIGN(files[name], read_file(file, kMaxFileBytes));
  }
  return files;
}

int64_t VisualnessExamples::count(bool visual) const {
  return std::ranges::count(items, visual, &VisualnessExample::visual);
}

void VisualnessExamples::exclude(const std::string& reason, const std::string& example) {
  constexpr size_t kExamples = 5;
  auto found = std::ranges::find(excluded, reason, &Exclusion::reason);
  if (found == excluded.end()) found = excluded.insert(found, {.reason = reason, .count = 0, .examples = {}});
  ++found->count;
  if (found->examples.size() < kExamples) found->examples.push_back(example);
}

Result<VisualnessData> load_visualness_data(const VisualnessTrainingOptions& options, ThreadPool& pool,
                                            const ProgressCallback& progress, std::stop_token stop) {
  VisualnessData data;
  SACCADE_TRY(load_base(options, data));
  Gatherer gatherer(options, data);
  SACCADE_ASSIGN(data.validation, gatherer.gather("validation", options.validation, {}, false));
  std::set<std::vector<int32_t>> held_out;
  for (const VisualnessExample& example : data.validation.items) held_out.insert(example.text.ids);
  struct Stage {
    const char* name;
    const VisualnessStage& given;
    double epochs;  // the study's
  };
  const Stage stages[] = {{"automatic", options.automatic, data.classifier ? 7.0 : 5.0},
                          {"human", options.human, data.classifier ? 3.0 : 2.0}};
  for (const Stage& stage : stages) {
    if (stage.given.datasets.empty()) continue;
    SACCADE_ASSIGN(VisualnessExamples examples,
                   gatherer.gather(stage.name, stage.given.datasets, held_out, true));
    examples.epochs = stage.given.epochs > 0 ? stage.given.epochs : stage.epochs;
    data.stages.push_back(std::move(examples));
  }
  for (const VisualnessExamples& stage : data.stages) SACCADE_TRY(check_classes(stage));
  SACCADE_TRY(check_classes(data.validation));

  data.description.update({{"kind", kVisualnessKind},
                           {"batch", data.batch},
                           {"precision", enum_name(options.precision)},
                           {"device", enum_name(options.device)}});
  if (data.classifier) {
    data.description.update({{"model", "classifier"}, {"dropout", options.dropout}});
  } else {
    SACCADE_ASSIGN(const Json null_picture, describe_null_picture(options.null_picture));
    data.description.update({{"null_image", null_picture},
                             {"objective", enum_name(options.objective)},
                             {"loss", enum_name(options.loss)},
                             {"trained", enum_name(options.part)}});
    VisualnessTrainingOptions reading = options;
    reading.embed.progress = progress;
    reading.embed.stop = stop;
    SACCADE_TRY(load_pictures(reading, data, pool));
  }
  for (const VisualnessExamples& stage : data.stages) {
    SACCADE_TRY(check_classes(stage));
    if (std::ssize(stage.items) >= data.batch) continue;
    return fail(ErrorCode::kUsage, "--batch-size is too large: a batch of {} from {} {} texts", data.batch,
                stage.items.size(), stage.name);
  }
  SACCADE_TRY(choose_common_picture(options, data));
  data.description["validation"] = describe(data.validation);
  for (const VisualnessExamples& stage : data.stages)
    data.description["stages"][stage.name] = describe(stage);
  return data;
}

}  // namespace saccade::lab
