#include "saccade/engine/core.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/checkpoint_place.h"
#include "saccade/collection/ingest/walk.h"
#include "saccade/collection/reencode/switch_collection.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/collection/starter_warning.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/files/files.h"
#include "saccade/core/seconds_since.h"
#include "saccade/image/read_pixels.h"
#include "saccade/model/checkpoints/receipt.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/options/precision_choice.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/search/change_text.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/search/listing.h"

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

// Returns choices with those left open as another collection has them.
CollectionChoices completed(CollectionChoices choices, const IngestSettings& made, EncoderBackend& encoder) {
  if (!choices.as_stored) choices.as_stored = !made.apply_orientation;
  if (!choices.convert_to_srgb) choices.convert_to_srgb = made.convert_to_srgb;
  if (!choices.fast_decode) choices.fast_decode = made.fast_decode;
  if (!choices.background) choices.background = made.background;
  if (!choices.int8_rows) choices.int8_rows = made.int8_rows;
  if (made.late && encoder.late_interaction() != nullptr) {
    if (!choices.late_precision) choices.late_precision = made.late->precision;
    if (!choices.late_pool) choices.late_pool = made.late->pool;
  }
  return choices;
}

// Checks that an existing collection was created with these settings. kUsage names the first that differs.
Status check_choices(const CollectionChoices& choices, const IngestSettings& made) {
  const auto late = [&](auto value) { return made.late ? value(*made.late) : std::string(); };
  // Two options for one setting: the message names the one that was given.
  const bool exact = choices.fast_decode == false;
  const FixedSetting settings[] = {
      {"background", text_of(choices.background), std::string(enum_name(made.background))},
      {"as-stored", text_of(choices.as_stored), text_of<bool>(!made.apply_orientation)},
      {"convert-to-srgb", text_of(choices.convert_to_srgb), text_of<bool>(made.convert_to_srgb)},
      {exact ? "exact-decode" : "fast-decode", choices.fast_decode ? "on" : "",
       text_of<bool>(made.fast_decode != exact)},
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

// Runs a stage of a search, and reports its duration.
template <typename Work>
std::invoke_result_t<Work> timed(const EngineCore::SearchCall& call, std::string_view stage,
                                 const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  auto done = work();
  if (done && call.spent) call.spent(stage, seconds_since(start));
  return done;
}

// Leaves out the hits before the page that the call asks for. Pages are by rank: an order by date is one within a page.
void keep_page(const EngineCore::SearchCall& call, SearchAnswer& answer) {
  std::erase_if(answer.hits, [&](const SearchHit& hit) { return hit.rank <= call.offset; });
  answer.query.k -= call.offset;
}

// Adds the offset to the hits wanted.
Status add_offset(const EngineCore::SearchCall& call, SearchQuery& query) {
  const int64_t most = std::numeric_limits<int64_t>::max() - std::max<int64_t>(query.k, 0);
  if (call.offset < 0 || call.offset > most) {
    return fail(ErrorCode::kUsage, "the offset is {}, expected 0 to {}", call.offset, most);
  }
  query.k += call.offset;
  return {};
}

// Answers a query of a filter alone.
Result<SearchAnswer> list(const CollectionReader& collection, SearchQuery query,
                          const EngineCore::SearchCall& call) {
  if (call.second != nullptr) {
    return fail(ErrorCode::kUsage, "images that are listed by date have no score to re-rank");
  }
  query.explain = call.explain;
  SACCADE_TRY(add_offset(call, query));
  SACCADE_ASSIGN(SearchAnswer listed, list_newest(collection, query));
  keep_page(call, listed);
  return listed;
}

// Encoders that explain hits, with their names; `nullptr` for one that is not there.
std::array<std::pair<EncoderBackend*, std::string>, 2> explainers_of(const EngineEncoder& encoder,
                                                                     const EngineCore::SearchCall& call) {
  return {{{encoder.backend.get(), encoder.name}, {call.second, call.rerank.name}}};
}

// Makes the answer to a completed query that of the call: a page of it, explained if asked for.
Result<SearchAnswer> finish(const CollectionReader& collection, const EngineEncoder& encoder,
                            const EngineCore::SearchCall& call, SearchAnswer answer, ThreadPool& threads) {
  keep_page(call, answer);
  if (!call.explain) return answer;
  const Status explained = timed(call, "explain", [&]() -> Status {
    for (const auto& [each, name] : explainers_of(encoder, call)) {
      if (each == nullptr) continue;
      ExplainOptions options = call.explaining;
      options.name = name;
      SACCADE_TRY(explain_hits(collection, *each, options, answer, threads, call.progress, call.stop));
    }
    return {};
  });
  if (!explained) return fail(explained.error());
  return answer;
}

// Errors of late_settings, for choices that the encoder does not allow.
Result<IngestSettings> new_collection_settings(const CollectionChoices& choices, EncoderBackend& encoder) {
  IngestSettings settings;
  settings.apply_orientation = !choices.as_stored.value_or(false);
  settings.convert_to_srgb = choices.convert_to_srgb.value_or(false);
  settings.fast_decode = choices.fast_decode.value_or(true);
  settings.background = choices.background.value_or(settings.background);
  settings.int8_rows = choices.int8_rows.value_or(settings.int8_rows);
  settings.precision = encoder.info().precision;
  if (encoder.late_interaction() == nullptr && !choices.late_precision && !choices.late_pool) return settings;
  SACCADE_ASSIGN(settings.late, late_settings(encoder, choices.late_precision.value_or(RowPrecision::kFp16),
                                              choices.late_pool.value_or(1))
                                    .in(choices.late_precision ? "--rows-precision" : "--pool-rows"));
  return settings;
}

}  // namespace

void note_of_loaded(const LoadedEncoder& loaded, const NoteCallback& note) {
  if (!note) return;
  if (auto text = separate_spaces_warning(loaded)) note({*std::move(text), true});
  if (auto text = guessed_preprocessing_warning(loaded)) note({*std::move(text), true});
}

std::optional<MeasuredLength> measured_length_of(const CheckpointId& checkpoint, const NoteCallback& note) {
  const auto measured = read_measured_lengths(checkpoint.path, checkpoint.fingerprint);
  if (measured) return longest_measured(*measured);
  if (note) note({"the model's effective text length is not known: " + measured.error().message, true});
  return std::nullopt;
}

Result<std::shared_ptr<const CollectionSnapshot>> CollectionSnapshot::open(
    const std::filesystem::path& folder, const SnapshotOptions& options) {
  constexpr int64_t kMostOfComposerFile = 1 << 20;
  SACCADE_ASSIGN(CollectionReader collection, CollectionReader::open(folder));
  auto snapshot = std::make_shared<CollectionSnapshot>(std::move(collection));
  if (!snapshot->collection.has_late_rows()) {
    auto read = read_background(snapshot->collection);
    if (read) {
      snapshot->background = std::make_shared<const Background>(*std::move(read));
    } else if (read.error().code == ErrorCode::kIo && snapshot->collection.index() != nullptr) {
      return fail(std::move(read).error());
    } else if (read.error().code != ErrorCode::kNotFound && options.note) {
      options.note(
          {fmt::format("{}; the next `saccade index` measures it again", read.error().message), true});
    }
  }
  snapshot->composer_options_ = options.composer;
  snapshot->composer_named_ = read_file(folder / kCollectionComposerFile, kMostOfComposerFile).value_or("");
  if (options.last != nullptr && options.last->composer_named_ == snapshot->composer_named_) {
    const std::lock_guard lock(options.last->composing_);
    snapshot->composer_ = options.last->composer_;
  }
  if (options.open_composer) SACCADE_TRY(snapshot->composer());
  if (options.row_finder) snapshot->rows = options.row_finder(snapshot->collection);
  return snapshot;
}

Result<std::shared_ptr<Composer>> CollectionSnapshot::composer() const {
  const std::lock_guard lock(composing_);
  if (!composer_) {
    SACCADE_ASSIGN(composer_, open_collection_composer(collection, composer_options_));
  }
  return *composer_;
}

void EngineCore::note(std::string text, bool warning) const {
  if (options_.note && !text.empty()) options_.note({std::move(text), warning});
}

Result<std::unique_ptr<EngineCore>> EngineCore::open(EngineCoreOptions options) {
  SACCADE_TRY(check_device_name(options.device));
  std::unique_ptr<EngineCore> core(new EngineCore(std::move(options)));
  if (!is_collection(core->options_.folder)) return core;
  SACCADE_ASSIGN(core->snapshot_, core->open_snapshot());
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
  if (weaviate::is_address(options_.folder)) {
    return fail(ErrorCode::kNotFound,
                "{}: the Weaviate cluster has no class of this name; `saccade index` creates it",
                options_.folder.string());
  }
  const auto info = read_collection_info(options_.folder);  // one may be there that may not be read
  if (!info && info.error().code != ErrorCode::kNotFound) return fail(info.error());
  return fail(ErrorCode::kNotFound, "{}: no collection there", options_.folder.string());
}

ThreadPool& EngineCore::pool() const {
  std::call_once(starting_, [this] { pool_ = std::make_unique<ThreadPool>(options_.threads); });
  return *pool_;
}

Result<std::shared_ptr<const CollectionSnapshot>> EngineCore::open_snapshot() const {
  const auto last = snapshot();
  SnapshotOptions options;
  options.note = options_.note;
  options.row_finder = options_.row_finder;
  options.composer.threads = options_.threads;
  options.last = last ? last->get() : nullptr;
  options.open_composer = options_.open_composer;
  SACCADE_ASSIGN(auto opened, CollectionSnapshot::open(options_.folder, options));
  if (last) {
    SACCADE_TRY(check_same_checkpoint(opened->collection.info(), (*last)->collection.info().checkpoint));
  }
  return opened;
}

Status EngineCore::refresh() {
  SACCADE_ASSIGN(auto fresh, open_snapshot());
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
  options.device = options_.device;
  options.fingerprints = user_fingerprint_memory();
  // The files that a new collection will depend on are hashed in full.
  options.fingerprints.trusted = now.has_value();
  options.precision =
      options_.precision.value_or(now ? (*now)->collection.info().settings.precision : Precision::kFp32);
  if (options.precision == Precision::kAuto) {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(checkpoint.string()));
    SACCADE_ASSIGN(const PrecisionChoice chosen, choose_precision(folder, options, user_precision_memory()));
    note(precision_choice_text(chosen), false);
    options.precision = chosen.taken;
  }
  SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(checkpoint.string(), options));
  if (now) SACCADE_TRY(check_same_checkpoint((*now)->collection.info(), loaded.id));
  return loaded;
}

void EngineCore::remember_place(const LoadedEncoder& loaded) const {
  const auto now = snapshot();
  if (!now) return;
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
    note_of_loaded(*encoder_, options_.note);
    remember_place(*encoder_);
    measured_length_ = measured_length_of(encoder_->id, options_.note);
  }
  return &*encoder_;
}

bool EngineCore::encoder_is_loaded() const {
  const std::lock_guard lock(loading_);
  return encoder_.has_value();
}

Result<EngineEncoder> EngineCore::borrow() const {
  if (options_.lend) return options_.lend();
  SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
  // The engine owns the model, and outlives its calls.
  return EngineEncoder{std::shared_ptr<EncoderBackend>(std::shared_ptr<void>(), loaded->encoder.get()),
                       loaded->id.name, measured_length_};
}

Result<std::shared_ptr<Composer>> EngineCore::composer_of(const CollectionSnapshot& snapshot,
                                                          const SearchCall& call,
                                                          const SearchQuery& query) const {
  if (call.composer.empty()) {
    const bool asked = call.own_composer == OwnComposer::kRequired;
    if (!asked && !(call.own_composer == OwnComposer::kIfAny && query.is_plain())) return nullptr;
    SACCADE_ASSIGN(std::shared_ptr<Composer> own, snapshot.composer());
    if (asked && own == nullptr) {
      return fail(ErrorCode::kUsage, "the collection {} names no composer",
                  options_.folder.filename().string());
    }
    return own;
  }
  const std::lock_guard lock(composing_);
  if (composer_ && composer_folder_ == call.composer) return composer_;
  BackendOptions options;
  options.threads = options_.threads;
  SACCADE_ASSIGN(composer_, open_composer_for(snapshot.collection, call.composer, options).in("compose"));
  composer_folder_ = call.composer.string();
  return composer_;
}

Status EngineCore::complete(const CollectionSnapshot& snapshot, const EngineEncoder& encoder,
                            const SearchCall& call, SearchQuery& query) const {
  if (call.like != 0) {
    SACCADE_ASSIGN(QueryImage item, stored_image(snapshot.collection, call.like));
    query.images = {std::move(item)};
  }
  const bool by_image = !query.images.empty();
  SACCADE_TRY(add_offset(call, query));
  if (by_image && !call.literal) drop_lead_in(query.text);
  if (by_image && query.text.has_words()) {
    SACCADE_ASSIGN(std::shared_ptr<Composer> composer, composer_of(snapshot, call, query));
    if (composer != nullptr) query.fusion = std::move(composer);
  } else if (call.own_composer == OwnComposer::kRequired) {
    SACCADE_TRY(composer_of(snapshot, call, query));  // that there is one
  }
  query.measured_length = encoder.measured_length;
  query.background = snapshot.background;
  query.explain = call.explain;
  if (by_image || call.second != nullptr || call.explain) {
    if (query.limits.processes == nullptr) query.limits.processes = decoders();
  }
  if (!call.explain) return {};
  for (const auto& [each, name] : explainers_of(encoder, call)) {
    if (each != nullptr) SACCADE_TRY(check_explains(*each, call.explaining));
  }
  return {};
}

Result<SearchAnswer> EngineCore::search(SearchQuery query, const SearchCall& call) const {
  SACCADE_ASSIGN(const std::shared_ptr<const CollectionSnapshot> now, snapshot());
  if (is_listing(query) && call.like == 0) return list(now->collection, std::move(query), call);
  EngineEncoder lent;
  if (call.encoder != nullptr) {
    lent = *call.encoder;
  } else {
    SACCADE_ASSIGN(lent, borrow());
  }
  SACCADE_TRY(complete(*now, lent, call, query));
  return answer_completed(*now, lent, query, call, call.pool != nullptr ? *call.pool : pool());
}

Result<SearchAnswer> EngineCore::answer_completed(const CollectionSnapshot& snapshot,
                                                  const EngineEncoder& encoder, const SearchQuery& query,
                                                  const SearchCall& call, ThreadPool& threads) const {
  const CollectionReader& collection = snapshot.collection;
  SearchAnswer answer;
  if (call.second != nullptr) {
    SACCADE_ASSIGN(answer, timed(call, "rerank", [&] {
                     return search_and_rerank(collection, *encoder.backend, *call.second, query, call.rerank,
                                              threads, call.progress, call.stop, snapshot.rows.get());
                   }));
  } else {
    EncodedQuery encoded;
    const auto encode = [&] { return encode_query(collection, *encoder.backend, query); };
    const bool stored = call.like != 0 && !query.text.has_words();
    SACCADE_ASSIGN(encoded, stored ? encode() : timed(call, "encode", encode));
    SACCADE_ASSIGN(answer, timed(call, "score", [&] {
                     return snapshot.rows != nullptr
                                ? search_encoded(collection, *encoder.backend, encoded, query, threads,
                                                 *snapshot.rows)
                                : search_encoded(collection, *encoder.backend, encoded, query, threads);
                   }));
  }
  return finish(collection, encoder, call, std::move(answer), threads);
}

size_t EngineCore::search_block(int64_t k) {
  constexpr int64_t kHits = 1 << 16;
  return static_cast<size_t>(std::clamp<int64_t>(kHits / std::max<int64_t>(k, 1), 1, kSearchesTogether));
}

Result<std::vector<Result<SearchAnswer>>> EngineCore::search_all(const CollectionSnapshot& now,
                                                                 std::vector<Search> searches) const {
  const CollectionReader& collection = now.collection;
  std::vector<Result<SearchAnswer>> answers(searches.size());
  EngineEncoder lent;
  std::vector<size_t> together;
  std::vector<const SearchQuery*> queries;
  for (size_t i = 0; i < searches.size(); ++i) {
    auto& [query, call] = searches[i];
    if (is_listing(query) && call.like == 0) {
      answers[i] = list(collection, std::move(query), call);
      continue;
    }
    if (lent.backend == nullptr) {
      SACCADE_ASSIGN(lent, borrow());
    }
    if (const Status done = complete(now, lent, call, query); !done) {
      answers[i] = fail(done.error());
    } else if (call.second != nullptr) {
      answers[i] = answer_completed(now, lent, query, call, pool());
    } else {
      together.push_back(i);
      queries.push_back(&query);
    }
  }
  if (together.empty()) return answers;
  const std::vector<Result<EncodedQuery>> encoded = encode_queries(collection, *lent.backend, queries);
  std::vector<size_t> ready;
  std::vector<EncodedSearch> asked;
  for (size_t i = 0; i < together.size(); ++i) {
    if (!encoded[i]) {
      answers[together[i]] = fail(encoded[i].error());
      continue;
    }
    ready.push_back(together[i]);
    asked.push_back({&*encoded[i], queries[i]});
  }
  std::vector<Result<SearchAnswer>> found = search_encoded_all(collection, *lent.backend, asked, pool());
  for (size_t i = 0; i < ready.size(); ++i) {
    answers[ready[i]] = found[i]
                            ? finish(collection, lent, searches[ready[i]].call, *std::move(found[i]), pool())
                            : std::move(found[i]);
  }
  return answers;
}

void EngineCore::note_precision_cost(std::span<const std::filesystem::path> paths,
                                     const IngestOptions& options) const {
  // The encoder is loaded a second time, in fp32, which takes seconds an image on two cores where it is large.
  constexpr size_t kImages = 4;
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
        pixel_options(loaded->encoder->preprocessing(), options.limits), pool());
    if (batch.which.empty()) return std::string();
    BackendOptions exact;
    exact.threads = options_.threads;
    exact.fingerprints = user_fingerprint_memory();
    SACCADE_ASSIGN(const LoadedEncoder reference, load_checkpoint(loaded->id.path, exact));
    SACCADE_ASSIGN(const RowAgreement rows,
                   picture_agreement(*loaded->encoder, *reference.encoder, batch.rows()));
    return fmt::format("{}: cosines of the first images' rows to fp32's: {}", enum_name(precision),
                       agreement_text(rows, "image"));
  }();
  note(agreement ? *agreement : "what the precision costs is not known: " + agreement.error().message,
       !agreement);
}

bool EngineCore::refresh_calibration(const std::stop_token& stop) {
  const auto refreshed = [&]() -> Result<bool> {
    SACCADE_ASSIGN(const auto now, snapshot());
    if (now->collection.item_count() == 0) return false;
    SACCADE_ASSIGN(const bool due, background_is_due(now->collection));
    if (!due) return false;
    SACCADE_ASSIGN(const EngineEncoder lent, borrow());
    SACCADE_TRY(refresh_background(now->collection, *lent.backend, pool(), stop));
    return true;
  };
  // The images are indexed whatever comes of it: a failure is told, and tried again by the next run.
  const auto measured = refreshed();
  if (!measured) {
    note(fmt::format("answers will have no match probabilities: {}", measured.error().message), true);
  }
  return measured.value_or(false);
}

Result<IngestReport> EngineCore::index(std::span<const std::filesystem::path> paths, IngestOptions options,
                                       const ProgressCallback& progress, const std::stop_token& stop) {
  const bool fresh = !is_collection(options_.folder) && !snapshot();
  if (!options.limits.processes) options.limits.processes = decoders();
  std::optional<EngineEncoder> held;  // from the first new file to the end
  const EncoderSource source = [&]() -> Result<EncoderBackend*> {
    if (!held) {
      SACCADE_ASSIGN(held, borrow());
      if (fresh && !options_.lend) note_precision_cost(paths, options);
    }
    return held->backend.get();
  };
  IngestReport report;
  {
    std::optional<CollectionWriter> writer;
    if (fresh) {
      SACCADE_TRY(check_any_input(paths));
      SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
      SACCADE_ASSIGN(const IngestSettings settings,
                     new_collection_settings(options_.choices, *loaded->encoder));
      SACCADE_ASSIGN(writer, CollectionWriter::create(options_.folder, loaded->id, settings, {.stop = stop}));
    } else {
      SACCADE_ASSIGN(writer, CollectionWriter::open(options_.folder, {.stop = stop}));
    }
    SACCADE_ASSIGN(report, ingest(*writer, source, paths, options, pool(), progress, stop));
  }
  SACCADE_TRY(refresh());
  if (const auto now = snapshot(); now && (*now)->collection.info().checkpoint.name == kStarterName) {
    constexpr int64_t kMostLooked = 1000;  // as many say enough
    const auto looked = (*now)->collection.looked(kMostLooked);
    if (looked) note(starter_warning((*now)->collection.info(), looked->pictures, looked->photographs), true);
  }
  if (!report.cancelled && refresh_calibration(stop)) SACCADE_TRY(refresh());
  return report;
}

Result<ReencodeReport> EngineCore::fill_from(CollectionReader& from, const IngestOptions& options,
                                             const ProgressCallback& progress, const std::stop_token& stop) {
  std::optional<EngineEncoder> held;
  const EncoderSource source = [&]() -> Result<EncoderBackend*> {
    if (!held) {
      SACCADE_ASSIGN(held, borrow());
    }
    return held->backend.get();
  };
  ReencodeReport report;
  {
    WriterOptions writing;
    writing.stop = stop;
    std::optional<CollectionWriter> writer;
    if (is_collection(options_.folder)) {
      SACCADE_TRY(check_has_no_alias(options_.folder));
      SACCADE_ASSIGN(writer, CollectionWriter::open(options_.folder, writing));
    } else {
      SACCADE_ASSIGN(const LoadedEncoder* loaded, encoder());
      SACCADE_ASSIGN(
          const IngestSettings settings,
          new_collection_settings(completed(options_.choices, from.info().settings, *loaded->encoder),
                                  *loaded->encoder));
      writing.copy_of = identity_of(from.info());
      SACCADE_ASSIGN(writer, CollectionWriter::create(options_.folder, loaded->id, settings, writing));
    }
    SACCADE_ASSIGN(report, saccade::reencode(*writer, source, from, options, pool(), progress, stop));
  }
  SACCADE_TRY(refresh());
  return report;
}

Result<EngineCore::Reencoded> EngineCore::reencode(const ReencodeCall& call, const ProgressCallback& progress,
                                                   const std::stop_token& stop) {
  const std::filesystem::path& to = options_.folder;
  Reencoded done;
  // The name may be that of `from`, which is to stay the same collection.
  SACCADE_ASSIGN(const std::filesystem::path first, settled_collection(call.from));
  if (!call.name.empty()) {
    SACCADE_ASSIGN(const NameLeads leads, where_name_leads(call.name, first, to));
    if (leads == NameLeads::kToSecond) {
      SACCADE_TRY(switch_name(call.name, first, to, stop));
      done.switched = done.already = true;
      return done;
    }
  }
  SACCADE_ASSIGN(CollectionReader from, CollectionReader::open(first));
  IngestOptions options = call.ingest;
  if (!options.limits.processes) options.limits.processes = decoders();
  SACCADE_ASSIGN(done.report, fill_from(from, options, progress, stop));
  ReencodeReport& report = done.report;
  if (!report.cancelled && refresh_calibration(stop)) {
    SACCADE_TRY(from.refresh());
    SACCADE_ASSIGN(ReencodeReport more, fill_from(from, options, progress, stop));
    report.items = more.items;
    report.added += more.added;
    report.updated += more.updated;
    report.duplicates += more.duplicates;
    report.described += more.described;
    report.moved += more.moved;
    report.removed += more.removed;
    report.failed = std::move(more.failed);
    report.cancelled = more.cancelled;
  }
  // Also where calibration was stopped, which tells of it by a note alone.
  report.cancelled = report.cancelled || stop.stop_requested();
  if (call.name.empty() || report.cancelled) return done;
  if (!report.failed.empty() && !call.incomplete) return done;
  SACCADE_TRY(switch_name(call.name, first, to, stop));
  done.switched = true;
  return done;
}

Status EngineCore::watch(std::span<const std::filesystem::path> paths, WatchOptions options,
                         const std::function<void(const WatchNews&)>& news, const std::stop_token& stop) {
  if (!options.ingest.limits.processes) options.ingest.limits.processes = decoders();
  std::optional<EngineEncoder> held;
  const EncoderSource source = [&]() -> Result<EncoderBackend*> {
    if (!held) {
      SACCADE_ASSIGN(held, borrow());
    }
    return held->backend.get();
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
      if (refresh_calibration(stop)) refreshed();
    }
    measured = true;
  };
  return saccade::watch(options_.folder, source, paths, options, pool(), told, stop);
}

}  // namespace saccade
