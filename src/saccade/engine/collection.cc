#include "saccade/collection.h"

#include <utility>

#include "saccade/collection/catalog/filter.h"
#include "saccade/core/error.h"
#include "saccade/engine/calibration_state.h"
#include "saccade/engine/collection_state.h"
#include "saccade/index/late_rows.h"

namespace saccade {
namespace {

IndexedImage image_of(const CollectionReader& reader, const Item& item) {
  return {.id = item.id,
          .row = reader.index() != nullptr ? -1 : item.row,
          .path = item.path,
          .hash = item.hash,
          .size = item.size,
          .modified = item.mtime_ns,
          .width = item.width,
          .height = item.height,
          .format = item.format,
          .caption = item.caption};
}

Collection::Info info_of(const CollectionReader& reader) {
  const CollectionInfo& info = reader.info();
  return {.address = reader.folder().string(),
          .encoder = info.checkpoint.name,
          .encoder_folder = info.checkpoint.path,
          .fingerprint = info.checkpoint.fingerprint,
          .precision = info.settings.precision,
          .images = reader.item_count(),
          .dim = info.checkpoint.dim,
          .late_interaction = reader.has_late_rows(),
          .created = info.created};
}

}  // namespace

Collection::State::State(std::shared_ptr<const CollectionSnapshot> taken)
    : snapshot(std::move(taken)), info(info_of(snapshot->collection)) {}

Result<Collection> Collection::open(const std::filesystem::path& folder) {
  SACCADE_ASSIGN(auto snapshot, CollectionSnapshot::open(folder, {}));
  return Collection(std::make_shared<const State>(std::move(snapshot)));
}

const Collection::Info& Collection::info() const {
  return state_->info;
}

MatrixView<const float> Collection::embeddings() const {
  return state_->reader().rows();
}

std::span<const int64_t> Collection::ids() const {
  return state_->reader().ids();
}

Result<std::vector<uint8_t>> Collection::allowed(std::string_view filter) const {
  const CollectionReader& reader = state_->reader();
  SACCADE_TRY(reader.check_has_rows("a filter over embeddings"));
  if (filter.empty()) return std::vector<uint8_t>(reader.alive().begin(), reader.alive().end());
  SACCADE_ASSIGN(const Filter parsed, parse_filter(filter));
  return reader.allowed(parsed);
}

Result<Matrix<float>> Collection::vectors(int64_t id) const {
  const CollectionReader& reader = state_->reader();
  if (!reader.has_late_rows()) {
    return fail(ErrorCode::kUnsupported, "{}: one embedding an image, so that there is no late interaction",
                reader.folder().string());
  }
  SACCADE_ASSIGN(const Item item, reader.item(id));
  SACCADE_TRY(reader.check_files());
  return restore_rows(reader.late_rows(item.row));
}

Result<IndexedImage> Collection::image(int64_t id) const {
  SACCADE_ASSIGN(const Item item, state_->reader().item(id));
  return image_of(state_->reader(), item);
}

Result<IndexedImage> Collection::image_of_row(int64_t row) const {
  SACCADE_ASSIGN(const Item item, state_->reader().item_of_row(row));
  return image_of(state_->reader(), item);
}

Result<IndexedImage> Collection::image(const std::filesystem::path& path) const {
  SACCADE_ASSIGN(const Item item, state_->reader().item_of_path(path));
  return image_of(state_->reader(), item);
}

Result<std::vector<IndexedImage>> Collection::images(std::string_view filter) const {
  const CollectionReader& reader = state_->reader();
  std::vector<IndexedImage> images;
  if (filter.empty()) {
    SACCADE_TRY(reader.for_each_item([&](const Item& item) -> Status {
      images.push_back(image_of(reader, item));
      return {};
    }));
    return images;
  }
  SACCADE_ASSIGN(const std::vector<uint8_t> passing, allowed(filter));
  SACCADE_TRY(reader.for_each_item([&](const Item& item) -> Status {
    if (passing[static_cast<size_t>(item.row)] != 0) images.push_back(image_of(reader, item));
    return {};
  }));
  return images;
}

Status Collection::for_each_image(const std::function<Status(const IndexedImage&)>& visit) const {
  const CollectionReader& reader = state_->reader();
  return reader.for_each_item([&](const Item& item) { return visit(image_of(reader, item)); });
}

Result<ImageMetadata> Collection::metadata(int64_t id) const {
  SACCADE_TRY(state_->reader().item(id));
  SACCADE_ASSIGN(ItemFacts facts, state_->reader().facts(id));
  PictureFacts& picture = facts.picture;
  return ImageMetadata{.taken = picture.taken,
                       .zone_minutes = picture.zone_minutes,
                       .camera = std::move(picture.camera),
                       .lens = std::move(picture.lens),
                       .latitude = picture.latitude,
                       .longitude = picture.longitude,
                       .place = std::move(facts.place),
                       .rating = picture.rating,
                       .title = std::move(picture.title),
                       .description = std::move(picture.description),
                       .keywords = std::move(picture.keywords)};
}

Result<std::vector<Collection::FieldValue>> Collection::values(std::string_view field, int64_t most) const {
  if (most < 0) return fail(ErrorCode::kUsage, "most is {}, expected 0 or more", most);
  SACCADE_ASSIGN(const auto found, state_->reader().values_of(field, most));
  std::vector<FieldValue> values;
  for (const auto& [value, items] : found) values.push_back({value, items});
  return values;
}

Result<std::vector<FailedFile>> Collection::failed() const {
  SACCADE_ASSIGN(const std::vector<Failure> failures, state_->reader().failures());
  std::vector<FailedFile> files;
  for (const Failure& failure : failures) {
    files.push_back({failure.path, Error{failure.code, failure.reason}});
  }
  return files;
}

Result<Calibration> Collection::calibration(QueryKind kind) const {
  const CollectionReader& reader = state_->reader();
  if (reader.has_late_rows()) {
    return fail(ErrorCode::kUnsupported,
                "{}: scores of late interaction grow with the number of tokens, so they are not calibrated",
                reader.folder().string());
  }
  const std::shared_ptr<const Background>& background = state_->snapshot->background;
  if (!background) {
    // The reason, where the data are damaged.
    return fail(read_background(reader).error());
  }
  const Background::Kind& of_kind = kind == QueryKind::kText ? background->text : background->picture;
  return Calibration(std::make_shared<const Calibration::State>(
      std::shared_ptr<const Background::Kind>(background, &of_kind)));
}

}  // namespace saccade
