// Interface and utilities shared by the layouts' readers. Internal to the module.
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

#include "lab/data/dataset.h"
#include "lab/data/readers/json_records.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade::lab::data {

// A file or folder that may hold a dataset. A file of up to 1 GiB is copied, so that it may be rewritten
// meanwhile. A larger one is mapped, and must not shrink while it is read. Archives (.tar, .parquet) are read
// by their layouts, piece by piece.
struct Candidate {
  std::filesystem::path path;
  bool folder = false;
  bool archive = false;
  std::shared_ptr<const std::string> copy;
  std::shared_ptr<const MappedFile> mapped;
  std::string_view text;               // the whole file; of an archive, its beginning
  std::optional<JsonOutline> outline;  // set if the file begins like JSON
  std::vector<std::string> names;      // a folder's entries, in the order of by_number()

  [[nodiscard]] std::string extension() const;  // lower-case, with its dot
  [[nodiscard]] bool has(std::string_view name) const;
};
Result<Candidate> look_at(const std::filesystem::path& path);

struct Reader {
  std::string_view name;
  bool (*recognizes)(const Candidate& candidate);
  // Fills content, excluded and files; read_dataset does the rest.
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
extern const Reader kRocoCsv;
extern const Reader kFactify;
extern const Reader kTable;
extern const Reader kWebDataset;
extern const Reader kParquet;
extern const Reader kUrban1k;
extern const Reader kFolder;

// Returns the readers in order of precedence; the first that recognizes a candidate reads it.
std::span<const Reader* const> readers();

// Finds the records of a folder that no folder layout fits. They are the file that a file layout recognizes,
// there or in data/ or annotations/, or one of these two folders if it is a layout itself. Returns kBadData
// naming them if there are several; `nullopt` if there are none.
Result<std::optional<Candidate>> find_records(const Candidate& folder);

// Returns true for a URL of http or https.
inline bool is_web_address(std::string_view text) {
  return text.starts_with("http://") || text.starts_with("https://");
}
// Reason of the exclusion of images that are URLs. An error that follows from it names `dataset fetch`.
inline constexpr std::string_view kWebAddresses = "images that are web addresses, not files";

// Adds the images, files and exclusions of a part of a dataset of images with captions.
void add_part(Dataset part, Dataset& dataset);

// Adds a file of records to dataset.files.
void note_file(const Candidate& file, Dataset& dataset);

// Returns the first line of a text, behind a byte order mark.
std::string_view first_line(std::string_view text);
// Calls line(number from 1, text) for the lines of a text, without a byte order mark, without their ends (\n or
// \r\n) and without empty ones.
Status for_each_line(std::string_view text,
                     const std::function<Status(int64_t number, std::string_view line)>& line);

// Returns true if a comes before b with runs of digits as numbers: 2.tar before 10.tar.
bool by_number(std::string_view a, std::string_view b);
// Returns kBadData unless the text is UTF-8.
Status check_utf8(std::string_view text, std::string_view what);

// ROCO's splits, which are its folders.
inline constexpr std::string_view kRocoSplits[] = {"train", "validation", "test"};
// Returns the name of a folder if it is a split of ROCO, else an empty one.
std::string roco_split(const std::filesystem::path& folder);

// Normalizes a column's name for comparison: lower-case, without spaces, '_', '-' and characters that tools
// add around it.
std::string plain_name(std::string_view name);

// Sets the group of an item of several rows; an empty one changes nothing. Returns kBadData for another one than
// before.
Status set_group(DatasetItem& item, std::string group);
// Adds a caption to an item; a blank one is left out and counted.
void add_caption(Dataset& dataset, DatasetItem& item, std::string caption);
// Adds a table's field: one caption, or several as a JSON array of strings. Returns kBadData unless it is
// UTF-8.
Status add_caption_field(Dataset& dataset, DatasetItem& item, std::string_view field);
// Adds a text's lines as captions, skipping blank ones.
Status add_caption_lines(std::string_view text, DatasetItem& item);
// Removes, and counts, items without captions.
void drop_uncaptioned(Dataset& dataset);

// Collects rows of an image and a caption. Rows with one id are one item with several captions.
class RowCollector {
 public:
  explicit RowCollector(Dataset& dataset) : items_(dataset.as<CaptionedImages>().items) {}
  // Returns the item of a row. Returns kBadData for an empty image name, and for an id that had another image
  // or split before.
  Result<DatasetItem*> item(const std::string& id, const std::string& image, const std::string& split = "");

 private:
  std::vector<DatasetItem>& items_;
  std::unordered_map<std::string, size_t> places_;
};

// Converts image names, which the records put into ImageRef::path, to paths; those in archives are paths
// already. They are relative to options.images, if it is set. Otherwise the folder is the one that has most
// of the first few: among `folder`, its `hints` and the usual names below each ("images", ...). Names without
// an extension get the one that their files have there.
Status place_images(Dataset& dataset, const std::filesystem::path& folder, std::span<const std::string> hints,
                    const DatasetOptions& options);

}  // namespace saccade::lab::data
