// JSON from outside: the parser, its typed fields, and the two kinds of file that describe preprocessing.
#include <array>
#include <string_view>

#include "saccade/core/json.h"
#include "saccade/image/preprocess.h"

#include "fuzz.h"
#include "mutators.h"

int fuzz_input(const uint8_t* data, size_t size) {
  using namespace saccade;
  const auto json = parse_json(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!json) return 0;
  // A parsed value is the same after being written and parsed again.
  const auto again = parse_json(dump_json(*json));
  FUZZ_CHECK(again && *again == *json);

  for (const char* key : {"size", "image_size", "resample", "do_resize", "a"}) {
    (void)json_field<int>(*json, key);
    (void)json_field<uint64_t>(*json, key);
    (void)json_field<float>(*json, key);
    (void)json_field<bool>(*json, key);
    (void)json_field_or<std::string>(*json, key, "");
  }
  for (const auto& preprocessing :
       {preprocessing_from_hugging_face(*json, 224), preprocessing_from_open_clip(*json, 224)}) {
    if (!preprocessing) continue;
    FUZZ_CHECK(preprocessing->output_height() > 0 && preprocessing->output_width() > 0);
    FUZZ_CHECK(!preprocessing->describe().empty());
  }
  return 0;
}

namespace {

constexpr std::array<std::string_view, 17> kWords = {
    "size",    "image_size", "resample",  "do_resize",     "a",          "shortest_edge",
    "height",  "width",      "crop_size", "image_mean",    "image_std",  "rescale_factor",
    "bicubic", "mean",       "std",       "interpolation", "resize_mode"};

}  // namespace

std::string fuzz_mutate(std::string input, saccade::SplitMix& random) {
  return mutate_json(input, kWords, random);
}
