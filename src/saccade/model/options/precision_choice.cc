#include "saccade/model/options/precision_choice.h"

#include <algorithm>
#include <memory>

#include "saccade/model/options/precision_names.h"
#include "saccade/nn/exceptions.h"
#include "saccade/nn/linear/product_speed.h"

namespace saccade {
namespace {

DType dtype_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kAuto:  // not settled yet
      return DType::kF32;
    case Precision::kBf16:
      return DType::kBF16;
    case Precision::kInt8:
      return DType::kI8;
  }
  return DType::kF32;
}

}  // namespace

Result<PrecisionChoice> choose_precision(const std::filesystem::path& checkpoint,
                                         const BackendOptions& options) {
  PrecisionChoice choice;
  SACCADE_TRY(nn::without_exceptions("measure products", [&]() -> Status {
    nn::Workspace workspace(options.threads);
    for (const EnumName<Precision>& entry : kPrecisionNames) {
      const double operations = nn::product_speed(dtype_of(entry.value), workspace);
      if (operations > 0) choice.speeds.push_back({entry.value, operations});
    }
    return {};
  }));
  std::ranges::stable_sort(choice.speeds, std::ranges::greater(), &PrecisionSpeed::operations);
  BackendOptions asked = options;
  std::unique_ptr<EncoderBackend> reference;
  for (const PrecisionSpeed& speed : choice.speeds) {
    choice.taken = speed.precision;
    if (speed.precision == Precision::kFp32) break;
    if (!reference) {
      asked.precision = Precision::kFp32;
      SACCADE_ASSIGN(reference, load_encoder(checkpoint, asked));
    }
    asked.precision = speed.precision;
    SACCADE_ASSIGN(const std::unique_ptr<EncoderBackend> encoder, load_encoder(checkpoint, asked));
    SACCADE_ASSIGN(const PrecisionReceipt receipt, bundled_receipt(*encoder, *reference));
    choice.receipts.push_back(receipt);
    if (keeps_rows(receipt)) break;
  }
  return choice;
}

std::string precision_choice_text(const PrecisionChoice& choice) {
  std::string text = fmt::format("precision {}: products here, GFLOP/s:", enum_name(choice.taken));
  for (const PrecisionSpeed& speed : choice.speeds) {
    text += fmt::format("{} {} {:.0f}", speed.precision == choice.speeds.front().precision ? "" : ",",
                        enum_name(speed.precision), speed.operations / 1e9);
  }
  for (const PrecisionReceipt& receipt : choice.receipts) {
    text += fmt::format("; {}{}, cosines to fp32's rows:", enum_name(receipt.precision),
                        keeps_rows(receipt) ? "" : " loses too much");
    if (receipt.pictures) text += fmt::format(" {}", agreement_text(*receipt.pictures, "picture"));
    if (receipt.texts) {
      text += fmt::format("{} {}", receipt.pictures ? "," : "", agreement_text(*receipt.texts, "text"));
    }
    if (const std::string wide = wide_layers_text(receipt.wide_layers); !wide.empty()) text += "; " + wide;
  }
  return text;
}

}  // namespace saccade
