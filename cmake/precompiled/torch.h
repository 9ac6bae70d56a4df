// What includes libtorch, tests too: seconds once, not once a file.
#pragma once

#include "saccade/nn/torch.h"

#include "base.h"
