// Engine: an open collection with its encoder.
//
//   auto photos = saccade::Engine::open("photos.saccade", {.encoder = "openai/clip-vit-base-patch32", .create = true});
//   auto report = photos->index({"/home/me/Pictures"}, {.on_progress = print_progress});
//   for (const auto& hit : photos->search("a red door", {.k = 20, .filter = "width>=1000"})->hits) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/answer.h"
#include "saccade/collection.h"
#include "saccade/encoder.h"
#include "saccade/map_method.h"
#include "saccade/precision.h"
#include "saccade/progress.h"
#include "saccade/query.h"
#include "saccade/rerank_method.h"
#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Options of Engine::open.
struct EngineOptions {
  // Model of a new collection, as Encoder::load takes it; empty selects the starter. With an existing
  // collection this is the new location of its model, if that was moved. A model other than the collection's
  // is refused.
  std::string encoder = {};
  bool create = false;  // create the collection if there is none
  // Number format; `nullopt`: the collection's own, for a new one kFp32.
  std::optional<Precision> precision = {};
  int threads = 0;  // 0: one for each processor; at most 1,024
  // Decode all JPEGs of a new collection at their full size. By default those of at least five times the model's input are
  // decoded at a reduced size, which is faster and changes their embeddings slightly. The collection remembers it for its
  // queries. With an existing collection that was created otherwise this is refused.
  bool exact_decode = false;
  std::string device = "cpu";  // device of the model, as in EncoderOptions; the collection does not record it
};

// Options of Engine::index and Engine::watch.
struct IndexOptions {
  bool prune = false;         // remove items whose files are gone; otherwise they are only counted
  bool retry_failed = false;  // try files again that were found to be broken and have not changed
  bool follow_links = false;  // follow links to folders; links to files always are
  bool hidden = false;        // include files and folders whose names begin with a dot
  std::vector<std::string> exclude = {};  // patterns of what to leave out, as lines of a .gitignore file
  // Captions by image path. They win over caption files beside the images.
  std::map<std::string, std::string> captions = {};
  bool ignore_files = true;  // obey files named .saccadeignore
  bool sidecars = true;      // read captions from .txt files beside images
  bool metadata = true;      // store embedded metadata (EXIF, XMP, IPTC)
  // Largest time between two indexed frames of a video, in seconds, 0 or more. The first frame of each scene always is one.
  double video_seconds = 10;
  int64_t video_frames = 100;  // most frames of a video, up to 1,000; 0: skip videos
  int batch_size = 32;         // images a pass of the model
  // Largest number of an image's pixels (width x height), at least 1; a larger image is a failed file.
  int64_t max_pixels = 200'000'000;
  ProgressCallback on_progress = {};  // called on the caller's thread
  std::stop_token stop = {};          // ends within a second of a request; what was done is kept
};

// Outcome of an indexing run, in numbers of images.
struct IndexReport {
  int64_t seen = 0;                     // files looked at
  int64_t added = 0;                    // new items
  int64_t updated = 0;                  // items whose file had changed
  int64_t moved = 0;                    // items whose file was found under another path
  int64_t unchanged = 0;                // items that are as they were
  int64_t removed = 0;                  // with `prune`
  int64_t missing = 0;                  // items whose files are gone, kept without `prune`
  std::vector<FailedFile> failed = {};  // by path
  bool cancelled = false;               // asked to stop; the same call goes on from there
  double seconds = 0;                   // duration
  std::vector<std::string> notes = {};  // what people should know, a sentence each
};

// Options of a search. All searches of an engine may use different ones.
struct SearchOptions {
  int64_t k = 10;           // largest number of hits, at least 1; with `min_probability` too
  int64_t offset = 0;       // best hits to leave out, 0 or more: the `k` behind them are the next page
  std::string filter = {};  // condition on images (`saccade help filters`): "width>=1000 and date>=2024"
  // Weight of keyword matches (captions, file and folder names) against visual similarity, 0 to 1.
  double keyword_weight = 0.5;
  std::optional<double> min_probability = {};  // leave out hits that are less likely to be right, 0 to 1
  bool group_duplicates = true;                // show near-duplicates grouped under the best of them
  double group_above = 0.999;                  // minimum cosine similarity of near-duplicates, 0 to 1
  Order order = Order::kScore;                 // order of the hits of a page
  bool chunk_long_text = false;  // read a text that is longer than the model's context in chunks
  int64_t candidates = 1000;     // with late interaction: images scored by all their vectors; 0: all
  // Score all embeddings, even if the collection has an approximate index. kUnsupported in a Weaviate cluster.
  bool exact = false;
  // Weaviate cluster: images that it chooses and that are compared by their full embeddings, at least, up to 10,000. 0: as many
  // as the hits need. A folder ignores it.
  int64_t exact_rescore = 0;
  // Second model, which scores the best hits anew from their files and puts them first, in the order of its score.
  // `nullopt`: none. Not with `min_probability` or a filter alone.
  std::optional<Encoder> rerank = {};
  int64_t rerank_depth = 100;                         // hits that it scores, at least 1
  RerankMethod rerank_by = RerankMethod::kStrongest;  // score of the second model that decides
  // Explain each hit: contribution of each word of the text, and a relevance map over the image, which is read from its file.
  // kUnsupported if the model gives no maps. Cost: one to two times encoding the hits' images. Not with a filter alone.
  bool explain = false;
  // Method of the maps. `nullopt`: kLegrad, or patch similarity with late interaction. kChefer takes about twice as long.
  std::optional<MapMethod> explain_by = {};
  // Called on the caller's thread: by search() while hits are reranked and explained, by search_all() after each block of
  // queries.
  ProgressCallback on_progress = {};
  // Ends the search between two steps, with kCancelled; search_all() within a second, also while texts are encoded.
  std::stop_token stop = {};
};

// Facts about a collection. Those of the collection's images are empty before the first index().
using EngineInfo = Collection::Info;

// An open collection with its encoder. Movable. search(), like() and the other const methods may be called
// from several threads at once. index() and remove() have one writer at a time, in all processes (kCancelled
// names the other one); searches continue meanwhile. A search sees the collection as it was when the last index(),
// remove() or refresh() ended. In a Weaviate cluster several processes may write at once, and a search sees
// the class as it is.
class Engine {
 public:
  // Opens a collection: a folder, or an address like weaviate://HOST:PORT/Name. kNotFound if there is none and
  // options.create is false, or if its model is gone; kMismatch for another model; kUsage for options.exact_decode with a
  // collection that was created without it; kBadData for broken files; kIo if a cluster does not answer. Cost: reads two
  // numbers an image, maps the embeddings; the model is loaded when it is first needed.
  static Result<Engine> open(std::string_view address, const EngineOptions& options = {});
  // Takes over another engine, which may then only be destroyed or assigned to.
  Engine(Engine&&) noexcept;
  // As above; closes what this one had open.
  Engine& operator=(Engine&&) noexcept;
  // Closes the collection.
  ~Engine();

  // Adds new and changed images and videos below the paths, and goes on where an earlier call was stopped. Videos are read
  // if ffmpeg and ffprobe are installed. Files that cannot be read are reported, not errors. Errors: kUsage for an option
  // out of range, kNotFound if none of the paths exists, kIo for a full disk, kCancelled while another process writes.
  Result<IndexReport> index(std::span<const std::filesystem::path> paths, const IndexOptions& options = {});
  // As above, for a list in braces.
  Result<IndexReport> index(std::initializer_list<std::filesystem::path> paths,
                            const IndexOptions& options = {});

  // Follows the folders until asked to stop: changes are indexed as the kernel tells of them. `on_change` is called on
  // this thread after each, and may search. Files that are deleted are removed if options.prune is set. While another process
  // writes, it waits. kUsage without paths or for an option out of range; kNotFound without a collection, or if none of the
  // paths exists. Being asked to stop is no error.
  Status watch(std::span<const std::filesystem::path> paths, const IndexOptions& options,
               const std::function<void(const IndexReport&)>& on_change);

  // Finds the images closest to the query. kUsage for a query without content, a broken filter or an option out of
  // range; kNotFound before the first index() and for an unknown id of Query::like; kUnsupported for what the model, its
  // second model or the collection lacks (match probabilities, maps, a matching head); kCancelled after a stop request; the
  // errors of loading the model, of decoding the query's images and of opening its composer. Cost: encoding the query, and
  // one pass over the embeddings that pass the filter (16 ms for a million of 512 values on two cores); with `rerank` also
  // decoding and encoding `rerank_depth` images.
  [[nodiscard]] Result<Answer> search(const Query& query, const SearchOptions& options = {}) const;
  // Answers many queries with the same options, faster than one by one. Result i is that of search(queries[i], options): an
  // answer, or the error of that query alone. Answers are the same to the bit, but for a note that counts embeddings read in
  // full; on processors without AVX-512 the last digits of fp32 scores may differ. All queries see the collection as it was
  // when the call began. Errors of the call: kUsage for an option out of range or a broken filter, kNotFound before the first
  // index(), those of loading the model, and kCancelled after a stop request. Cost: texts are encoded in batches, and up to
  // 64 queries share a pass over the embeddings. Images are encoded one by one. Queries with `rerank` or `explain`, and those
  // that use an approximate index, share no pass. Memory: the answers, and the work of 64 queries (fewer for a `k` above 1,000).
  [[nodiscard]] Result<std::vector<Result<Answer>>> search_all(std::span<const Query> queries,
                                                               const SearchOptions& options = {}) const;
  // As above, for a list in braces.
  [[nodiscard]] Result<std::vector<Result<Answer>>> search_all(std::initializer_list<Query> queries,
                                                               const SearchOptions& options = {}) const;
  // Finds images similar to one of the collection, which is itself excluded: search() of Query::like without a text. kNotFound
  // for an unknown id.
  [[nodiscard]] Result<Answer> like(int64_t id, const SearchOptions& options = {}) const;

  // Returns facts about the collection as searches see it now. Cost: counts kept in memory.
  [[nodiscard]] EngineInfo info() const;
  // The encoder, which shares its weights with this engine. The first call loads it if no other has; the errors of
  // Encoder::load.
  [[nodiscard]] Result<Encoder> encoder() const;
  // Looks an image up by its id. kNotFound if there is none, and before the first index(). Cost: one indexed look-up.
  [[nodiscard]] Result<IndexedImage> image(int64_t id) const;
  // As above, by the path of its file: absolute, or relative to the working directory.
  [[nodiscard]] Result<IndexedImage> image(const std::filesystem::path& path) const;
  // Lists the images that pass the filter, by id; all without one. kUsage for a broken filter, kUnsupported for one in a
  // Weaviate cluster, kNotFound before the first index(). Cost: one scan of the catalog.
  [[nodiscard]] Result<std::vector<IndexedImage>> images(std::string_view filter = {}) const;

  // The collection as searches see it now, for its embeddings, metadata and calibration. kNotFound before the first
  // index() creates it.
  [[nodiscard]] Result<Collection> collection() const;

  // Removes images by id. Their files stay. kNotFound, with nothing removed, if an id is unknown; kCancelled while another
  // process writes.
  Status remove(std::span<const int64_t> ids);
  // Takes up what other processes have written. kNotFound without a collection.
  Status refresh();

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace saccade
#pragma GCC visibility pop
