// The study of visualness, on the framework of lab/eval/evaluation.h: how well models, and rules without a
// model, classify visual texts (Verma et al. 2023, "Learning the Visualness of Text Using Large
// Vision-Language Models", tables 2 to 9).
//
// Every method gives a text a score and calls it visual above a threshold, which is chosen on validation
// texts. The score depends on the checkpoint. One that was trained for this (model/visualness.h) uses its own
// NULL image, a text classifier the probability of its visual class, and any other dual encoder the NULL
// image of the options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/visualness/attention_study.h"
#include "lab/eval/visualness/binary.h"
#include "lab/eval/visualness/text_parts.h"
#include "lab/eval/visualness/visualness_metrics.h"
#include "lab/eval/visualness/word_lexicons.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/model/visualness.h"
#include "saccade/search/visualness/lexicon.h"

namespace saccade::lab {

enum class TextMap { kNone, kPca, kTsne };
std::span<const EnumName<TextMap>> enum_names(TextMap);  // "none", "pca", "tsne"

// Value of VisualnessOptions::objects that stands for the program's own list (everyday_objects), illustrate's default.
inline constexpr std::string_view kEverydayObjects = "everyday";

struct VisualnessOptions {
  // Datasets of rated texts on which thresholds are chosen: one for all datasets, or one each. If empty, only
  // checkpoints with a stored threshold are measured, using that threshold.
  std::vector<std::string> validation;
  NullPicture null_picture = {};  // for checkpoints without one of their own
  std::filesystem::path lexicon;  // ratings of words; empty: no such method, and no correlation of attention
  std::vector<std::filesystem::path> vectors;  // word vectors: each expands the lexicon, a method of its own
  std::filesystem::path objects;               // names of things; empty: no such method
  // Texts without labels, over which attention is measured too (read_attention_texts).
  std::vector<std::string> attention_texts;
  // People's ratings of words, with which lexicons are correlated (read_word_ratings); empty: none.
  std::filesystem::path word_ratings;
  // Source of the class prior: a dataset of rated texts, such as the training's; "uniform"; or empty: the
  // validation texts.
  std::string prior;
  // If true, a text classifier decides by its own classes, as the study's BERT. If false, its threshold is
  // chosen on the validation texts like any other method's.
  bool own_decision = false;
  TextMap map = TextMap::kTsne;  // map of texts and images, with the NULL image, in the run
};

class VisualnessStudy : public Study {
 public:
  // Reads lexicon and lists. Borrows both options.
  static Result<VisualnessStudy> make(const VisualnessOptions& options, const EvaluationOptions& evaluation);

  [[nodiscard]] bool takes_text_models() const override { return true; }
  [[nodiscard]] std::string_view kind() const override { return VisualnessMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  // Adds a dataset. Returns kUsage for datasets of another kind, or with texts of one class only.
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Texts {
    std::vector<std::string> texts;
    std::vector<std::optional<bool>> visual;
    std::vector<int64_t> cluster;
    int64_t clusters = 0;
    std::vector<int64_t> picture;  // number among the images; -1: none
    std::vector<ImageRef> pictures;
    std::vector<TextPart> parts;  // of a dataset
  };
  struct Retrieval {
    Estimates estimates;
    PictureRank figures;
  };
  struct Method {
    std::string name;
    std::string kind;
    Json details = Json::object();
    Threshold threshold = {};
    bool own_threshold = false;  // the checkpoint's
    Estimates estimates = {};
    std::vector<Figure> figures = {};
    std::optional<AmbiguousScores> ambiguous = {};
    std::optional<Retrieval> retrieval = {};
    std::vector<VisualnessPart> parts = {};
  };
  struct Judged {
    std::string name;
    Texts texts;
    Texts validation;          // empty if there is none
    Json validated_on;         // name and hash
    std::vector<int64_t> row;  // index of each image among the readable ones; -1: unreadable
    std::vector<Method> methods;
  };

  VisualnessStudy(const VisualnessOptions& options, const EvaluationOptions& evaluation)
      : options_(options), evaluation_(evaluation) {}
  static Result<Texts> texts_of(const Dataset& dataset);
  // Returns the share of visual texts among the labelled ones.
  static double share_of_visual(const std::vector<std::optional<bool>>& visual);
  // Chooses the threshold on the validation's scores, or takes `kept` if there are none, and judges the texts.
  Result<Method> judge(const Judged& one, std::string name, std::string kind, std::span<const double> scores,
                       std::span<const double> validation, std::optional<double> kept,
                       ThreadPool& pool) const;
  // Judges by the class prior (a biased coin), and by rules over words.
  Status judge_without_models(Judged& one, ThreadPool& pool) const;
  Status judge_by_prior(Judged& one, ThreadPool& pool) const;
  // Expands the lexicon by the words of all texts, and names the unlabelled texts. Called before the first
  // measurement.
  Status settle_words();
  // Measures attention over the dataset's texts, and with the first dataset over those without labels.
  Status measure_attention(const EncodedContext& context, const Judged& one);
  [[nodiscard]] Result<Retrieval> retrieve(const Judged& one, MatrixView<const float> texts,
                                           const EmbeddedRows& pictures, ThreadPool& pool) const;
  Status write_maps(const EncodedContext& context, const Judged& one, MatrixView<const float> texts,
                    std::span<const float> null_row) const;

  const VisualnessOptions& options_;
  const EvaluationOptions& evaluation_;
  std::optional<Lexicon> lexicon_;
  std::optional<ObjectList> objects_;
  std::vector<NamedLexicon> lexicons_;  // the given one and the expanded ones, once settled
  bool words_settled_ = false;
  std::optional<WordRatings> word_ratings_;
  std::vector<AttentionTexts> attention_texts_;
  AttentionStudy attention_;
  std::optional<double> prior_;  // share of visual texts; nullopt: the validation's
  Json prior_from_ = "validation";
  std::vector<std::string> vectors_sha256_;
  std::vector<std::pair<std::string, Dataset>> validation_;  // as given
  Json null_picture_;
  std::vector<Judged> datasets_;
};

}  // namespace saccade::lab
