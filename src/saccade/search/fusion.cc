#include "saccade/search/fusion.h"

#include <string_view>
#include <utility>
#include <vector>

#include "saccade/model/checkpoints/locate.h"
#include "saccade/text/nearest.h"

namespace saccade {

Result<Fusion> make_fusion(Compose method, std::optional<double> weight, std::string was) {
  if (!was.empty() && method != Compose::kDirection) {
    return fail(ErrorCode::kUsage, "words for what the image shows now are where {} starts from, not {}",
                enum_name(Compose::kDirection), enum_name(method));
  }
  const double share = weight.value_or(default_weight(method));
  if (!(share >= 0 && share <= 1)) {
    return fail(ErrorCode::kUsage, "the text's weight is {}, expected 0 to 1", share);
  }
  const ComposeWeights weights = compose_weights(method, share);
  return Fusion{.method = method,
                .text_weight = static_cast<float>(weights.text),
                .image_weight = static_cast<float>(weights.picture),
                .was = std::move(was)};
}

Result<std::filesystem::path> composer_folder(const std::string& named) {
  SACCADE_ASSIGN(std::filesystem::path folder, find_composer(named));
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return folder;
  std::vector<std::string_view> names = written_names<Compose>();
  names.emplace_back("starter");
  return fail(ErrorCode::kUsage, "{}: expected {}, starter, or the folder of a composer{}", named,
              list_of_names<Compose>(), did_you_mean(named, names));
}

}  // namespace saccade
