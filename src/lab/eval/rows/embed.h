// Pictures and texts to rows, through the cache, a batch at a time: what all evaluations begin with.
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

#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/progress.h"
#include "saccade/core/threads.h"
#include "saccade/core/enum_names.h"
#include "lab/data/dataset.h"
#include "lab/eval/rows/embedding_cache.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/image/image.h"
#include "saccade/model/encoder.h"

namespace saccade::lab {

// What becomes of transparent pictures.
enum class Transparency {
  kWhite,       // over white: what a person sees
  kCheckpoint,  // as the checkpoint's preprocessing says; reference pipelines show what lies under it
};
std::span<const EnumName<Transparency>> enum_names(Transparency);  // "white", "checkpoint"
// The encoder's preprocessing with that done.
Preprocessing with_transparency(const Preprocessing& preprocessing, Transparency transparency);

struct EmbedOptions {
  Transparency transparency = Transparency::kWhite;
  bool as_stored = false;            // EXIF orientation is ignored, as reference pipelines do
  DecoderPool* processes = nullptr;  // that decode (image/decode/decoder_pool.h); nullptr: the calling threads do
  int batch = 32;  // pictures decoded at a time; memory: 12 bytes a pixel of the encoder's input each
  std::filesystem::path cache;  // folder of the cache; empty: none
  // Told where the cache cannot be used: rows are made without it then.
  std::function<void(const std::string&)> warning = {};
  int64_t cache_bytes = kEmbeddingCacheBytes;
  ProgressCallback progress = {};
  std::string progress_detail = {};  // the model's name, say
  std::stop_token stop = {};
};

// Rows of items in their order: one each, or, with late interaction, several.
struct EmbeddedRows {
  RowSets sets;
  bool late = false;
  EmbeddingCache::Counts cache;  // of this call

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(sets.begin.size()) - 1; }
};

struct EmbeddedPictures {
  EmbeddedRows rows;                // without rows for those that failed
  std::vector<std::string> sha256;  // of each picture's bytes; empty where they could not be read
  std::vector<std::pair<int64_t, Error>> failed;  // ascending by number
};

// The key is the SHA-256 of a picture's bytes: a picture that changes under its name is encoded anew, equal
// ones are encoded once. kUnsupported for encoders without pictures; kBadData for a row that is not finite or
// has no length; kCancelled when asked to stop, with what was encoded kept in the cache. Pictures that cannot
// be read are listed, not errors. Reading and decoding run on the pool, a batch at a time.
Result<EmbeddedPictures> embed_pictures(EncoderBackend& encoder, std::span<const ImageRef> pictures,
                                        const EmbedOptions& options, ThreadPool& pool);

// The key is the SHA-256 of a text's ids, so truncated texts have keys of their own. Errors as above.
Result<EmbeddedRows> embed_texts(EncoderBackend& encoder, std::span<const TokenizedText> texts,
                                 const EmbedOptions& options);

// Items `which`, in that order.
EmbeddedRows select_rows(const EmbeddedRows& rows, std::span<const int64_t> which);
// One row an item: the mean of its rows, of length 1.
Matrix<float> mean_rows(const EmbeddedRows& rows);

// Cosines, or MaxSim with late interaction; both borrowed. Errors as dot_scores and max_sim_scores.
Result<std::unique_ptr<PairScores>> scores_of(const EmbeddedRows& texts, const EmbeddedRows& pictures);

// SHA-256 over hexadecimal hashes, a line each: what run.json calls pictures_sha256.
std::string hash_of_hashes(std::span<const std::string> hashes);

}  // namespace saccade::lab
