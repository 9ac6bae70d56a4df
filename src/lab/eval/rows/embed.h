// Embeddings of images and texts through the cache, in batches: the first step of all evaluations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/rows/embedding_cache.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/progress.h"

namespace saccade::lab {

// Treatment of transparent images.
enum class Transparency {
  kWhite,       // over white, as a person sees them
  kCheckpoint,  // by the checkpoint's preprocessing; reference pipelines show hidden pixels
};
std::span<const EnumName<Transparency>> enum_names(Transparency);  // "white", "checkpoint"
// Returns the encoder's preprocessing with that treatment.
Preprocessing with_transparency(const Preprocessing& preprocessing, Transparency transparency);

struct EmbedOptions {
  Transparency transparency = Transparency::kWhite;
  bool as_stored = false;  // EXIF orientation is ignored, as reference pipelines do
  DecoderPool* processes =
      nullptr;     // decoders (image/decode/process/decoder_pool.h); nullptr: calling threads
  int batch = 32;  // images decoded at a time; memory: 12 bytes a pixel of the encoder's input each
  std::filesystem::path cache;  // folder of the cache; empty: none
  // Called if the cache cannot be used; embeddings are then computed without it.
  std::function<void(const std::string&)> warning = {};
  int64_t cache_bytes = kEmbeddingCacheBytes;
  ProgressCallback progress = {};
  std::string progress_detail = {};  // the model's name, say
  std::stop_token stop = {};
};

// Embeddings of items in their order: one each, or several with late interaction.
struct EmbeddedRows {
  RowSets sets;
  bool late = false;
  EmbeddingCache::Counts cache;  // counts of this call

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(sets.begin.size()) - 1; }
};

struct EmbeddedPictures {
  EmbeddedRows rows;                              // without rows for those that failed
  std::vector<std::string> sha256;                // hash of each image's bytes; empty if it is unreadable
  std::vector<std::pair<int64_t, Error>> failed;  // ascending by number
};

// Function that encodes inputs, and its key in the cache beside the encoder's fingerprint. Functions of one
// encoder with different results have different keys; the encoder's own embeddings have none.
template <typename Input>
struct EmbeddingFunction {
  std::string key;
  int64_t dim = 0;
  bool late = false;  // MaxSim compares an item's rows
  std::function<Result<RowSets>(Input)> encode;
};
using ImageFunction = EmbeddingFunction<MatrixView<const float>>;  // of pixels as encode_images has them
using TextFunction = EmbeddingFunction<std::span<const TokenizedText>>;

// Return the encoder's own embeddings. The encoder is borrowed.
ImageFunction own_images(EncoderBackend& encoder);
TextFunction own_texts(EncoderBackend& encoder);

// Embeds images. The key is the SHA-256 of an image's bytes: an image that changes under its name is encoded
// again, equal ones are encoded once. Unreadable images are listed, not errors. Reading and decoding run on
// the pool, one batch at a time. Errors: kUnsupported for encoders without an image tower; kBadData for an
// embedding that is zero or not finite; kCancelled when asked to stop, with the finished embeddings kept in
// the cache.
Result<EmbeddedPictures> embed_pictures(EncoderBackend& encoder, std::span<const ImageRef> pictures,
                                        const EmbedOptions& options, ThreadPool& pool);
// Likewise with a function of the encoder in place of its own embeddings.
Result<EmbeddedPictures> embed_pictures(EncoderBackend& encoder, const ImageFunction& function,
                                        std::span<const ImageRef> pictures, const EmbedOptions& options,
                                        ThreadPool& pool);

// Embeds texts. The key is the SHA-256 of a text's ids, so truncated texts have keys of their own. Errors are
// as above.
Result<EmbeddedRows> embed_texts(EncoderBackend& encoder, std::span<const TokenizedText> texts,
                                 const EmbedOptions& options);
Result<EmbeddedRows> embed_texts(EncoderBackend& encoder, const TextFunction& function,
                                 std::span<const TokenizedText> texts, const EmbedOptions& options);

// Returns the items `which`, in that order.
EmbeddedRows select_rows(const EmbeddedRows& rows, std::span<const int64_t> which);
// Returns one embedding per item: the mean of its rows, normalized.
Matrix<float> mean_rows(const EmbeddedRows& rows);

// Returns the items with that one embedding each, without late interaction.
EmbeddedRows pooled_items(const EmbeddedRows& rows);

// Returns cosines, or with late interaction MaxSim in the given form. The embeddings are borrowed. Errors: those of
// dot_scores and max_sim_scores.
Result<std::unique_ptr<PairScores>> scores_of(const EmbeddedRows& texts, const EmbeddedRows& pictures,
                                              LateScoring scoring = {});

// Returns the SHA-256 over hexadecimal hashes, a line each: images_sha256 of run.json.
std::string hash_of_hashes(std::span<const std::string> hashes);

}  // namespace saccade::lab
