// The extension module saccade._core: the public API of libsaccade, as the Python files beside it use it.
//
// Everything here is private. saccade/*.py have the names, types and descriptions that people see.
#include <nanobind/nanobind.h>

#include "saccade/version.h"

#include "bindings.h"
#include "call.h"
#include "conversions.h"

namespace saccade::python {
namespace {

// Raises the exception of the error's kind.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Failed& failed) {
    const nb::object raised =
        nb::module_::import_("saccade._errors").attr("error_of")(error_of(failed.error()));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())), raised.ptr());
  }
}

}  // namespace

NB_MODULE(_core, module) {
  nb::register_exception_translator(&translate);
  module.attr("version") = text_of(version());
  bind_calibration(module);
  bind_images(module);
  bind_encoder(module);
  bind_engine(module);
  bind_search(module);
  bind_metrics(module);
}

}  // namespace saccade::python
