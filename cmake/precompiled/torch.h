// What includes libtorch, tests too: seconds once, not once a file.
#pragma once

#include "base.h"

#include "saccade/nn/torch.h"
