// What the readers of layouts share. Internal to the module.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "lab/data/dataset.h"
#include "lab/data/readers/json_records.h"

namespace saccade::lab::data {

// What a layout is told from, and read from: a file or a folder's names. A file of up to 1 GiB is a copy, so
// that it may be rewritten meanwhile; a larger one is mapped, and must not shrink while it is read. Archives
// (.tar, .parquet) are read by their layouts, piece by piece.
struct Candidate {
  std::filesystem::path path;
  bool folder = false;
  bool archive = false;
  std::shared_ptr<const std::string> copy;
  std::shared_ptr<const MappedFile> mapped;
  std::string_view text;               // the whole file; of an archive, its beginning
  std::optional<JsonOutline> outline;  // where the file begins as JSON does
  std::vector<std::string> names;      // a folder's entries, in the order of by_number()

  [[nodiscard]] std::string extension() const;  // lower-case, with its dot
  [[nodiscard]] bool has(std::string_view name) const;
};
Result<Candidate> look_at(const std::filesystem::path& path);

struct Reader {
  std::string_view name;
  std::string_view what;
  bool (*recognizes)(const Candidate& candidate);
  // Fills items, compositions, rated or edits with gallery, excluded and files; the rest is read_dataset's.
  Result<Dataset> (*read)(const Candidate& candidate, const DatasetOptions& options);
};

extern const Reader kKarpathy;
extern const Reader kCoco;
extern const Reader kShareGpt4v;
extern const Reader kRecords;
extern const Reader kWinoground;
extern const Reader kSugarCrepe;
extern const Reader kFashionIq;
extern const Reader kCirr;
extern const Reader kCirco;
extern const Reader kEditPairs;
extern const Reader kManifest;
extern const Reader kFlickrToken;
extern const Reader kRoco;
extern const Reader kFactify;
extern const Reader kTable;
extern const Reader kWebDataset;
extern const Reader kParquet;
extern const Reader kUrban1k;
extern const Reader kFolder;

// In the order they are asked; the first that recognizes a candidate reads it.
std::span<const Reader* const> readers();

// The records of a folder that no layout of folders fits: the file that a layout of files recognizes, there
// or in data/ or annotations/, or one of these two that is a layout itself. kBadData naming them if there are
// several; nullopt if there is none.
Result<std::optional<Candidate>> find_records(const Candidate& folder);

// Notes a file of records in dataset.files.
void note_file(const Candidate& file, Dataset& dataset);

// The lines of a text, without their ends (\n or \r\n) and without empty ones: line(number from 1, text).
Status for_each_line(std::string_view text,
                     const std::function<Status(int64_t number, std::string_view line)>& line);

std::string_view trim(std::string_view text);
// Whether a comes before b where runs of digits count as numbers: 2.tar before 10.tar.
bool by_number(std::string_view a, std::string_view b);
// kBadData unless it is UTF-8.
Status check_utf8(std::string_view text, std::string_view what);

// A column's name as it is compared: lower-case, without spaces, '_', '-' and what tools leave around it.
std::string plain_name(std::string_view name);

// Adds a caption to an item; one of nothing but spaces is left out and counted.
void add_caption(Dataset& dataset, DatasetItem& item, std::string caption);
// A table's field: one caption, or several as a JSON array of strings. kBadData unless it is UTF-8.
Status add_caption_field(Dataset& dataset, DatasetItem& item, std::string_view field);
// A text's lines as captions, those of nothing but spaces passed over.
Status add_caption_lines(std::string_view text, DatasetItem& item);
// Leaves out, and counts, items without captions.
void drop_uncaptioned(Dataset& dataset);

// Rows of an image and a caption, gathered: rows of one id are one item with several captions.
class RowCollector {
 public:
  explicit RowCollector(Dataset& dataset) : dataset_(dataset) {}
  // kBadData for an empty image name, and for an id that had another image or split before.
  Result<DatasetItem*> item(const std::string& id, const std::string& image, const std::string& split = "");

 private:
  Dataset& dataset_;
  std::unordered_map<std::string, size_t> places_;
};

// Image names, as the records have them in ImageRef::path, become paths; those in archives are ones. The
// folder they are relative to is options.images, or the one of `folder`, its `hints` and the usual names
// below it ("images", ...) that has most of the first few; names without an ending get the one that their
// files have there.
Status place_images(Dataset& dataset, const std::filesystem::path& folder, std::span<const std::string> hints,
                    const DatasetOptions& options);

}  // namespace saccade::lab::data
