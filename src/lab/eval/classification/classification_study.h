// The study of zero-shot classification (lab/eval/evaluation.h): images are assigned to classes by texts alone.
//
// A class is described by prompts: templates with its name for "{}". Its embedding is the mean of the prompts' embeddings, each of
// length 1, brought to length 1 again (Radford et al., "Learning Transferable Visual Models From Natural Language Supervision",
// 2021, section 3.1.4). With late interaction a class's score is the mean of its prompts' scores. An image's class is the one with
// the highest score. Ties count against the model.
//
//   top1, top5      share of images whose right class is the best, or among the best five
//   mean_per_class  share of a class's images that are found, averaged over classes; intervals keep the classes' sizes
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/eval/classification/classification_metrics.h"
#include "lab/eval/evaluation.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"

namespace saccade::lab {

// Field of a dataset's items that names the class.
enum class ClassLabel {
  kCaption,  // the first caption
  kGroup,    // the group
};
std::span<const EnumName<ClassLabel>> enum_names(ClassLabel);  // "caption", "group"

struct ClassName {
  std::string label;  // as in the dataset
  std::string name;   // as in prompts
};

struct ClassificationOptions {
  ClassLabel label = ClassLabel::kCaption;
  std::vector<ClassName> classes;  // empty: the dataset's labels, in their order
  std::vector<std::string> templates = {"a photo of a {}."};
};

// Parses a file of classes: a label a line, and behind a tab the name for prompts if it is another one. kBadData names the line
// of an empty label, or of one that is there twice.
Result<std::vector<ClassName>> parse_class_names(std::string_view text);
// Parses a file of templates, one a line. kBadData names a line without "{}".
Result<std::vector<std::string>> parse_templates(std::string_view text);

// Ranks of the right classes. scores: [images, classes]; right: [images]. A class with an equal score ranks before the right one.
struct ClassRanks {
  std::vector<int64_t> rank;  // [images], from 1
  std::vector<int64_t> best;  // [images]: the best class, the first of equal wrong ones
  std::vector<bool> tied;     // [images]
};
ClassRanks rank_classes(MatrixView<const float> scores, std::span<const int64_t> right);

class ClassificationStudy : public Study {
 public:
  // Borrows both.
  ClassificationStudy(const ClassificationOptions& classification, const EvaluationOptions& options)
      : classification_(classification), options_(options) {}

  [[nodiscard]] std::string_view kind() const override { return ClassificationMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  // kBadData names a label without a class, and an item without a label.
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Labelled {
    std::vector<RunImage> images = {};
    std::vector<int64_t> labels = {};  // [images]: the class
    std::vector<ClassName> classes = {};
    std::vector<int64_t> kept = {};  // numbers of the images that are measured
    RunItems items = {};
    std::vector<std::pair<std::string, Estimates>> estimates = {};  // by model
    std::vector<ClassificationResult> results = {};
  };
  Result<Matrix<float>> class_scores(const EncodedContext& context, const Labelled& one) const;

  const ClassificationOptions& classification_;
  const EvaluationOptions& options_;
  std::vector<Labelled> datasets_;
};

}  // namespace saccade::lab
