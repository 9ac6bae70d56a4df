// What includes libtorch, tests too: seconds once, not once a file.
#pragma once

#include "lab/train/math/torch.h"

#include "base.h"
