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
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/ingest/watch.h"
#include "saccade/collection/reencode/reencode.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/options/effective_length.h"
#include "saccade/progress.h"
#include "saccade/search/explain/explain_hits.h"
#include "saccade/search/matching/background.h"
#include "saccade/search/matching/rerank.h"
#include "saccade/search/row_finder.h"
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
  std::optional<bool> fast_decode;      // decode large JPEGs at a reduced size; new collections do by default
  std::optional<BackgroundPolicy> background;
  std::optional<Int8Policy> int8_rows;
  std::optional<RowPrecision> late_precision;  // of late interaction's vectors
  std::optional<int64_t> late_pool;            // patches that one of these stands for
};

// An encoder as searches and indexing use it. Copies share the model.
struct EngineEncoder {
  std::shared_ptr<EncoderBackend> backend;
  std::string name;
  std::optional<MeasuredLength> measured_length;  // of a text; `nullopt` if it is not known
};

// Reports what people should know of a checkpoint that was loaded: spaces never trained together, guessed preprocessing.
void note_of_loaded(const LoadedEncoder& loaded, const NoteCallback& note);
// Returns the measured effective length of the checkpoint's context. A damaged measurement is a note.
std::optional<MeasuredLength> measured_length_of(const CheckpointId& checkpoint, const NoteCallback& note);

struct EngineCoreOptions {
  std::filesystem::path folder;
  std::string checkpoint;  // as find_checkpoint takes it; empty: the collection's own, or the starter
  std::optional<Precision> precision;  // `nullopt`: the collection's own, or kFp32
  int threads = 0;
  std::string device =
      "cpu";  // of the engine's own encoder (BackendOptions::device); composers use the processor
  CollectionChoices choices;
  // Returns the processes that decode images; called when one is first needed. Empty: images are decoded in this process.
  std::function<DecoderPool*()> decoders;
  NoteCallback note;  // may be empty; called on the thread that does the work
  // Lends the collection's encoder, for programs that share models between collections. It is asked for each call, and held
  // until that has ended. Empty: the engine loads the encoder itself.
  std::function<Result<EngineEncoder>()> lend = {};
  // As SnapshotOptions.
  std::function<std::unique_ptr<RowFinder>(const CollectionReader&)> row_finder = {};
  bool open_composer = false;
};

class CollectionSnapshot;

struct SnapshotOptions {
  NoteCallback note = {};  // may be empty
  // Makes the object that scores the snapshot's rows; empty: each search makes a pass of its own.
  std::function<std::unique_ptr<RowFinder>(const CollectionReader&)> row_finder = {};
  BackendOptions composer = {};  // for loading the collection's composer
  const CollectionSnapshot* last =
      nullptr;                 // an earlier one, whose composer is kept if it is still the one named
  bool open_composer = false;  // opens the composer now, so that its errors are those of open()
};

// Snapshot of a collection, with the data that belong to it. Thread-safe.
class CollectionSnapshot {
 public:
  // Opens the collection's current state. Damaged calibration data is a note.
  static Result<std::shared_ptr<const CollectionSnapshot>> open(const std::filesystem::path& folder,
                                                                const SnapshotOptions& options = {});
  explicit CollectionSnapshot(CollectionReader opened) : collection(std::move(opened)) {}

  CollectionReader collection;
  std::shared_ptr<const Background> background;  // calibration data; `nullptr` if there is none
  std::unique_ptr<RowFinder> rows;               // `nullptr`: each search makes a pass of its own

  // Returns the composer that the collection names; `nullptr` if it names none. The first call opens it. Errors of
  // open_collection_composer.
  [[nodiscard]] Result<std::shared_ptr<Composer>> composer() const;

 private:
  std::string composer_named_;  // content of composer.json; empty: there is none
  BackendOptions composer_options_;
  mutable std::mutex composing_;
  mutable std::optional<std::shared_ptr<Composer>> composer_;
};

class EngineCore {
 public:
  // Prepares an engine for the folder. kUsage for an unknown device. If there is a collection it is opened, and checked against the options: kMismatch
  // for another model, kUsage for other choices. If there is none, the first index() creates it; searching before is
  // kNotFound.
  static Result<std::unique_ptr<EngineCore>> open(EngineCoreOptions options);

  [[nodiscard]] const EngineCoreOptions& options() const { return options_; }
  // Threads of the engine, started at the first call. Thread-safe.
  [[nodiscard]] ThreadPool& pool() const;
  // Returns the current snapshot. kNotFound if there is no collection yet.
  [[nodiscard]] Result<std::shared_ptr<const CollectionSnapshot>> snapshot() const;
  // Returns the collection's encoder, which the engine loads itself on the first call. Thread-safe.
  [[nodiscard]] Result<const LoadedEncoder*> encoder() const;
  // Returns true if encoder() has loaded the encoder.
  [[nodiscard]] bool encoder_is_loaded() const;

  // Use of the composer that a collection names, for a query of an image and a text.
  enum class OwnComposer {
    kNo,
    kIfAny,     // if there is one and the query is plain (is_plain)
    kRequired,  // kUsage if there is none
  };
  // Settings of one search call beside its query.
  struct SearchCall {
    // Id of an item to search by, in place of the query's images: its own row, or with a text the two composed. The item itself
    // is no hit. 0: none.
    int64_t like = 0;
    bool literal = false;                 // the text is taken as it stands: "but at night" keeps its "but"
    int64_t offset = 0;                   // best hits to leave out, 0 or more; the query's k follow them
    std::filesystem::path composer = {};  // folder of a composer to use; empty: none
    OwnComposer own_composer = OwnComposer::kIfAny;  // ignored if `composer` is set
    EncoderBackend* second = nullptr;                // reranks; not with a filter alone
    RerankOptions rerank = {};                       // with the name of the second encoder
    bool explain = false;
    ExplainOptions explaining = {};
    ProgressCallback progress = {};
    std::stop_token stop = {};
    // The collection's encoder as it was lent to this call; `nullptr`: the engine's own, or EngineCoreOptions::lend.
    const EngineEncoder* encoder = nullptr;
    ThreadPool* pool = nullptr;  // `nullptr`: the engine's own
    // Told the duration of the stages "encode", "score" and "explain". "encode" is left out if nothing was encoded. With
    // `second` the first two are one, "rerank".
    std::function<void(std::string_view stage, double seconds)> spent = {};
  };
  // Completes the query with the collection's composer, calibration data and measured text length, and answers it. A query
  // without a text and an image lists the newest images that its filter leaves (list_newest); no encoder is loaded. kUsage
  // for options that do not go together; kNotFound for `like` without such an item. Thread-safe.
  [[nodiscard]] Result<SearchAnswer> search(SearchQuery query, const SearchCall& call) const;

  // Two arguments of search().
  struct Search {
    SearchQuery query;
    SearchCall call;
  };
  // Returns the number of searches for `k` hits each to pass to search_all() at a time: kSearchesTogether, or fewer with a large
  // `k`, so that the answers of a call have some 65,000 hits at most.
  static size_t search_block(int64_t k);
  // Answers searches in their order, each as search() does, with an error of its own. Texts are encoded in batches, and the
  // searches share passes over the rows of the snapshot (encode_queries, search_encoded_all). Searches that rerank share
  // nothing. All use the engine's own threads, and its own encoder or EngineCoreOptions::lend: `encoder`, `pool` and `spent` of
  // their calls are ignored. The error of the call is that of getting the encoder. Thread-safe.
  [[nodiscard]] Result<std::vector<Result<SearchAnswer>>> search_all(const CollectionSnapshot& now,
                                                                     std::vector<Search> searches) const;

  // Indexes the paths, creating the collection if there is none, and refreshes its calibration data and the snapshot.
  Result<IngestReport> index(std::span<const std::filesystem::path> paths, IngestOptions options,
                             const ProgressCallback& progress, const std::stop_token& stop);
  // Settings of reencode().
  struct ReencodeCall {
    std::filesystem::path from;  // collection whose images are encoded
    // Link or alias that leads to `from`, and to this engine's collection at the end (collection/reencode/
    // switch_collection.h). Empty: none.
    std::filesystem::path name = {};
    // Switch although images are left out.
    bool incomplete = false;
    IngestOptions ingest = {};
  };
  struct Reencoded {
    ReencodeReport report;
    bool switched = false;  // ReencodeCall::name leads to this engine's collection
    bool already = false;   // and did so before: nothing was encoded
  };
  // Makes this engine's collection a copy of another one with its own encoder (saccade::reencode), measures its calibration
  // data, takes in what was added meanwhile, and switches the name. If there is no collection yet, it is created with the
  // settings of `from` that EngineCoreOptions::choices leaves open. If the name leads to this engine's collection already,
  // nothing else is done. Nothing is switched after a stop, or if images are left out.
  Result<Reencoded> reencode(const ReencodeCall& call, const ProgressCallback& progress,
                             const std::stop_token& stop);
  // Follows the paths; see saccade::watch. Calibration data and the snapshot are refreshed after each change.
  Status watch(std::span<const std::filesystem::path> paths, WatchOptions options,
               const std::function<void(const WatchNews&)>& news, const std::stop_token& stop);

  // Takes up what was written since, by this process or another. On error the old snapshot stays; kMismatch if the folder
  // now holds a collection of another model.
  Status refresh();

  // Measures the collection's calibration data where it is due, and returns whether it did. A failure is a note: the images
  // are indexed all the same. index() and watch() do this.
  bool refresh_calibration(const std::stop_token& stop);

 private:
  explicit EngineCore(EngineCoreOptions options) : options_(std::move(options)) {}
  void note(std::string text, bool warning) const;
  [[nodiscard]] Result<std::shared_ptr<const CollectionSnapshot>> open_snapshot() const;
  // Returns the encoder for a call: lent, or the engine's own.
  [[nodiscard]] Result<EngineEncoder> borrow() const;
  // Notes how close the embeddings of the first images are to fp32's, where the engine's own encoder computes in another
  // format.
  void note_precision_cost(std::span<const std::filesystem::path> paths, const IngestOptions& options) const;
  [[nodiscard]] Result<std::filesystem::path> checkpoint_to_load() const;
  Result<LoadedEncoder> load_encoder() const;
  // Remembers in the collection where its model is now, if that was moved.
  void remember_place(const LoadedEncoder& loaded) const;
  // Completes a query from what the collection, the encoder and the call have for it. Its `k` includes the offset from there on.
  Status complete(const CollectionSnapshot& snapshot, const EngineEncoder& encoder, const SearchCall& call,
                  SearchQuery& query) const;
  // Answers a completed query.
  [[nodiscard]] Result<SearchAnswer> answer_completed(const CollectionSnapshot& snapshot,
                                                      const EngineEncoder& encoder, const SearchQuery& query,
                                                      const SearchCall& call, ThreadPool& threads) const;
  Result<std::shared_ptr<Composer>> composer_of(const CollectionSnapshot& snapshot, const SearchCall& call,
                                                const SearchQuery& query) const;
  // Fills the collection once, as saccade::reencode.
  Result<ReencodeReport> fill_from(CollectionReader& from, const IngestOptions& options,
                                   const ProgressCallback& progress, const std::stop_token& stop);
  [[nodiscard]] DecoderPool* decoders() const { return options_.decoders ? options_.decoders() : nullptr; }

  EngineCoreOptions options_;
  mutable std::once_flag starting_;
  mutable std::unique_ptr<ThreadPool> pool_;
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
