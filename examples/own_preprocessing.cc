// Encodes an image with a preprocessing of your own: own_preprocessing MODEL
//
// The model's own way is a centre crop; this one squashes the whole image, and compares both.
#include <cstdio>
#include <saccade/saccade.h>

namespace {

// A wide image: red on the left, blue in the middle, green on the right.
saccade::Image wide_image() {
  saccade::Image image{.width = 300, .height = 100, .channels = 3};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      image.pixels.push_back(x < 100 ? 230 : 20);
      image.pixels.push_back(x >= 200 ? 200 : 20);
      image.pixels.push_back(x >= 100 && x < 200 ? 230 : 20);
    }
  }
  return image;
}

}  // namespace

int main(int argc, char** argv) {
  const auto encoder = saccade::Encoder::load(argc > 1 ? argv[1] : "starter");
  if (!encoder) {
    std::fprintf(stderr, "%s\n", encoder.error().message.c_str());
    return 1;
  }
  saccade::Preprocessing squash = encoder->preprocessing();
  squash.resize_mode = saccade::ResizeMode::kSquash;
  squash.crop = false;
  squash.resize_height = encoder->info().image_height;
  squash.resize_width = encoder->info().image_width;

  saccade::Matrix<float> pixels(1, int64_t{3} * squash.output_height() * squash.output_width());
  const saccade::Status done = saccade::preprocess(wide_image(), squash, pixels.row(0));
  const auto squashed = encoder->encode_pixels(pixels.view());
  const auto cropped = encoder->encode_images({wide_image()});
  if (!done || !squashed || !cropped) {
    std::fprintf(stderr, "the image could not be encoded\n");
    return 1;
  }
  std::printf("cosine of squashed and cropped: %.3f\n", saccade::dot(squashed->row(0), cropped->row(0)));
}
