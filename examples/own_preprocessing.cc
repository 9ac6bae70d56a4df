// Encodes an image with a preprocessing of your own: own_preprocessing MODEL
//
// Compares the model's own way to fit an image into its square with the other common one: a centre crop, or squashing.
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
  saccade::Preprocessing other = encoder->preprocessing();
  other.crop = other.resize_mode != saccade::ResizeMode::kShortestEdge;
  other.resize_mode = other.crop ? saccade::ResizeMode::kShortestEdge : saccade::ResizeMode::kSquash;
  other.resize_height = other.crop_height = encoder->info().image_height;
  other.resize_width = other.crop_width = encoder->info().image_width;

  saccade::Matrix<float> pixels(1, int64_t{3} * other.output_height() * other.output_width());
  const saccade::Status done = saccade::preprocess(wide_image(), other, pixels.row(0));
  const auto theirs = encoder->encode_pixels(pixels.view());
  const auto own = encoder->encode_images({wide_image()});
  if (!done || !theirs || !own) {
    std::fprintf(stderr, "the image could not be encoded\n");
    return 1;
  }
  std::printf("cosine of %s and the model's own way: %.3f\n", other.crop ? "a centre crop" : "squashing",
              saccade::dot(theirs->row(0), own->row(0)));
}
