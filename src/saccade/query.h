// Query: what is searched for.
//
//   engine.search("a red door");
//   engine.search(saccade::Query::image("holiday.jpg").but("at night"));
//   engine.search(saccade::Query::image("holiday.jpg").but("at night").compose("composers/night"));
//   engine.search(saccade::Query("at night").like(hit.id));
//   engine.search(saccade::Query::text("beach").without("people").and_image("sunset.jpg", 0.5F));
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/compose.h"
#include "saccade/encoder.h"

#pragma GCC visibility push(default)
namespace saccade {

// A text, an image, or parts of both with weights. A value. Engine::search checks a query: kUsage for a text that cannot be
// read, a weight out of range, or parts that contradict each other.
class Query {
 public:
  // Make a query of a text: words in quotes belong together, "-word" is not wanted, "word:2" has weight 2
  // (`saccade help queries`).
  Query(std::string text) : typed_(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  // As above.
  Query(std::string_view text) : typed_(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  // As above.
  Query(const char* text) : typed_(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  // As above, for symmetry with image().
  static Query text(std::string text) { return Query(std::move(text)); }
  // Makes a query of a text that is taken as it stands, without quotes, signs and weights.
  static Query literal(std::string text);
  // Makes a query of an image.
  static Query image(ImageInput image);

  // "This picture, but ...": adds a change in words to an image. The collection's composer makes the query if it has
  // one; else Compose::kSum does.
  Query& but(std::string change) &;
  // As above, for temporaries.
  Query&& but(std::string change) && { return std::move(but(std::move(change))); }
  // Sets how image and text are combined, and the weight of the text, 0 to 1 (`nullopt`: the method's own).
  Query& compose(Compose method, std::optional<double> text_weight = {}) &;
  // As above, for temporaries.
  Query&& compose(Compose method, std::optional<double> text_weight = {}) && {
    return std::move(compose(method, text_weight));
  }
  // Combines image and text by a trained composer: its folder, or "starter" for the one that comes with Saccade. It must
  // have been trained for the collection's model. Replaces what the other compose() set, and the other way round.
  Query& compose(std::filesystem::path composer) &;
  // As above, for temporaries.
  Query&& compose(std::filesystem::path composer) && { return std::move(compose(std::move(composer))); }
  // Describes what the image shows now, for Compose::kDirection.
  Query& was(std::string description) &;
  // As above, for temporaries.
  Query&& was(std::string description) && { return std::move(was(std::move(description))); }
  // Adds what is not wanted.
  Query& without(std::string text) &;
  // As above, for temporaries.
  Query&& without(std::string text) && { return std::move(without(std::move(text))); }
  // Adds another image, with a weight above 0 and at most 10, or below 0 if it is not wanted.
  Query& and_image(ImageInput image, float weight = 1) &;
  // As above, for temporaries.
  Query&& and_image(ImageInput image, float weight = 1) && {
    return std::move(and_image(std::move(image), weight));
  }

  // Adds an image of the collection, by its id (Hit::id), as the query's only image. It is itself left out of the hits, and its
  // file is only read for a query with a text.
  Query& like(int64_t id) &;
  // As above, for temporaries.
  Query&& like(int64_t id) && { return std::move(like(id)); }

  // An image of a query.
  struct WeightedImage {
    ImageInput image;  // file, bytes or pixels
    float weight = 1;  // above 0 and at most 10; below 0 if the image is not wanted
  };
  // Text or change, as it was given; `nullopt` for a query of images alone.
  [[nodiscard]] const std::optional<std::string>& typed() const { return typed_; }
  // True if the text is taken as it stands.
  [[nodiscard]] bool is_literal() const { return literal_; }
  // Images, in the order given.
  [[nodiscard]] const std::vector<WeightedImage>& images() const { return images_; }
  // Id of the collection's image; `nullopt` for none.
  [[nodiscard]] const std::optional<int64_t>& liked() const { return liked_; }
  // Texts that are not wanted.
  [[nodiscard]] const std::vector<std::string>& unwanted() const { return unwanted_; }
  // Folder of the composer, or "starter"; empty for none.
  [[nodiscard]] const std::filesystem::path& composer() const { return composer_; }
  // Method that combines image and text; `nullopt` for the collection's default.
  [[nodiscard]] const std::optional<Compose>& method() const { return method_; }
  // Weight of the text, 0 to 1; `nullopt` for the method's own.
  [[nodiscard]] const std::optional<double>& text_weight() const { return text_weight_; }
  // Description of the image, for Compose::kDirection; may be empty.
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  Query() = default;
  std::optional<std::string> typed_;
  bool literal_ = false;
  std::vector<WeightedImage> images_;
  std::optional<int64_t> liked_;
  std::vector<std::string> unwanted_;
  std::optional<Compose> method_;
  std::optional<double> text_weight_;
  std::filesystem::path composer_;
  std::string description_;
};

}  // namespace saccade
#pragma GCC visibility pop
