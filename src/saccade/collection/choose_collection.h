// Selection of the default collection, if a command names none:
//
//   1. the collection that SACCADE_COLLECTION names
//   2. .saccade in the working directory, or in its nearest parent that has one
//   3. the only collection that this user has indexed and that still exists
//
// The collections that a user has indexed are listed in saccade/collections of XDG_STATE_HOME
// (default: ~/.local/state). Each has a file there, named by the hash of the collection's path, which is its
// content. The list is only used to find collections.
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

// Returns `named` if it is not empty, without checks; else chooses as above, from the working directory.
// kUsage if none is found, or if several are remembered (listing their folders). kNotFound if
// SACCADE_COLLECTION names none.
Result<ChosenCollection> choose_collection(const std::string& named);

// Chooses the collection that images are added to. Step 3 is skipped, since unrelated images do not belong in
// another collection. Without a match the result is .saccade in the working directory. SACCADE_COLLECTION may
// name a collection that does not exist yet.
Result<ChosenCollection> choose_collection_to_fill(const std::string& named);

// Returns the remembered collections that still exist, by path.
std::vector<std::filesystem::path> remembered_collections();
// Remembers a collection. A failure to write is ignored: the collection is then not remembered.
void remember_collection(const std::filesystem::path& folder);

}  // namespace saccade
