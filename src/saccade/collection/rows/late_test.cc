// Collections of an encoder of many rows an item: what is
// kept of them, and that nothing broken is taken for it.
#include <cstring>

#include <gmock/gmock.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/picture.h"
#include "saccade/collection/rows/late_file.h"
#include "saccade/collection/rows/late_item.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

class LateCollection : public testing::Test {
 protected:
  Result<IngestReport> run(const IngestSettings& settings = test::late_settings_of(),
                           const IngestOptions& options = {}) {
    SACCADE_ASSIGN(CollectionWriter writer,
                   CollectionWriter::open_or_create(folder_, test::fake_checkpoint(), settings));
    ThreadPool pool(2);
    return ingest(writer, encoder_, std::vector<fs::path>{pictures_}, options, pool);
  }
  void add_pictures(int count) {
    for (int i = 0; i < count; ++i) {
      test::write_text(pictures_ / fmt::format("{:02}.png", i), test::png(i + 1));
    }
  }
  CollectionReader open() { return CollectionReader::open(folder_).value(); }
  std::string open_error() {
    const auto opened = CollectionReader::open(folder_);
    return opened ? "" : opened.error().message;
  }
  void write_bytes(const std::string& name, std::string bytes) { test::write_text(folder_ / name, bytes); }
  std::string bytes_of(const std::string& name) { return read_file(folder_ / name).value(); }

  test::TestFolder temporary_;
  fs::path pictures_ = temporary_.path() / "pictures";
  fs::path folder_ = temporary_.path() / "collection";
  test::FakeLateEncoder encoder_;
};

TEST_F(LateCollection, KeepsEveryRowAndTheirMean) {
  add_pictures(3);
  test::write_text(pictures_ / "copy.png", test::png(2));  // the bytes of 01.png
  ASSERT_OK(run());
  EXPECT_EQ(test::faults(folder_, true), "");
  const CollectionReader collection = open();
  ASSERT_TRUE(collection.has_late_rows());
  EXPECT_EQ(collection.info().format_version, 2);
  EXPECT_EQ(collection.info().settings.late->grid.columns, 2);
  EXPECT_EQ(collection.summary()->late_rows, 4 * 6);
  EXPECT_EQ(collection.summary()->late_bytes, 4 * 6 * 16 + 4 * 8);
  EXPECT_EQ(encoder_.images, 3);  // the copy was not encoded, and no picture twice

  const DecodeOptions decode = picture_decode_options({}, encoder_.preprocessing());
  for (const Item& item : test::all_items(collection)) {
    Matrix<float> pixels(1, 3 * 16 * 16);
    const auto decoded = decode_image_file(item.path, decode);
    ASSERT_OK(decoded);
    ASSERT_OK(preprocess_picture(decoded->image, encoder_.preprocessing(), {}, pixels.row(0)));
    const auto rows = encoder_.encode_image_rows(pixels.view());
    const Matrix<float> kept = restore_rows(collection.late_rows(item.row));
    ASSERT_EQ(kept.rows(), 6);
    double square = 0;
    std::vector<double> mean(8);
    for (int64_t c = 0; c < 8; ++c) {
      for (int64_t r = 0; r < 6; ++r) {
        EXPECT_NEAR(kept(r, c), rows->rows(r, c), 5e-4);
        mean[static_cast<size_t>(c)] += double{rows->rows(r, c)} / 6;
      }
      square += mean[static_cast<size_t>(c)] * mean[static_cast<size_t>(c)];
    }
    for (int64_t c = 0; c < 8; ++c) {
      EXPECT_NEAR(collection.rows()(item.row, c), mean[static_cast<size_t>(c)] / std::sqrt(square), 1e-6);
    }
  }
}

TEST_F(LateCollection, PrecisionAndPoolingAreSettledWhenItIsMade) {
  add_pictures(2);
  ASSERT_OK(run(test::late_settings_of(RowPrecision::kInt8, 4)));
  EXPECT_EQ(test::faults(folder_), "");
  {
    const CollectionReader collection = open();
    EXPECT_EQ(collection.late_rows(0).count, 1 + 2);
    EXPECT_EQ(collection.late_rows(0).layout.precision, RowPrecision::kInt8);
    EXPECT_EQ(collection.info().settings.late->pool, 4);
    EXPECT_EQ(collection.summary()->late_bytes, 2 * 3 * 12 + 2 * 8);
  }
  // Settings passed to a later run do not change the collection.
  add_pictures(3);
  ASSERT_OK(run(test::late_settings_of(RowPrecision::kFp16, 1)));
  EXPECT_EQ(open().late_rows(2).count, 3);
}

TEST_F(LateCollection, RemovalAndCompactionKeepTheOthersRows) {
  add_pictures(5);
  ASSERT_OK(run());
  std::map<std::string, std::vector<float>> before;
  {
    const CollectionReader collection = open();
    for (const Item& item : test::all_items(collection)) {
      const Matrix<float> rows = restore_rows(collection.late_rows(item.row));
      before[item.path] = {rows.values().begin(), rows.values().end()};
    }
  }
  {
    auto writer = CollectionWriter::open(folder_).value();
    ASSERT_EQ(writer.remove_path(pictures_ / "00.png").value(), 1);
    ASSERT_EQ(writer.remove_path(pictures_ / "03.png").value(), 1);
    ASSERT_EQ(writer.compact().value(), 2);
    // And it goes on from there.
    auto put = test::late_put_of("/later", 7);
    CollectionChange change;
    change.puts.push_back(std::move(put));
    ASSERT_OK(writer.commit(change));
  }
  EXPECT_EQ(test::faults(folder_), "");
  const CollectionReader collection = open();
  EXPECT_EQ(collection.summary()->late_rows, 3 * 6 + 2);
  EXPECT_FALSE(fs::exists(folder_ / "late-1.rows"));
  for (const Item& item : test::all_items(collection)) {
    if (item.path == "/later") continue;
    EXPECT_THAT(restore_rows(collection.late_rows(item.row)).values(),
                testing::ElementsAreArray(before.at(item.path)));
  }
}

TEST_F(LateCollection, ManyTransactionsInARun) {
  add_pictures(6);
  IngestOptions options;
  options.batch = 2;
  options.items_per_transaction = 2;
  ASSERT_OK(run(test::late_settings_of(), options));
  EXPECT_EQ(test::faults(folder_), "");
  EXPECT_EQ(open().summary()->late_rows, 36);
}

TEST_F(LateCollection, RowsThatAreNoRowsFailThePictureAlone) {
  add_pictures(3);
  encoder_.nan_at_image = 3;
  const auto report = run();
  ASSERT_OK(report);
  EXPECT_EQ(report->added, 2);
  ASSERT_EQ(report->failed.size(), 1U);
  EXPECT_THAT(report->failed[0].reason, HasSubstr("the encoder gave row 5: a row of length nan"));
  EXPECT_EQ(test::faults(folder_), "");
}

TEST_F(LateCollection, RefusesWhatDoesNotBelong) {
  add_pictures(1);
  encoder_.rows_ = 3;
  EXPECT_THAT(run().error().message, HasSubstr("2 x 2 patches, the encoder's 3 x 2"));
  encoder_.rows_ = 2;
  test::FakeEncoder single;
  EXPECT_EQ(late_settings(single, RowPrecision::kInt8, 1).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(late_settings(encoder_, RowPrecision::kInt8, 65).error().message,
            "65 patches a row, expected 1 to 64");
  encoder_.rows_ = 0;
  EXPECT_EQ(late_settings(encoder_, RowPrecision::kInt8, 2).error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(late_settings(encoder_, RowPrecision::kInt8, 1).has_value());

  auto writer = CollectionWriter::open(folder_).value();
  CollectionChange change;
  change.puts = {test::put_of("/a", 1)};
  EXPECT_THAT(writer.commit(change).error().message, HasSubstr("0 bytes of late rows, expected rows of 16"));
  change.puts = {test::late_put_of("/a", 1)};
  change.puts[0].late.pop_back();
  EXPECT_THAT(writer.commit(change).error().message, HasSubstr("31 bytes of late rows, expected rows of 16"));
  auto plain = CollectionWriter::create(temporary_.path() / "plain", test::fake_checkpoint()).value();
  change.puts = {test::late_put_of("/a", 1)};
  EXPECT_THAT(plain.commit(change).error().message, HasSubstr("a collection that keeps none"));
  EXPECT_EQ(plain.info().format_version, 1);
}

TEST_F(LateCollection, DamagedFilesAreFoundAtEveryLength) {
  add_pictures(3);
  ASSERT_OK(run());
  const std::string rows = bytes_of("late-1.rows");
  const std::string ends = bytes_of("late-1.ends");
  ASSERT_EQ(rows.size(), 3U * 6 * 16);
  ASSERT_EQ(ends.size(), 24U);
  for (size_t size = 0; size < rows.size(); size += 7) {
    write_bytes("late-1.rows", rows.substr(0, size));
    EXPECT_THAT(open_error(), HasSubstr(fmt::format("late-1.rows: {} bytes, but the catalog's 18", size)));
    EXPECT_THAT(test::faults(folder_), HasSubstr("late-1.rows"));
    EXPECT_FALSE(CollectionWriter::open(folder_).has_value());
  }
  write_bytes("late-1.rows", rows);
  for (size_t size = 0; size < ends.size(); ++size) {
    write_bytes("late-1.ends", ends.substr(0, size));
    EXPECT_THAT(open_error(), HasSubstr(fmt::format("late-1.ends: {} bytes, but the catalog's 3", size)));
  }
  for (const int64_t end : {int64_t{0}, int64_t{-1}, int64_t{6}, std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min(), int64_t{1} << 60}) {
    std::string broken = ends;
    std::memcpy(broken.data() + 8, &end, sizeof(end));
    write_bytes("late-1.ends", broken);
    EXPECT_NE(open_error(), "") << end;
    broken = ends;
    std::memcpy(broken.data() + 16, &end, sizeof(end));
    write_bytes("late-1.ends", broken);
    EXPECT_NE(open_error(), "") << end;
  }
  write_bytes("late-1.ends", ends);
  std::string nan = rows;
  nan[17] = nan[16] = '\x7f';
  write_bytes("late-1.rows", nan);
  EXPECT_EQ(open_error(), "");
  EXPECT_THAT(test::faults(folder_), HasSubstr("item 1: late row 1: a row of length nan"));
  fs::remove(folder_ / "late-1.rows");
  EXPECT_NE(open_error(), "");
}

TEST_F(LateCollection, SettingsThatMakeNoSenseAreRefused) {
  add_pictures(1);
  ASSERT_OK(run());
  const std::string text = bytes_of("collection.json");
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    write_bytes("collection.json", changed);
    return open_error();
  };
  EXPECT_EQ(with("\"pool\": 1", "\"pool\": 1"), "");
  EXPECT_THAT(with("\"pool\": 1", "\"pool\": 0"), HasSubstr("\"pool\" is 0, expected 1 to 64"));
  EXPECT_THAT(with("\"precision\": \"fp16\"", "\"precision\": \"fp8\""),
              HasSubstr("expected one of fp16, int8"));
  EXPECT_THAT(with("grid_mean", "clusters"), HasSubstr("\"pooling\" is \"clusters\", this program knows"));
  EXPECT_THAT(with("\"grid_rows\": 2", "\"grid_rows\": -2"), HasSubstr("a grid -2 patches long"));
  EXPECT_THAT(with("\"grid_columns\": 2", "\"grid_columns\": \"2\""), HasSubstr("grid_columns"));
}

}  // namespace
}  // namespace saccade
