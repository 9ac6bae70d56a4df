#include "conversions.h"

#include "call.h"

namespace saccade::python {
namespace {

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

nb::tuple error_of(const Error& error) {
  return nb::make_tuple(text_of(name(error.code)), text_of(error.message));
}

nb::object tokens_of(const std::optional<TokenUse>& use) {
  if (!use) return nb::none();
  return nb::make_tuple(use->used, use->dropped);
}

}  // namespace saccade::python
