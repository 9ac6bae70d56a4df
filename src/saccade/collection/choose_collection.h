// Which collection is meant where nobody names one.
//
//   1. the one that SACCADE_COLLECTION names
//   2. .saccade in this folder, or in the nearest one above it
//   3. the only one that this user has indexed and that is still there
//
// What a user has indexed is kept in saccade/collections of XDG_STATE_HOME (default: ~/.local/state): a file
// for each, named by the hash of the collection's path, which is its content. It only says where to look.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

inline constexpr const char* kCollectionVariable = "SACCADE_COLLECTION";
inline constexpr const char* kHiddenCollection = ".saccade";

enum class ChosenBy {
  kName,         // it was named
  kEnvironment,  // SACCADE_COLLECTION
  kFolder,       // .saccade
  kOnly,         // the only one there is
  kNew,          // .saccade in this folder, which is yet to be made
};

struct ChosenCollection {
  std::filesystem::path folder;
  ChosenBy by = ChosenBy::kName;
};

// `named` if not empty, whatever there is; else as above, from the working directory. kUsage where none is
// found, or several are remembered, with their folders; kNotFound where SACCADE_COLLECTION names none.
Result<ChosenCollection> choose_collection(const std::string& named);

// Where pictures are to be added: the same without 3, as nobody wants them in a collection of
// something else; and where there is none, .saccade in the working directory. SACCADE_COLLECTION may
// name one that is yet to be made.
Result<ChosenCollection> choose_collection_to_fill(const std::string& named);

// Those that are remembered and still there, by path.
std::vector<std::filesystem::path> remembered_collections();
// Remembers a collection. Where that cannot be written nothing is remembered, which is no error.
void remember_collection(const std::filesystem::path& folder);

}  // namespace saccade
