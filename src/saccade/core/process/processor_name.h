// Name of this machine's processor, for reports and for what is remembered of measurements.
#pragma once

#include <string>

namespace saccade {

// Returns the processor's name as the kernel has it ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"); empty if it
// says none. Cost: reads /proc/cpuinfo.
std::string processor_name();

}  // namespace saccade
