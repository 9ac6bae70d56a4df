#include "saccade/search/hit_pictures.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "saccade/collection/file_state.h"
#include "saccade/collection/picture.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/image/decode/video.h"
#include "saccade/image/frame_name.h"
#include "saccade/image/read_pixels.h"

namespace saccade {
namespace {

// The picture as the encoder reads it, or why it cannot.
std::optional<PictureProblem> read_picture(const Item& item, const IngestSettings& settings,
                                           const Preprocessing& preprocessing, PictureReader& reader,
                                           std::span<float> pixels) {
  PictureProblem::Kind kind = PictureProblem::Kind::kUnreadable;
  const auto bytes = [&]() -> Result<std::optional<std::string>> {
    if (auto here = check_file_here(item); !here) {
      kind = PictureProblem::Kind::kMissing;
      return fail(std::move(here).error());
    }
    if (read_frame_name(item.path)) {
      // A look at the file: hashing a whole video takes longer than a search may.
      const auto state = file_state(item.path).in(file_of(item.path));
      if (!state) {
        kind = PictureProblem::Kind::kMissing;
        return fail(state.error());
      }
      if (state->size != item.size || state->mtime_ns != item.mtime_ns) {
        kind = PictureProblem::Kind::kChanged;
        return fail(ErrorCode::kMismatch, "the video has changed since it was taken in");
      }
      SACCADE_ASSIGN(std::string picture, read_picture_file(item.path, reader.options()));
      return std::optional(std::move(picture));
    }
    auto content = read_file(item.path, reader.options().max_bytes);
    if (!content) {
      if (content.error().code == ErrorCode::kNotFound) kind = PictureProblem::Kind::kMissing;
      return fail(std::move(content).error());
    }
    if (sha256_hex(*content) != item.hash) {
      kind = PictureProblem::Kind::kChanged;
      return fail(ErrorCode::kMismatch, "the file has changed since it was taken in");
    }
    return std::optional(*std::move(content));
  };
  const auto use = [&](const PictureView& picture) {
    return preprocess_picture(picture.image, preprocessing, settings, pixels);
  };
  const PictureReader::Outcome outcome = reader.read(bytes, item.size, use);
  if (!outcome.error) return std::nullopt;
  if (outcome.error->code == ErrorCode::kCancelled) kind = PictureProblem::Kind::kOutOfTime;
  return PictureProblem{kind, outcome.error->message};
}

}  // namespace

HitPictures read_hit_pictures(std::span<const SearchHit> hits, const IngestSettings& settings,
                              const Preprocessing& preprocessing, const DecodeOptions& limits,
                              ThreadPool& pool) {
  HitPictures result;
  result.problems.resize(hits.size());
  result.pixels = Matrix<float>(static_cast<int64_t>(hits.size()),
                                int64_t{3} * preprocessing.output_height() * preprocessing.output_width());
  PictureReader reader(picture_decode_options(settings, preprocessing, limits), kPixelsInFlight, pool.size());
  std::atomic<bool> out_of_time = false;  // the others would wait as long, each
  pool.parallel_for(result.pixels.rows(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      std::optional<PictureProblem>& problem = result.problems[at];
      if (out_of_time) {
        problem = {PictureProblem::Kind::kOutOfTime, "no decoder was free in time"};
        continue;
      }
      problem = read_picture(hits[at].item, settings, preprocessing, reader, result.pixels.row(i));
      if (problem && problem->kind == PictureProblem::Kind::kOutOfTime) out_of_time = true;
    }
  });
  for (size_t i = 0; i < hits.size(); ++i) {
    if (result.problems[i]) continue;
    const auto to = static_cast<int64_t>(result.read.size());
    if (to != static_cast<int64_t>(i)) {
      std::ranges::copy(std::as_const(result.pixels).row(static_cast<int64_t>(i)),
                        result.pixels.row(to).begin());
    }
    result.read.push_back(i);
  }
  return result;
}

}  // namespace saccade
