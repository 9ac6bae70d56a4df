#include "conversions.h"

#include <array>

#include "call.h"

namespace saccade::python {
namespace {

constexpr std::array<std::pair<Precision, std::string_view>, 4> kPrecisions = {{{Precision::kFp32, "fp32"},
                                                                                {Precision::kBf16, "bf16"},
                                                                                {Precision::kInt8, "int8"},
                                                                                {Precision::kAuto, "auto"}}};

nb::str decoded(std::string_view bytes, const char* errors) {
  PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), errors);
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

}  // namespace

nb::str text_of_path(const std::string& bytes) {
  return decoded(bytes, "surrogateescape");
}

nb::str text_of(std::string_view bytes) {
  return decoded(bytes, "replace");
}

std::string_view precision_name(Precision precision) {
  for (const auto& [value, name] : kPrecisions) {
    if (value == precision) return name;
  }
  return "unknown";
}

Precision precision_of(const std::string& name) {
  for (const auto& [value, known] : kPrecisions) {
    if (known == name) return value;
  }
  throw Failed({ErrorCode::kUsage, "precision is \"" + name + "\", expected fp32, bf16, int8 or auto"});
}

nb::tuple error_of(const Error& error) {
  return nb::make_tuple(text_of(error_name(error.code)), text_of(error.message));
}

nb::object tokens_of(const std::optional<TokenUse>& use) {
  if (!use) return nb::none();
  return nb::make_tuple(use->used, use->dropped);
}

}  // namespace saccade::python
