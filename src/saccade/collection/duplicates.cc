#include "saccade/collection/duplicates.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "saccade/collection/catalog/store.h"
#include "saccade/collection/duplicate_choice.h"
#include "saccade/collection/file_state.h"
#include "saccade/core/counts.h"
#include "saccade/core/rows.h"
#include "saccade/image/frame_name.h"
#include "saccade/image/metadata/look.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr std::array<EnumName<Likeness>, 4> kLikenessNames{{{Likeness::kSameBytes, "bytes"},
                                                            {Likeness::kSamePicture, "image"},
                                                            {Likeness::kBurst, "burst"},
                                                            {Likeness::kSamePicture, "picture"}}};

// Sets that grow together; each remembers the loosest link that made it.
class Sets {
 public:
  explicit Sets(size_t count) : parent_(count), likeness_(count, Likeness::kSameBytes) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // The smaller index leads, so that the result does not depend on the order of the links.
  void unite(size_t a, size_t b, Likeness likeness) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    if (b < a) std::swap(a, b);
    parent_[b] = a;
    likeness_[a] = std::max({likeness_[a], likeness_[b], likeness});
  }
  Likeness likeness(size_t i) { return likeness_[find(i)]; }

 private:
  std::vector<size_t> parent_;
  std::vector<Likeness> likeness_;
};

class Finder {
 public:
  Finder(const CollectionReader& collection, const DuplicateOptions& options, ThreadPool& pool,
         const ProgressCallback& progress, std::stop_token stop)
      : collection_(collection),
        options_(options),
        pool_(pool),
        progress_(progress),
        stop_(std::move(stop)) {}

  Result<DuplicateReport> find() {
    SACCADE_TRY(read());
    Sets sets(all_.size());
    unite_equal(sets);
    if (options_.least >= Likeness::kSamePicture) SACCADE_TRY(unite_pictures(sets));
    if (options_.least >= Likeness::kBurst) SACCADE_TRY(unite_bursts(sets));
    return report(sets);
  }

 private:
  Status read() {
    SACCADE_TRY(collection_.check_files());
    std::unordered_map<int64_t, size_t> place;
    SACCADE_TRY(collection_.for_each_item([&](const Item& item) {
      if (const auto frame = read_frame_name(item.path)) {
        // A video is compared by its bytes like any file, represented by the first of its frames. The look of
        // its frames does not represent the whole.
        if (!videos_.insert(frame->file).second) return Status{};
        all_.push_back({.item = item});
        Item& video = all_.back().item;
        video.path = frame->file;
        video.hash = video.hash.substr(0, video.hash.find('#'));
        return Status{};
      }
      place.emplace(item.id, all_.size());
      all_.push_back({.item = item});
      return Status{};
    }));
    return collection_.for_each_facts([&](int64_t id, const ItemFacts& facts) {
      const auto found = place.find(id);
      if (found == place.end()) return Status{};
      DuplicateCandidate& candidate = all_[found->second];
      candidate.taken = facts.picture.taken;
      candidate.camera = facts.picture.camera;
      candidate.look = facts.look;
      candidate.rating = facts.picture.rating.value_or(0);
      candidate.photograph = is_photograph(facts.grain);
      candidate.looked_at = facts.read != FactsRead::kNothing;
      return Status{};
    });
  }

  void unite_equal(Sets& sets) {
    std::unordered_map<std::string_view, size_t> first;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].item.hash.empty()) continue;  // imported without its file, and nothing is known of that
      const auto [known, fresh] = first.emplace(all_[i].item.hash, i);
      if (!fresh) sets.unite(known->second, i, Likeness::kSameBytes);
    }
  }

  [[nodiscard]] double cosine(const DuplicateCandidate& a, const DuplicateCandidate& b) const {
    return dot_product(collection_.rows().row(a.item.row), collection_.rows().row(b.item.row));
  }

  // Returns true if one of the two was derived from the other.
  [[nodiscard]] bool same_picture(const DuplicateCandidate& one, const DuplicateCandidate& other) const {
    // A file derived from a RAW file does not replace it.
    if (!one.looked_at || !other.looked_at || one.raw() != other.raw()) return false;
    const bool photographs = one.photograph && other.photograph;
    return hash_distance(one.look, other.look) <=
               (photographs ? options_.hash_bits : options_.drawing_hash_bits) &&
           cosine(one, other) >= (photographs ? options_.cosine : options_.drawing_cosine);
  }

  // All pairs of different files, in blocks: threads find those with near hashes, this one unites.
  Status unite_pictures(Sets& sets) {
    std::vector<size_t> different;
    std::vector<uint64_t> looks;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (!all_[i].looked_at || sets.find(i) != i) continue;
      different.push_back(i);
      looks.push_back(all_[i].look);
    }
    constexpr size_t kBlock = 256;
    const int most_bits = std::max(options_.hash_bits, options_.drawing_hash_bits);
    std::vector<std::vector<size_t>> near(kBlock);
    for (size_t begin = 0; begin < different.size(); begin += kBlock) {
      const size_t end = std::min(begin + kBlock, different.size());
      pool_.parallel_for(static_cast<int64_t>(end - begin), 1, [&](int64_t from, int64_t to) {
        for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
          near[i].clear();
          const uint64_t look = looks[begin + i];
          for (size_t j = begin + i + 1; j < looks.size(); ++j) {
            if (hash_distance(look, looks[j]) <= most_bits) near[i].push_back(j);
          }
        }
      });
      for (size_t i = 0; i < end - begin; ++i) {
        const size_t a = different[begin + i];
        for (const size_t j : near[i]) {
          const size_t b = different[j];
          if (sets.find(a) != sets.find(b) && same_picture(all_[a], all_[b])) {
            sets.unite(a, b, Likeness::kSamePicture);
          }
        }
      }
      if (stop_.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop; nothing has changed");
      if (progress_) {
        progress_(
            {"comparing images", static_cast<int64_t>(end), static_cast<int64_t>(different.size()), {}});
      }
    }
    return {};
  }

  // Compares images in order of time: each with those shortly after it, of the same camera if both name one.
  Status unite_bursts(Sets& sets) {
    constexpr size_t kMostFollowing =
        500;  // a date that a thousand files share is of a program, not of a camera
    std::vector<size_t> timed;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].taken) timed.push_back(i);
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [&](size_t a, size_t b) { return all_[a].taken < all_[b].taken; });
    for (size_t i = 0; i < timed.size(); ++i) {
      const DuplicateCandidate& first = all_[timed[i]];
      for (size_t j = i + 1; j < std::min(timed.size(), i + 1 + kMostFollowing); ++j) {
        const DuplicateCandidate& next = all_[timed[j]];
        if (*next.taken - *first.taken > options_.burst_seconds) break;
        const bool other = (!first.camera.empty() && !next.camera.empty() && first.camera != next.camera) ||
                           first.raw() != next.raw();
        if (other || sets.find(timed[i]) == sets.find(timed[j])) continue;
        if (cosine(first, next) >= options_.burst_cosine) {
          sets.unite(timed[i], timed[j], Likeness::kBurst);
        }
      }
      if (i % 1024 == 0 && stop_.stop_requested()) {
        return fail(ErrorCode::kCancelled, "asked to stop; nothing has changed");
      }
    }
    return {};
  }

  // One file, under the best of its names.
  struct File {
    const DuplicateCandidate* candidate = nullptr;
    std::vector<std::string> other_names;
    bool frees_bytes = true;  // removing the names frees its bytes
  };

  // The files of a group: its items by device and inode, as they are now where that can be seen.
  std::vector<File> files_of(std::span<const size_t> places) {
    std::map<std::tuple<int64_t, int64_t, size_t>, std::vector<const DuplicateCandidate*>> names;
    for (const size_t place : places) {
      Item& item = all_[place].item;
      if (item.file.elsewhere) {
        names[{0, 0, place + 1}].push_back(&all_[place]);
        continue;
      }
      if (const auto state = file_state(item.path)) item.file = state->identity;
      const bool known = item.file.known();
      names[{item.file.device, item.file.inode, known ? 0 : place + 1}].push_back(&all_[place]);
    }
    std::vector<File> files;
    for (auto& [identity, candidates] : names) {
      sort_best_first(candidates);
      const FileIdentity& identified = candidates.front()->item.file;
      File file{candidates.front(), {}, !identified.linked && !identified.elsewhere};
      uintmax_t entries = 0;
      for (const DuplicateCandidate* candidate : candidates) {
        entries += candidate->item.file.linked ? 0 : 1;
        if (candidate != candidates.front()) file.other_names.push_back(candidate->item.path);
      }
      std::error_code error;
      const uintmax_t links = std::filesystem::hard_link_count(file.candidate->item.path, error);
      if (!error && links > entries) file.frees_bytes = false;  // it has names outside of the collection
      files.push_back(std::move(file));
    }
    return files;
  }

  // `files` by the best first, with the group's likeness `loosest`.
  DuplicateGroup group_of(std::vector<File> files, Likeness loosest) {
    std::vector<const DuplicateCandidate*> sorted;
    for (const File& file : files) sorted.push_back(file.candidate);
    sort_best_first(sorted);
    const DuplicateCandidate& best = *sorted.front();
    DuplicateGroup group;
    group.likeness = loosest;
    group.why_best = why_best(sorted);
    for (const DuplicateCandidate* candidate : sorted) {
      File& file = *std::ranges::find(files, candidate, &File::candidate);
      DuplicateMember member{candidate->item, std::move(file.other_names), candidate->taken,
                             Likeness::kSameBytes};
      if (candidate != &best) {
        if (file.frees_bytes) group.spare_bytes += candidate->item.size;
        member.hash_bits = hash_distance(best.look, candidate->look);
        member.cosine = cosine(best, *candidate);
        member.photographs = best.photograph && candidate->photograph;
        // A chain may lead farther than each of its links: what its ends are to each
        // other is the group's likeness.
        const bool same_bytes = candidate->item.hash == best.item.hash && !best.item.hash.empty();
        member.likeness = same_bytes                       ? Likeness::kSameBytes
                          : same_picture(best, *candidate) ? Likeness::kSamePicture
                                                           : group.likeness;
      }
      group.members.push_back(std::move(member));
    }
    std::stable_sort(group.members.begin() + 1, group.members.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.likeness, a.item.id) < std::tuple(b.likeness, b.item.id);
    });
    return group;
  }

  // Leaves out items whose files are gone if another file of the group is here, and returns their number. Such an
  // item would otherwise be kept in place of files that exist.
  int64_t leave_out_gone(std::vector<size_t>& places) const {
    std::vector<size_t> left;
    bool here = false;
    for (const size_t place : places) {
      const Item& item = all_[place].item;
      if (!item.file.elsewhere && is_gone(item.path)) continue;
      here = here || !item.file.elsewhere;
      left.push_back(place);
    }
    if (!here) return 0;
    const int64_t gone = std::ssize(places) - std::ssize(left);
    places = std::move(left);
    return gone;
  }

  DuplicateReport report(Sets& sets) {
    DuplicateReport report;
    report.items = static_cast<int64_t>(all_.size());
    std::map<size_t, std::vector<size_t>> groups;
    for (size_t i = 0; i < all_.size(); ++i) {
      groups[sets.find(i)].push_back(i);
      const bool never = all_[i].video() || all_[i].item.file.elsewhere;
      report.not_looked_at += all_[i].looked_at || never ? 0 : 1;
    }
    for (auto& [root, places] : groups) {
      if (places.size() < 2) continue;
      report.gone += leave_out_gone(places);
      if (places.size() < 2) continue;
      std::vector<File> files = files_of(places);
      if (files.size() < 2) continue;
      report.groups.push_back(group_of(std::move(files), sets.likeness(root)));
    }
    std::stable_sort(report.groups.begin(), report.groups.end(),
                     [](const auto& a, const auto& b) { return a.spare_bytes > b.spare_bytes; });
    return report;
  }

  const CollectionReader& collection_;
  const DuplicateOptions& options_;
  ThreadPool& pool_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  std::vector<DuplicateCandidate> all_;  // by id
  std::set<std::string> videos_;
};

}  // namespace

std::span<const EnumName<Likeness>> enum_names(Likeness) {
  return kLikenessNames;
}

Result<DuplicateReport> find_duplicates(const CollectionReader& collection, const DuplicateOptions& options,
                                        ThreadPool& pool, const ProgressCallback& progress,
                                        std::stop_token stop) {
  SACCADE_TRY(collection.check_has_rows("looking for duplicates"));
  return Finder(collection, options, pool, progress, std::move(stop)).find().in("look for duplicates");
}

Json duplicates_json(const DuplicateReport& report) {
  Json groups = Json::array();
  for (const DuplicateGroup& group : report.groups) {
    Json members = Json::array();
    for (const DuplicateMember& member : group.members) {
      Json json = {{"id", member.item.id},
                   {"path", member.item.path},
                   {"other_names", member.other_names},
                   {"likeness", enum_name(member.likeness)},
                   {"width", member.item.width},
                   {"height", member.item.height},
                   {"size", member.item.size},
                   {"hash_bits", member.hash_bits},
                   {"cosine", member.cosine},
                   {"file_here", !member.item.file.elsewhere}};
      if (member.taken) json["taken"] = store::local_text(*member.taken);
      members.push_back(std::move(json));
    }
    groups.push_back({{"likeness", enum_name(group.likeness)},
                      {"best", group.members.front().item.path},
                      {"why", group.why_best},
                      {"spare_bytes", group.spare_bytes},
                      {"members", std::move(members)}});
  }
  return {{"items", report.items},
          {"not_looked_at", report.not_looked_at},
          {"gone", report.gone},
          {"groups", std::move(groups)}};
}

std::string duplicates_text(const DuplicateReport& report) {
  std::string text;
  int64_t spare = 0;
  int64_t files = 0;
  const auto add_names = [&](const DuplicateMember& member) {
    for (const std::string& name : member.other_names)
      text += fmt::format("    the same file as {}\n", one_line(name));
  };
  for (const DuplicateGroup& group : report.groups) {
    const DuplicateMember& best = group.members.front();
    text += fmt::format("{}\n    best: {}\n", one_line(best.item.path), group.why_best);
    add_names(best);
    for (size_t i = 1; i < group.members.size(); ++i) {
      const DuplicateMember& member = group.members[i];
      const std::string what =
          member.likeness == Likeness::kSameBytes ? "the same bytes"
          : member.likeness == Likeness::kSamePicture
              ? fmt::format("the same image, {} x {}, {} ({} of 64 bits, cosine {:.3f})", member.item.width,
                            member.item.height, size_text(member.item.size), member.hash_bits, member.cosine)
          : member.taken && best.taken
              ? fmt::format("{} s apart (cosine {:.3f})", *member.taken - *best.taken, member.cosine)
              : fmt::format("alike (cosine {:.3f})", member.cosine);
      text += fmt::format("  {}\n    {}{}\n", one_line(member.item.path), what,
                          member.item.file.elsewhere ? ", not on this host" : "");
      add_names(member);
      ++files;
    }
    spare += group.spare_bytes;
    text += '\n';
  }
  text += report.groups.empty() ? std::string("no duplicates\n")
                                : fmt::format("{}, {} beside the best of each, {}\n",
                                              counted(static_cast<int64_t>(report.groups.size()), "group"),
                                              counted(files, "file"), size_text(spare));
  if (report.not_looked_at > 0) {
    text += fmt::format("{} compared by their bytes alone: the next saccade index looks at them\n",
                        counted(report.not_looked_at, "image"));
  }
  if (report.gone > 0) {
    text += fmt::format("{} left out: no longer on disk (saccade index PATH --prune drops such images)\n",
                        counted(report.gone, "file"));
  }
  return text;
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

namespace {

// Returns true if a file of this format may hold pages or frames that were not compared: only the first one is indexed.
bool may_hold_more_images(std::string_view format) {
  return format == "gif" || format == "tiff" || format == "webp";
}

// Conditions and the removal of one name of a file that is not the best.
std::string removal_of(const std::string& name, const std::string& best, const DuplicateMember& member) {
  const std::string path = shell_quoted(name);
  std::string line;
  // Removing a file that a link points to would break the link.
  for (const std::string& other : member.other_names) {
    if (other != name) line += fmt::format("[ ! -L {} ] && ", shell_quoted(other));
  }
  line += fmt::format("[ -f {} ] && [ ! -L {} ] && [ ! {} -ef {} ] && ", path, path, best, path);
  line += member.likeness == Likeness::kSameBytes ? fmt::format("cmp -s -- {} {}", best, path)
                                                  : fmt::format("[ -s {} ]", best);
  return line + fmt::format(" && rm -- {}\n", path);
}

}  // namespace

std::string duplicates_script(const DuplicateReport& report) {
  std::string text =
      "#!/bin/sh\n# Removes all but the best of each group of duplicates. Read it before you run it. A file is removed only\n"
      "# while the one that is kept is there and is another file; equal files only while they still are equal. Links\n"
      "# are not removed, nor files that a link of the collection leads to. Lines of images that are only alike are\n"
      "# comments, and so are those of drawings and of GIF, TIFF and WebP files that differ in their bytes (their\n"
      "# later pages and frames were not compared): choose for yourself.\n";
  for (const DuplicateGroup& group : report.groups) {
    const std::string best = shell_quoted(group.members.front().item.path);
    // A line end in a path would end a comment.
    text += fmt::format("\n# {}: {}\n", one_line(group.members.front().item.path), group.why_best);
    for (size_t i = 1; i < group.members.size(); ++i) {
      const DuplicateMember& member = group.members[i];
      const bool certain = member.likeness == Likeness::kSameBytes ||
                           (member.likeness == Likeness::kSamePicture && member.photographs &&
                            !may_hold_more_images(member.item.format));
      if (member.item.file.elsewhere) {
        text += fmt::format("# not on this host: {}\n", one_line(member.item.path));
        continue;
      }
      if (!certain || member.item.file.linked) {
        text += fmt::format("# rm {}\n", one_line(shell_quoted(member.item.path)));
        continue;
      }
      text += removal_of(member.item.path, best, member);
      for (const std::string& name : member.other_names) text += removal_of(name, best, member);
    }
  }
  return text;
}

}  // namespace saccade
