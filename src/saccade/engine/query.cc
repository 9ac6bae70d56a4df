#include "saccade/query.h"

#include <utility>

namespace saccade {

Query Query::literal(std::string text) {
  Query query(std::move(text));
  query.literal_ = true;
  return query;
}

Query Query::image(ImageInput image) {
  Query query;
  query.images_.push_back({std::move(image), 1});
  return query;
}

Query& Query::but(std::string change) & {
  typed_ = std::move(change);
  return *this;
}

Query& Query::compose(Compose method, std::optional<double> text_weight) & {
  method_ = method;
  text_weight_ = text_weight;
  composer_.clear();
  return *this;
}

Query& Query::compose(std::filesystem::path composer) & {
  method_.reset();
  text_weight_.reset();
  composer_ = std::move(composer);
  return *this;
}

Query& Query::was(std::string description) & {
  description_ = std::move(description);
  return *this;
}

Query& Query::without(std::string text) & {
  unwanted_.push_back(std::move(text));
  return *this;
}

Query& Query::and_image(ImageInput image, float weight) & {
  images_.push_back({std::move(image), weight});
  return *this;
}

Query& Query::like(int64_t id) & {
  liked_ = id;
  return *this;
}

}  // namespace saccade
