#include "lab/eval/composed/composed_task.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "lab/data/edit_queries.h"
#include "saccade/core/ascii.h"

namespace saccade::lab {

std::span<const EnumName<JoinTexts>> enum_names(JoinTexts) {
  static constexpr std::array<EnumName<JoinTexts>, 5> kWords{
      {{JoinTexts::kAnd, "and", "a query's texts are joined as \"C1 and c2\""},
       {JoinTexts::kComma, "comma", "a query's texts are joined as \"c1, and c2\""},
       {JoinTexts::kToken, "token", "a query's texts are joined as \"c1 <and> c2\""},
       {JoinTexts::kBothOrders, "both-orders",
        "a query's text is the mean of the rows of \"C1 and c2\" and \"C2 and c1\""},
       {JoinTexts::kEach, "each", "each of a query's texts is a query of its own"}}};
  return kWords;
}

std::span<const EnumName<GalleryPictures>> enum_names(GalleryPictures) {
  static constexpr std::array<EnumName<GalleryPictures>, 2> kWords{
      {{GalleryPictures::kOriginal, "original", "all images of the dataset's own list are ranked"},
       {GalleryPictures::kNamed, "union",
        "only images that are a reference or a target of a query are ranked"}}};
  return kWords;
}

std::span<const EnumName<ReferenceRanked>> enum_names(ReferenceRanked) {
  static constexpr std::array<EnumName<ReferenceRanked>, 3> kWords{
      {{ReferenceRanked::kLayout, "layout", "a query's reference is ranked too, except in CIRR"},
       {ReferenceRanked::kKeep, "keep", "a query's reference is ranked too"},
       {ReferenceRanked::kRemove, "remove", "a query's reference is not ranked"}}};
  return kWords;
}

std::span<const EnumName<SharedConcept>> enum_names(SharedConcept) {
  static constexpr std::array<EnumName<SharedConcept>, 2> kWords{
      {{SharedConcept::kAlone, "alone", "the text alone is said, without the shared concept"},
       {SharedConcept::kWith, "with", "the shared concept is said: \"find {concept} but {text}\""}}};
  return kWords;
}

std::span<const EnumName<RecallTarget>> enum_names(RecallTarget) {
  static constexpr std::array<EnumName<RecallTarget>, 3> kWords{
      {{RecallTarget::kLayout, "layout",
        "of several targets r@k counts any, in CIRCO the one the text was written for"},
       {RecallTarget::kAny, "any", "of several targets r@k counts any"},
       {RecallTarget::kFirst, "first", "of several targets r@k counts the one the text was written for"}}};
  return kWords;
}

std::string protocol_words(const ComposedProtocol& protocol) {
  return fmt::format("{}; {}; {}; {}; {}", meaning_of(protocol.gallery), meaning_of(protocol.reference),
                     meaning_of(protocol.join), meaning_of(protocol.concepts), meaning_of(protocol.recall));
}

Json protocol_fields(const ComposedProtocol& protocol) {
  return {{"gallery", enum_name(protocol.gallery)},
          {"reference", enum_name(protocol.reference)},
          {"join", enum_name(protocol.join)},
          {"shared_concept", enum_name(protocol.concepts)},
          {"recall", enum_name(protocol.recall)}};
}

namespace {

// Strips a text as CLIP4Cir's program does.
std::string stripped(std::string_view text) {
  return std::string(trim_ascii(text, ".?, "));
}

// Does what Python's capitalize() does: upper-case first letter, the others lower-case. Letters beyond ASCII
// stay as they are.
std::string capitalized(std::string text) {
  text = lower_ascii(text);
  if (!text.empty() && is_ascii_letter(text[0])) text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string joined(std::span<const std::string> texts, std::string_view between) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : std::string(between)) + text;
  return all;
}

// Joins texts. A single text is returned unchanged.
std::vector<std::vector<std::string>> join(std::vector<std::string> texts, JoinTexts how) {
  if (texts.size() < 2) return {{texts.empty() ? std::string() : texts.front()}};
  if (how == JoinTexts::kEach) {
    std::vector<std::vector<std::string>> each;
    for (std::string& text : texts) each.push_back({std::move(text)});
    return each;
  }
  if (how == JoinTexts::kComma) return {{joined(texts, ", and ")}};
  if (how == JoinTexts::kToken) return {{joined(texts, " <and> ")}};
  std::vector<std::string> orders;
  for (std::string& text : texts) text = stripped(text);
  std::vector<std::string> order = texts;
  for (size_t turn = 0; turn < (how == JoinTexts::kBothOrders ? 2U : 1U); ++turn) {
    if (turn == 1) std::ranges::reverse(order);
    std::vector<std::string> said = order;
    said.front() = capitalized(said.front());
    orders.push_back(joined(said, " and "));
  }
  return {orders};
}

// Returns which images stay, according to the gallery option.
std::vector<bool> kept_pictures(const EditQueries& edits, const GalleryIndex& index,
                                const ComposedProtocol& protocol, std::span<const int64_t> unreadable) {
  std::vector<bool> kept(edits.gallery.size(), protocol.gallery == GalleryPictures::kOriginal);
  if (protocol.gallery == GalleryPictures::kNamed) {
    for (const EditQuery& query : edits.items) {
      kept[*index.find(query.gallery, query.reference)] = true;
      for (const std::string& target : query.targets) kept[*index.find(query.gallery, target)] = true;
    }
  }
  for (const int64_t number : unreadable) kept[static_cast<size_t>(number)] = false;
  return kept;
}

class TaskMaker {
 public:
  TaskMaker(const Dataset& dataset, const EditQueries& edits, const ComposedProtocol& protocol)
      : dataset_(dataset), edits_(edits), protocol_(protocol), index_(edits) {}

  Result<ComposedTask> make(std::span<const int64_t> unreadable) {
    task_.layout = dataset_.layout;
    task_.remove_reference = protocol_.reference == ReferenceRanked::kRemove ||
                             (protocol_.reference == ReferenceRanked::kLayout && dataset_.layout == "cirr");
    task_.recall_first = protocol_.recall == RecallTarget::kFirst ||
                         (protocol_.recall == RecallTarget::kLayout && dataset_.layout == "circo");
    number_pictures(kept_pictures(edits_, index_, protocol_, unreadable));
    for (size_t q = 0; q < edits_.items.size(); ++q) add_query(q);
    task_.excluded = std::move(counts_.excluded);
    if (task_.queries.empty()) {
      return fail(ErrorCode::kBadData, "{}: no edit query is left whose images can be read", dataset_.name);
    }
    return std::move(task_);
  }

 private:
  void number_pictures(const std::vector<bool>& kept) {
    number_.assign(edits_.gallery.size(), -1);
    std::map<std::string, size_t> galleries;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (!kept[i]) continue;
      number_[i] = std::ssize(task_.pictures);
      const GalleryPicture& picture = edits_.gallery[i];
      const auto [place, fresh] = galleries.try_emplace(picture.gallery, task_.galleries.size());
      if (fresh) task_.galleries.emplace_back().name = picture.gallery;
      task_.galleries[place->second].pictures.push_back(number_[i]);
      task_.pictures.push_back(picture);
      task_.source.push_back(static_cast<int64_t>(i));
    }
    gallery_number_ = std::move(galleries);
  }

  // Returns the number of an image, -1 if it is left out.
  int64_t number(const EditQuery& query, const std::string& id) const {
    return number_[*index_.find(query.gallery, id)];
  }

  // Returns the numbers of the images that stay, without the reference.
  std::vector<int64_t> others(const EditQuery& query, const std::vector<std::string>& ids) const {
    std::vector<int64_t> numbers;
    for (const std::string& id : ids) {
      const int64_t each = number(query, id);
      if (id != query.reference && each >= 0 && std::ranges::find(numbers, each) == numbers.end())
        numbers.push_back(each);
    }
    return numbers;
  }

  void add_query(size_t at) {
    const EditQuery& edit = edits_.items[at];
    ComposedTask::Query query;
    query.source = static_cast<int64_t>(at);
    query.reference = number(edit, edit.reference);
    bool whole = query.reference >= 0;
    for (const std::string& target : edit.targets) {
      const int64_t each = number(edit, target);
      whole = whole && each >= 0;
      const bool hidden = task_.remove_reference && target == edit.reference;
      if (!hidden && std::ranges::find(query.targets, each) == query.targets.end())
        query.targets.push_back(each);
    }
    query.subset = others(edit, edit.subset);
    // The union of references and targets may lack the other images of a subset. An unreadable one changes
    // the measurement.
    const bool lost = protocol_.gallery == GalleryPictures::kOriginal &&
                      std::ranges::any_of(edit.subset, [&](const auto& id) { return number(edit, id) < 0; });
    if (!whole || lost) {
      counts_.exclude("edit queries with an image that cannot be read", edit.id);
      return;
    }
    if (!edit.targets.empty() && query.targets.empty()) {
      counts_.exclude("edit queries whose only target is their reference, which is not ranked", edit.id);
      return;
    }
    query.negatives = others(edit, edit.negatives);
    std::erase_if(query.negatives, [&](int64_t each) {
      return std::ranges::find(query.targets, each) != query.targets.end();
    });
    query.gallery = static_cast<int64_t>(gallery_number_.at(edit.gallery));
    const auto [cluster, fresh] = clusters_.try_emplace(query.reference, task_.clusters);
    task_.clusters += fresh ? 1 : 0;
    task_.cluster.push_back(cluster->second);
    const int64_t place = std::ssize(task_.queries);
    add_asked(place, 0, said_texts(edit.texts, edit.shared_concept, protocol_));
    for (size_t p = 0; p < edit.paraphrases.size(); ++p) {
      add_asked(place, static_cast<int64_t>(p) + 1,
                said_texts(std::span(&edit.paraphrases[p], 1), edit.shared_concept, protocol_));
    }
    task_.queries.push_back(std::move(query));
    task_.edits.push_back(edit);
  }

  void add_asked(int64_t query, int64_t wording, std::vector<std::vector<std::string>> said) {
    for (std::vector<std::string>& texts : said) {
      task_.empty_texts += trim_ascii(texts.front()).empty() ? 1 : 0;
      task_.asked.push_back({query, wording, std::move(texts)});
    }
  }

  const Dataset& dataset_;
  const EditQueries& edits_;
  const ComposedProtocol& protocol_;
  const GalleryIndex index_;
  ComposedTask task_;
  Dataset counts_;  // counts exclusions as datasets do
  std::vector<int64_t> number_;
  std::map<std::string, size_t> gallery_number_;
  std::map<int64_t, int64_t> clusters_;
};

}  // namespace

std::vector<std::vector<std::string>> said_texts(std::span<const std::string> texts,
                                                 const std::string& shared_concept,
                                                 const ComposedProtocol& protocol) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) {
    if (!trim_ascii(text).empty()) parts.emplace_back(trim_ascii(text));
  }
  std::vector<std::vector<std::string>> said = join(std::move(parts), protocol.join);
  if (protocol.concepts == SharedConcept::kAlone || shared_concept.empty()) return said;
  for (std::vector<std::string>& each : said) {
    for (std::string& text : each) text = fmt::format("find {} but {}", shared_concept, text);
  }
  return said;
}

std::string as_sentence(std::string_view text) {
  return capitalized(stripped(trim_ascii(text)));
}

bool ComposedTask::has_targets() const {
  return std::ranges::any_of(queries, [](const Query& query) { return !query.targets.empty(); });
}

Result<ComposedTask> composed_task(const Dataset& dataset, const ComposedProtocol& protocol,
                                   std::span<const int64_t> unreadable) {
  SACCADE_ASSIGN(const EditQueries* edits, dataset.need<EditQueries>());
  const bool any =
      std::ranges::any_of(edits->items, [](const auto& query) { return !query.shared_concept.empty(); });
  if (protocol.concepts == SharedConcept::kWith && !any) {
    return fail(ErrorCode::kUsage, "{}: no query has a shared concept, so none can be said", dataset.name);
  }
  return TaskMaker(dataset, *edits, protocol).make(unreadable);
}

}  // namespace saccade::lab
