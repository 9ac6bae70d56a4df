#include "collection_choice.h"

#include <filesystem>

#include <fmt/format.h>

#include "saccade/collection/choose_collection.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/weaviate/address.h"

namespace saccade::app {

void add_collection_option(CLI::App& command, std::string& collection, CollectionKinds kinds) {
  const char* const address = kinds == CollectionKinds::kFolder ? "" : ", or weaviate://HOST:PORT/Name";
  command.add_option(
      "-c,--collection", collection,
      fmt::format("folder of the collection{} (default: $SACCADE_COLLECTION, else .saccade in this folder "
                  "or a parent, else the only collection found)",
                  address));
}

Status settle_collection(std::string& collection, Messages& messages) {
  SACCADE_ASSIGN(const ChosenCollection chosen, choose_collection(collection));
  collection = chosen.folder.string();
  if (chosen.by == ChosenBy::kOnly) messages.info("collection " + collection + ", the only one there is");
  return {};
}

Status settle_collection_to_fill(std::string& collection, std::span<const std::filesystem::path> inputs,
                                 Messages& messages) {
  SACCADE_ASSIGN(const ChosenCollection chosen, choose_collection_to_fill(collection));
  collection = chosen.folder.string();
  if (!is_collection(chosen.folder)) SACCADE_TRY(check_any_input(inputs));
  if (chosen.by == ChosenBy::kName) return {};
  std::error_code error;
  const std::string whole = weaviate::is_address(chosen.folder)
                                ? collection
                                : std::filesystem::absolute(chosen.folder, error).string();
  messages.info(fmt::format("{} collection {}", is_collection(chosen.folder) ? "into" : "making", whole));
  return {};
}

}  // namespace saccade::app
