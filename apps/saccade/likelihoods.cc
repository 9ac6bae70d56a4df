#include "likelihoods.h"

#include <utility>

#include <fmt/format.h>

namespace saccade::app {

void measure_likelihoods(const std::filesystem::path& folder, const EncoderSource& encoder, ThreadPool& pool,
                         Session& session) {
  const auto refreshed = [&]() -> Status {
    SACCADE_ASSIGN(const Collection collection, Collection::open(folder));
    if (collection.item_count() == 0) return {};
    SACCADE_ASSIGN(const bool due, background_is_due(collection));
    if (!due) return {};
    SACCADE_ASSIGN(EncoderBackend * loaded, encoder());
    SACCADE_TRY(refresh_background(collection, *loaded, pool, session.interrupts.stop_cleanly()));
    return {};
  };
  if (const Status status = refreshed(); !status) {
    session.messages.warning(
        fmt::format("answers will not say how likely their hits are: {}", status.error().message));
  }
}

std::shared_ptr<const Background> background_of(const Collection& collection, Session& session) {
  if (collection.has_late_rows()) return nullptr;
  auto background = read_background(collection);
  if (background) return std::make_shared<const Background>(*std::move(background));
  if (background.error().code != ErrorCode::kNotFound) {
    session.messages.warning(
        fmt::format("{}; the next `saccade index` measures it anew", background.error().message));
  }
  return nullptr;
}

}  // namespace saccade::app
