#include "lab/data/audit.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "lab/data/audit_images.h"
#include "lab/data/edit_queries.h"
#include "lab/data/readers/reader.h"
#include "saccade/core/ascii.h"
#include "saccade/text/utf8.h"

namespace saccade::lab {
namespace {

constexpr size_t kExamples = 10;

int64_t code_points(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) next_code_point(text, at);
  return count;
}

std::string plain(const std::string& caption) {
  return clean_text(to_valid_utf8(caption), TextCleanup::kSiglip);
}

// An item of any kind, for the audit.
struct Entry {
  const std::string* id = nullptr;
  std::span<const ImageRef> images;
  std::span<const std::string> captions;
  std::string part;  // its split, or its dataset among several
  std::string group;
  bool composition = false;
  std::optional<bool> visual = {};  // label of a rated text
};

// Returns the name of a split among several datasets.
std::string part_of(std::span<const Dataset> datasets, const Dataset& dataset, const std::string& split) {
  if (datasets.size() == 1) return split;
  return split.empty() ? dataset.name : dataset.name + ":" + split;
}

// Adds the items of a dataset of any kind.
class EntryList {
 public:
  EntryList(std::span<const Dataset> datasets, const Dataset& dataset, std::vector<Entry>& entries)
      : datasets_(datasets), dataset_(dataset), entries_(entries) {}

  void operator()(const CaptionedImages& images) {
    for (const DatasetItem& item : images.items) {
      entries_.push_back({&item.id, std::span(&item.image, 1), item.captions, part(item.split), item.group});
    }
  }
  void operator()(const CompositionTests& tests) {
    for (const CompositionItem& item : tests.items) {
      entries_.push_back({&item.id, item.images, item.captions, part(item.split), "", true});
    }
  }
  void operator()(const RatedTexts& texts) {
    for (const RatedText& item : texts.items) {
      const auto images = item.image ? std::span(&*item.image, 1) : std::span<const ImageRef>();
      entries_.push_back(
          {&item.id, images, std::span(&item.text, 1), part(item.split), item.group, false, item.visual});
    }
  }
  void operator()(const EditQueries& edits) {
    for (const EditQuery& query : edits.items) {
      entries_.push_back({&query.id, {}, query.texts, part(query.split), query.group});
    }
  }

 private:
  [[nodiscard]] std::string part(const std::string& split) const {
    return part_of(datasets_, dataset_, split);
  }

  std::span<const Dataset> datasets_;
  const Dataset& dataset_;
  std::vector<Entry>& entries_;
};

std::vector<Entry> entries_of(std::span<const Dataset> datasets) {
  std::vector<Entry> entries;
  for (const Dataset& dataset : datasets) std::visit(EntryList(datasets, dataset, entries), dataset.content);
  return entries;
}

// Adds the images of edit queries' galleries, each in the split of the gallery's first query.
void add_galleries(std::span<const Dataset> datasets, std::vector<Entry>& entries) {
  for (const Dataset& dataset : datasets) {
    const auto* edits = dataset.find<EditQueries>();
    if (edits == nullptr) continue;
    std::map<std::string, std::string> split_of;
    for (const EditQuery& query : edits->items) split_of.emplace(query.gallery, query.split);
    for (const GalleryPicture& picture : edits->gallery) {
      entries.push_back({&picture.id,
                         std::span(&picture.image, 1),
                         {},
                         part_of(datasets, dataset, split_of[picture.gallery]),
                         ""});
    }
  }
}

// The distinct images, and the entries that have each.
struct Pictures {
  std::vector<ImageRef> images;
  std::vector<std::string> ids;              // id of the first item with each
  std::vector<std::set<std::string>> parts;  // parts that contain each
};

Pictures pictures_of(const std::vector<Entry>& entries) {
  Pictures pictures;
  std::unordered_map<std::string, size_t> places;
  for (const Entry& entry : entries) {
    for (const ImageRef& image : entry.images) {
      const auto [place, fresh] = places.emplace(image.name(), pictures.images.size());
      if (fresh) {
        pictures.images.push_back(image);
        pictures.ids.push_back(*entry.id);
        pictures.parts.emplace_back();
      }
      pictures.parts[place->second].insert(entry.part);
    }
  }
  return pictures;
}

// Leaks between parts, created at the first occurrence.
class Leaks {
 public:
  using Parts = std::pair<std::string, std::string>;
  AuditReport::Leak& between(const std::string& a, const std::string& b) {
    AuditReport::Leak& leak = leaks_[std::minmax(a, b)];
    leak.a = std::min(a, b);
    leak.b = std::max(a, b);
    return leak;
  }
  std::vector<AuditReport::Leak> take() {
    std::vector<AuditReport::Leak> all;
    for (auto& [parts, leak] : leaks_) all.push_back(std::move(leak));
    return all;
  }

 private:
  std::map<Parts, AuditReport::Leak> leaks_;
};

// For each image, the parts that contain a match of it.
using Met = std::vector<std::set<std::string>>;

void note_example(const Pictures& pictures, size_t a, size_t b, Leaks& leaks) {
  for (const std::string& one : pictures.parts[a]) {
    for (const std::string& other : pictures.parts[b]) {
      if (one == other) continue;
      AuditReport::Leak& leak = leaks.between(one, other);
      if (leak.examples.size() >= kExamples) continue;
      const bool swapped = leak.a != one;
      leak.examples.push_back(
          fmt::format("{} = {}", pictures.ids[swapped ? b : a], pictures.ids[swapped ? a : b]));
    }
  }
}

// Finds images with the same bytes. Linear in a group's size, since some datasets have thousands of one blank
// image.
Met met_in_groups(const Pictures& pictures, const std::vector<std::vector<size_t>>& groups, Leaks& leaks) {
  Met met(pictures.images.size());
  for (const std::vector<size_t>& group : groups) {
    std::map<std::string, size_t> sizes;
    for (const size_t i : group) {
      for (const std::string& part : pictures.parts[i]) ++sizes[part];
    }
    for (const size_t i : group) {
      for (const auto& [part, size] : sizes) {
        if (size > (pictures.parts[i].contains(part) ? 1U : 0U)) met[i].insert(part);
      }
      if (i != group.front()) note_example(pictures, group.front(), i, leaks);
    }
  }
  return met;
}

Met met_in_pairs(const Pictures& pictures, const std::vector<data::Near>& near, Leaks& leaks) {
  Met met(pictures.images.size());
  for (const data::Near& pair : near) {
    met[pair.a].insert(pictures.parts[pair.b].begin(), pictures.parts[pair.b].end());
    met[pair.b].insert(pictures.parts[pair.a].begin(), pictures.parts[pair.a].end());
    note_example(pictures, pair.a, pair.b, leaks);
  }
  return met;
}

void count_image_leaks(const Pictures& pictures, const std::vector<std::vector<size_t>>& same,
                       const std::vector<data::Near>& near, Leaks& leaks) {
  const Met equal = met_in_groups(pictures, same, leaks);
  const Met alike = met_in_pairs(pictures, near, leaks);
  for (size_t i = 0; i < pictures.images.size(); ++i) {
    for (const std::string& own : pictures.parts[i]) {
      std::set<std::string> equal_in = equal[i];
      for (const std::string& other : pictures.parts[i]) {
        if (other != own) equal_in.insert(other);  // one file in two splits
      }
      for (const std::string& other : equal_in) {
        if (other == own) continue;
        AuditReport::Leak& leak = leaks.between(own, other);
        ++(leak.a == own ? leak.same_images_a : leak.same_images_b);
      }
      for (const std::string& other : alike[i]) {
        if (other == own || equal_in.contains(other)) continue;
        AuditReport::Leak& leak = leaks.between(own, other);
        ++(leak.a == own ? leak.near_images_a : leak.near_images_b);
      }
    }
  }
}

// Identity of each image, whatever its name: its bytes if they were read, else its name.
using PictureNames = std::unordered_map<std::string, std::string>;

Status audit_images(const std::vector<Entry>& entries, const AuditOptions& options, ThreadPool& pool,
                    const ProgressCallback& progress, std::stop_token stop, Leaks& leaks, PictureNames& names,
                    AuditReport& report) {
  const Pictures pictures = pictures_of(entries);
  report.images = static_cast<int64_t>(pictures.images.size());
  report.near_method = data::near_method(options);
  SACCADE_ASSIGN(const data::LookedAt looked,
                 data::look_at_images(pictures.images, options, pool, progress, std::move(stop)));
  std::map<std::string, std::vector<size_t>> contents;
  for (size_t i = 0; i < pictures.images.size(); ++i) {
    if (!looked.failed[i]) {
      contents[looked.hashes[i]].push_back(i);
      names[pictures.images[i].name()] = looked.hashes[i];
      continue;
    }
    const std::string name = pictures.images[i].name();
    Error error = without_context(looked.errors[i], name);
    auto& list = error.code == ErrorCode::kNotFound ? report.missing : report.unreadable;
    list.push_back({.image = name, .code = error.code, .reason = std::move(error.message)});
  }
  std::vector<std::vector<size_t>> same;
  for (auto& [hash, members] : contents) {
    if (members.size() < 2) continue;
    std::vector<std::string>& ids = report.same_images.emplace_back();
    for (const size_t member : members) ids.push_back(pictures.ids[member]);
    same.push_back(std::move(members));
  }
  std::sort(report.same_images.begin(), report.same_images.end());
  SACCADE_ASSIGN(const std::vector<data::Near> near, data::near_pairs(looked, options, pool));
  for (const data::Near& pair : near) {
    report.near_images.push_back({pictures.ids[pair.a], pictures.ids[pair.b], pair.distance});
  }
  count_image_leaks(pictures, same, near, leaks);
  return {};
}

void audit_captions(const std::vector<Entry>& entries, Leaks& leaks, AuditReport& report) {
  struct Use {
    std::string shown;
    std::unordered_set<const Entry*> items;
    std::map<std::string, int64_t> parts;  // -> captions there
    bool visual = false;
    bool non_visual = false;
  };
  std::unordered_map<std::string, Use> uses;
  std::unordered_set<std::string> exact;
  for (const Entry& entry : entries) {
    std::set<std::string> own;
    for (const std::string& caption : entry.captions) {
      ++report.captions;
      exact.insert(caption);
      const std::string text = plain(caption);
      if (!own.insert(text).second) ++report.repeated_in_item;
      Use& use = uses[text];
      if (use.shown.empty()) use.shown = caption;
      use.items.insert(&entry);
      ++use.parts[entry.part];
      if (entry.visual) (*entry.visual ? use.visual : use.non_visual) = true;
    }
    if (entry.composition && own.size() < 2) ++report.indistinguishable_compositions;
  }
  report.distinct_captions = static_cast<int64_t>(exact.size());
  report.distinct_plain_captions = static_cast<int64_t>(uses.size());
  for (const auto& [text, use] : uses) {
    if (use.visual && use.non_visual) ++report.contradicting_labels;
    if (use.items.size() > 1) {
      ++report.ambiguous_captions;
      report.most_shared.push_back({use.shown, static_cast<int64_t>(use.items.size())});
    }
    for (auto a = use.parts.begin(); a != use.parts.end(); ++a) {
      for (auto b = std::next(a); b != use.parts.end(); ++b) {
        AuditReport::Leak& leak = leaks.between(a->first, b->first);
        leak.captions_a += a->second;  // the map's order is the leak's
        leak.captions_b += b->second;
      }
    }
  }
  std::sort(report.most_shared.begin(), report.most_shared.end(), [](const auto& x, const auto& y) {
    return x.items != y.items ? x.items > y.items : x.caption < y.caption;
  });
  if (report.most_shared.size() > kExamples) report.most_shared.resize(kExamples);
}

void audit_groups(const std::vector<Entry>& entries, Leaks& leaks) {
  std::map<std::string, std::set<std::string>> groups;
  for (const Entry& entry : entries) {
    if (!entry.group.empty()) groups[entry.group].insert(entry.part);
  }
  for (const auto& [group, parts] : groups) {
    for (auto a = parts.begin(); a != parts.end(); ++a) {
      for (auto b = std::next(a); b != parts.end(); ++b) ++leaks.between(*a, *b).groups;
    }
  }
}

// Edit queries, and their images by their identity in PictureNames.
struct AuditedEdits {
  AuditedEdits(const EditQueries& queries, const PictureNames& picture_names)
      : edits(queries), index(queries), names(picture_names) {}

  // Returns the images that a query names.
  [[nodiscard]] std::set<std::string> named(const EditQuery& query, std::span<const std::string> ids) const {
    std::set<std::string> all;
    for (const std::string& id : ids) {
      const auto at = index.find(query.gallery, id);
      if (!at) continue;
      const std::string name = edits.gallery[*at].image.name();
      const auto known = names.find(name);
      all.insert(known == names.end() ? name : known->second);
    }
    return all;
  }

  const EditQueries& edits;
  GalleryIndex index;
  const PictureNames& names;
};

bool meet(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& each) { return b.contains(each); });
}

void audit_edits(std::span<const Dataset> datasets, const PictureNames& names, AuditReport::Edits& report) {
  constexpr std::string_view kTrain = "train";
  std::set<std::string> trained;
  std::vector<AuditedEdits> audited;
  for (const Dataset& dataset : datasets) {
    if (const auto* edits = dataset.find<EditQueries>()) audited.emplace_back(*edits, names);
  }
  for (const AuditedEdits& one : audited) {
    for (const EditQuery& query : one.edits.items) {
      if (query.split != kTrain) continue;
      trained.merge(one.named(query, std::span(&query.reference, 1)));
      trained.merge(one.named(query, query.targets));
    }
  }
  const auto note = [&](const EditQuery& query, std::string_view what) {
    if (report.examples.size() < kExamples) report.examples.push_back(fmt::format("{}: {}", query.id, what));
  };
  // Queries by their content; equal queries must have equal answers.
  std::map<std::pair<std::set<std::string>, std::string>, std::map<std::set<std::string>, int64_t>> asked;
  for (const AuditedEdits& one : audited) {
    for (const EditQuery& query : one.edits.items) {
      ++report.queries;
      const auto reference = one.named(query, std::span(&query.reference, 1));
      const auto targets = one.named(query, query.targets);
      if (targets.empty()) ++report.without_target;
      if (meet(reference, targets)) {
        ++report.reference_is_target;
        note(query, "its reference is among its targets");
      }
      if (query.split != kTrain && meet(targets, trained)) {
        ++report.targets_seen;
        note(query, "a target is shown in training");
      }
      std::string text;
      for (const std::string& each : query.texts) text += plain(each) + "\n";
      if (text.find_first_not_of('\n') == std::string::npos) {
        ++report.empty_texts;
        note(query, "its texts are empty");
      }
      if (!targets.empty()) ++asked[{reference, text}][targets];
    }
  }
  for (const auto& [what, answers] : asked) {
    if (answers.size() < 2) continue;
    for (const auto& [targets, count] : answers) report.same_query_other_targets += count;
  }
}

std::set<std::string> words_of(const Entry& entry) {
  if (entry.captions.empty()) return {};
  const std::string text = plain(entry.captions.front());
  const std::vector<std::string_view> words = split_ascii(text, " ");
  return {words.begin(), words.end()};
}

double overlap(const std::set<std::string>& a, const std::set<std::string>& b) {
  size_t both = 0;
  for (const std::string& word : a) both += b.contains(word) ? 1 : 0;
  const size_t all = a.size() + b.size() - both;
  return all == 0 ? 0 : static_cast<double>(both) / static_cast<double>(all);
}

// Checks whether the order correlates with the content. Then the first thousand items are not a sample, and a
// cut in the middle is not a split.
void audit_order(const std::vector<Entry>& entries, AuditReport& report) {
  const auto numbers = [](const Entry& a, const Entry& b) { return data::by_number(*a.id, *b.id); };
  const auto letters = [](const Entry& a, const Entry& b) { return *a.id < *b.id; };
  report.ids_in_order = std::is_sorted(entries.begin(), entries.end(), numbers) ||
                        std::is_sorted(entries.begin(), entries.end(), letters);
  if (entries.size() < 3) return;
  std::vector<std::set<std::string>> words;
  words.reserve(entries.size());
  for (const Entry& entry : entries) words.push_back(words_of(entry));
  const size_t n = words.size();
  size_t far = std::max<size_t>(2, static_cast<size_t>(0.618 * static_cast<double>(n)));
  while (std::gcd(far, n) != 1) ++far;  // so that i * far visits all, in an order without meaning
  double beside = 0;
  double random = 0;
  for (size_t i = 0; i + 1 < n; ++i) {
    beside += overlap(words[i], words[i + 1]);
    random += overlap(words[i * far % n], words[(i * far + far * far) % n]);
  }
  report.neighbour_overlap = beside / static_cast<double>(n - 1);
  report.random_overlap = random / static_cast<double>(n - 1);
  report.ordered_by_content = report.neighbour_overlap > 1.5 * report.random_overlap &&
                              report.neighbour_overlap > report.random_overlap + 0.05;
}

void audit_lengths(const std::vector<Entry>& entries, const AuditOptions& options, AuditReport& report) {
  std::vector<int64_t> characters;
  std::vector<int64_t> tokens;
  for (const Entry& entry : entries) {
    for (const std::string& caption : entry.captions) {
      characters.push_back(code_points(caption));
      if (options.tokenizer == nullptr) continue;
      const TokenizedText text = options.tokenizer->encode(caption, options.context);
      tokens.push_back(text.used + text.dropped);
      report.cut_tokens += text.dropped;
      if (text.dropped > 0) ++report.cut_captions;
    }
  }
  report.characters = lengths_of(std::move(characters));
  if (options.tokenizer != nullptr) report.tokens = lengths_of(std::move(tokens));
}

}  // namespace

Lengths lengths_of(std::vector<int64_t> values) {
  Lengths lengths;
  if (values.empty()) return lengths;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  lengths.count = static_cast<int64_t>(n);
  lengths.min = values.front();
  lengths.median = values[(n - 1) / 2];
  lengths.p95 = values[(n * 95 + 99) / 100 - 1];
  lengths.max = values.back();
  double sum = 0;
  for (const int64_t value : values) sum += static_cast<double>(value);
  lengths.mean = sum / static_cast<double>(n);
  return lengths;
}

Lengths caption_characters(const Dataset& dataset) {
  std::vector<int64_t> lengths;
  for (const Entry& entry : entries_of({&dataset, 1})) {
    for (const std::string& caption : entry.captions) lengths.push_back(code_points(caption));
  }
  return lengths_of(std::move(lengths));
}

Lengths captions_per_item(const Dataset& dataset) {
  std::vector<int64_t> counts;
  for (const Entry& entry : entries_of({&dataset, 1})) {
    counts.push_back(static_cast<int64_t>(entry.captions.size()));
  }
  return lengths_of(std::move(counts));
}

Result<AuditReport> audit_datasets(std::span<const Dataset> datasets, const AuditOptions& options,
                                   ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  const std::vector<Entry> entries = entries_of(datasets);
  AuditReport report;
  report.items = static_cast<int64_t>(entries.size());
  Leaks leaks;
  PictureNames names;
  std::vector<Entry> with_galleries = entries;
  add_galleries(datasets, with_galleries);
  SACCADE_TRY(audit_images(with_galleries, options, pool, progress, std::move(stop), leaks, names, report));
  audit_edits(datasets, names, report.edits);
  audit_captions(entries, leaks, report);
  audit_groups(entries, leaks);
  audit_order(entries, report);
  audit_lengths(entries, options, report);
  report.leaks = leaks.take();
  return report;
}

}  // namespace saccade::lab
