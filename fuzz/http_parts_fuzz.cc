// Fuzzer of request parts from a server's clients: forms with files, query strings, paths, ranges, images in
// base64. The input's first line is a form's content type or a header's value; the rest is the body.
#include <algorithm>
#include <array>
#include <string_view>

#include "saccade/core/ascii.h"
#include "saccade/core/base64.h"
#include "saccade/serve/formats/multipart.h"
#include "saccade/serve/http/http.h"

#include "fuzz.h"
#include "mutators.h"

int fuzz_input(const uint8_t* data, size_t size) {
  using namespace saccade::serve;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view head = input.substr(0, line);
  const std::string_view body = input.substr(std::min(line + 1, input.size()));
  if (const auto parts = parse_form(head, body)) {
    FUZZ_CHECK(parts->size() <= kMostFormParts);
    const char* behind = body.data();
    for (const FormPart& part : *parts) {  // in order, apart from each other, inside the body
      FUZZ_CHECK(part.bytes.data() >= behind &&
                 part.bytes.data() + part.bytes.size() <= body.data() + body.size());
      behind = part.bytes.data() + part.bytes.size();
    }
  }
  const ByteRange range = parse_range(head, static_cast<int64_t>(body.size()));
  FUZZ_CHECK(range.offset >= 0 && range.bytes >= 0 &&
             range.offset + range.bytes <= static_cast<int64_t>(body.size()));
  for (const auto& [name, value] : parse_query(input)) FUZZ_CHECK(name.size() + value.size() <= size);
  if (const auto path = decode_path(input)) FUZZ_CHECK(decode_path(saccade::percent_encoded(*path)) == path);
  if (const auto picture = saccade::decode_picture_text(head)) FUZZ_CHECK(picture->size() <= head.size());
  return 0;
}

namespace {

constexpr std::array<std::string_view, 14> kLines = {
    "--b\r\n",
    "--b--\r\n",
    "--b",
    "\r\n",
    "Content-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n",
    "Content-Disposition: form-data; name=\"text\"\r\n",
    "Content-Disposition: form-data; filename*=UTF-8''a%20b\r\n",
    "Content-Type: image/png\r\n",
    "Content-Transfer-Encoding: base64\r\n",
    "a bell\r\n",
    "multipart/form-data; boundary=b\n",
    "multipart/form-data; boundary=\"b\"\n",
    "bytes=0-,1-\n",
    "X:\r\n"};
constexpr std::array<std::string_view, 24> kTokens = {
    ";",   "=",  "\"", "\\\"",   "name=", "filename=", "boundary=",           "--",    "b",        "\r\n",
    "\r",  "\n", ":",  "bytes=", "-",     ",",         "9223372036854775807", "data:", ";base64,", "%2F",
    "%00", "%",  "+",  "&"};

}  // namespace

std::string fuzz_mutate(std::string input, saccade::SplitMix& random) {
  return mutate_lines(input, kLines, kTokens, random);
}
