#include "lab/data/edit_queries.h"

#include <algorithm>
#include <set>

#include "saccade/core/ascii.h"

namespace saccade::lab {
namespace {

// Calls `visit` with every image id that a query names, until a call returns false.
template <typename Visit>
bool visit_named(const EditQuery& query, Visit visit) {
  if (!visit(query.reference)) return false;
  for (const auto* list : {&query.targets, &query.subset, &query.negatives}) {
    for (const std::string& id : *list) {
      if (!visit(id)) return false;
    }
  }
  return true;
}

}  // namespace

GalleryIndex::GalleryIndex(const EditQueries& edits) {
  for (size_t i = 0; i < edits.gallery.size(); ++i) {
    galleries_[edits.gallery[i].gallery].emplace(edits.gallery[i].id, i);
  }
}

std::optional<size_t> GalleryIndex::find(const std::string& gallery, const std::string& id) const {
  const auto pictures = galleries_.find(gallery);
  if (pictures == galleries_.end()) return std::nullopt;
  const auto found = pictures->second.find(id);
  if (found == pictures->second.end()) return std::nullopt;
  return found->second;
}

Result<size_t> GalleryIndex::at(const std::string& gallery, const std::string& id) const {
  if (const auto found = find(gallery, id)) return *found;
  return fail(ErrorCode::kBadData, "\"{}\" is no image of the gallery{}", id,
              gallery.empty() ? "" : fmt::format(" \"{}\"", gallery));
}

void gather_galleries(EditQueries& edits) {
  std::set<std::string> given;
  for (const GalleryPicture& picture : edits.gallery) given.insert(picture.gallery);
  std::set<std::pair<std::string, std::string>> seen;
  for (const EditQuery& query : edits.items) {
    if (given.contains(query.gallery)) continue;
    visit_named(query, [&](const std::string& id) {
      if (!seen.emplace(query.gallery, id).second) return true;
      GalleryPicture& picture = edits.gallery.emplace_back();
      picture.id = id;
      picture.image.path = id;
      picture.gallery = query.gallery;
      return true;
    });
  }
}

Status check_galleries(const EditQueries& edits) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const GalleryPicture& picture : edits.gallery) {
    if (picture.id.empty()) return fail(ErrorCode::kBadData, "an image with an empty id");
    if (!seen.emplace(picture.gallery, picture.id).second) {
      return fail(ErrorCode::kBadData, "\"{}\" is there twice in the gallery{}", picture.id,
                  picture.gallery.empty() ? "" : fmt::format(" \"{}\"", picture.gallery));
    }
  }
  return {};
}

Status check_edit(const EditQuery& query, const GalleryIndex& pictures) {
  if (query.texts.empty()) return fail(ErrorCode::kBadData, "an edit query without a text");
  Status status;
  visit_named(query, [&](const std::string& id) {
    const auto found = pictures.at(query.gallery, id);
    if (!found) status = fail(found.error());
    return found.has_value();
  });
  return status;
}

void prune_galleries(EditQueries& edits) {
  std::set<std::string_view> used;
  for (const EditQuery& query : edits.items) used.insert(query.gallery);
  std::erase_if(edits.gallery, [&](const GalleryPicture& each) { return !used.contains(each.gallery); });
}

void drop_missing_pictures(Dataset& dataset, bool (*missing)(const ImageRef& image)) {
  auto& edits = dataset.as<EditQueries>();
  std::erase_if(edits.gallery, [&](const GalleryPicture& picture) {
    const bool gone = missing(picture.image);
    if (gone) dataset.exclude("images of galleries that are not there", picture.id);
    return gone;
  });
  const GalleryIndex left(edits);
  std::erase_if(edits.items, [&](const EditQuery& query) {
    const bool whole =
        visit_named(query, [&](const std::string& id) { return left.find(query.gallery, id).has_value(); });
    if (!whole) dataset.exclude("edit queries with an image that is not there", query.id);
    return !whole;
  });
  prune_galleries(edits);
}

EditCounts count_edits(const EditQueries& edits) {
  EditCounts counts;
  counts.queries = std::ssize(edits.items);
  counts.pictures = std::ssize(edits.gallery);
  for (const GalleryPicture& picture : edits.gallery) ++counts.galleries[picture.gallery];
  for (const EditQuery& query : edits.items) {
    counts.texts += std::ssize(query.texts);
    const bool empty =
        std::ranges::all_of(query.texts, [](const auto& text) { return trim_ascii(text).empty(); });
    counts.empty_texts += empty ? 1 : 0;
    counts.paraphrased += query.paraphrases.empty() ? 0 : 1;
    counts.several_targets += query.targets.size() > 1 ? 1 : 0;
    counts.without_target += query.targets.empty() ? 1 : 0;
    counts.with_subset += query.subset.empty() ? 0 : 1;
    counts.with_negatives += query.negatives.empty() ? 0 : 1;
    counts.with_concept += query.shared_concept.empty() ? 0 : 1;
  }
  return counts;
}

}  // namespace saccade::lab
