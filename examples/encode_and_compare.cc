// Scores images against texts: encode_and_compare MODEL IMAGE... -- TEXT...
#include <cstdio>
#include <saccade/saccade.h>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::vector<saccade::ImageInput> images;
  std::vector<std::string> texts;
  bool behind = false;
  for (int i = 2; i < argc; ++i) {
    if (std::string(argv[i]) == "--") {
      behind = true;
    } else if (behind) {
      texts.emplace_back(argv[i]);
    } else {
      images.emplace_back(argv[i]);
    }
  }
  if (images.empty() || texts.empty()) {
    std::fprintf(stderr, "usage: encode_and_compare MODEL IMAGE... -- TEXT...\n");
    return 2;
  }
  const auto encoder = saccade::Encoder::load(argv[1]);
  if (!encoder) {
    std::fprintf(stderr, "%s\n", encoder.error().message.c_str());
    return saccade::exit_code(encoder.error().code);
  }
  const auto image_rows = encoder->encode_images(images);
  const auto text_rows = encoder->encode_texts(texts);
  if (!image_rows || !text_rows) {
    std::fprintf(stderr, "%s\n", (image_rows ? text_rows : image_rows).error().message.c_str());
    return 1;
  }
  for (int64_t i = 0; i < image_rows->size(); ++i) {
    for (int64_t t = 0; t < text_rows->size(); ++t) {
      std::printf("image %lld  %.3f  %s\n", static_cast<long long>(i),
                  saccade::dot(image_rows->row(i), text_rows->row(t)), texts[static_cast<size_t>(t)].c_str());
    }
  }
}
