// The core of an engine: an open collection with its encoder and everything a search needs beside them. The public
// Engine, the command line and its prompt are written over it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/collection.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/ingest/watch.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/options/effective_length.h"
#include "saccade/progress.h"
#include "saccade/search/background.h"
#include "saccade/search/explain_hits.h"
#include "saccade/search/rerank.h"
#include "saccade/search/search.h"

namespace saccade {

// Something that people should know, as a sentence.
struct Note {
  std::string text;
  bool warning = false;
};
using NoteCallback = std::function<void(const Note&)>;

// Settings that are fixed when a collection is created. `nullopt`: the default, or whatever an existing collection has.
struct CollectionChoices {
  std::optional<bool> as_stored;        // true: EXIF orientation is ignored
  std::optional<bool> convert_to_srgb;  // colors of images with an ICC profile
  std::optional<bool> fast_decode;      // decode JPEG and WebP at a reduced size
  std::optional<BackgroundPolicy> background;
  std::optional<Int8Policy> int8_rows;
  std::optional<RowPrecision> late_precision;  // of late interaction's vectors
  std::optional<int64_t> late_pool;            // patches that one of these stands for
};

// Checks that an existing collection was created with these settings. kUsage names the first that differs.
Status check_choices(const CollectionChoices& choices, const IngestSettings& settings);

// Returns the settings of a new collection. Errors of late_settings, for choices that the encoder does not allow.
Result<IngestSettings> new_collection_settings(const CollectionChoices& choices, EncoderBackend& encoder);

struct EngineCoreOptions {
  std::filesystem::path folder;
  std::string checkpoint;  // as find_checkpoint takes it; empty: the collection's own, or the starter
  std::optional<Precision> precision;  // `nullopt`: the collection's own, or kFp32
  int threads = 0;
  CollectionChoices choices;
  // Returns the processes that decode images; called when one is first needed. Empty: images are decoded in this process.
  std::function<DecoderPool*()> decoders;
  NoteCallback note;  // may be empty; called on the thread that does the work
};

// Snapshot of a collection, with the data that belong to it.
struct CollectionSnapshot {
  Collection collection;
  std::shared_ptr<const Background> background;  // calibration data; `nullptr` if there is none

  // Opens the collection's current state. Damaged calibration data is a note.
  static Result<std::shared_ptr<const CollectionSnapshot>> open(const std::filesystem::path& folder,
                                                                const NoteCallback& note);
};

class EngineCore {
 public:
  // Prepares an engine for the folder. If there is a collection it is opened, and checked against the options: kMismatch
  // for another model, kUsage for other choices. If there is none, the first index() creates it; searching before is
  // kNotFound.
  static Result<std::unique_ptr<EngineCore>> open(EngineCoreOptions options);

  [[nodiscard]] const EngineCoreOptions& options() const { return options_; }
  [[nodiscard]] ThreadPool& pool() const { return pool_; }
  // Returns the current snapshot. kNotFound if there is no collection yet.
  [[nodiscard]] Result<std::shared_ptr<const CollectionSnapshot>> snapshot() const;
  // Returns the collection's encoder. Loads it on the first call. Thread-safe.
  [[nodiscard]] Result<const LoadedEncoder*> encoder() const;
  // Returns true if encoder() has loaded the encoder.
  [[nodiscard]] bool encoder_is_loaded() const;

  // Settings of one search call beside its query.
  struct SearchCall {
    // A composer's folder; empty: the collection's own composer if `own_composer` is set and the query is plain.
    std::filesystem::path composer = {};
    bool own_composer = true;
    EncoderBackend* second = nullptr;  // reranks
    RerankOptions rerank = {};
    bool explain = false;
    ExplainOptions explaining = {};
    std::string second_name = {};
    ProgressCallback progress = {};
    std::stop_token stop = {};
  };
  // Completes the query with the collection's composer, calibration data and measured text length, and answers it.
  // Thread-safe.
  [[nodiscard]] Result<SearchAnswer> search(SearchQuery query, const SearchCall& call) const;
  // Answers with items like one of the collection; see search_like. Thread-safe.
  [[nodiscard]] Result<SearchAnswer> like(int64_t id, SearchQuery query) const;

  // Indexes the paths, creating the collection if there is none, and refreshes its calibration data and the snapshot.
  Result<IngestReport> index(std::span<const std::filesystem::path> paths, IngestOptions options,
                             const ProgressCallback& progress, const std::stop_token& stop);
  // Follows the paths; see saccade::watch. Calibration data and the snapshot are refreshed after each change.
  Status watch(std::span<const std::filesystem::path> paths, WatchOptions options,
               const std::function<void(const WatchNews&)>& news, const std::stop_token& stop);

  // Takes up what was written since, by this process or another.
  Status refresh();

 private:
  explicit EngineCore(EngineCoreOptions options) : options_(std::move(options)), pool_(options_.threads) {}
  void note(std::string text, bool warning) const;
  // Notes how close the embeddings of the first images are to fp32's, where the encoder computes in another format.
  void note_precision_cost(std::span<const std::filesystem::path> paths, const IngestOptions& options) const;
  [[nodiscard]] Result<std::filesystem::path> checkpoint_to_load() const;
  Result<LoadedEncoder> load_encoder() const;
  void note_of_loaded(const LoadedEncoder& loaded) const;
  Status complete(const CollectionSnapshot& snapshot, const SearchCall& call, SearchQuery& query) const;
  Result<std::shared_ptr<Composer>> composer_of(const CollectionSnapshot& snapshot,
                                                const SearchCall& call) const;
  // Measures the collection's calibration data where it is due. A failure is a note: the images are indexed all the same.
  void refresh_calibration(const std::stop_token& stop);
  [[nodiscard]] DecoderPool* decoders() const { return options_.decoders ? options_.decoders() : nullptr; }

  EngineCoreOptions options_;
  mutable ThreadPool pool_;
  mutable std::mutex loading_;
  mutable std::optional<LoadedEncoder> encoder_;
  mutable std::optional<MeasuredLength> measured_length_;
  mutable std::mutex composing_;
  mutable std::string composer_folder_;
  mutable std::shared_ptr<Composer> composer_;
  mutable std::mutex mutex_;
  std::shared_ptr<const CollectionSnapshot> snapshot_;
};

}  // namespace saccade
