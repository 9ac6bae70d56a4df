#include "saccade/core/process/late_library.h"

#include <dlfcn.h>

#include "saccade/core/files/installed.h"

namespace saccade {

LateLibrary::LateLibrary(const char* file) {
  const auto bundled = bundled_libraries(file);
  handle_ = ::dlopen(bundled ? (*bundled / file).c_str() : file, RTLD_LAZY | RTLD_LOCAL);
  if (handle_ == nullptr) failure_ = ::dlerror();
}

void* LateLibrary::address_of(const char* name) {
  if (handle_ == nullptr) return nullptr;
  void* const address = ::dlsym(handle_, name);
  if (address == nullptr && failure_.empty()) failure_ = ::dlerror();
  return address;
}

}  // namespace saccade
