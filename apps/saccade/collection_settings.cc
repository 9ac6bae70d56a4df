#include "collection_settings.h"

#include "choice.h"
#include "command_help.h"
#include "number.h"

namespace saccade::app {

void add_collection_settings(CLI::App& command, CollectionSettings& settings, const std::string& heading) {
  add_choice(command, "--background", settings.background,
             "background of transparent images: by contrast (white or dark grey, default), white, or the "
             "checkpoint's; fixed when the collection is created");
  command.add_flag("--as-stored", settings.as_stored,
                   "ignore EXIF orientation; fixed when the collection is created");
  command.add_flag(
      "--convert-to-srgb", settings.convert_to_srgb,
      "convert the colors of images with an ICC profile (Display P3, Adobe RGB) to sRGB before "
      "encoding; otherwise the encoder gets the stored values, as in training; fixed when the collection is "
      "created");
  CLI::Option* fast = command.add_flag(
      "--fast-decode", settings.fast_decode,
      "decode JPEGs of at least five times the model's input at a reduced size: faster, not bit-exact "
      "(default); fixed when the collection is created");
  command
      .add_flag(
          "--exact-decode", settings.exact_decode,
          "decode all JPEGs at their full size: slower, bit-exact; fixed when the collection is created")
      ->excludes(fast);
  add_choice(
      command, "--int8-rows", settings.int8_rows,
      "store 8-bit copies of the embeddings, so that searches read a quarter of the data with the same "
      "answers: on, off, or auto (default: from 50,000 images on); fixed when the collection is created");
  add_choice(command, "--rows-precision", settings.rows_precision,
             "late interaction: number format of stored embeddings, fp16 (default) or int8; fixed when the "
             "collection is created");
  command
      .add_option(
          "--pool-rows", settings.pool_rows,
          "late interaction: number of adjacent patches averaged into one stored embedding; fixed when the "
          "collection is created")
      ->transform(whole_number(1, kMaxPool));
  group_options(command, {{heading,
                           {"--background", "--as-stored", "--convert-to-srgb", "--fast-decode",
                            "--exact-decode", "--int8-rows", "--rows-precision", "--pool-rows"}}});
}

CollectionChoices choices_of(const CollectionSettings& settings) {
  const auto flag = [](bool given) { return given ? std::optional(true) : std::nullopt; };
  CollectionChoices choices;
  choices.background = settings.background;
  choices.as_stored = flag(settings.as_stored);
  choices.convert_to_srgb = flag(settings.convert_to_srgb);
  if (settings.fast_decode || settings.exact_decode) choices.fast_decode = settings.fast_decode;
  choices.int8_rows = settings.int8_rows;
  choices.late_precision = settings.rows_precision;
  if (settings.pool_rows > 0) choices.late_pool = settings.pool_rows;
  return choices;
}

}  // namespace saccade::app
