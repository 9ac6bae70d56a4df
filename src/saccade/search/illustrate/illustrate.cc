#include "saccade/search/illustrate/illustrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "saccade/collection/file_state.h"
#include "saccade/core/rows.h"
#include "saccade/image/frame_name.h"
#include "saccade/search/keywords/caption_nearness.h"
#include "saccade/search/matching/background.h"
#include "saccade/search/search.h"
#include "saccade/text/caption_queries.h"
#include "saccade/text/phrases.h"

namespace saccade {
namespace {

constexpr int64_t kSentenceBatch = 64;
constexpr size_t kWordsFigure = HitFigures::kCount - 1;  // log(1 + words)
constexpr double kMostSpreads = 2;

struct Texts {
  std::vector<TokenizedText> tokenized;
  int64_t cut = 0;
};

Texts tokenize(EncoderBackend& encoder, std::span<const std::string> texts) {
  Texts result;
  for (const std::string& text : texts) {
    result.tokenized.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
    if (result.tokenized.back().dropped > 0) ++result.cut;
  }
  return result;
}

Status check_reads_texts(EncoderBackend& encoder) {
  if (encoder.tokenizer() != nullptr) return {};
  return fail(ErrorCode::kUnsupported, "the checkpoint has no tokenizer files, so it reads no texts");
}

// A hit that may be placed.
struct PlaceableHit {
  int64_t id = 0;
  int64_t row = 0;
  std::string query;
  float score = 0;
  std::optional<HitLikelihood> likelihood;
};

// Searches for sentence after sentence, and keeps what may be placed.
class Chooser {
 public:
  Chooser(const CollectionReader& collection, EncoderBackend& encoder,
          std::span<const DocumentSentence> sentences, const IllustrateOptions& options, ThreadPool& pool)
      : collection_(collection), encoder_(encoder), sentences_(sentences), options_(options), pool_(pool) {
    query_.k = options.candidates;
    query_.filter = options.filter;
    query_.duplicate_cosine = options.duplicate_cosine;
    query_.background = options.background;
  }

  Result<IllustratePlan> choose() {
    plan_.outcomes.assign(sentences_.size(), SentenceOutcome::kNotVisual);
    plan_.best.assign(sentences_.size(), std::numeric_limits<float>::quiet_NaN());
    std::vector<size_t> visual;
    for (size_t s = 0; s < sentences_.size(); ++s) {
      if (sentences_[s].visual) visual.push_back(s);
    }
    if (options_.background == nullptr)
      plan_.reason = "the collection has not been measured: `saccade index` does that";
    if (options_.background != nullptr && options_.background->text.model.tells && !visual.empty()) {
      SACCADE_ASSIGN(near_, CaptionNearness::of(collection_, encoder_, options_.stop).in("captions"));
    }
    for (size_t first = 0; first < visual.size(); first += kSentenceBatch) {
      const size_t count = std::min(visual.size() - first, static_cast<size_t>(kSentenceBatch));
      SACCADE_TRY(search_for(std::span(visual).subspan(first, count)));
      if (options_.progress) {
        options_.progress(
            {"searching for sentences", static_cast<int64_t>(first + count), std::ssize(visual), ""});
      }
    }
    SACCADE_TRY(assign());
    return std::move(plan_);
  }

 private:
  Status search_for(std::span<const size_t> numbers) {
    struct One {
      size_t sentence = 0;
      std::string text;
    };
    std::vector<One> queries;
    for (const size_t s : numbers) {
      queries.push_back({s, sentences_[s].text});
      for (const std::string& phrase : sentences_[s].phrases) queries.push_back({s, phrase});
    }
    for (size_t first = 0; first < queries.size(); first += kSentenceBatch) {
      if (options_.stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
      const auto batch = std::span(queries).subspan(
          first, std::min(queries.size() - first, static_cast<size_t>(kSentenceBatch)));
      if (collection_.has_late_rows()) {
        for (const One& one : batch) {
          query_.text = one.text;
          SACCADE_ASSIGN(const SearchAnswer answer, search(collection_, encoder_, query_, pool_));
          if (answer.tokens && answer.tokens->dropped > 0) ++plan_.cut;
          keep(one.sentence, answer);
        }
        continue;
      }
      std::vector<std::string> texts;
      for (const One& one : batch) texts.push_back(one.text);
      const Texts tokens = tokenize(encoder_, texts);
      plan_.cut += tokens.cut;
      SACCADE_ASSIGN(const Matrix<float> rows, encoder_.encode_texts(tokens.tokenized));
      for (size_t i = 0; i < batch.size(); ++i) {
        const std::span<const float> row = rows.row(static_cast<int64_t>(i));
        SACCADE_TRY(check_unit_row(row).in("the encoder gave"));
        query_.text = texts[i];
        EncodedQuery encoded;
        encoded.row.assign(row.begin(), row.end());
        SACCADE_ASSIGN(const SearchAnswer answer,
                       search_encoded(collection_, encoder_, encoded, query_, pool_));
        keep(batch[i].sentence, answer, near_.unlike(row));
      }
    }
    return {};
  }

  // Returns true if the query has more words than the texts that calibrated the probabilities. Phrases of
  // captions do not calibrate a sentence of thirty words.
  [[nodiscard]] bool beyond_learned(const SearchAnswer& answer) const {
    if (!answer.matching || !answer.matching->tells) return false;
    const HitRegression& hit = options_.background->text.model.hit;
    const auto words = static_cast<double>(caption_words(answer.query.text.str()).size());
    return std::log(1 + words) > hit.centre[kWordsFigure] + kMostSpreads * hit.spread[kWordsFigure];
  }

  // `unlike`: the query's text is unlike those that likelihoods were learned from.
  void keep(size_t sentence, const SearchAnswer& answer, bool unlike = false) {
    if (answer.matching) {
      plan_.tells = answer.matching->tells;
      plan_.reason = answer.matching->reason;
    }
    SentenceOutcome& outcome = plan_.outcomes[sentence];
    if (outcome == SentenceOutcome::kNotVisual) outcome = SentenceOutcome::kNothingLikely;
    if (unlike || beyond_learned(answer)) return;
    for (const SearchHit& hit : answer.hits) {
      const bool judged = hit.likelihood && std::isfinite(hit.likelihood->expected_false);
      plan_.null_known = plan_.null_known || judged;
      double weight = hit.score;
      bool likely = true;
      if (hit.likelihood && std::isfinite(hit.likelihood->right)) {
        weight = hit.likelihood->right;
        likely = weight >= options_.least;
        float& best = plan_.best[sentence];
        if (!(best >= static_cast<float>(weight))) best = static_cast<float>(weight);
      } else if (judged) {
        weight = hit.likelihood->standard;
        likely = hit.likelihood->expected_false <= options_.most_false;
      }
      if (!likely) continue;
      outcome = SentenceOutcome::kTaken;  // until it has one
      edges_.push_back({static_cast<int64_t>(sentence), hit.item.id, weight});
      candidates_.push_back({hit.item.id, hit.item.row, answer.query.text.str(), hit.score, hit.likelihood});
      for (const SearchHit::Folded& copy : hit.folded) alike_[hit.item.id].insert(copy.item.id);
    }
  }

  // Returns true if an image that is already placed looks like this one, by a search or by their embeddings.
  // The mean embeddings of late interaction hardly differ between pages: there only the search decides.
  bool stands_already(const PlaceableHit& candidate) {
    if (taken_.contains(candidate.id)) return true;
    const auto alike = alike_.find(candidate.id);
    if (alike != alike_.end() &&
        std::ranges::any_of(alike->second, [&](int64_t id) { return taken_.contains(id); })) {
      return true;
    }
    if (collection_.has_late_rows()) return false;
    const auto row = collection_.rows().row(candidate.row);
    return std::ranges::any_of(taken_rows_, [&](int64_t other) {
      const auto there = collection_.rows().row(other);
      return std::inner_product(row.begin(), row.end(), there.begin(), 0.0F) >= options_.duplicate_cosine;
    });
  }

  // Takes a candidate where its picture is as it was taken in.
  Result<bool> take(const PlaceableHit& candidate, int64_t sentence) {
    if (stands_already(candidate)) return false;
    SACCADE_ASSIGN(Item item, collection_.item(candidate.id));
    if (item.format == kVideoFormat) return false;  // a document shows files
    if (options_.check_files) {
      const auto state = file_state(item.path);
      const bool here = state && !item.file.elsewhere;
      if (!here || state->size != item.size || state->mtime_ns != item.mtime_ns) {
        if (passed_over_.insert(candidate.id).second) ++(here ? plan_.changed : plan_.gone);
        return false;
      }
    }
    taken_.insert(candidate.id);
    taken_rows_.push_back(candidate.row);
    const auto alike = alike_.find(candidate.id);
    if (alike != alike_.end()) taken_.insert(alike->second.begin(), alike->second.end());
    plan_.pictures.push_back(
        {sentence, std::move(item), candidate.query, candidate.score, candidate.likelihood});
    return true;
  }

  Status assign() {
    std::vector<int64_t> paragraph;
    for (const DocumentSentence& sentence : sentences_) paragraph.push_back(sentence.paragraph);
    Status failed;
    AssignmentRules rules;
    rules.per_paragraph = options_.per_paragraph;
    rules.at_most = options_.at_most;
    rules.may_take = [&](const PictureCandidate& edge) {
      if (!failed) return false;
      auto taken = take(candidates_[static_cast<size_t>(&edge - edges_.data())], edge.sentence);
      if (!taken) failed = fail(taken.error());
      return taken.value_or(false);
    };
    std::unordered_map<int64_t, int64_t> in_paragraph;
    for (const size_t edge : assign_pictures(edges_, paragraph, rules)) {
      const auto sentence = static_cast<size_t>(edges_[edge].sentence);
      plan_.outcomes[sentence] = SentenceOutcome::kPlaced;
      ++in_paragraph[paragraph[sentence]];
    }
    const bool full = std::ssize(plan_.pictures) >= options_.at_most;
    for (size_t s = 0; s < plan_.outcomes.size(); ++s) {
      if (plan_.outcomes[s] != SentenceOutcome::kTaken) continue;
      const auto there = in_paragraph.find(paragraph[s]);
      if (full || (there != in_paragraph.end() && there->second >= options_.per_paragraph)) {
        plan_.outcomes[s] = SentenceOutcome::kFull;
      }
    }
    std::ranges::sort(plan_.pictures, {}, &PlacedPicture::sentence);
    return failed;
  }

  const CollectionReader& collection_;
  EncoderBackend& encoder_;
  std::span<const DocumentSentence> sentences_;
  const IllustrateOptions& options_;
  ThreadPool& pool_;
  SearchQuery query_;
  CaptionNearness near_;
  IllustratePlan plan_;
  std::vector<PictureCandidate> edges_;
  std::vector<PlaceableHit> candidates_;  // one an edge
  std::unordered_map<int64_t, std::set<int64_t>> alike_;
  std::set<int64_t> taken_;
  std::vector<int64_t> taken_rows_;
  std::set<int64_t> passed_over_;
};

}  // namespace

std::span<const EnumName<SentenceOutcome>> enum_names(SentenceOutcome) {
  static constexpr std::array<EnumName<SentenceOutcome>, 5> kWords = {
      {{SentenceOutcome::kPlaced, "placed"},
       {SentenceOutcome::kNotVisual, "not_visual"},
       {SentenceOutcome::kNothingLikely, "nothing_likely"},
       {SentenceOutcome::kTaken, "taken"},
       {SentenceOutcome::kFull, "full"}}};
  return kWords;
}

int64_t IllustratePlan::count(SentenceOutcome outcome) const {
  return std::ranges::count(outcomes, outcome);
}

Result<std::vector<double>> judge_sentences(std::vector<DocumentSentence>& sentences,
                                            const TextScores& scores, double threshold, bool phrases) {
  std::vector<std::string> texts;
  for (const DocumentSentence& sentence : sentences) texts.push_back(sentence.text);
  SACCADE_ASSIGN(std::vector<double> of_sentences, scores(texts));
  texts.clear();
  std::vector<size_t> of;
  for (size_t s = 0; s < sentences.size(); ++s) {
    sentences[s].visual = of_sentences[s] > threshold;
    if (!sentences[s].visual || !phrases) continue;
    for (std::string& phrase : sentence_phrases(sentences[s].text)) {
      texts.push_back(std::move(phrase));
      of.push_back(s);
    }
  }
  SACCADE_ASSIGN(const std::vector<double> of_phrases, scores(texts));
  for (size_t i = 0; i < texts.size(); ++i) {
    if (of_phrases[i] > threshold) sentences[of[i]].phrases.push_back(std::move(texts[i]));
  }
  return of_sentences;
}

std::vector<int64_t> sentences_without_fit(std::span<const DocumentSentence> sentences,
                                           const IllustratePlan& plan, const IllustrateOptions& options) {
  std::unordered_map<int64_t, int64_t> in_paragraph;
  for (const PlacedPicture& placed : plan.pictures) {
    ++in_paragraph[sentences[static_cast<size_t>(placed.sentence)].paragraph];
  }
  int64_t left = options.at_most - std::ssize(plan.pictures);
  std::vector<int64_t> chosen;
  for (size_t s = 0; s < sentences.size() && left > 0; ++s) {
    if (plan.outcomes[s] != SentenceOutcome::kNothingLikely) continue;
    int64_t& there = in_paragraph[sentences[s].paragraph];
    if (there >= options.per_paragraph) continue;
    ++there;
    --left;
    chosen.push_back(static_cast<int64_t>(s));
  }
  return chosen;
}

Result<IllustratePlan> choose_pictures(const CollectionReader& collection, EncoderBackend& encoder,
                                       std::span<const DocumentSentence> sentences,
                                       const IllustrateOptions& options, ThreadPool& pool) {
  SACCADE_TRY(collection.check_has_rows("illustrating"));
  if (!(options.least >= 0 && options.least <= 1)) {
    return fail(ErrorCode::kUsage, "minimum match probability {}: expected a probability, 0 to 1",
                options.least);
  }
  if (options.per_paragraph < 1 || options.at_most < 0 || options.candidates < 1) {
    return fail(ErrorCode::kUsage,
                "images a paragraph are {}, in all {}, candidates {}; expected 1, 0 and 1 or more",
                options.per_paragraph, options.at_most, options.candidates);
  }
  SACCADE_TRY(check_reads_texts(encoder));
  SACCADE_TRY(check_same_checkpoint(collection.info(),
                                    {"the encoder", "", encoder.info().fingerprint, encoder.info().dim}));
  return Chooser(collection, encoder, sentences, options, pool).choose();
}

std::vector<size_t> assign_pictures(std::span<const PictureCandidate> candidates,
                                    std::span<const int64_t> paragraph, const AssignmentRules& rules) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const PictureCandidate& one = candidates[a];
    const PictureCandidate& other = candidates[b];
    return one.weight > other.weight || (one.weight == other.weight && one.sentence < other.sentence);
  });
  std::vector<size_t> taken;
  std::set<int64_t> sentences;
  std::set<int64_t> pictures;
  std::unordered_map<int64_t, int64_t> in_paragraph;
  for (const size_t number : order) {
    if (std::ssize(taken) >= rules.at_most) break;
    const PictureCandidate& candidate = candidates[number];
    if (sentences.contains(candidate.sentence) || pictures.contains(candidate.picture)) continue;
    int64_t& there = in_paragraph[paragraph[static_cast<size_t>(candidate.sentence)]];
    if (there >= rules.per_paragraph) continue;
    if (rules.may_take && !rules.may_take(candidate)) continue;
    ++there;
    sentences.insert(candidate.sentence);
    pictures.insert(candidate.picture);
    taken.push_back(number);
  }
  return taken;
}

}  // namespace saccade
