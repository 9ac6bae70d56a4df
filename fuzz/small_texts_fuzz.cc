// Small texts of many kinds, each read by a parser of its own: the first byte chooses (see the switch).
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "lab/data/ratings.h"
#include "saccade/collection/ingest/caption_list.h"
#include "saccade/collection/ingest/ignore_rules.h"
#include "saccade/collection/places.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_folder.h"
#include "saccade/document/page_text.h"
#include "saccade/hub/address_range.h"
#include "saccade/hub/http_client.h"
#include "saccade/hub/name.h"
#include "saccade/hub/select.h"
#include "saccade/image/decode/svg_content.h"
#include "saccade/image/decode/svg_size.h"
#include "saccade/image/frame_name.h"
#include "saccade/search/visualness/lexicon.h"
#include "saccade/serve/http/keys.h"
#include "saccade/text/html_unescape.h"
#include "saccade/text/phrases.h"
#include "saccade/text/sentences.h"
#include "saccade/text/utf8.h"

#include "fuzz.h"
#include "mutators.h"

namespace {

using namespace saccade;
using namespace saccade::lab;
namespace fs = std::filesystem;

const fs::path& folder() {
  static const TemporaryFolder made = TemporaryFolder::make().value();
  return made.path();
}

void try_keys(std::string_view text) {
  const fs::path file = folder() / "keys";
  FUZZ_CHECK(write_file_atomic(file, text));
  ::chmod(file.c_str(), 0600);
  const auto keys = serve::Keys::read(file);
  FUZZ_CHECK(keys ? keys->asked_for() : !keys.error().message.empty());
  if (keys) FUZZ_CHECK(keys->right_of("") == serve::Right::kNone);
}

void try_ignore_rules(std::string_view text) {
  const IgnoreRules rules(text);
  for (const std::string_view path :
       {"a", "a/b/c.jpg", "drafts", "caf\u00e9.tmp", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    const auto decided = rules.decide(path, false);
    FUZZ_CHECK(!decided || !rules.empty());
    (void)rules.decide(path, true);
  }
}

void try_towns(std::string_view text) {
  const fs::path file = folder() / "towns";
  FUZZ_CHECK(write_file_atomic(file, text));
  const Gazetteer towns(file);
  for (const double latitude : {48.85, -90.0, 90.0}) {
    const auto town = towns.nearest(latitude, 180.0);
    FUZZ_CHECK(town || !town.error().message.empty());
  }
}

void try_ratings(std::string_view text) {
  const auto ratings = read_ratings(text, 1);
  if (!ratings) {
    FUZZ_CHECK(!ratings.error().message.empty());
    return;
  }
  FUZZ_CHECK(ratings->raters > 0 || ratings->ratings == 0);
  (void)ratings_json(*ratings).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void try_pages(std::string_view text) {
  auto pages = document::parse_bbox_layout(text);
  if (!pages) {
    FUZZ_CHECK(!pages.error().message.empty());
    return;
  }
  (void)document::drop_edge_lines(*pages);
  document::order_blocks(*pages);
  for (const auto& page : document::join_paragraphs(*pages)) {
    for (const std::string& paragraph : page) FUZZ_CHECK(to_valid_utf8(paragraph) == paragraph);
  }
}

void try_sentences(std::string_view text) {
  const auto sentences = split_sentences(text);
  FUZZ_CHECK(sentences);
  size_t bytes = 0;
  for (const std::string_view sentence : *sentences) {
    FUZZ_CHECK(!sentence.empty() && sentence.data() == text.data() + bytes);
    bytes += sentence.size();
    (void)sentence_phrases(sentence);
  }
  FUZZ_CHECK(bytes == text.size());
  (void)permute_sentences(text, 1);
}

void try_addresses(std::string_view text) {
  if (const auto address = hub::ip_address(text)) (void)hub::is_public(*address);
  if (const auto range = hub::AddressRange::parse(text)) {
    FUZZ_CHECK(!range->contains(*hub::ip_address("192.0.2.1")) || range->is_v4() ||
               text.find(':') != std::string_view::npos);
  }
  const size_t line = std::min(text.find('\n'), text.size());
  const std::string base(text.substr(0, line));
  const std::string reference(text.substr(std::min(line + 1, text.size())));
  if (const auto url = hub::resolve_url(base, reference)) FUZZ_CHECK(hub::url_parts(*url));
  (void)hub::origin_of(base);
}

void try_names(std::string_view text) {
  if (const auto name = hub::parse_model_name(text)) {
    FUZZ_CHECK(name->text() == text && name->owner.find('/') == std::string::npos && name->name != "..");
  }
  std::vector<std::string> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (const auto selection = hub::select_files(lines)) FUZZ_CHECK(selection->files.size() <= lines.size());
  if (const auto frame = read_frame_name(text))
    FUZZ_CHECK(frame->file.size() < text.size() && frame->milliseconds >= 0);
  FUZZ_CHECK(file_of(text).size() <= text.size());
}

void try_svg(std::string_view text) {
  (void)svg_with_pixel_size(text);
  (void)pictures_within(text);
}

void try_captions(std::string_view text) {
  const auto list = parse_caption_list(text, "/pictures");
  if (!list) {
    FUZZ_CHECK(!list.error().message.empty());
    return;
  }
  for (const auto& [image, caption] : *list) FUZZ_CHECK(fs::path(image).is_absolute());
}

void try_lexicon(std::string_view text) {
  const fs::path file = folder() / "lexicon";
  FUZZ_CHECK(write_file_atomic(file, text));
  if (const auto lexicon = read_lexicon(file)) {
    const std::array<std::string, 2> words = {"dog", "idea"};
    FUZZ_CHECK(std::isfinite(mean_rating(*lexicon, words)));
  } else {
    FUZZ_CHECK(!lexicon.error().message.empty());
  }
  if (const auto objects = read_object_list(file)) {
    const auto share = object_share(*objects, "a red dog on the lawn");
    FUZZ_CHECK(share && *share >= 0 && *share <= 1);
  }
}

void try_word_vectors(std::string_view text) {
  const fs::path file = folder() / "vectors";
  FUZZ_CHECK(write_file_atomic(file, text));
  Lexicon lexicon;
  lexicon.words = {{"dog", 600}, {"idea", 200}};
  WordVectors used;
  if (const auto expanded = expand_lexicon(lexicon, file, {"cat", "a"}, used)) {
    FUZZ_CHECK(used.added <= 2 && std::ssize(expanded->words) == 2 + used.added);
    for (const auto& [word, rating] : expanded->words) FUZZ_CHECK(std::isfinite(rating));
  } else {
    FUZZ_CHECK(!expanded.error().message.empty());
  }
}

constexpr std::array<std::string_view, 74> kTokens = {"*",
                                                      "**",
                                                      "?",
                                                      "[a-z]",
                                                      "[!",
                                                      "]",
                                                      "/",
                                                      "!",
                                                      "#",
                                                      "\\",
                                                      "\t",
                                                      "\n",
                                                      "\r\n",
                                                      ",",
                                                      "\"",
                                                      "\u00e9",
                                                      "\xff",
                                                      "0",
                                                      "-1",
                                                      "7",
                                                      "90",
                                                      "180.0",
                                                      "1e9",
                                                      "nan",
                                                      "write ",
                                                      "0123456789abcdef",
                                                      "Dr. ",
                                                      ". ",
                                                      "! ",
                                                      "\u3002",
                                                      "<line xMin=\"1\" yMin=\"2\" "
                                                      "xMax=\"3\" yMax=\"4\">",
                                                      "</line>",
                                                      "<word xMin=\"1\" yMin=\"2\" xMax=\"3\" yMax=\"4\">",
                                                      "</word>",
                                                      "<block>",
                                                      "</block>",
                                                      "<page width=\"100\" height=\"100\">",
                                                      "</page>",
                                                      "<flow>",
                                                      "&amp;",
                                                      "&#x110000;",
                                                      "&",
                                                      "<svg ",
                                                      "width=\"1in\"",
                                                      "height=\"2cm\"",
                                                      "viewBox=\"0 0 1 1\"",
                                                      "<!DOCTYPE",
                                                      "<!--",
                                                      "-->",
                                                      "<image href=\"data:image/png;base64,iVBOR\"/>",
                                                      "xlink:href",
                                                      "http://",
                                                      "https://a:b@c/",
                                                      "[::1]",
                                                      "192.0.2.0/24",
                                                      "::ffff:1.2.3.4",
                                                      "%25",
                                                      "..",
                                                      "@",
                                                      "#t=10",
                                                      "model.safetensors",
                                                      "config.json",
                                                      "{\"image\": \"a.jpg\", \"captions\": [\"b\"]}\n",
                                                      "\"captions\"",
                                                      "null",
                                                      "Word\tConc.M\n",
                                                      "dog",
                                                      "cat",
                                                      "idea",
                                                      "|",
                                                      " 0.5 -1 2e3",
                                                      "2 3\n",
                                                      "inf",
                                                      std::string_view("\0\0\x80\x3f", 4)};

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'K':
      try_keys(text);
      break;
    case 'I':
      try_ignore_rules(text);
      break;
    case 'T':
      try_towns(text);
      break;
    case 'R':
      try_ratings(text);
      break;
    case 'P':
      try_pages(text);
      break;
    case 'S':
      try_sentences(text);
      break;
    case 'A':
      try_addresses(text);
      break;
    case 'N':
      try_names(text);
      break;
    case 'V':
      try_svg(text);
      break;
    case 'C':
      try_captions(text);
      break;
    case 'L':
      try_lexicon(text);
      break;
    case 'W':
      try_word_vectors(text);
      break;
    default:
      (void)html_unescape(text);
  }
  return 0;
}

std::string fuzz_mutate(std::string input, SplitMix& random) {
  if (input.empty()) return input;
  const std::string_view text = std::string_view(input).substr(1);
  return input[0] + (random.below(2) == 0 ? mutate_tokens(text, kTokens, random)
                                          : mutate_lines(text, kTokens, kTokens, random));
}
