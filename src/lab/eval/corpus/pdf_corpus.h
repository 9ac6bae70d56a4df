// A corpus of visual and non-visual sentences from documents: Verma et al. 2023 ("Learning the Visualness of
// Text Using Large Vision-Language Models"), section 3.1.
//
// An encoder compares every sentence of a page with every image of that page. A sentence whose best
// similarity is above T_pos is visual, and is paired with that image. One whose best is below T_neg is
// non-visual. The thresholds are given, or are quantiles of all sentences. The study's own are 0.35 (its top
// 1%) and 0.18 (its bottom 5%), with CLIP ViT-B/32. The output is a folder:
//
//   OUT/corpus.json            inputs and settings, and a summary of the result
//   OUT/manifest.jsonl         the labelled sentences, a manifest of rated texts (docs/datasets.md)
//   OUT/failures.jsonl         {"path", "code", "reason"}: documents that could not be read, a line each
//   OUT/pictures/SHA256.png    the pages' images, each once
//   OUT/documents/SHA256.json  one document's sentences and similarities, by the SHA-256 of its bytes
//   OUT/lock                   held while a process writes
//
// The same command resumes after an interruption: finished documents are not read again. The result depends
// only on the inputs and options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "lab/eval/rows/embed.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/document/pdf.h"
#include "saccade/document/prose.h"
#include "saccade/model/checkpoints/locate.h"

namespace saccade::lab {

struct PdfCorpusOptions {
  std::vector<std::filesystem::path> inputs;  // files, and folders searched for *.pdf
  std::filesystem::path output;
  PdfOptions pdf;
  ProseOptions prose;
  // T_pos and T_neg by value. If they are not set, by percent of the corpus's different sentences.
  std::optional<double> positive;
  std::optional<double> negative;
  double positive_percent = 1;
  double negative_percent = 5;
  EmbedOptions embed;  // its progress and stop hold for all
};

struct PdfCorpusReport {
  int64_t documents = 0;   // read, now or before
  int64_t resumed = 0;     // number finished by earlier runs
  int64_t same_bytes = 0;  // inputs with the bytes of an earlier one
  int64_t pages = 0;
  int64_t pages_with_pictures = 0;  // and sentences
  int64_t pages_left_out = 0;
  int64_t pictures = 0;
  int64_t small_pictures = 0;
  int64_t repeated_pictures = 0;
  int64_t unread_pictures = 0;
  int64_t edge_lines = 0;
  int64_t no_prose = 0;   // parts of text that are no sentences
  int64_t sentences = 0;  // compared with an image
  int64_t distinct = 0;   // number of distinct ones
  int64_t cut = 0;        // longer than the encoder reads
  int64_t visual = 0;
  int64_t non_visual = 0;
  double positive = 0;  // T_pos and T_neg, as they were used
  double negative = 0;
  std::vector<std::pair<std::filesystem::path, Error>> failed;
};
Json pdf_corpus_json(const PdfCorpusReport& report);

// T_pos and T_neg, with the percentages of the scores above and below them. A percentage over 0 selects at
// least one score, but fewer if scores tie at the border. kUsage if the two overlap.
struct CorpusThresholds {
  double positive = 0;
  double negative = 0;
};
Result<CorpusThresholds> corpus_thresholds(std::vector<float> scores, const PdfCorpusOptions& options);

// Builds or resumes the corpus. Documents that cannot be read are listed, not errors, and are tried again
// next time. Memory: one document per thread, and the corpus's sentences. Errors:
//
// kNotFound for missing programs (document/pdf.h) and inputs; kUsage for a folder with other files, or made
// with other options; kUnsupported for encoders without a shared space.
//
// kBadData if no document could be read, or none has a page with sentences and images; kCancelled, with the
// finished documents kept.
Result<PdfCorpusReport> build_pdf_corpus(const LoadedEncoder& loaded, const PdfCorpusOptions& options,
                                         ThreadPool& pool);

}  // namespace saccade::lab
