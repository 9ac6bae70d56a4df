#include "saccade/search/fold.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"
#include "saccade/core/rows.h"
#include "saccade/core/seconds_since.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/decode/raw.h"
#include "saccade/image/frame_name.h"

namespace saccade {
namespace {

constexpr char kFingerprint[] = "1111111111111111111111111111111111111111111111111111111111111111";

// An image's name without its ending, and its place in a pair: image, RAW file, frame of a live photo's clip.
struct Shot {
  std::string stem;  // empty: never paired
  int place = 0;
  bool image = false;  // as cameras write one beside a RAW file or a clip
};

Shot shot_of(const Item& item) {
  const std::filesystem::path file = file_of(item.path);
  const bool video = item.format == kVideoFormat;
  if (video && file.extension() != ".MOV") return {};
  const std::string ending = file.extension().string();
  return {std::filesystem::path(file).replace_extension().string(),
          video                       ? 2
          : item.format == kRawFormat ? 1
                                      : 0,
          ending == ".jpg" || ending == ".HEIC"};
}

// The slow, obvious way: each candidate is compared with every group.
Folding slow_fold(const Candidates& candidates, const CollectionReader& collection, const SearchQuery& query,
                  int64_t k, int64_t depth) {
  const auto alike = [&](int64_t a, int64_t b) {
    const auto row = collection.rows().row(a);
    const auto other = collection.rows().row(b);
    return std::ranges::equal(row, other) ||
           std::inner_product(row.begin(), row.end(), other.begin(), 0.0F) >= query.duplicate_cosine;
  };
  std::map<int64_t, Shot> shots;
  EXPECT_TRUE(collection.for_each_item([&](const Item& item) {
    shots[item.row] = shot_of(item);
    return Status{};
  }));
  std::set<std::string> images;  // stems of the images of cameras
  for (const auto& [row, shot] : shots) {
    if (shot.image) images.insert(shot.stem);
  }
  const auto pair = [&](int64_t a, int64_t b) {
    const Shot& one = shots.at(a);
    const Shot& other = shots.at(b);
    if (one.stem.empty() || one.stem != other.stem) return false;
    return one.place != other.place || (one.place > 0 && images.contains(one.stem));
  };
  Folding folding;
  std::vector<Group>& groups = folding.groups;
  for (int64_t rank = 0; rank < std::ssize(candidates.best); ++rank) {
    const Candidate& candidate = candidates.best[static_cast<size_t>(rank)];
    size_t at = groups.size();
    for (size_t i = 0; i < groups.size() && at == groups.size() && query.group_duplicates; ++i) {
      if (alike(candidate.row, groups[i].first.row) || pair(candidate.row, groups[i].first.row)) at = i;
    }
    if (at == groups.size()) {
      if (std::ssize(groups) == k) {
        folding.settled = true;
        for (int64_t i = rank + 1;
             query.group_duplicates && i < depth && i <= rank + 256 && i < std::ssize(candidates.best); ++i) {
          const Candidate& behind = candidates.best[static_cast<size_t>(i)];
          const auto group = std::ranges::find_if(
              groups, [&](const Group& each) { return alike(behind.row, each.first.row); });
          if (group != groups.end()) group->others.push_back(behind);
        }
        return folding;
      }
      groups.push_back({candidate, {}});
      continue;
    }
    const auto made_of_it = [&](const Group& group) {
      return pair(candidate.row, group.first.row) &&
             shots.at(candidate.row).place < shots.at(group.first.row).place;
    };
    if (!made_of_it(groups[at])) {
      groups[at].others.push_back(candidate);
      continue;
    }
    Group led{candidate, {groups[at].first}};
    led.others.insert(led.others.end(), groups[at].others.begin(), groups[at].others.end());
    groups[at] = led;
  }
  folding.settled = candidates.complete;
  return folding;
}

// Ids by group: the first, then the others in their order.
std::vector<std::vector<int64_t>> ids_of(const Folding& folding) {
  std::vector<std::vector<int64_t>> ids;
  for (const Group& group : folding.groups) {
    std::vector<int64_t>& own = ids.emplace_back();
    own.push_back(group.first.id);
    for (const Candidate& other : group.others) own.push_back(other.id);
  }
  return ids;
}

class Library {
 public:
  explicit Library(int64_t dim) : dim_(dim) {
    auto writer = CollectionWriter::create(folder_ / "c", {"letters", "", kFingerprint, dim});
    EXPECT_TRUE(writer) << writer.error().message;
    writer_.emplace(*std::move(writer));
  }

  void add(std::string path, std::string format, std::vector<float> row) {
    CollectionChange::Put put = test::put_of(std::move(path), static_cast<int>(change_.puts.size()));
    put.item.format = std::move(format);
    put.values = unit_row(std::vector<double>(row.begin(), row.end()), 1e-6F).value();
    change_.puts.push_back(std::move(put));
  }

  CollectionReader open() {
    const Status status = writer_->commit(change_);
    EXPECT_TRUE(status) << status.error().message;
    return *CollectionReader::open(folder_ / "c");
  }

  [[nodiscard]] int64_t dim() const { return dim_; }

 private:
  test::TestFolder folder_;
  int64_t dim_;
  std::optional<CollectionWriter> writer_;
  CollectionChange change_;
};

Candidates all_rows(const CollectionReader& collection, std::mt19937& random) {
  Candidates candidates;
  candidates.complete = true;
  for (size_t row = 0; row < collection.ids().size(); ++row) {
    candidates.best.push_back({static_cast<int64_t>(row), collection.ids()[row], 0, 0});
  }
  std::ranges::shuffle(candidates.best, random);
  return candidates;
}

// Rows about a few centres, at angles whose cosines lie about the thresholds; some equal; of many widths.
TEST(Fold, IsTheSlowOne) {
  constexpr float kThresholds[] = {0, 0.5F, 0.9F, 0.99F, 0.999F, 1};
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  int64_t folded = 0;
  int64_t paired = 0;
  for (const int64_t dim : {3, 16, 32, 33, 80, 512}) {
    Library library(dim);
    std::vector<std::vector<float>> rows;
    for (int i = 0; i < 400; ++i) {
      std::vector<float> row(static_cast<size_t>(dim));
      const bool near = !rows.empty() && random() % 3 != 0;
      if (near) row = rows[random() % rows.size()];
      // Two rows at this distance have a cosine of about a threshold, or the rows are equal.
      const float least = kThresholds[random() % std::size(kThresholds)];
      const float step = near ? std::sqrt(std::max(0.0F, 2 - 2 * least)) / std::sqrt(static_cast<float>(dim))
                              : 1 / std::sqrt(static_cast<float>(dim));
      for (float& value : row) value += step * normal(random);
      // A large column that all have in common, as CLIP's towers make them.
      if (!near && dim > 3) row[1] += 1;
      rows.push_back(row);
      const std::string stem = fmt::format("/p/IMG_{}", random() % 120);
      constexpr std::pair<const char*, const char*> kKinds[] = {
          {".jpg", "jpeg"}, {".HEIC", "heif"}, {".CR2", "raw"}, {".MOV", "video"}, {".mp4", "video"}};
      const auto& [ending, format] = kKinds[random() % std::size(kKinds)];
      const std::string frame = std::string_view(format) == "video" ? fmt::format("#t={}.500", i) : "";
      // No path twice.
      const std::string folder = frame.empty() && random() % 2 == 0 ? fmt::format("/{}", i) : "";
      const std::string unique = frame.empty() && folder.empty() ? fmt::format("{}x{}", stem, i) : stem;
      library.add(folder + unique + ending + frame, format, row);
    }
    // Whole pairs: a clip of several frames, its image and a RAW file.
    for (int i = 0; i < 40; ++i) {
      const auto any = [&] {
        std::vector<float> row(static_cast<size_t>(dim));
        for (float& value : row) value = normal(random);
        return row;
      };
      library.add(fmt::format("/live/{}.HEIC", i), "heif", any());
      library.add(fmt::format("/live/{}.CR2", i), "raw", any());
      for (int f = 0; f < 3; ++f) library.add(fmt::format("/live/{}.MOV#t={}.000", i, f), "video", any());
    }
    const CollectionReader collection = library.open();
    for (const float least : kThresholds) {
      for (const auto& [k, depth] :
           {std::pair{1, 600}, {7, 600}, {7, 100}, {100, 250}, {100, 10}, {1000, 600}}) {
        SearchQuery query;
        query.duplicate_cosine = least;
        const Candidates candidates = all_rows(collection, random);
        const Folding fast = fold(candidates, collection, query, k, depth);
        const Folding slow = slow_fold(candidates, collection, query, k, depth);
        ASSERT_EQ(ids_of(fast), ids_of(slow))
            << "dim " << dim << ", least " << least << ", k " << k << ", depth " << depth;
        ASSERT_EQ(fast.settled, slow.settled);
        for (const Group& group : fast.groups) folded += std::ssize(group.others);
        if (least == 1) paired += 560 - std::ssize(fast.groups);
      }
    }
  }
  EXPECT_GT(folded, 10'000);
  EXPECT_GT(paired, 1'000);
}

// Behind the last hit, a copy is found by its row, up to a limit; a RAW file is not, by its name.
TEST(Fold, CopiesBehindTheLastHitJoinItsGroups) {
  Library library(3);
  library.add("/1.jpg", "jpeg", {1, 0, 0});
  library.add("/2.jpg", "jpeg", {0, 1, 0});
  library.add("/1.CR2", "raw", {0.5F, 0, 1});
  library.add("/copy of 2.jpg", "jpeg", {0, 1, 0});
  library.add("/copy of 1.jpg", "jpeg", {1, 0, 0});
  for (int i = 0; i < 300; ++i) library.add(fmt::format("/{}.png", i), "png", {0, 0.3F, -1});
  library.add("/far copy.jpg", "jpeg", {1, 0, 0});
  const CollectionReader collection = library.open();
  Candidates candidates;
  for (size_t row = 0; row < collection.ids().size(); ++row) {
    candidates.best.push_back({static_cast<int64_t>(row), collection.ids()[row], 0, 0});
  }
  using Ids = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(ids_of(fold(candidates, collection, {}, 1, 400)), (Ids{{1, 5}}));
  EXPECT_EQ(ids_of(fold(candidates, collection, {}, 1, 4)), (Ids{{1}}));
  EXPECT_EQ(ids_of(fold(candidates, collection, {}, 2, 400)), (Ids{{1, 3, 5}, {2, 4}}));
}

// The image of a live photo, and that of two RAW files, rank below other hits.
TEST(Fold, GroupsOfALongerAnswerBeginWithThoseOfAShorterOne) {
  constexpr std::pair<const char*, const char*> kRanked[] = {{"/1.MOV#t=0.000", "video"},
                                                             {"/2.CR2", "raw"},
                                                             {"/1.MOV#t=1.500", "video"},
                                                             {"/a.jpg", "jpeg"},
                                                             {"/2.DNG", "raw"},
                                                             {"/b.jpg", "jpeg"},
                                                             {"/c.jpg", "jpeg"},
                                                             {"/1.HEIC", "heif"},
                                                             {"/d.jpg", "jpeg"},
                                                             {"/2.jpg", "jpeg"},
                                                             {"/1.MOV#t=2.500", "video"},
                                                             {"/e.jpg", "jpeg"},
                                                             {"/long.MOV#t=0.000", "video"},
                                                             {"/long.MOV#t=9.000", "video"}};
  constexpr int64_t kCount = std::size(kRanked);
  Library library(kCount);
  Candidates candidates;
  candidates.complete = true;
  for (int64_t i = 0; i < kCount; ++i) {
    std::vector<float> row(kCount);
    row[static_cast<size_t>(i)] = 1;
    library.add(kRanked[i].first, kRanked[i].second, row);
  }
  const CollectionReader collection = library.open();
  for (int64_t row = 0; row < kCount; ++row) {
    candidates.best.push_back({row, collection.ids()[static_cast<size_t>(row)], 0, 0});
  }
  const auto whole = ids_of(fold(candidates, collection, {}, kCount, kCount));
  EXPECT_EQ(whole, (std::vector<std::vector<int64_t>>{
                       {8, 1, 3, 11}, {10, 2, 5}, {4}, {6}, {7}, {9}, {12}, {13}, {14}}));
  for (int64_t k = 1; k <= std::ssize(whole); ++k) {
    const auto some = ids_of(fold(candidates, collection, {}, k, kCount));
    ASSERT_EQ(std::ssize(some), k);
    for (size_t i = 0; i < some.size(); ++i) {
      for (const int64_t id : some[i]) {
        EXPECT_EQ(std::ranges::count(whole[i], id), 1) << "k " << k << ", hit " << i << ", image " << id;
      }
    }
  }
}

TEST(Fold, WithoutFoldingEachIsAGroup) {
  Library library(4);
  for (int i = 0; i < 3; ++i) library.add(fmt::format("/{}.jpg", i), "jpeg", {1, 0, 0, 0});
  const CollectionReader collection = library.open();
  std::mt19937 random(1);
  const Candidates candidates = all_rows(collection, random);
  SearchQuery query;
  query.group_duplicates = false;
  EXPECT_EQ(fold(candidates, collection, query, 3, 3).groups.size(), 3U);
  const Folding two = fold(candidates, collection, query, 2, 3);
  EXPECT_TRUE(two.settled);
  EXPECT_EQ(ids_of(two),
            (std::vector<std::vector<int64_t>>{{candidates.best[0].id}, {candidates.best[1].id}}));
}

// 1,500 groups are a million pairs: seconds with a dot product for each, and a look-up of names.
TEST(Fold, ManyGroupsAreQuick) {
  constexpr int64_t kDim = 512;
  constexpr int kRows = 1500;
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  Library library(kDim);
  std::vector<float> centre(kDim);
  for (float& value : centre) value = normal(random);
  for (int i = 0; i < kRows; ++i) {
    std::vector<float> row = centre;
    for (float& value : row) value += 0.5F * normal(random);
    library.add(fmt::format("/{}.jpg", i), "jpeg", row);
  }
  const CollectionReader collection = library.open();
  const Candidates candidates = all_rows(collection, random);
  const auto time = [&](auto function) {
    const auto start = std::chrono::steady_clock::now();
    const Folding folding = function(candidates, collection, SearchQuery{}, kRows, kRows);
    EXPECT_EQ(folding.groups.size(), size_t{kRows});
    return seconds_since(start);
  };
  const double slow = time(slow_fold);
  const double fast = time(fold);
  EXPECT_LT(fast, slow / 3) << "slow " << slow << " s, fast " << fast << " s";
}

}  // namespace
}  // namespace saccade
