// Attention of models to the words of several sets of texts (Verma et al. 2023). It is correlated with
// lexicons, also by the length of the texts (tables 3 and 7), and between models (table 8). Its share on
// objects is measured too (appendix A.4).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lab/eval/visualness/visualness_metrics.h"
#include "lab/eval/visualness/word_attention.h"
#include "lab/eval/visualness/word_lexicons.h"
#include "saccade/core/error.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/explain/text_attention.h"

namespace saccade::lab {

// Texts without labels.
struct AttentionTexts {
  std::string name;
  std::string sha256;
  std::vector<std::string> texts;
};
// Reads the captions or texts of a dataset, labelled or not, or the lines of a text file that is no dataset.
// Errors: those of read_dataset; kUsage for edit queries; kBadData without texts.
Result<AttentionTexts> read_attention_texts(const std::string& given);

class AttentionStudy {
 public:
  // Computes the attention of a model to the words of texts, and keeps it under both names. The lexicons may
  // be none. Cost: that of attention_by_words.
  Status measure(const std::string& texts_name, std::span<const std::string> texts, const std::string& model,
                 const EncoderBackend& encoder, TextAttention& attention,
                 std::span<const NamedLexicon> lexicons, const ObjectList* objects, double confidence);
  // Fills `attention`, `attention_between` and `attention_texts`.
  void add_to(VisualnessMetrics& metrics, double confidence) const;
  // Returns the correlation over all texts of that name; `nullptr` if there is none.
  [[nodiscard]] const AttentionRatings* find(const std::string& texts_name, const std::string& model,
                                             const std::string& lexicon) const;

 private:
  struct Measured {
    std::string model;
    WordAttention attention;
  };
  struct OfTexts {
    AttentionTextFacts facts;
    std::vector<Measured> models;
  };
  std::vector<OfTexts> texts_;
  std::vector<AttentionCorrelation> correlations_;
};

}  // namespace saccade::lab
