// The parts of the extension module, and the classes they share.
#pragma once

#include <memory>
#include <nanobind/nanobind.h>
#include <string>

#include "saccade/calibration.h"
#include "saccade/encoder.h"
#include "saccade/late_interaction.h"

#include "per_process.h"

namespace saccade::python {

namespace nb = nanobind;

// An image as saccade/_images.py makes it of what people pass.
struct PyImage {
  ImageInput input;
};

using SharedEncoder = PerProcess<Encoder>;
struct PyEncoder {
  std::shared_ptr<SharedEncoder> shared;
};

struct PyCalibration {
  Calibration calibration;
};

void bind_calibration(nb::module_& module);
void bind_images(nb::module_& module);
void bind_encoder(nb::module_& module);
void bind_engine(nb::module_& module);
void bind_search(nb::module_& module);
void bind_metrics(nb::module_& module);

}  // namespace saccade::python
