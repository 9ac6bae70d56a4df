#include "lab/eval/visualness/attention_study.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "lab/data/read_dataset.h"
#include "lab/data/readers/reader.h"
#include "lab/eval/visualness/text_parts.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

// Reads a text on each line, without blank ones.
Result<AttentionTexts> read_lines(const fs::path& path) {
  SACCADE_ASSIGN(const std::string content, read_file(path));
  AttentionTexts result{.name = path.stem().string(), .sha256 = sha256_hex(content), .texts = {}};
  SACCADE_TRY(data::for_each_line(content, [&](int64_t, std::string_view line) -> Status {
    result.texts.emplace_back(line);
    return {};
  }));
  return result;
}

// Returns means over the texts: words, and words that name objects.
Result<AttentionTextFacts> facts_of(const std::string& name, std::span<const std::string> texts,
                                    const ObjectList* objects) {
  AttentionTextFacts facts;
  facts.dataset = name;
  facts.texts = std::ssize(texts);
  double words = 0;
  double named = 0;
  for (const std::string& text : texts) {
    SACCADE_ASSIGN(const std::vector<std::string> in_order, words_in_order(text));
    words += static_cast<double>(in_order.size());
    if (objects == nullptr) continue;
    const std::set<std::string> names = named_objects(*objects, in_order);
    named += static_cast<double>(
        std::ranges::count_if(in_order, [&](const std::string& word) { return names.contains(word); }));
  }
  const auto count = static_cast<double>(texts.size());
  facts.words = words / count;
  if (objects != nullptr) {
    facts.objects = named / count;
    facts.object_share = words > 0 ? named / words : 0;
  }
  return facts;
}

}  // namespace

Result<AttentionTexts> read_attention_texts(const std::string& given) {
  SACCADE_ASSIGN(const DatasetSource source, parse_dataset_source(given));
  const Result<Dataset> dataset = read_dataset(source);
  AttentionTexts result;
  if (dataset) {
    result.name = dataset->name;
    result.sha256 = dataset->hash;
    if (dataset->find<EditQueries>() != nullptr) {
      return fail(ErrorCode::kUsage, "{}: edit queries, expected captions or other texts", given);
    }
    std::visit(
        [&]<typename Kind>(const Kind& kind) {
          if constexpr (std::is_same_v<Kind, RatedTexts>) {
            for (const RatedText& item : kind.items) result.texts.push_back(item.text);
          } else if constexpr (!std::is_same_v<Kind, EditQueries>) {
            for (const auto& item : kind.items) {
              result.texts.insert(result.texts.end(), item.captions.begin(), item.captions.end());
            }
          }
        },
        dataset->content);
  } else {
    std::error_code ignored;
    if (dataset.error().code != ErrorCode::kUnsupported || !source.options.format.empty() ||
        !fs::is_regular_file(source.path, ignored)) {
      return fail(dataset.error());
    }
    SACCADE_ASSIGN(result, read_lines(source.path));
  }
  if (result.texts.empty()) return fail(ErrorCode::kBadData, "{}: no texts in it", given);
  return result;
}

Status AttentionStudy::measure(const std::string& texts_name, std::span<const std::string> texts,
                               const std::string& model, const EncoderBackend& encoder,
                               TextAttention& attention, std::span<const NamedLexicon> lexicons,
                               const ObjectList* objects, double confidence) {
  SACCADE_ASSIGN(const std::vector<TextPart> parts, text_parts(texts, nullptr));
  std::vector<std::pair<std::string, WordAttention>> measured = {{"all", {}}};
  for (const TextPart& part : parts) {
    std::vector<std::string_view> of_part;
    for (const size_t i : part.which) of_part.emplace_back(texts[i]);
    SACCADE_ASSIGN(WordAttention its, attention_by_words(encoder, attention, of_part, objects));
    measured.front().second.add(its);
    measured.emplace_back(part.name, std::move(its));
  }
  for (const NamedLexicon& each : lexicons) {
    for (const auto& [length, its] : measured) {
      const Correlation found = correlate(its, each.lexicon, confidence);
      correlations_.push_back(
          {.dataset = texts_name,
           .model = model,
           .lexicon = each.name,
           .length = length,
           .ratings = {found.r, found.low, found.high, found.p, found.n, its.texts, its.unaligned}});
    }
  }
  auto place =
      std::ranges::find_if(texts_, [&](const OfTexts& each) { return each.facts.dataset == texts_name; });
  if (place == texts_.end()) {
    SACCADE_ASSIGN(AttentionTextFacts facts, facts_of(texts_name, texts, objects));
    place = texts_.insert(place, OfTexts{.facts = std::move(facts), .models = {}});
  }
  WordAttention& whole = measured.front().second;
  if (objects != nullptr && whole.attended > 0) {
    place->facts.attention_to_objects.emplace_back(model,
                                                   whole.to_objects / static_cast<double>(whole.attended));
  }
  place->models.push_back({model, std::move(whole)});
  return {};
}

void AttentionStudy::add_to(VisualnessMetrics& metrics, double confidence) const {
  metrics.attention = correlations_;
  for (const OfTexts& each : texts_) {
    metrics.attention_texts.push_back(each.facts);
    for (size_t a = 0; a < each.models.size(); ++a) {
      for (size_t b = a + 1; b < each.models.size(); ++b) {
        const Correlation found = correlate(each.models[a].attention, each.models[b].attention, confidence);
        metrics.attention_between.push_back({.dataset = each.facts.dataset,
                                             .a = each.models[a].model,
                                             .b = each.models[b].model,
                                             .r = found.r,
                                             .low = found.low,
                                             .high = found.high,
                                             .p = found.p,
                                             .words = found.n});
      }
    }
  }
}

const AttentionRatings* AttentionStudy::find(const std::string& texts_name, const std::string& model,
                                             const std::string& lexicon) const {
  const auto found = std::ranges::find_if(correlations_, [&](const AttentionCorrelation& each) {
    return each.dataset == texts_name && each.model == model && each.lexicon == lexicon &&
           each.length == "all";
  });
  return found == correlations_.end() ? nullptr : &found->ratings;
}

}  // namespace saccade::lab
