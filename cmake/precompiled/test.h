// The tests'.
#pragma once

#include "base.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
