// Score calibration data of a collection: scores of queries without an answer (the null distribution) and of
// queries whose answers its captions know. From it an answer derives each hit's match probability
// (index/likelihood.h), and how much its scores tell beside the words of captions and names (evidence.h).
//
// The text queries are words and parts of the collection's captions (text/caption_queries.h) and everyday
// words. The image queries are images of the collection. `saccade index` measures, and stores the result in
// the collection's folder, or with the class of a vector database, of which it measures a sample:
//
//   background.safetensors   metadata "saccade_background": JSON of the numbers; tensors: mean queries, a
//                            sample of the rows, and the nulls, of either kind of query
//
// The file is written atomically, and nothing depends on it. If it is missing, damaged, of another version or
// of other rows, answers have no match probabilities until the next `saccade index`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/likelihood.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/text/caption_queries.h"

namespace saccade {

// Growth or shrinkage factor of a collection from which it is measured again.
inline constexpr double kBackgroundGrowth = 1.5;
// Bounds on the number of calibration texts, which is otherwise a tenth of the number of images. A text costs
// about an eighth of an image. Past 10,000 images the cost therefore falls below 2 % of indexing. The cost of
// fewer texts was measured on four libraries of icons (docs/match-probabilities.md). With 192 in place of 256 the AUROC
// of right against wrong hits changes by -0.005 to 0.006. With 128, hits of one of the four can no longer be
// judged.
inline constexpr int64_t kFewestBackgroundTexts = 192;
inline constexpr int64_t kMostBackgroundTexts = 1024;

// Number of images by which a collection in a vector database is measured. Their texts cost less than twenty images.
inline constexpr int64_t kBackgroundSample = 4096;

struct Background {
  // Calibration of one kind of query.
  struct Kind {
    Surroundings surroundings;
    MatchModel model;
  };
  // Factors that texts are judged by where words count too (evidence.h).
  struct Texts {
    // Mean standard score of right images over the labelled texts; estimated from the scores' deviation if there are
    // fewer than kFewestLabelled.
    double separation = 0;
    bool measured = false;  // the separation
    int64_t labelled = 0;   // texts with known answers that it was measured with
    double described = 0;   // share of the images that have a caption or a name with words
  };
  std::string fingerprint;  // of the collection's encoder
  int64_t items = 0;        // of the collection, when it was measured
  int64_t captions = 0;     // likewise
  int64_t sample = 0;       // number of the items that it was measured on; 0: all
  Kind text;
  Kind picture;
  Texts texts;
  double seconds = 0;  // that measuring took
};

// Calibrates one kind of query on queries with known answers. rows: [n, dim]; allowed: empty, or one byte a row, 0 leaves
// the row out. With too little data the model says why it does not tell. Errors are those of fit_matches.
Result<Background::Kind> measure_queries(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                                         const LabelledQueries& queries, double temperature, ThreadPool& pool,
                                         const std::stop_token& stop = {});
// Calibrates text queries that are drawn from the rows' captions, beside everyday words. Likewise; also errors of
// encoding, and kCancelled. `evidence`: receives the separation and what it was measured with; may be `nullptr`.
Result<Background::Kind> measure_texts(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                                       EncoderBackend& encoder, const CaptionIndex& captions,
                                       ThreadPool& pool, const std::stop_token& stop = {},
                                       Background::Texts* evidence = nullptr);

// Why an answer cannot tell: kUnsupported with the reason, for collections of late interaction, whose scores
// grow with the number of a query's tokens. Other errors are those of encoding. kCancelled. A collection too
// small, or without captions, is measured as far as it goes, and its models say why they do not tell. Cost:
// kMostBackgroundTexts texts at most are encoded, and four passes made over the rows for that many queries. Of a vector
// database kBackgroundSample items are read and measured.
Result<Background> measure_background(const CollectionReader& collection, EncoderBackend& encoder,
                                      ThreadPool& pool, const std::stop_token& stop = {});

// Errors are those of writing a file.
Status write_background(const std::filesystem::path& folder, const Background& background);
// kNotFound where none was measured; kBadData for a damaged file and for one of
// another collection or version; kIo if a vector database does not answer.
Result<Background> read_background(const CollectionReader& collection);

// Returns true if refresh_background would measure: the data are missing, damaged, or outgrown by the
// collection.
Result<bool> background_is_due(const CollectionReader& collection);

// Measures and writes the calibration data if they are missing, damaged, or outgrown by the collection.
// Returns them; `nullopt` if the existing ones are still valid or the collection uses late interaction.
Result<std::optional<Background>> refresh_background(const CollectionReader& collection,
                                                     EncoderBackend& encoder, ThreadPool& pool,
                                                     const std::stop_token& stop = {});

}  // namespace saccade
