// The town nearest to a point, from a file of towns (tools/places): no network is
// asked where somebody has been.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "saccade/core/error.h"

namespace saccade {

// Farther than this no town is near.
inline constexpr double kNearestKilometres = 50;

class Gazetteer {
 public:
  // Lines of "latitude TAB longitude TAB name"; those that begin with "#" are skipped. Nothing
  // is read until the first look-up.
  explicit Gazetteer(std::filesystem::path file);
  ~Gazetteer();
  Gazetteer(const Gazetteer&) = delete;
  Gazetteer& operator=(const Gazetteer&) = delete;

  // The name of the town nearest by great circle, "Lyon, Auvergne-Rhône-Alpes, FR"; empty where none is near.
  // The first call reads the file: its errors are kNotFound and kBadData (naming the line), and every later
  // call's. Thread-safe. Cost: some 50 ms for 170,000 towns at first, microseconds then.
  [[nodiscard]] Result<std::string> nearest(double latitude, double longitude) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saccade
