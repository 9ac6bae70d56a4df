// Tables of image URLs: CSV, TSV, JSON Lines and Parquet, read row by row. Internal to the module.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab::data {

// Names of a table's columns.
struct UrlColumns {
  std::string url;  // empty: by its usual name (url, image_url, ...)
  // Empty: column NAME if the URLs are in NAME_image, otherwise by its usual name (caption, text, ...), if there
  // is one.
  std::string caption;
  std::string id;                      // empty: none
  std::vector<std::string> kept = {};  // further columns that go into a sample's JSON
  // Names of all columns of a CSV or TSV file that has no header. Empty: the first line is the header.
  std::vector<std::string> header = {};
};

struct UrlRow {
  std::string url;
  std::vector<std::string> captions;
  std::string id;
  Json kept = Json::object();  // the kept columns, in the order of their names in UrlColumns
  std::string problem;         // reason why the row cannot be fetched; empty if it can
};

// Rows of one table, in order. Not thread-safe.
class UrlTable {
 public:
  UrlTable() = default;
  UrlTable(const UrlTable&) = delete;
  UrlTable& operator=(const UrlTable&) = delete;
  virtual ~UrlTable() = default;
  // Reads the next row; returns false at the end. kBadData, with the line or row, for a broken table. A row
  // without a usable URL, or with text that is not UTF-8, is no error: its `problem` says so.
  virtual Result<bool> next(UrlRow& row) = 0;
};

// Opens a table; the ending of its name tells the format: .parquet, .jsonl or .ndjson, .tsv, else CSV. Errors:
// kUsage for a missing column, naming all that there are; kBadData for a column of an unsuitable type.
Result<std::unique_ptr<UrlTable>> open_url_table(const std::filesystem::path& path,
                                                 const UrlColumns& columns);

}  // namespace saccade::lab::data
