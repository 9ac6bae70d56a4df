// Numbers on the command line.
//
// CLI11 reads them with strtoll and strtold: "010" is eight, a number too large becomes the largest one, and
// a NaN lies in every range. These checks take plain decimal numbers in a range and nothing else.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

namespace saccade::app {

inline constexpr int64_t kMostWhole = std::numeric_limits<int64_t>::max();

// A whole number from `lowest` to `highest`. For add_option(...)->transform().
CLI::Validator whole_number(int64_t lowest, int64_t highest = kMostWhole);

enum class Lowest { kIncluded, kExcluded };
enum class Highest { kIncluded, kExcluded };

// A number from `lowest` (or just above) to `highest` (or just below); never a NaN or an infinity. As
// whole_number.
CLI::Validator real_number(double lowest, double highest = std::numeric_limits<double>::max(),
                           Lowest bound = Lowest::kIncluded, Highest top = Highest::kIncluded);

// Adds an option for a number, whose default help shows.
template <typename Number>
CLI::Option* add_number(CLI::App& command, const std::string& name, Number& value, CLI::Validator range,
                        const std::string& text) {
  return command.add_option(name, value, text)->transform(std::move(range))->capture_default_str();
}

}  // namespace saccade::app
