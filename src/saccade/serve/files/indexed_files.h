// Opens the files of items, and ensures that the file sent is the one that was indexed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"

namespace saccade::serve {

struct OpenFile {
  std::shared_ptr<const Descriptor> file;
  int64_t bytes = 0;
  std::string tag;  // changes with the file
};

// Whoever may write to an indexed folder could put a link in an indexed file's place, to a file that only the
// server may read. A path through a link is therefore opened only if it leads to the content that was indexed.
// Thread-safe.
class IndexedFiles {
 public:
  // Opens the file of an item, a frame's video included. kNotFound if there is no such regular file, or if a
  // link leads to other content than was indexed. Reads a linked file once to compare it, and again only after
  // it has changed.
  Result<OpenFile> open(const Item& item);

 private:
  Result<bool> has_indexed_content(const Item& item, int descriptor, const FileStamp& stamp);

  std::mutex mutex_;
  std::unordered_map<std::string, std::string> compared_;  // stamp -> hash, of linked files that were read
};

// Reads all of an open file. kLimit if it has more bytes than that; kIo.
Result<std::string> read_open_file(const OpenFile& file, int64_t max_bytes);

}  // namespace saccade::serve
