#include "lab/eval/study/study_plan.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "lab/eval/length/length.h"
#include "lab/eval/run/run.h"
#include "lab/eval/speed_metrics.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/hash.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/device/off_device.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanFile = "study.json";
constexpr const char* kLockFile = "lock";
constexpr std::string_view kDataset = "--dataset=";
constexpr std::string_view kByTable = "--by-table=";
constexpr std::string_view kDevice = "--device=";
constexpr int64_t kProbeItems = 8;    // images and texts that a model encodes for its estimate
constexpr int64_t kLengthCurves = 3;  // of eval length: first tokens, permuted sentences, last tokens
constexpr int64_t kSpeedPasses = 7;   // of eval speed: a warm-up, five that count, and the benchmark's
constexpr int64_t kEstimatedContext = 77;

// Returns the numbers of images and texts to encode for a dataset.
StudyDataset describe(const NamedDataset& named, std::string_view kind, int64_t speed_limit) {
  StudyDataset one{.name = named.name, .given = named.given, .sha256 = named.dataset.hash};
  if (const auto* images = named.dataset.find<CaptionedImages>()) {
    one.images = std::ssize(images->items);
    for (const DatasetItem& item : images->items) one.texts += std::ssize(item.captions);
  } else if (const auto* tests = named.dataset.find<CompositionTests>()) {
    for (const CompositionItem& item : tests->items) one.images += std::ssize(item.images);
    one.texts = 2 * std::ssize(tests->items);
  }
  if (kind == SpeedMetrics::kKind && speed_limit > 0 && one.images > speed_limit) {
    one.texts = one.texts * speed_limit / one.images;
    one.images = speed_limit;
  }
  return one;
}

// Returns the values of an option, "--dataset=" and the like, among a part's words.
std::vector<std::string> values_in(const std::vector<std::string>& words, std::string_view option) {
  std::vector<std::string> given;
  for (const std::string& word : words) {
    if (word.starts_with(option)) given.push_back(word.substr(option.size()));
  }
  return given;
}

// Returns the words for a model: without the device if that does not run it.
std::vector<std::string> model_words(const StudyModel& model, std::vector<std::string> words) {
  if (!model.off_device.empty()) {
    std::erase_if(words, [](const std::string& word) { return word.starts_with(kDevice); });
  }
  return words;
}

// Sets `off_device` of a model. Errors: those of off_device_reason.
Status find_off_device(const StudyPart& part, const fs::path& checkpoint, Precision precision,
                       StudyModel& model) {
  for (const std::string& device : values_in(part.words, kDevice)) {
    SACCADE_ASSIGN(model.off_device,
                   off_device_reason(checkpoint, {.precision = precision, .device = device}));
  }
  return {};
}

double estimate_seconds(const StudyPart& part, const StudyRates& rates) {
  double images = 0;
  double texts = 0;
  for (const StudyDataset& dataset : part.datasets) {
    images += static_cast<double>(dataset.images);
    texts += static_cast<double>(dataset.texts);
  }
  if (part.kind == "length") {
    texts *= static_cast<double>(kLengthCurves * std::ssize(default_lengths(kEstimatedContext)));
  } else if (part.kind == SpeedMetrics::kKind) {
    images *= static_cast<double>(2 * kSpeedPasses);  // in batches, and one at a time
    texts *= static_cast<double>(2 * kSpeedPasses);
  }
  return rates.load_s + images / std::max(rates.images_per_s, 1e-6) +
         texts / std::max(rates.texts_per_s, 1e-6);
}

Result<StudyRates> probe(const StudyOptions& options, const StudyModel& model, const StudyProcess& process) {
  const StudyPart& part = options.parts.front();
  std::vector<std::string> words = {"eval", "speed", "--json"};
  words.push_back("--dataset=" + values_in(part.words, kDataset).front());
  words.push_back("--model=" + model.checkpoint);
  words.push_back("--precision=" + model.precision);
  words.push_back(fmt::format("--limit={}", kProbeItems));
  for (const char* word : {"--repeats=1", "--warm-up=1", "--queries=1", "--gallery=8"})
    words.emplace_back(word);
  for (const std::string& word : model_words(model, part.words)) {
    if (word.starts_with(kDevice)) words.push_back(word);
  }
  for (const std::string& word : part.process_words) {
    if (word.starts_with("--threads=") || word.starts_with("--batch-size=")) words.push_back(word);
  }
  SACCADE_ASSIGN(const std::string out, process(words));
  SACCADE_ASSIGN(const Json json, parse_json(out));
  SACCADE_ASSIGN(const SpeedMetrics metrics, read_record<SpeedMetrics>(json));
  if (metrics.results.size() != 1) {
    return fail(ErrorCode::kInternal, "{} results of one measurement", metrics.results.size());
  }
  const SpeedRecord& record = metrics.results.front();
  return StudyRates{.load_s = record.load_s,
                    .images_per_s = record.images_per_s ? record.images_per_s->value : 0,
                    .texts_per_s = record.texts_per_s ? record.texts_per_s->value : 0,
                    .scored_by = record.scored_by};
}

// Returns true if the folder holds a finished run of this part and model.
bool is_done(const StudyWork& work, const StudyPiece& piece) {
  const auto run = read_run(work.piece_folder(piece));
  if (!run || run->info.checkpoints.size() != 1) return false;
  const StudyPart& part = work.plan.parts[piece.part];
  const StudyModel& model = work.plan.models[piece.model];
  const RunCheckpoint& there = run->info.checkpoints.front();
  if (run->info.kind != part.kind || there.fingerprint != model.fingerprint ||
      there.precision != model.precision || run->info.datasets.size() != part.datasets.size()) {
    return false;
  }
  for (size_t d = 0; d < part.datasets.size(); ++d) {
    if (run->info.datasets[d].sha256 != part.datasets[d].sha256) return false;
  }
  return true;
}

Status save(const StudyWork& work) {
  return write_file_atomic(work.folder / kPlanFile, dump_json(record_json(work.plan)) + "\n");
}

// Reads the plan of a study. kBadData names the field that is wrong.
Result<StudyPlan> read_study_plan(const fs::path& folder) {
  const fs::path path = folder / kPlanFile;
  SACCADE_ASSIGN(const Json json, read_json(path));
  SACCADE_ASSIGN(StudyPlan plan, read_record<StudyPlan>(json).in(path.string()));
  if (plan.format != StudyPlan::kFormat) {
    return fail(ErrorCode::kUnsupported, "{}: format {}, this program reads {}", path.string(), plan.format,
                StudyPlan::kFormat);
  }
  return plan;
}

// Returns the plan in the folder, `nullopt` for a folder that is new or empty.
Result<std::optional<StudyPlan>> plan_there(const fs::path& folder) {
  std::error_code error;
  if (is_study(folder)) {
    SACCADE_ASSIGN(StudyPlan plan, read_study_plan(folder));
    return std::optional(std::move(plan));
  }
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == kLockFile) continue;
    return fail(ErrorCode::kUsage,
                "folder {}: not a study, and not empty (it holds \"{}\"); name one that is new or empty",
                folder.string(), name);
  }
  return std::optional<StudyPlan>();
}

// Removes what a study has measured, so that nothing of it is taken for a result of the next.
Status remove_results(const fs::path& folder) {
  std::vector<fs::path> results = {folder / "models"};
  for (const char* name : {"leaderboard.json", "leaderboard.csv", "leaderboard.md", "leaderboard.html"})
    results.push_back(folder / name);
  for (const fs::path& result : results) {
    std::error_code error;
    fs::remove_all(result, error);
    if (error) return fail_errno(error.value(), result.string() + ": remove");
  }
  return {};
}

// A folder's name for a model: what people call it, and enough of its fingerprint.
std::string folder_name(const StudyModel& model) {
  std::string name;
  for (const char c : model.name.substr(0, 60)) {
    name += is_ascii_alphanumeric(c) || c == '-' ? c : '_';
  }
  return fmt::format("models/{}-{}-{}", name, model.precision, model.fingerprint.substr(0, 8));
}

Status check_same(const StudyPlan& there, const StudyPlan& asked, const fs::path& folder) {
  const auto of = [](const StudyPlan& plan) {
    return dump_json(record_json(StudyPlan{.seed = plan.seed,
                                           .resamples = plan.resamples,
                                           .confidence = plan.confidence,
                                           .parts = plan.parts,
                                           .models = {}}));
  };
  if (of(there) == of(asked)) return {};
  const auto commands = [](const StudyPlan& plan) {
    std::string text;
    for (const StudyPart& part : plan.parts) {
      text += fmt::format("{}{}", text.empty() ? "" : "; ", fmt::join(part.words, " "));
    }
    return text;
  };
  const std::string before = commands(there);
  const std::string now = commands(asked);
  const auto tables = [](const StudyPlan& plan) {
    std::vector<std::optional<std::string>> all;
    for (const StudyPart& part : plan.parts) all.push_back(part.table_sha256);
    return all;
  };
  return fail(
      ErrorCode::kMismatch,
      "{} holds a study of other measurements: {}; --overwrite measures everything again, or name another folder",
      folder.string(),
      before == now && tables(there) != tables(asked) ? std::string("the groups of --by-table have changed")
      : before == now                                 ? std::string("its datasets have changed")
                      : fmt::format("there \"{}\", asked for \"{}\"", before, now));
}

}  // namespace

fs::path StudyWork::piece_folder(const StudyPiece& piece) const {
  return folder / plan.models[piece.model].folder / plan.parts[piece.part].kind;
}

bool is_study(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kPlanFile, error);
}

std::vector<std::string> piece_words(const StudyWork& work, const StudyPiece& piece) {
  const StudyPart& part = work.plan.parts[piece.part];
  const StudyModel& model = work.plan.models[piece.model];
  std::vector<std::string> words = model_words(model, part.words);
  words.insert(words.end(), part.process_words.begin(), part.process_words.end());
  words.push_back("--model=" + model.checkpoint);
  words.push_back("--precision=" + model.precision);
  words.push_back("--run=" + work.piece_folder(piece).string());
  return words;
}

Status wait_for_writer(const StudyWork& work, const StudyPiece& piece, const std::stop_token& stop) {
  const fs::path lock = work.piece_folder(piece) / kLockFile;
  std::error_code error;
  if (!fs::exists(lock, error)) return {};
  SACCADE_ASSIGN(const Descriptor held, wait_for_lock_file(lock, stop, {}));
  return {};
}

Result<StudyWork> plan_study(const StudyOptions& options, const CheckpointSource& checkpoints,
                             const StudyProcess& process) {
  if (options.parts.empty()) {
    return fail(ErrorCode::kUsage, "nothing to measure: give --retrieval, --composition or --long");
  }
  if (options.checkpoints.empty()) return fail(ErrorCode::kUsage, "no checkpoints are given");
  StudyWork work{.folder = options.folder};
  StudyPlan& plan = work.plan;
  plan.seed = options.bootstrap.seed;
  plan.resamples = options.bootstrap.resamples;
  plan.confidence = options.bootstrap.confidence;
  plan.parts = options.parts;
  for (StudyPart& part : plan.parts) {
    SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(values_in(part.words, kDataset)));
    for (const NamedDataset& one : datasets) {
      part.datasets.push_back(describe(one, part.kind, options.speed_limit));
      if (options.texts_only) part.datasets.back().images = 0;
    }
    for (const std::string& table : values_in(part.words, kByTable)) {
      SACCADE_ASSIGN(part.table_sha256, sha256_file(table));
    }
  }
  SACCADE_ASSIGN(const std::optional<StudyPlan> there, plan_there(options.folder));
  if (there && !options.overwrite) SACCADE_TRY(check_same(*there, plan, options.folder));
  for (const std::string& given : options.checkpoints) {
    SACCADE_ASSIGN(const std::string fingerprint, checkpoints.fingerprint(given));
    SACCADE_ASSIGN(const fs::path folder, checkpoints.find(given));
    for (const Precision precision : options.precisions) {
      StudyModel model{.checkpoint = given,
                       .name = checkpoint_name(folder),
                       .precision = std::string(enum_name(precision)),
                       .fingerprint = fingerprint};
      model.folder = folder_name(model);
      SACCADE_TRY(find_off_device(options.parts.front(), folder, precision, model));
      const auto same = [&](const StudyModel& one) {
        return one.fingerprint == model.fingerprint && one.precision == model.precision;
      };
      if (std::ranges::any_of(plan.models, same)) continue;  // the same weights are measured once
      if (there) {
        const auto found = std::ranges::find_if(there->models, same);
        if (found != there->models.end()) {
          model.rates = found->rates;
          model.folder = found->folder;
        }
      }
      plan.models.push_back(std::move(model));
    }
  }
  SACCADE_TRY(make_folders(options.folder));
  SACCADE_ASSIGN(work.lock, lock_file(options.folder / kLockFile, "working on this study"));
  if (options.overwrite && there) SACCADE_TRY(remove_results(options.folder));
  SACCADE_TRY(save(work));
  for (size_t m = 0; m < plan.models.size(); ++m) {
    StudyModel& model = plan.models[m];
    for (size_t p = 0; p < plan.parts.size(); ++p) {
      StudyPiece& piece = work.pieces.emplace_back(StudyPiece{.part = p, .model = m});
      piece.done = is_done(work, piece);
      if (piece.done) continue;
      if (!model.rates && options.texts_only) continue;  // a probe encodes images
      if (!model.rates) {
        SACCADE_ASSIGN(model.rates, probe(options, model, process).in(model.checkpoint));
        SACCADE_TRY(save(work));
      }
      piece.seconds = estimate_seconds(plan.parts[p], *model.rates);
    }
  }
  return work;
}

}  // namespace saccade::lab
