#include "saccade/engine/core.h"

#include <utility>

#include <fmt/format.h>

#include "saccade/collection/checkpoint_place.h"
#include "saccade/collection/choose_collection.h"
#include "saccade/collection/ingest/walk.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/collection/starter_warning.h"
#include "saccade/core/files/files.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/checkpoints/receipt.h"
#include "saccade/model/options/precision.h"
#include "saccade/model/options/precision_choice.h"
#include "saccade/search/change_text.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/search/like.h"
#include "saccade/search/query_language.h"

namespace saccade {
namespace {

// A setting that is fixed when a collection is created, and its value in one that exists.
struct FixedSetting {
  std::string_view name;
  std::string asked;  // empty: no choice was made
  std::string made;   // empty: the collection has nothing of the kind
};

template <typename E>
std::string text_of(const std::optional<E>& choice) {
  if (!choice) return {};
  if constexpr (std::is_same_v<E, bool>) {
    return *choice ? "on" : "off";
  } else if constexpr (std::is_integral_v<E>) {
    return std::to_string(*choice);
  } else {
    return std::string(enum_name(*choice));
  }
}

}  // namespace

Status check_choices(const CollectionChoices& choices, const IngestSettings& made) {
  const auto late = [&](auto value) { return made.late ? value(*made.late) : std::string(); };
  const FixedSetting settings[] = {
      {"background", text_of(choices.background), std::string(enum_name(made.background))},
      {"as-stored", text_of(choices.as_stored), text_of<bool>(!made.apply_orientation)},
      {"convert-to-srgb", text_of(choices.convert_to_srgb), text_of<bool>(made.convert_to_srgb)},
      {"fast-decode", text_of(choices.fast_decode), text_of<bool>(made.fast_decode)},
      {"int8-rows", text_of(choices.int8_rows), std::string(enum_name(made.int8_rows))},
      {"rows-precision", text_of(choices.late_precision),
       late([](const LateSettings& one) { return std::string(enum_name(one.precision)); })},
      {"pool-rows", text_of(choices.late_pool),
       late([](const LateSettings& one) { return std::to_string(one.pool); })},
  };
  for (const FixedSetting& setting : settings) {
    if (setting.asked.empty() || setting.asked == setting.made) continue;
    if (setting.made.empty()) {
      return fail(ErrorCode::kUsage, "--{}: the collection has one embedding an image", setting.name);
    }
    return fail(ErrorCode::kUsage,
                "--{} is {}, the collection was made with {}: leave it out, or create another collection",
                setting.name, setting.asked, setting.made);
  }
  return {};
}

Result<IngestSettings> new_collection_settings(const CollectionChoices& choices, EncoderBackend& encoder) {
  IngestSettings settings;
  settings.apply_orientation = !choices.as_stored.value_or(false);
  settings.convert_to_srgb = choices.convert_to_srgb.value_or(false);
  settings.fast_decode = choices.fast_decode.value_or(false);
  settings.background = choices.background.value_or(settings.background);
  settings.int8_rows = choices.int8_rows.value_or(settings.int8_rows);
  settings.precision = encoder.info().precision;
  if (encoder.late_interaction() == nullptr && !choices.late_precision && !choices.late_pool) return settings;
  SACCADE_ASSIGN(settings.late, late_settings(encoder, choices.late_precision.value_or(RowPrecision::kFp16),
                                              choices.late_pool.value_or(1))
                                    .in(choices.late_precision ? "--rows-precision" : "--pool-rows"));
  return settings;
}

Result<std::shared_ptr<const CollectionSnapshot>> CollectionSnapshot::open(
    const std::filesystem::path& folder, const NoteCallback& note) {
  SACCADE_ASSIGN(Collection collection, Collection::open(folder));
  std::shared_ptr<const Background> background;
  if (!collection.has_late_rows()) {
    auto read = read_background(collection);
    if (read) {
      background = std::make_shared<const Background>(*std::move(read));
    } else if (read.error().code != ErrorCode::kNotFound && note) {
      note({fmt::format("{}; the next `saccade index` measures it again", read.error().message), true});
    }
  }
  return std::make_shared<const CollectionSnapshot>(
      CollectionSnapshot{std::move(collection), std::move(background)});
}

void EngineCore::note(std::string text, bool warning) const {
  if (options_.note && !text.empty()) options_.note({std::move(text), warning});
}

Result<std::unique_ptr<EngineCore>> EngineCore::open(EngineCoreOptions options) {
  std::unique_ptr<EngineCore> core(new EngineCore(std::move(options)));
  if (!is_collection(core->options_.folder)) return core;
  SACCADE_ASSIGN(core->snapshot_, CollectionSnapshot::open(core->options_.folder, core->options_.note));
  const CollectionInfo& info = core->snapshot_->collection.info();
  SACCADE_TRY(check_choices(core->options_.choices, info.settings));
  if (!core->options_.checkpoint.empty()) {
    // Checks the fingerprint here: without new files to index the model is not loaded.
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(core->options_.checkpoint));
    SACCADE_ASSIGN(const std::string fingerprint, checkpoint_fingerprint(folder, user_fingerprint_memory()));
    SACCADE_TRY(check_same_checkpoint(
        info, {core->options_.checkpoint, folder.string(), fingerprint, info.checkpoint.dim}));
  }
  return core;
}

Result<std::shared_ptr<const CollectionSnapshot>> EngineCore::snapshot() const {
  const std::lock_guard lock(mutex_);
  if (snapshot_) return snapshot_;
  return fail(ErrorCode::kNotFound, "{}: no collection there", options_.folder.string());
}

Status EngineCore::refresh() {
  SACCADE_ASSIGN(auto fresh, CollectionSnapshot::open(options_.folder, options_.note));
  const std::lock_guard lock(mutex_);
  snapshot_ = std::move(fresh);
  return {};
}

Result<std::filesystem::path> EngineCore::checkpoint_to_load() const {
  const auto now = snapshot();
  if (now) return checkpoint_of((*now)->collection.info().checkpoint, options_.checkpoint);
  return options_.checkpoint.empty() ? starter_checkpoint() : find_checkpoint(options_.checkpoint);
}

Result<LoadedEncoder> EngineCore::load_encoder() const {
  SACCADE_ASSIGN(const std::filesystem::path checkpoint, checkpoint_to_load());
  const auto now = snapshot();
  BackendOptions options;
  options.threads = options_.threads;
  options.fingerprints = user_fingerprint_memory();
  // The files that a new collection will depend on are hashed in full.
  options.fingerprints.trusted = now.has_value();
  options.precision =
      options_.precision.value_or(now ? (*now)->collection.info().settings.precision : Precision::kFp32);
  if (options.precision == Precision::kAuto) {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(checkpoint.string()));
    SACCADE_ASSIGN(const PrecisionChoice chosen, choose_precision(folder, options));
    note(precision_choice_text(chosen), false);
    options.precision = chosen.taken;
  }
  SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(checkpoint.string(), options));
  if (now) SACCADE_TRY(check_same_checkpoint((*now)->collection.info(), loaded.id));
  return loaded;
}

void EngineCore::note_of_loaded(const LoadedEncoder& loaded) const {
  note(separate_spaces_warning(loaded).value_or(""), true);
  note(guessed_preprocessing_warning(loaded).value_or(""), true);
  const auto now = snapshot();
  if (!now) return;
  // If the model was found at a new location, the collection remembers that location.
  const CheckpointId& remembered = (*now)->collection.info().checkpoint;
  std::error_code ignored;
  if (!options_.checkpoint.empty() && remembered.path != loaded.id.path &&
      !std::filesystem::exists(remembered.path, ignored)) {
    const Status done = remember_checkpoint(options_.folder, loaded.id);
    note(done ? fmt::format("the collection's checkpoint is now {}", loaded.id.path) : done.error().message,
         !done);
  }
}

Result<const LoadedEncoder*> EngineCore::encoder() const {
  const std::lock_guard lock(loading_);
  if (!encoder_) {
    SACCADE_ASSIGN(encoder_, load_encoder());
    note_of_loaded(*encoder_);
    const auto measured = read_measured_lengths(encoder_->id.path, encoder_->id.fingerprint);
    if (measured) {
      measured_length_ = longest_measured(*measured);
    } else {
      note("the model's effective text length is not known: " + measured.error().message, true);
    }
  }
  return &*encoder_;
}

bool EngineCore::encoder_is_loaded() const {
  const std::lock_guard lock(loading_);
  return encoder_.has_value();
}

Result<std::shared_ptr<Composer>> EngineCore::composer_of(const CollectionSnapshot& snapshot,
                                                          const SearchCall& call) const {
  const std::lock_guard lock(composing_);
  if (composer_ && composer_folder_ == call.composer) return composer_;
  BackendOptions options;
  options.threads = options_.threads;
  if (call.composer.empty()) {
    SACCADE_ASSIGN(composer_, open_collection_composer(snapshot.collection, options));
  } else {
    SACCADE_ASSIGN(composer_, open_composer_for(snapshot.collection, call.composer, options).in("--compose"));
  }
  composer_folder_ = call.composer.string();
  return composer_;
}

Status EngineCore::complete(const CollectionSnapshot& snapshot, const SearchCall& call,
                            SearchQuery& query) const {
  if (query.has_image()) drop_lead_in(query);
  const bool composed = query.has_image() && !query.text.empty();
  if (composed && (!call.composer.empty() || (call.own_composer && is_plain(query)))) {
    SACCADE_ASSIGN(query.fusion.composer, composer_of(snapshot, call));
  }
  query.measured_length = measured_length_;
  query.background = snapshot.background;
  query.explain = call.explain;
  if (query.has_image() || call.second != nullptr || call.explain) query.limits.processes = decoders();
  return {};
}

Result<SearchAnswer> EngineCore::search(SearchQuery query, const SearchCall& call) const {
  SACCADE_ASSIGN(const std::shared_ptr<const CollectionSnapshot> now, snapshot());
  SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
  SACCADE_TRY(complete(*now, call, query));
  EncoderBackend& encoder = *loaded->encoder;
  SearchAnswer answer;
  if (call.second != nullptr) {
    SACCADE_ASSIGN(answer, search_and_rerank(now->collection, encoder, *call.second, query, call.rerank,
                                             pool_, call.progress, call.stop));
  } else {
    SACCADE_ASSIGN(answer, saccade::search(now->collection, encoder, query, pool_));
  }
  if (!call.explain) return answer;
  const std::pair<EncoderBackend*, std::string> explainers[] = {{&encoder, loaded->id.name},
                                                                {call.second, call.second_name}};
  for (const auto& [each, name] : explainers) {
    if (each == nullptr) continue;
    ExplainOptions options = call.explaining;
    options.name = name;
    SACCADE_TRY(explain_hits(now->collection, *each, options, answer, pool_, call.progress, call.stop));
  }
  return answer;
}

Result<SearchAnswer> EngineCore::like(int64_t id, SearchQuery query) const {
  SACCADE_ASSIGN(const std::shared_ptr<const CollectionSnapshot> now, snapshot());
  SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
  SACCADE_TRY(complete(*now, {}, query));
  return search_like(now->collection, *loaded->encoder, id, query, pool_);
}

void EngineCore::note_precision_cost(std::span<const std::filesystem::path> paths,
                                     const IngestOptions& options) const {
  constexpr size_t kImages = 16;
  const auto agreement = [&]() -> Result<std::string> {
    SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
    const Precision precision = loaded->encoder->info().precision;
    if (precision == Precision::kFp32) return std::string();
    const auto files = first_pictures(std::vector<std::filesystem::path>(paths.begin(), paths.end()), kImages,
                                      {options.follow_links, options.hidden, options_.folder});
    const PixelBatch batch = read_pixels(
        std::ssize(files),
        [&](int64_t number) {
          return read_file(files[static_cast<size_t>(number)], options.limits.max_bytes);
        },
        pixel_options(loaded->encoder->preprocessing(), options.limits), pool_);
    if (batch.which.empty()) return std::string();
    BackendOptions exact;
    exact.threads = options_.threads;
    exact.fingerprints = user_fingerprint_memory();
    SACCADE_ASSIGN(const LoadedEncoder reference, load_checkpoint(loaded->id.path, exact));
    SACCADE_ASSIGN(const RowAgreement rows,
                   picture_agreement(*loaded->encoder, *reference.encoder, batch.rows()));
    return fmt::format("{}: cosines of the first pictures' rows to fp32's: {}", enum_name(precision),
                       agreement_text(rows, "picture"));
  }();
  note(agreement ? *agreement : "what the precision costs is not known: " + agreement.error().message,
       !agreement);
}

void EngineCore::refresh_calibration(const std::stop_token& stop) {
  const auto refreshed = [&]() -> Status {
    SACCADE_ASSIGN(const Collection collection, Collection::open(options_.folder));
    if (collection.item_count() == 0) return {};
    SACCADE_ASSIGN(const bool due, background_is_due(collection));
    if (!due) return {};
    SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
    SACCADE_TRY(refresh_background(collection, *loaded->encoder, pool_, stop));
    return {};
  };
  // The images are indexed whatever comes of it: a failure is told, and tried again by the next run.
  if (const Status status = refreshed(); !status) {
    note(fmt::format("answers will have no match probabilities: {}", status.error().message), true);
  }
}

Result<IngestReport> EngineCore::index(std::span<const std::filesystem::path> paths, IngestOptions options,
                                       const ProgressCallback& progress, const std::stop_token& stop) {
  const bool fresh = !is_collection(options_.folder);
  bool compared = false;
  if (!options.limits.processes) options.limits.processes = decoders();
  const EncoderSource source = [&]() -> Result<EncoderBackend*> {
    SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
    if (!std::exchange(compared, true)) note_precision_cost(paths, options);
    return loaded->encoder.get();
  };
  IngestReport report;
  {
    std::optional<CollectionWriter> writer;
    if (fresh) {
      SACCADE_TRY(check_any_input(paths));
      SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
      SACCADE_ASSIGN(const IngestSettings settings,
                     new_collection_settings(options_.choices, *loaded->encoder));
      SACCADE_ASSIGN(writer, CollectionWriter::create(options_.folder, loaded->id, settings));
    } else {
      SACCADE_ASSIGN(writer, CollectionWriter::open(options_.folder));
    }
    remember_collection(options_.folder);
    SACCADE_ASSIGN(report, ingest(*writer, source, paths, options, pool_, progress, stop));
  }
  SACCADE_TRY(refresh());
  if (const auto now = snapshot(); now && (*now)->collection.info().checkpoint.name == kStarterName) {
    constexpr int64_t kMostLooked = 1000;  // as many say enough
    const auto looked = (*now)->collection.looked(kMostLooked);
    if (looked) note(starter_warning((*now)->collection.info(), looked->pictures, looked->photographs), true);
  }
  if (!report.cancelled) {
    refresh_calibration(stop);
    SACCADE_TRY(refresh());
  }
  return report;
}

Status EngineCore::watch(std::span<const std::filesystem::path> paths, WatchOptions options,
                         const std::function<void(const WatchNews&)>& news, const std::stop_token& stop) {
  if (!options.ingest.limits.processes) options.ingest.limits.processes = decoders();
  const EncoderSource source = [this]() -> Result<EncoderBackend*> {
    SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
    return loaded->encoder.get();
  };
  bool measured = false;  // calibration data was looked at once
  const auto told = [&](const WatchNews& happened) {
    const auto refreshed = [this] {
      // A collection that cannot be opened now is told of by the next change.
      if (const Status fresh = refresh(); !fresh) note(fresh.error().message, true);
    };
    if (happened.report) refreshed();
    news(happened);
    if (!happened.report || happened.report->cancelled) return;
    const IngestReport& report = *happened.report;
    if (!measured || report.added + report.updated + report.removed > 0) {
      refresh_calibration(stop);
      refreshed();
    }
    measured = true;
  };
  return saccade::watch(options_.folder, source, paths, options, pool_, told, stop);
}

}  // namespace saccade
