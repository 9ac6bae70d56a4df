#include "lab/train/data/training_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <unordered_set>

#include "lab/data/dataset_json.h"
#include "lab/data/read_dataset.h"
#include "lab/train/data/augment.h"
#include "lab/train/data/epoch_order.h"
#include "lab/train/data/held_out.h"
#include "lab/train/math/step_random.h"
#include "saccade/core/counts.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

// Purposes of the keyed random numbers. The draws of one purpose never depend on another's.
enum Purpose : uint64_t { kShuffle = 1, kCaption = 2, kPicture = 3, kPatches = 4 };

// Returns the side of stored images: a little larger than in training, so that zooming in has enough pixels.
int stored_side(int side) {
  return side * 5 / 4;
}

Result<std::string> read_text(const fs::path& path) {
  return read_file(path, int64_t{256} << 20);
}

// Architecture to train, from a file or from the initial checkpoint.
struct Architecture {
  Json model;
  Json preprocessor;
  fs::path tokenizer;
  std::string where;
};

Result<Architecture> read_architecture(const DualTrainingOptions& options) {
  if (options.config.empty() && options.initial.empty()) {
    return fail(ErrorCode::kUsage,
                "nothing says what to train: give --config, or --initial with a checkpoint to begin with");
  }
  Architecture architecture;
  if (options.config.empty()) {
    architecture.where = options.initial.string();
    architecture.tokenizer = options.initial;
    SACCADE_ASSIGN(architecture.model, read_json(options.initial / "config.json"));
    SACCADE_ASSIGN(architecture.preprocessor, read_json(options.initial / "preprocessor_config.json"));
    return architecture;
  }
  architecture.where = options.config.string();
  SACCADE_ASSIGN(Json file, read_json(options.config));
  if (!file.is_object() || !file.contains("model") || !file.contains("preprocessor")) {
    return fail(ErrorCode::kBadData, "{}: needs \"model\", \"preprocessor\" and \"tokenizer\"",
                architecture.where);
  }
  SACCADE_ASSIGN(const auto tokenizer, json_field<std::string>(file, "tokenizer").in(architecture.where));
  architecture.tokenizer = options.config.parent_path() / tokenizer;
  architecture.model = std::move(file["model"]);
  architecture.preprocessor = std::move(file["preprocessor"]);
  return architecture;
}

Status load_config(const DualTrainingOptions& options, TrainingSetup& setup) {
  SACCADE_ASSIGN(Architecture file, read_architecture(options));
  const std::string& where = file.where;
  const fs::path& folder = file.tokenizer;
  SACCADE_ASSIGN(setup.tokenizer, load_tokenizer(folder, TextCleanup::kTokenizerFile).in(where));
  for (const char* name :
       {"tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json"}) {
    std::error_code ignored;
    if (!fs::exists(folder / name, ignored)) continue;
    SACCADE_ASSIGN(setup.auxiliary_files[name], read_text(folder / name));
  }
  setup.auxiliary_files["preprocessor_config.json"] = dump_json(file.preprocessor, 2) + "\n";

  Json& model = file.model;
  if (!model.is_object()) return fail(ErrorCode::kBadData, "{}: \"model\" is not an object", where);
  if (model.contains("text_config") && !model["text_config"].is_object()) {
    return fail(ErrorCode::kBadData, "{}: \"text_config\" is not an object", where);
  }
  model.erase("text_config_dict");  // older files' second copy, which would override these values
  const Tokenizer& tokenizer = *setup.tokenizer;
  model["text_config"]["vocab_size"] = tokenizer.vocabulary_size();
  model["text_config"]["eos_token_id"] = tokenizer.end_id();
  SACCADE_ASSIGN(setup.config, clip_config_from_hugging_face(model).in(where));
  setup.config_json =
      clip_config_to_hugging_face(setup.config, tokenizer.start_id(), tokenizer.end_id(), tokenizer.pad_id());
  const auto side = static_cast<int>(setup.config.image_size);
  SACCADE_ASSIGN(setup.preprocessing, preprocessing_from_hugging_face(file.preprocessor, side).in(where));
  if (setup.preprocessing.output_height() != side || setup.preprocessing.output_width() != side) {
    return fail(ErrorCode::kMismatch, "{}: \"preprocessor\" makes images of {} x {}, \"model\" takes {} x {}",
                where, setup.preprocessing.output_width(), setup.preprocessing.output_height(), side, side);
  }
  return {};
}

// Checks that the checkpoint's weights have the same meaning in this training. The architecture must be the
// same (no tensor shows its activation and number of heads), and so must the number of each token.
Status check_initial(const DualTrainingOptions& options, TrainingSetup& setup) {
  if (options.initial.empty()) return {};
  const std::string where = options.initial.string();
  SACCADE_ASSIGN(const Json json, read_json(options.initial / "config.json"));
  SACCADE_ASSIGN(const ClipConfig config, clip_config_from_hugging_face(json).in(where));
  const Tokenizer& tokenizer = *setup.tokenizer;
  const Json theirs =
      clip_config_to_hugging_face(config, tokenizer.start_id(), tokenizer.end_id(), tokenizer.pad_id());
  const Json ours = setup.config_json.flatten();
  for (const auto& [path, value] : ours.items()) {
    const Json::json_pointer pointer(path);
    const Json there = theirs.contains(pointer) ? theirs[pointer] : Json();
    if (there == value) continue;
    return fail(ErrorCode::kMismatch, "{}: {} is {}, the config of this training has {}", where,
                path.substr(1), dump_json(there), dump_json(value));
  }
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt"}) {
    const auto own = setup.auxiliary_files.find(name);
    std::error_code ignored;
    if (own == setup.auxiliary_files.end() || !fs::exists(options.initial / name, ignored)) continue;
    SACCADE_ASSIGN(const std::string text, read_text(options.initial / name));
    if (text != own->second) {
      return fail(ErrorCode::kMismatch, "{}: its {} is not the one of this training's tokenizer", where,
                  name);
    }
  }
  SACCADE_ASSIGN(setup.initial_sha256, sha256_file(options.initial / "model.safetensors"));
  return {};
}

Result<Dataset> read_pictures(const DatasetSource& source) {
  SACCADE_ASSIGN(Dataset dataset, read_dataset(source));
  SACCADE_TRY(dataset.need<CaptionedImages>());
  return dataset;
}

// Returns run.json's description of a dataset: its contents and what was left out.
Json describe(const Dataset& dataset) {
  return {{"name", dataset.name},
          {"layout", dataset.layout},
          {"sha256", dataset.hash},
          {"items", dataset.size()},
          {"excluded", exclusion_counts(dataset.excluded)}};
}

// Tokenizes the captions, and gives equal ones equal numbers.
void tokenize_captions(TrainingSetup& setup) {
  std::map<std::vector<int32_t>, int64_t> numbers;
  setup.captions.resize(setup.items.size());
  setup.caption_numbers.resize(setup.items.size());
  for (size_t i = 0; i < setup.items.size(); ++i) {
    for (const std::string& caption : setup.items[i].captions) {
      TokenizedText text = setup.tokenizer->encode(caption, setup.config.positions);
      const auto number = numbers.emplace(text.ids, static_cast<int64_t>(numbers.size())).first->second;
      setup.caption_numbers[i].push_back(number);
      setup.captions[i].push_back(std::move(text));
    }
  }
}

Status load_data(const DualTrainingOptions& options, TrainingSetup& setup) {
  Json datasets = Json::array();
  for (const DatasetSource& source : options.datasets) {
    SACCADE_ASSIGN(Dataset dataset, read_pictures(source));
    datasets.push_back(describe(dataset));
    std::ranges::move(dataset.as<CaptionedImages>().items, std::back_inserter(setup.items));
  }
  tokenize_captions(setup);
  std::unordered_set<std::string> trained;
  for (const DatasetItem& item : setup.items) trained.insert(item.image.name());
  Json held_out = Json::array();
  for (const DatasetSource& source : options.held_out) {
    SACCADE_ASSIGN(const Dataset dataset, read_pictures(source));
    held_out.push_back(describe(dataset));
    const auto shared =
        std::ranges::count_if(dataset.as<CaptionedImages>().items,
                              [&](const DatasetItem& item) { return trained.contains(item.image.name()); });
    if (shared > 0) {
      setup.also_trained.push_back(
          fmt::format("held-out {}: {} of {} are trained on too, so its figures are no test", dataset.name,
                      count_text(shared), counted(dataset.size(), "image")));
    }
  }
  Sha256 auxiliary_files;
  for (const auto& [name, content] : setup.auxiliary_files) auxiliary_files.update(name + "\n" + content);
  setup.description =
      Json{{"kind", kDualTrainingKind},
           {"objective", "symmetric InfoNCE; every caption of an image is its positive"},
           {"datasets", datasets},
           {"held_out", held_out},
           {"held_out_protocol", held_out_protocol_json()},
           {"initial_weights_sha256", setup.initial_sha256.empty() ? Json() : Json(setup.initial_sha256)},
           {"model", setup.config_json},
           {"preprocessing", setup.preprocessing.describe()},
           {"tokenizer_and_preprocessor_sha256", auxiliary_files.hex()},
           {"batch", options.batch},
           {"patch_dropout", options.patch_dropout},
           {"unmasked", options.unmasked},
           {"first_caption", options.first_caption},
           {"precision", enum_name(options.precision)},
           {"weights", enum_name(options.weights)},
           {"device", enum_name(options.device)}};
  return {};
}

}  // namespace

fs::path picture_cache(const DualTrainingOptions& options) {
  return options.cache.empty() ? options.run / "cache" : options.cache;
}

Result<TrainingSetup> load_training_setup(const DualTrainingOptions& options) {
  TrainingSetup setup;
  SACCADE_TRY(load_config(options, setup));
  SACCADE_TRY(check_initial(options, setup));
  SACCADE_TRY(load_data(options, setup));
  return setup;
}

Status load_pictures(const DualTrainingOptions& options, TrainingSetup& setup, ThreadPool& pool,
                     const ProgressCallback& progress, std::stop_token stop) {
  const int side = stored_side(static_cast<int>(setup.config.image_size));
  SACCADE_ASSIGN(setup.pictures, PictureStore::build(setup.items, side, picture_cache(options),
                                                     options.processes, pool, progress, stop));
  for (size_t i = 0; i < setup.items.size(); ++i) {
    if (setup.pictures.has(static_cast<int64_t>(i)) && !setup.captions[i].empty()) {
      setup.usable.push_back(static_cast<int64_t>(i));
    }
  }
  if (static_cast<int64_t>(setup.usable.size()) < options.batch) {
    return fail(ErrorCode::kUsage, "--batch-size is too large: a batch of {} from {} images with captions",
                options.batch, setup.usable.size());
  }
  setup.description["usable_images"] = setup.usable.size();
  int64_t first = 0;
  for (Json& dataset : setup.description["datasets"]) {
    const auto items = dataset["items"].get<int64_t>();
    dataset["images_sha256"] = setup.pictures.sha256(first, first + items);
    first += items;
  }
  for (size_t i = 0; i < options.held_out.size(); ++i) {
    SACCADE_ASSIGN(
        setup.held_out.emplace_back(),
        load_one_caption_set(options.held_out[i], setup.preprocessing, *setup.tokenizer,
                             setup.config.positions, pool, {.processes = options.processes, .stop = stop}));
    setup.description["held_out"][i]["images_sha256"] = images_sha256(setup.held_out.back());
  }
  return {};
}

TrainingBatch make_batch(const TrainingSetup& setup, const DualTrainingOptions& options, int64_t step,
                         ThreadPool& pool) {
  const int64_t n = options.batch;
  const auto side = static_cast<int>(setup.config.image_size);
  EpochOrder order(setup.usable, options.seed, kShuffle);
  struct Example {
    int64_t item;
    int64_t caption;  // its number
    const TokenizedText* text;
  };
  std::vector<Example> examples;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t item = order.at(step * n + i);
    const auto& captions = setup.captions[static_cast<size_t>(item)];
    KeyedRandom random(options.seed, kCaption, static_cast<uint64_t>(step), static_cast<uint64_t>(i));
    const bool first = random.chance(static_cast<float>(options.first_caption));
    const size_t which = first ? 0 : random.below(captions.size());
    examples.push_back({item, setup.caption_numbers[static_cast<size_t>(item)][which], &captions[which]});
  }
  // The loss does not depend on the order, and adjacent texts of similar length need little padding.
  std::stable_sort(examples.begin(), examples.end(), [](const Example& a, const Example& b) {
    return a.text->ids.size() < b.text->ids.size();
  });
  const size_t longest = examples.back().text->ids.size();

  TrainingBatch batch;
  batch.pixels = torch::empty({n, 3, side, side});
  batch.ids = torch::zeros({n, static_cast<int64_t>(longest)}, at::kLong);
  batch.positives = torch::zeros({n, n}, at::kBool);
  auto* pixels = batch.pixels.data_ptr<float>();
  const auto picture_values = static_cast<size_t>(3 * side * side);
  pool.parallel_for(n, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      augment(setup.pictures.picture(examples[static_cast<size_t>(i)].item), side, Augmentation{},
              setup.preprocessing.mean, setup.preprocessing.std,
              KeyedRandom(options.seed, kPicture, static_cast<uint64_t>(step), static_cast<uint64_t>(i)),
              {pixels + static_cast<size_t>(i) * picture_values, picture_values});
    }
  });
  auto* ids = batch.ids.data_ptr<int64_t>();
  // Text j is a positive of image i if it is any of image i's captions, drawn or not.
  auto* positives = batch.positives.data_ptr<bool>();
  for (size_t i = 0; i < examples.size(); ++i) {
    const std::vector<int32_t>& text = examples[i].text->ids;
    std::copy(text.begin(), text.end(), ids + i * longest);
    batch.lengths.push_back(static_cast<int64_t>(text.size()));
    const auto& own = setup.caption_numbers[static_cast<size_t>(examples[i].item)];
    for (size_t j = 0; j < examples.size(); ++j) {
      positives[i * examples.size() + j] =
          std::find(own.begin(), own.end(), examples[j].caption) != own.end();
    }
  }
  const auto masked_steps = static_cast<int64_t>(static_cast<double>(options.steps) * (1 - options.unmasked));
  if (options.patch_dropout > 0 && step < masked_steps) {
    const int64_t all = (setup.config.image_size / setup.config.patch_size) *
                        (setup.config.image_size / setup.config.patch_size);
    const auto kept =
        std::max<int64_t>(1, std::llround(static_cast<double>(all) * (1 - options.patch_dropout)));
    batch.keep = torch::empty({n, kept}, at::kLong);
    auto* keep = batch.keep.data_ptr<int64_t>();
    std::vector<int64_t> patches(static_cast<size_t>(all));
    for (int64_t i = 0; i < n; ++i) {
      KeyedRandom random(options.seed, kPatches, static_cast<uint64_t>(step), static_cast<uint64_t>(i));
      for (size_t p = 0; p < patches.size(); ++p) patches[p] = static_cast<int64_t>(p);
      for (int64_t p = 0; p < kept; ++p) {
        const auto place = static_cast<size_t>(p);
        std::swap(patches[place], patches[place + random.below(patches.size() - place)]);
        keep[i * kept + p] = patches[place];
      }
    }
  }
  return batch;
}

}  // namespace saccade::lab
