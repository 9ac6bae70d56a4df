// The command line's: CLI11 takes longer to parse than most of our files to compile.
#pragma once

#include <CLI/CLI.hpp>

#include "base.h"
