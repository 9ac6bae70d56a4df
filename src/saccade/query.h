// Query: what is searched for.
//
//   engine.search("a red door");
//   engine.search(saccade::Query::image("holiday.jpg").but("at night"));
//   engine.search(saccade::Query::text("beach").without("people").and_image("sunset.jpg", 0.5F));
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/compose.h"
#include "saccade/encoder.h"

#pragma GCC visibility push(default)
namespace saccade {

// A text, an image, or parts of both with weights. A value.
class Query {
 public:
  // Make a query of a text: words in quotes belong together, "-word" is not wanted, "word:2" has weight 2
  // (`saccade help queries`).
  Query(std::string text) : typed_(std::move(text)) {}         // NOLINT(google-explicit-constructor)
  Query(std::string_view text) : typed_(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  Query(const char* text) : typed_(std::string(text)) {}       // NOLINT(google-explicit-constructor)
  static Query text(std::string text) { return Query(std::move(text)); }
  // Makes a query of a text that is taken as it stands, without quotes, signs and weights.
  static Query literal(std::string text);
  // Makes a query of an image.
  static Query image(ImageInput image);

  // "This picture, but ...": adds a change in words to an image. The collection's composer makes the query if it has
  // one; else Compose::kSum does.
  Query& but(std::string change) &;
  Query&& but(std::string change) && { return std::move(but(std::move(change))); }
  // Sets how image and text are combined, and the weight of the text, 0 to 1 (`nullopt`: the method's own).
  Query& compose(Compose method, std::optional<double> text_weight = {}) &;
  Query&& compose(Compose method, std::optional<double> text_weight = {}) && {
    return std::move(compose(method, text_weight));
  }
  // Describes what the image shows now, for Compose::kDirection.
  Query& was(std::string description) &;
  // Adds what is not wanted.
  Query& without(std::string text) &;
  Query&& without(std::string text) && { return std::move(without(std::move(text))); }
  // Adds another image, with a weight above 0 and at most 10, or below 0 if it is not wanted.
  Query& and_image(ImageInput image, float weight = 1) &;
  Query&& and_image(ImageInput image, float weight = 1) && {
    return std::move(and_image(std::move(image), weight));
  }

  struct WeightedImage {
    ImageInput image;
    float weight = 1;
  };
  [[nodiscard]] const std::optional<std::string>& typed() const { return typed_; }
  [[nodiscard]] bool is_literal() const { return literal_; }
  [[nodiscard]] const std::vector<WeightedImage>& images() const { return images_; }
  [[nodiscard]] const std::vector<std::string>& unwanted() const { return unwanted_; }
  [[nodiscard]] const std::optional<Compose>& method() const { return method_; }
  [[nodiscard]] const std::optional<double>& text_weight() const { return text_weight_; }
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  Query() = default;
  std::optional<std::string> typed_;
  bool literal_ = false;
  std::vector<WeightedImage> images_;
  std::vector<std::string> unwanted_;
  std::optional<Compose> method_;
  std::optional<double> text_weight_;
  std::string description_;
};

}  // namespace saccade
#pragma GCC visibility pop
