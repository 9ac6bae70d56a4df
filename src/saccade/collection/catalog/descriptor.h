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

// A file that grows at its end, opened for writing and made exactly as long as the catalog says: debris of a
// crash is cut off. kBadData, saying `what` they are, where there are fewer bytes.
Result<Descriptor> open_grown(const std::filesystem::path& path, int64_t bytes, std::string_view what);

}  // namespace saccade::store
