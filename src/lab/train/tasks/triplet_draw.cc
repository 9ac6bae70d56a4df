#include "lab/train/tasks/triplet_draw.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "lab/train/math/step_random.h"

namespace saccade::lab {
namespace {

constexpr uint64_t kWording = 32;  // purposes of keyed random numbers (random.h)
constexpr uint64_t kTarget = 33;

// Maps distinct things to their positions in a list.
class Places {
 public:
  int64_t of(int64_t number) {
    const auto [place, fresh] = places_.try_emplace(number, std::ssize(numbers));
    if (fresh) numbers.push_back(number);
    return place->second;
  }
  std::vector<int64_t> numbers;

 private:
  std::unordered_map<int64_t, int64_t> places_;
};

}  // namespace

DrawnTriplets draw_triplets(const ComposedTrainingOptions& options, const ComposedData& data,
                            GroupedOrder& order, int64_t step, bool align) {
  DrawnTriplets drawn;
  Places pictures;
  Places texts;
  std::vector<int64_t> chosen;  // targets
  for (int64_t i = 0; i < options.batch; ++i) {
    const int64_t triplet = order.at(step * options.batch + i);
    const ComposedTriplet& each = data.triplets[static_cast<size_t>(triplet)];
    KeyedRandom random(options.seed, kWording, static_cast<uint64_t>(step), static_cast<uint64_t>(i));
    const auto said = data.wordings_of(triplet);
    const auto own = static_cast<size_t>(each.own_wordings);
    const bool other = said.size() > own && random.chance(static_cast<float>(options.paraphrases));
    const size_t wording = other ? own + random.below(said.size() - own) : own > 1 ? random.below(own) : 0;
    const auto right = data.targets_of(triplet);
    KeyedRandom chooser(options.seed, kTarget, static_cast<uint64_t>(step), static_cast<uint64_t>(i));
    const bool pseudo = align && options.align == AlignTargets::kPseudo && each.pseudo >= 0;
    drawn.triplets.push_back(triplet);
    drawn.references.push_back(align ? 0 : pictures.of(each.reference));
    chosen.push_back(pseudo ? each.pseudo : right[chooser.below(right.size())]);
    drawn.wordings.push_back(texts.of(said[wording]));
  }
  drawn.reference_pictures = std::ssize(pictures.numbers);
  for (const int64_t picture : chosen) drawn.targets.push_back(pictures.of(picture));
  drawn.pictures = std::move(pictures.numbers);
  drawn.texts = std::move(texts.numbers);
  return drawn;
}

DrawnTriplets asked_queries(const HeldOutQueries& set, size_t first, size_t count) {
  DrawnTriplets drawn;
  Places pictures;
  Places texts;
  for (size_t a = first; a < std::min(first + count, set.task.asked.size()); ++a) {
    const ComposedTask::Query& query = set.task.queries[static_cast<size_t>(set.task.asked[a].query)];
    drawn.references.push_back(pictures.of(set.pictures[static_cast<size_t>(query.reference)]));
    drawn.wordings.push_back(texts.of(set.texts[a]));
  }
  drawn.reference_pictures = std::ssize(pictures.numbers);
  drawn.pictures = std::move(pictures.numbers);
  drawn.texts = std::move(texts.numbers);
  return drawn;
}

std::vector<int64_t> content_classes(const ItemFile& file) {
  std::vector<int64_t> classes;
  std::unordered_map<size_t, int64_t> numbers;
  for (int64_t i = 0; i < file.size(); ++i) {
    const std::span<const std::byte> bytes = file.bytes(i);
    const size_t hash =
        std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    classes.push_back(numbers.try_emplace(hash, std::ssize(numbers)).first->second);
    if (i % 4096 == 4095) file.release();
  }
  file.release();
  return classes;
}

torch::Tensor right_candidates(const ComposedTrainingOptions& options, const ComposedData& data,
                               std::span<const int64_t> class_of, const DrawnTriplets& drawn) {
  const auto n = std::ssize(drawn.triplets);
  const int64_t candidates = options.wrong == WrongAnswers::kReferences ? 2 * n : n;
  torch::Tensor positives = torch::empty({n, candidates}, at::kBool);
  std::vector<int64_t> classes;
  for (int64_t j = 0; j < candidates; ++j) {
    const int64_t place =
        j < n ? drawn.targets[static_cast<size_t>(j)] : drawn.references[static_cast<size_t>(j - n)];
    classes.push_back(class_of[static_cast<size_t>(drawn.pictures[static_cast<size_t>(place)])]);
  }
  for (int64_t i = 0; i < n; ++i) {
    std::vector<int64_t> right;
    for (const int32_t target : data.targets_of(drawn.triplets[static_cast<size_t>(i)])) {
      right.push_back(class_of[static_cast<size_t>(target)]);
    }
    for (int64_t j = 0; j < candidates; ++j) {
      positives.data_ptr<bool>()[i * candidates + j] =
          std::ranges::find(right, classes[static_cast<size_t>(j)]) != right.end();
    }
  }
  return positives;
}

torch::Tensor numbers_of(std::span<const int64_t> values) {
  torch::Tensor tensor = torch::empty({std::ssize(values)}, at::kLong);
  std::ranges::copy(values, tensor.data_ptr<int64_t>());
  return tensor;
}

}  // namespace saccade::lab
