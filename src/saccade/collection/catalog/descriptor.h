// Files open for writing: not for use outside this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade::store {

// All of `bytes`. `name` is for messages.
Status write_at(int descriptor, std::span<const std::byte> bytes, int64_t offset, const std::string& name);
// kBadData where the file ends before.
Status read_at(int descriptor, std::span<std::byte> bytes, int64_t offset, const std::string& name);

// Opens an append-only file for writing and truncates it to the length in the catalog, which removes debris
// of a crash. kBadData, naming the content by `what`, if the file is shorter.
Result<Descriptor> open_grown(const std::filesystem::path& path, int64_t bytes, std::string_view what);

}  // namespace saccade::store
