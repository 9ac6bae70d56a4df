// The study of effective length (lab/eval/evaluation.h): how much of a text models use (length.h), and the
// lengths of texts under tokenizers.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/length/length.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "saccade/core/error.h"
#include "saccade/model/options/effective_length.h"

namespace saccade::lab {

struct LengthStudyOptions {
  LengthOptions length;  // its bootstrap is that of EvaluationOptions
  CaptionPolicy captions = CaptionPolicy::kAll;
  // True to search whole texts in place of images: a cut text is right if its own whole text comes first. No image is read.
  bool texts_only = false;
  bool join_captions = false;  // joins all captions of an image to one text, one per line
  // True to compare items of late interaction by the cosine of their mean vectors in place of MaxSim.
  bool late_mean = false;
  std::vector<std::string> domains;  // topic of each dataset's texts in a word; empty: not given
};

class LengthStudy : public Study {
 public:
  // Borrows `options`.
  LengthStudy(LengthStudyOptions study, const EvaluationOptions& options);

  [[nodiscard]] bool takes_text_models() const override { return study_.texts_only; }
  [[nodiscard]] std::string_view kind() const override { return LengthMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

  // Writes the measured lengths into the checkpoints' folders (write_measured_lengths), and warns of
  // checkpoints whose retrieval is no better than chance.
  Status write_cards(const Evaluation& evaluation) const;

 private:
  struct Measured {
    std::string domain;
    RetrievalSource source;
    std::optional<RetrievalTask> task = {};
    std::vector<LengthResult> results = {};  // a model each
  };
  void remember(const LengthOutcome& outcome, const EncodedContext& context);

  LengthStudyOptions study_;
  const EvaluationOptions& options_;
  std::vector<Measured> datasets_;
  std::map<std::string, std::vector<MeasuredLength>> measured_;  // by the checkpoint's path
};

// Measures the token lengths of the datasets' texts, for each tokenizer and in it each dataset.
// A tokenizer is a checkpoint's, as its encoder uses it, or that of a folder with tokenizer files and no
// model. `context`: maximum tokens of a text, in place of the files' value; 0 uses the files' value. Returns
// kUsage for a checkpoint without a tokenizer.
Result<std::vector<TokenLengthsResult>> measure_token_lengths(const LengthStudyOptions& study,
                                                              const EvaluationOptions& options,
                                                              const CheckpointSource& checkpoints,
                                                              int64_t context, ThreadPool& pool);

}  // namespace saccade::lab
