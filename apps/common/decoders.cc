#include "decoders.h"

#include <algorithm>

#include <fmt/format.h>

namespace saccade::app {

DecoderPool* Decoders::start(Messages& messages, int64_t max_pixels) {
  if (tried_) return pool_.get();
  tried_ = true;
  constexpr std::string_view kHere =
      "pictures are decoded in this process, which a hostile one can end, and HEIC and AVIF not at all";
  const auto program = find_decoder_program();
  if (!program) {
    messages.warning(
        fmt::format("no saccade-decode beside this program or in ../libexec/saccade: {}", kHere));
    return nullptr;
  }
  DecoderPoolOptions options;
  options.program = *program;
  // Decoders of whole pictures hold them once or twice, at up to 4 bytes a pixel.
  options.memory_bytes = std::max(options.memory_bytes, 8 * std::min(max_pixels, int64_t{1} << 40));
  auto pool = DecoderPool::start(std::move(options));
  if (!pool) {
    messages.warning(fmt::format("{}: {}", pool.error().message, kHere));
    return nullptr;
  }
  pool_ = *std::move(pool);
  return pool_.get();
}

}  // namespace saccade::app
