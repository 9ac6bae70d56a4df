#include "saccade/search/search_query.h"

#include <utility>

namespace saccade {

QueryImage QueryImage::of_bytes(std::string name, std::string bytes) {
  return {Bytes{std::move(name), std::make_shared<const std::string>(std::move(bytes))}};
}

std::filesystem::path QueryImage::name() const {
  if (const auto* bytes = std::get_if<Bytes>(&content)) return bytes->name;
  if (const auto* stored = std::get_if<Stored>(&content)) return stored->path;
  return std::get<std::filesystem::path>(content);
}

const std::string* QueryImage::bytes() const {
  const auto* held = std::get_if<Bytes>(&content);
  return held == nullptr ? nullptr : held->bytes.get();
}

Composer* SearchQuery::composer() const {
  const auto* held = std::get_if<std::shared_ptr<Composer>>(&fusion);
  return held == nullptr ? nullptr : held->get();
}

Fusion SearchQuery::weights() const {
  const auto* held = std::get_if<Fusion>(&fusion);
  return held == nullptr ? Fusion() : *held;
}

bool SearchQuery::is_plain() const {
  return text.is_plain() && (images.empty() || (images.size() == 1 && images.front().weight > 0));
}

}  // namespace saccade
