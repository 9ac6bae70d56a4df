// The composer that a collection names: what "this picture, but ..." is asked with there
// unless something else is said.
//
//   FOLDER/composer.json   {"path": absolute, "fingerprint", "kind"}
//
// The file is written whole or not at all, and nothing of the collection depends on it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/model/composers/composer.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

inline constexpr std::string_view kCollectionComposerFile = "composer.json";

// kMismatch for a composer that was trained on another encoder than the one that the collection's rows are
// from; other errors as Composer::open.
Status name_composer(const CollectionReader& collection, const std::filesystem::path& composer,
                     const BackendOptions& options = {});
// Forgets the collection's composer, if there is one.
Status forget_composer(const std::filesystem::path& collection);
// Opens the collection's composer; `nullptr` if it names none. kMismatch if another composer has replaced it,
// or if it was trained on another encoder. kNotFound if it is missing. Messages name the file.
Result<std::shared_ptr<Composer>> open_collection_composer(const CollectionReader& collection,
                                                           const BackendOptions& options = {});
// The composer in a folder, for that collection. kMismatch as name_composer.
Result<std::shared_ptr<Composer>> open_composer_for(const CollectionReader& collection,
                                                    const std::filesystem::path& composer,
                                                    const BackendOptions& options = {});

}  // namespace saccade
