#include "saccade/image/decode/svg_size.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace saccade {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr auto kNone = std::string_view::npos;

struct Span {
  size_t begin = 0;
  size_t end = 0;
};

// Returns the position after the ">" that ends a start tag; one in a quoted value does not end it.
size_t tag_end(std::string_view tag) {
  char quote = 0;
  for (size_t i = 0; i < tag.size(); ++i) {
    if (quote != 0) {
      if (tag[i] == quote) quote = 0;
    } else if (tag[i] == '"' || tag[i] == '\'') {
      quote = tag[i];
    } else if (tag[i] == '>') {
      return i;
    }
  }
  return kNone;
}

// Finds the root element's tag, with "<" and ">", after declarations, comments and the document type.
std::optional<Span> root_tag(std::string_view svg) {
  size_t at = 0;
  while ((at = svg.find('<', at)) != kNone) {
    const std::string_view rest = svg.substr(at);
    std::string_view close = ">";
    if (rest.starts_with("<!--")) {
      close = "-->";
    } else if (rest.starts_with("<?")) {
      close = "?>";
    } else if (rest.starts_with("<!")) {
      // An internal subset has declarations, with their own ">", between brackets. Looked for up to the ">"
      // only: a search for a bracket that never comes would read the whole rest, for each of many "<!".
      const size_t end = rest.find('>');
      if (rest.substr(0, end).find('[') != kNone) close = "]>";
    } else {
      const size_t end = tag_end(rest);
      const bool is_svg = rest.starts_with("<svg") && rest.size() > 4 && kSpace.find(rest[4]) != kNone;
      if (!is_svg || end == kNone) return std::nullopt;
      return Span{at, at + end + 1};
    }
    const size_t end = rest.find(close);
    if (end == kNone) return std::nullopt;
    at += end + close.size();
  }
  return std::nullopt;
}

// The values of attributes, without their quotes; of one that is there twice, the first.
struct RootAttributes {
  std::optional<Span> width;
  std::optional<Span> height;
  std::optional<Span> view_box;
};

// One walk over the tag; it ends where the text is not understood.
RootAttributes root_attributes(std::string_view tag) {
  RootAttributes found;
  size_t at = std::string_view("<svg").size();
  for (;;) {
    const size_t name_begin = tag.find_first_not_of(kSpace, at);
    const size_t equals = tag.find('=', at);
    if (name_begin == kNone || equals == kNone || equals <= name_begin) return found;
    const size_t name_end = tag.find_last_not_of(kSpace, equals - 1) + 1;
    const size_t quote = tag.find_first_not_of(kSpace, equals + 1);
    if (quote == kNone || (tag[quote] != '"' && tag[quote] != '\'')) return found;
    const size_t close = tag.find(tag[quote], quote + 1);
    if (close == kNone) return found;
    const std::string_view name = tag.substr(name_begin, name_end - name_begin);
    const auto keep = [&](std::optional<Span>& value) {
      if (!value) value = Span{quote + 1, close};
    };
    if (name == "width") keep(found.width);
    if (name == "height") keep(found.height);
    if (name == "viewBox") keep(found.view_box);
    at = close + 1;
  }
}

// "400.0pt" in pixels; nothing for other units.
std::optional<double> physical_length(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value <= 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  struct Unit {
    std::string_view name;
    double pixels;
  };
  constexpr std::array<Unit, 5> kUnits = {
      {{"pt", 96 / 72.0}, {"pc", 16}, {"mm", 96 / 25.4}, {"cm", 96 / 2.54}, {"in", 96}}};
  for (const Unit& known : kUnits) {
    if (unit == known.name) return value * known.pixels;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> svg_with_pixel_size(std::string_view svg) {
  const auto root = root_tag(svg);
  if (!root) return std::nullopt;
  const std::string_view tag = svg.substr(root->begin, root->end - root->begin);
  const auto [width, height, view_box] = root_attributes(tag);
  if (view_box || !width || !height) return std::nullopt;
  const auto width_pixels = physical_length(tag.substr(width->begin, width->end - width->begin));
  const auto height_pixels = physical_length(tag.substr(height->begin, height->end - height->begin));
  if (!width_pixels || !height_pixels) return std::nullopt;

  std::string result(svg);
  const auto replace = [&](const Span& where, double pixels) {
    result.replace(root->begin + where.begin, where.end - where.begin, fmt::format("{:.6f}", pixels));
  };
  // The later one first, so that the other's place stays right.
  if (width->begin > height->begin) {
    replace(*width, *width_pixels);
    replace(*height, *height_pixels);
  } else {
    replace(*height, *height_pixels);
    replace(*width, *width_pixels);
  }
  return result;
}

}  // namespace saccade
