#include "lab/train/data/item_file.h"

#include <utility>

#include "saccade/core/files/mapped_pages.h"
#include "saccade/core/json.h"

namespace saccade::lab {

Result<ItemFile> ItemFile::open(const std::filesystem::path& path, std::vector<int64_t> begin) {
  ItemFile result;
  SACCADE_ASSIGN(result.file_, MappedFile::open(path));
  result.begin_ = std::move(begin);
  const auto content = static_cast<size_t>(result.begin_.back());
  const auto items = static_cast<size_t>(result.size());
  const std::span<const std::byte> bytes = result.file_.bytes();
  if (bytes.size() < content + items + 2) {
    return fail(ErrorCode::kBadData, "{}: {} bytes, expected {} of {} items and what was left out",
                path.string(), bytes.size(), content + items, items);
  }
  const std::span<const std::byte> rest = bytes.subspan(content + items);
  SACCADE_ASSIGN(const Json left_out,
                 parse_json({reinterpret_cast<const char*>(rest.data()), rest.size()}).in(path.string()));
  if (!left_out.is_array())
    return fail(ErrorCode::kBadData, "{}: no list of what was left out", path.string());
  for (const Json& each : left_out) {
    if (!each.is_string())
      return fail(ErrorCode::kBadData, "{}: no list of what was left out", path.string());
    result.left_out_.push_back(each.get<std::string>());
  }
  return result;
}

bool ItemFile::has(int64_t i) const {
  return file_.bytes()[static_cast<size_t>(begin_.back() + i)] != std::byte{0};
}

std::span<const std::byte> ItemFile::bytes(int64_t i) const {
  const int64_t begin = begin_[static_cast<size_t>(i)];
  const int64_t end = begin_[static_cast<size_t>(i) + 1];
  return file_.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

void ItemFile::release() const {
  release_mapped_pages(file_.bytes().first(static_cast<size_t>(begin_.back())));
}

Result<ItemFileWriter> ItemFileWriter::create(const std::filesystem::path& path) {
  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  return ItemFileWriter(std::move(file));
}

Status ItemFileWriter::add(std::span<const std::byte> bytes) {
  flags_ += '\1';
  return file_.write(bytes);
}

Status ItemFileWriter::skip(int64_t bytes, std::string why) {
  flags_ += '\0';
  left_out_.push_back(std::move(why));
  return file_.write(std::string(static_cast<size_t>(bytes), '\0'));
}

Status ItemFileWriter::finish() {
  SACCADE_TRY(file_.write(flags_));
  SACCADE_TRY(file_.write(dump_json(Json(left_out_))));
  return file_.commit();
}

}  // namespace saccade::lab
