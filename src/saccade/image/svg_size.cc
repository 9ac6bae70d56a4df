#include "saccade/image/svg_size.h"

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

// Behind the ">" that ends a start tag: one in a quoted value does not.
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

// Where the root element's tag is, "<" and ">" included: behind declarations, comments and the document type.
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
      // An internal subset has declarations, with their own ">", between brackets.
      if (rest.find('[') < rest.find('>')) close = "]>";
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

// The value of attribute `name` in the tag, without its quotes.
std::optional<Span> attribute(std::string_view tag, std::string_view name) {
  size_t at = 4;
  while ((at = tag.find('=', at)) != kNone) {
    size_t name_end = at;
    while (name_end > 0 && kSpace.find(tag[name_end - 1]) != kNone) --name_end;
    const size_t name_begin = tag.find_last_of(kSpace, name_end == 0 ? 0 : name_end - 1);
    const size_t quote = tag.find_first_not_of(kSpace, at + 1);
    if (name_begin == kNone || quote == kNone || (tag[quote] != '"' && tag[quote] != '\''))
      return std::nullopt;
    const size_t close = tag.find(tag[quote], quote + 1);
    if (close == kNone) return std::nullopt;
    if (tag.substr(name_begin + 1, name_end - name_begin - 1) == name) return Span{quote + 1, close};
    at = close + 1;
  }
  return std::nullopt;
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
  if (attribute(tag, "viewBox")) return std::nullopt;
  const auto width = attribute(tag, "width");
  const auto height = attribute(tag, "height");
  if (!width || !height) return std::nullopt;
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
