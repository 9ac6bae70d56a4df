#include "saccade/search/fold.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "saccade/core/rows.h"
#include "saccade/image/decode/raw.h"
#include "saccade/image/frame_name.h"
#include "saccade/search/matching/near_rows.h"

namespace saccade {
namespace {

double cosine(std::span<const float> a, std::span<const float> b) {
  return dot_product(a, b) / (row_length(a) * row_length(b));
}

// Tests whether two images look the same. Late interaction also requires the rows at equal positions to be
// similar, since mean embeddings of text pages hardly differ.
class Likeness {
 public:
  Likeness(const CollectionReader& collection, float least) : collection_(collection), least_(least) {}

  bool alike(int64_t a, int64_t b) {
    const auto rows = collection_.rows();
    const auto row = rows.row(a);
    const auto other = rows.row(b);
    // Equal rows have a cosine of 1, whatever rounding makes of their product.
    const bool equal = std::ranges::equal(row, other);
    if (!equal && !(std::inner_product(row.begin(), row.end(), other.begin(), 0.0F) >= least_)) return false;
    if (!collection_.has_late_rows()) return true;
    if (equal && same_bytes(collection_.late_rows(a), collection_.late_rows(b))) return true;
    make_room(a, b);
    const Matrix<float>& rows_a = late_rows(a);
    const Matrix<float>& rows_b = late_rows(b);
    if (rows_a.rows() != rows_b.rows()) return false;
    double sum = 0;
    for (int64_t r = 0; r < rows_a.rows(); ++r) sum += cosine(rows_a.row(r), rows_b.row(r));
    return sum >= double{least_} * static_cast<double>(rows_a.rows());
  }

 private:
  static bool same_bytes(const StoredRows& a, const StoredRows& b) {
    const auto bytes = static_cast<size_t>(a.count * stored_row_bytes(a.layout));
    return a.count == b.count && std::memcmp(a.data, b.data, bytes) == 0;
  }

  // Drops the rows that were compared recently, of which a page has half a megabyte, if there are many and one of the two
  // is not among them.
  void make_room(int64_t a, int64_t b) {
    constexpr size_t kKept = 64;
    if (late_rows_.size() > kKept && !(late_rows_.contains(a) && late_rows_.contains(b))) late_rows_.clear();
  }
  // Valid until make_room() is called.
  const Matrix<float>& late_rows(int64_t row) {
    const auto [place, fresh] = late_rows_.try_emplace(row);
    if (fresh) place->second = restore_rows(collection_.late_rows(row));
    return place->second;
  }

  const CollectionReader& collection_;
  const float least_;
  std::map<int64_t, Matrix<float>> late_rows_;
};

// Pairs a RAW file with the image derived from it ("IMG_1.CR2" beside "IMG_1.jpg"), whatever their
// similarity. Also pairs a live photo, whose clip "IMG_1.MOV" lies beside "IMG_1.HEIC". Costs a look-up for
// each candidate.
class RawPairs {
 public:
  explicit RawPairs(const CollectionReader& collection) : collection_(collection) {}

  // Notes that the group at `place` begins with the candidate of `row`. Places come in ascending order.
  void add(int64_t row, size_t place) {
    if (const std::string& stem = name(row).stem; !stem.empty()) places_[stem].push_back(place);
  }
  // The places of the groups that may be paired with it: of the same name but for the ending.
  std::span<const size_t> places(int64_t row) {
    const auto found = places_.find(name(row).stem);
    return found == places_.end() ? std::span<const size_t>() : found->second;
  }
  // Returns true if two items of the same name are a pair. Two RAW files, or two scenes of a clip, are one if an image
  // of that name is in the collection. The candidates alone must not decide that: the image may rank below the hits that
  // are shown, and groups that merge on a later page would move the hits between the two.
  bool pair(int64_t a, int64_t b) {
    return name(a).rank != name(b).rank || (name(a).rank > 0 && has_image(name(a).stem));
  }
  // Returns true if `a` leads the pair: the image that every program shows precedes the file it was derived
  // from.
  bool leads(int64_t a, int64_t b) { return name(a).rank < name(b).rank; }

 private:
  struct Name {
    std::string stem;  // the path without its ending
    int rank = 0;      // a picture, a RAW file, a frame of the clip of a live photo
  };
  const Name& name(int64_t row) {
    const auto [place, fresh] = names_.try_emplace(row);
    if (!fresh) return place->second;
    if (const auto item = collection_.item_of_row(row)) {
      const std::filesystem::path file = file_of(item->path);
      const bool video = item->format == kVideoFormat;
      const std::string ending = file.extension().string();
      if (video && ending != ".MOV" && ending != ".mov") return place->second;
      const int rank = item->format == kRawFormat ? 1 : 0;
      place->second = {std::filesystem::path(file).replace_extension().string(), video ? 2 : rank};
    }
    return place->second;
  }

  // Looks for the image that a camera writes beside a RAW file or a clip.
  bool has_image(const std::string& stem) {
    const auto [place, fresh] = has_image_.try_emplace(stem);
    if (!fresh) return place->second;
    place->second = std::ranges::any_of(
        kImageEndings, [&](const char* ending) { return collection_.has_path(stem + ending); });
    return place->second;
  }

  static constexpr std::array kImageEndings = {".HEIC", ".heic", ".JPG", ".jpg", ".JPEG", ".jpeg"};
  const CollectionReader& collection_;
  std::unordered_map<int64_t, Name> names_;
  std::unordered_map<std::string, std::vector<size_t>> places_;  // by stem; "" is never there
  std::unordered_map<std::string, bool> has_image_;              // by stem
};

// Rows of some candidates, evenly over them all.
std::vector<int64_t> sample_of(std::span<const Candidate> candidates) {
  constexpr size_t kSample = 64;
  const size_t step = candidates.size() / kSample + 1;
  std::vector<int64_t> sample;
  for (size_t i = 0; i < candidates.size(); i += step) sample.push_back(candidates[i].row);
  return sample;
}

// The groups so far.
class Groups {
 public:
  Groups(const Candidates& candidates, const CollectionReader& collection, const SearchQuery& query)
      : folds_(query.group_duplicates),
        likeness_(collection, query.duplicate_cosine),
        pairs_(collection),
        near_(collection.rows(), sample_of(candidates.best), query.duplicate_cosine) {}

  [[nodiscard]] int64_t count() const { return std::ssize(groups_); }

  // Returns the first group whose first image the candidate resembles; the number of groups ever begun: none.
  size_t like(const Candidate& candidate) {
    return near_.find_first(candidate.row, [&](size_t place) {
      return likeness_.alike(candidate.row, groups_[place].first.row);
    });
  }

  // The first group that the candidate belongs to; nullopt: none.
  std::optional<size_t> group_of(const Candidate& candidate) {
    if (!folds_) return std::nullopt;
    size_t first = like(candidate);
    for (const size_t place : pairs_.places(candidate.row)) {
      if (place >= first) break;
      if (pairs_.pair(candidate.row, groups_[place].first.row)) first = place;
    }
    if (first == groups_.size()) return std::nullopt;
    return first;
  }

  void begin(const Candidate& candidate) {
    if (folds_) {
      pairs_.add(candidate.row, groups_.size());
      near_.add(candidate.row);
    }
    groups_.push_back({candidate, {}});
  }

  // Adds the candidate to the group. It leads the group if the first image there was derived from it.
  void join(size_t at, const Candidate& candidate) {
    Group& group = groups_[at];
    const std::span<const size_t> named = pairs_.places(candidate.row);
    if (!std::ranges::binary_search(named, at) || !pairs_.leads(candidate.row, group.first.row)) {
      group.others.push_back(candidate);
      return;
    }
    group.others.insert(group.others.begin(), std::exchange(group.first, candidate));
    near_.replace(at, candidate.row);
  }

  // Adds candidates to the groups that they resemble. They lead none, and begin none.
  void join_like(std::span<const Candidate> candidates) {
    if (!folds_) return;
    for (const Candidate& candidate : candidates) {
      if (const size_t at = like(candidate); at < groups_.size()) groups_[at].others.push_back(candidate);
    }
  }

  std::vector<Group> take() { return std::move(groups_); }

 private:
  const bool folds_;
  Likeness likeness_;
  RawPairs pairs_;
  NearRows near_;
  std::vector<Group> groups_;
};

}  // namespace

Folding fold(const Candidates& candidates, const CollectionReader& collection, const SearchQuery& query,
             int64_t k, int64_t depth) {
  Groups groups(candidates, collection, query);
  Folding folding;
  folding.settled = candidates.complete;
  const std::span<const Candidate> best = candidates.best;
  for (size_t i = 0; i < best.size(); ++i) {
    if (query.stop.stop_requested()) break;  // the caller looks too
    const Candidate& candidate = best[i];
    if (const auto group = groups.group_of(candidate)) {
      groups.join(*group, candidate);
    } else if (groups.count() == k) {
      folding.settled = candidates.complete || static_cast<int64_t>(i) <= candidates.ranked;
      const int64_t behind = std::min(depth, std::ssize(best)) - static_cast<int64_t>(i) - 1;
      groups.join_like(
          best.subspan(i + 1, static_cast<size_t>(std::clamp<int64_t>(behind, 0, kBehindLastHit))));
      break;
    } else {
      groups.begin(candidate);
    }
  }
  folding.groups = groups.take();
  return folding;
}

}  // namespace saccade
