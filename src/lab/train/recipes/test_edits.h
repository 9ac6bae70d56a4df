// Edit queries over the coloured shapes of math/test_shapes.h: "in green".
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

namespace saccade::lab::test {

inline const std::vector<std::string>& shape_colours() {
  static const std::vector<std::string> colours = {"red", "green", "blue", "yellow"};
  return colours;
}

// Returns a manifest of all changes of colour of these shapes: 24 queries a shape, a group per image's shape
// and copy. The query "red-bar-0-green" asks for "in green" or "make it green" from the reference
// "red-bar-0".
inline std::string shape_edits(const std::vector<std::string>& shapes) {
  std::string lines;
  for (const std::string& shape : shapes) {
    for (int copy = 0; copy < 2; ++copy) {
      for (const std::string& from : shape_colours()) {
        lines +=
            fmt::format("{{\"picture\": \"{0}-{1}-{2}.png\", \"id\": \"{0}-{1}-{2}\", \"gallery\": \"g\"}}\n",
                        from, shape, copy);
      }
    }
  }
  for (const std::string& shape : shapes) {
    for (int copy = 0; copy < 2; ++copy) {
      for (const std::string& from : shape_colours()) {
        for (const std::string& to : shape_colours()) {
          if (from == to) continue;
          lines += fmt::format(
              "{{\"id\": \"{0}-{1}-{2}-{3}\", \"reference\": \"{0}-{1}-{2}\", \"texts\": [\"in {3}\"], "
              "\"paraphrases\": [\"make it {3}\"], \"targets\": [\"{3}-{1}-{2}\"], \"gallery\": \"g\", "
              "\"group\": \"{1}-{2}\"}}\n",
              from, shape, copy, to);
        }
      }
    }
  }
  return lines;
}

}  // namespace saccade::lab::test
