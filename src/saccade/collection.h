// Collection: the images of a collection with their metadata and embeddings, read without the model.
//
//   auto photos = saccade::Collection::open("photos.saccade");
//   for (const auto& image : photos->images("camera~canon").value()) use(image.path, image.caption);
//   auto sharp = photos->allowed("width>=2000");
//   auto best = saccade::top_k(queries, photos->embeddings(), 10, {.allowed = *sharp});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/calibration.h"
#include "saccade/matrix.h"
#include "saccade/precision.h"
#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// One image of a collection: a file, or a frame of a video.
struct IndexedImage {
  int64_t id = 0;                   // from 1, never given to another image
  int64_t row = 0;                  // of Collection::embeddings(); -1 in a Weaviate cluster
  std::filesystem::path path = {};  // of its file; frames of a video end in "#t=SECONDS"
  std::string hash = {};            // SHA-256 of the file, 64 hexadecimal digits; "" if not known
  int64_t size = 0;                 // bytes; -1 if not known, as of an image imported without its file
  int64_t modified = 0;             // nanoseconds since 1970 UTC; -1 if not known
  int64_t width = 0;                // pixels, after orientation; 0 if not known
  int64_t height = 0;               // pixels, after orientation; 0 if not known
  std::string format = {};          // "jpeg", "png", ...; "" if not known
  std::string caption = {};         // UTF-8; may be empty
};

// Embedded metadata of an image file (EXIF, XMP and IPTC). It is untrusted: cameras lack clocks, and editors guess.
// Impossible values are left out. Texts are UTF-8 and may be empty.
struct ImageMetadata {
  // Local time at which the image was taken, in seconds since 1970 as if it were UTC.
  std::optional<int64_t> taken = {};
  std::optional<int> zone_minutes = {};    // time zone of `taken`, minutes east of UTC
  std::string camera = {};                 // maker and model: "Canon EOS R5"
  std::string lens = {};                   // its name
  std::optional<double> latitude = {};     // degrees north, WGS 84
  std::optional<double> longitude = {};    // degrees east, WGS 84
  std::string place = {};                  // town nearest to that position; only the command line finds it
  std::optional<int> rating = {};          // 1 to 5 stars; -1: rejected
  std::string title = {};                  // short text for people
  std::string description = {};            // longer text for people
  std::vector<std::string> keywords = {};  // in the file's order
};

// A file that could not be indexed.
struct FailedFile {
  std::filesystem::path path = {};  // of the file
  Error error = {};                 // why it could not be read
};

// A snapshot of a collection. Later changes are seen by opening it again. A value: copies share the snapshot, all
// methods may be called from several threads, and what it returns by view stays valid as long as a copy exists.
class Collection {
 public:
  // Opens a collection: a folder, or an address like weaviate://HOST:PORT/Name. kNotFound if there is none, kBadData for
  // broken files, kUnsupported for a newer format. kIo if a cluster does not answer.
  // Nothing is written. Cost: reads two numbers an image and maps the embeddings.
  static Result<Collection> open(const std::filesystem::path& folder);

  // Facts about a collection. A value.
  struct Info {
    std::string address = {};                // folder of the collection, or address in a cluster
    std::string encoder = {};                // name of its model
    std::string encoder_folder = {};         // folder of the model when the collection was created
    std::string fingerprint = {};            // SHA-256 of the model
    Precision precision = Precision::kFp32;  // number format of the encoder when images were indexed
    int64_t images = 0;                      // number of images
    int64_t dim = 0;                         // values of an embedding
    bool late_interaction = false;           // several vectors an image
    std::string created = {};                // UTC, "2026-01-31T12:00:00.123456Z", or in whole seconds
  };
  // Facts about the collection. Valid as long as a copy of this snapshot.
  [[nodiscard]] const Info& info() const;

  // Embeddings as they lie on disk: [rows, info().dim], each of length 1. Rows of removed images are still among them:
  // pass allowed() to top_k. With late interaction a row is the mean of the image's vectors. Empty for a collection in a
  // Weaviate cluster, whose rows are not on this host.
  [[nodiscard]] MatrixView<const float> embeddings() const;
  // Id of each row's image; 0 if no image has the row. Empty in a Weaviate cluster.
  [[nodiscard]] std::span<const int64_t> ids() const;
  // One byte a row: 1 if an image has the row and passes the filter (`saccade help filters`), else 0. kUsage names what
  // is wrong with a filter, kUnsupported in a Weaviate cluster. Cost: one scan of the catalog; without a filter a copy.
  [[nodiscard]] Result<std::vector<uint8_t>> allowed(std::string_view filter = {}) const;
  // Vectors of an image with late interaction, [n, info().dim], each of length 1 up to their stored precision.
  // kUnsupported without late interaction, kNotFound for an unknown id.
  [[nodiscard]] Result<Matrix<float>> vectors(int64_t id) const;

  // Look an image up by its id, its row, or its path (absolute, or relative to the working directory). kNotFound if there
  // is none. Cost: one indexed look-up.
  [[nodiscard]] Result<IndexedImage> image(int64_t id) const;
  // As above, by the row of its embedding.
  [[nodiscard]] Result<IndexedImage> image_of_row(int64_t row) const;
  // As above, by the path of its file.
  [[nodiscard]] Result<IndexedImage> image(const std::filesystem::path& path) const;
  // Lists the images that pass the filter, by id; all without one. kUnsupported for a filter in a Weaviate cluster.
  [[nodiscard]] Result<std::vector<IndexedImage>> images(std::string_view filter = {}) const;
  // Calls `visit` with each image, by id. Stops at the first error that it returns, and returns that. `visit` must not
  // call this collection.
  Status for_each_image(const std::function<Status(const IndexedImage&)>& visit) const;
  // Returns the metadata of an image; empty if its file has none. kNotFound for an unknown id.
  [[nodiscard]] Result<ImageMetadata> metadata(int64_t id) const;

  // A value of a field, with the number of images that have it.
  struct FieldValue {
    std::string value = {};  // UTF-8
    int64_t images = 0;      // that have it
  };
  // Lists the values of a text field ("camera", "keyword", "format", ...), most frequent first, at most `most`. kUsage for
  // another field and for `most` below 0, kUnsupported in a Weaviate cluster. Cost: one scan of the catalog.
  [[nodiscard]] Result<std::vector<FieldValue>> values(std::string_view field, int64_t most = 100) const;
  // Files that could not be indexed, by path.
  [[nodiscard]] Result<std::vector<FailedFile>> failed() const;

  // Calibration that `index` learned for queries of a kind. kNotFound if there is none yet, kUnsupported with late
  // interaction, whose scores grow with the length of the text.
  [[nodiscard]] Result<Calibration> calibration(QueryKind kind) const;

 private:
  friend class Engine;
  struct State;
  explicit Collection(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace saccade
#pragma GCC visibility pop
