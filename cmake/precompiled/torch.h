// What includes libtorch, tests too: seconds once, not once a file.
#pragma once

#include "saccade/train/torch.h"

#include "base.h"
