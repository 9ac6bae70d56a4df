// Towns lie in cells of one degree. A point's own cell and those around it, as far as
// 50 km reach, are looked through.
#include "saccade/collection/places.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mutex>
#include <numbers>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"

namespace saccade {
namespace {

constexpr double kEarthRadius = 6371.0;  // kilometres, its mean
constexpr double kKilometresADegree = kEarthRadius * std::numbers::pi / 180;

struct Town {
  float latitude = 0;
  float longitude = 0;
  uint32_t name = 0;  // where it begins in the text; it ends with its line
};

int cell_of(int row, int column) {
  return (row + 90) * 360 + ((column + 180) % 360 + 360) % 360;
}

// The haversine formula, in kilometres.
double distance(double lat1, double lon1, double lat2, double lon2) {
  constexpr double kRadian = std::numbers::pi / 180;
  const double a = std::sin((lat2 - lat1) * kRadian / 2);
  const double b = std::sin((lon2 - lon1) * kRadian / 2);
  const double h = a * a + std::cos(lat1 * kRadian) * std::cos(lat2 * kRadian) * b * b;
  return 2 * kEarthRadius * std::asin(std::min(1.0, std::sqrt(h)));
}

}  // namespace

struct Gazetteer::State {
  std::filesystem::path file;
  std::once_flag once;
  Status read;
  std::string text;
  std::unordered_map<int, std::vector<Town>> cells;

  Status load() {
    SACCADE_ASSIGN(text, read_file(file, int64_t{256} << 20));
    int64_t number = 0;
    for (const std::string_view line : Lines(text)) {
      ++number;
      if (line.empty() || line.front() == '#') continue;
      Town town;
      const char* at = line.data();
      const char* const last = line.data() + line.size();
      const auto number_then_tab = [&](float& value) {
        const auto [behind, error] = std::from_chars(at, last, value);
        if (error != std::errc() || behind == last || *behind != '\t') return false;
        at = behind + 1;
        return true;
      };
      if (!number_then_tab(town.latitude) || !number_then_tab(town.longitude) ||
          !(std::abs(town.latitude) <= 90) || !(std::abs(town.longitude) <= 180)) {
        return fail(ErrorCode::kBadData,
                    "{}: line {}: expected a latitude, a longitude and a name with tabs between",
                    file.string(), number);
      }
      town.name = static_cast<uint32_t>(at - text.data());
      cells[cell_of(static_cast<int>(std::floor(town.latitude)),
                    static_cast<int>(std::floor(town.longitude)))]
          .push_back(town);
    }
    return {};
  }
};

Gazetteer::Gazetteer(std::filesystem::path file) : state_(std::make_unique<State>()) {
  state_->file = std::move(file);
}
Gazetteer::~Gazetteer() = default;

Result<std::string> Gazetteer::nearest(double latitude, double longitude) const {
  State& state = *state_;
  std::call_once(state.once, [&] { state.read = state.load(); });
  if (!state.read) return fail(state.read.error());
  if (!(std::abs(latitude) <= 90) || !(std::abs(longitude) <= 180)) {
    return fail(ErrorCode::kUsage, "no such place: {}, {}", latitude, longitude);
  }
  const double reach = kNearestKilometres / kKilometresADegree;
  // A degree of longitude shrinks towards the poles; near them every column is in reach.
  const double most = std::min(89.9, std::abs(latitude) + reach);
  const double columns = std::min(180.0, reach / std::cos(most * std::numbers::pi / 180));
  const Town* best = nullptr;
  double least = kNearestKilometres;
  const int last_row = static_cast<int>(std::floor(latitude + reach));
  const int last_column = static_cast<int>(std::floor(longitude + columns));
  for (int row = static_cast<int>(std::floor(latitude - reach)); row <= last_row; ++row) {
    for (int column = static_cast<int>(std::floor(longitude - columns)); column <= last_column; ++column) {
      const auto found = state.cells.find(cell_of(row, column));
      if (found == state.cells.end()) continue;
      for (const Town& town : found->second) {
        const double away = distance(latitude, longitude, static_cast<double>(town.latitude),
                                     static_cast<double>(town.longitude));
        if (away < least) {
          least = away;
          best = &town;
        }
      }
    }
  }
  if (best == nullptr) return std::string();
  return state.text.substr(best->name,
                           std::min(state.text.find('\n', best->name), state.text.size()) - best->name);
}

}  // namespace saccade
