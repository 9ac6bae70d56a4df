// Shared library loaded at its first use, not at program start. libvips alone brings a hundred libraries,
// which a text search does not need (docs/adr/0011-libraries-loaded-late.md).
//
// The module that uses the library lists its functions once, as a macro over `use`:
//
//   #define SACCADE_VIPS_FUNCTIONS(use) use(vips_copy) use(vips_version)
//   namespace saccade { SACCADE_VIPS_FUNCTIONS(SACCADE_LATE_DECLARE) }   // in a header
//   namespace saccade { SACCADE_VIPS_FUNCTIONS(SACCADE_LATE_DEFINE) }    // in one source file
//
// Within that namespace, the functions' names are pointers, null until LateLibrary::bind() has set them.
// Calls look the same as before; a function that is not listed does not link.
#pragma once

#include <string>

#define SACCADE_LATE_DECLARE(name) extern decltype(&::name) name;
#define SACCADE_LATE_DEFINE(name) decltype(&::name) name = nullptr;

namespace saccade {

class LateLibrary {
 public:
  // Loads the library. file: name for the loader, "libvips.so.42". A library of that name that was installed together with
  // Saccade (bundled_libraries) is preferred to the system's. It stays loaded until the process ends.
  explicit LateLibrary(const char* file);

  // Sets `function` to the library's function of that name. Not thread-safe: bind under a std::call_once.
  template <typename Function>
  void bind(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(address_of(name));
  }
  // Error message of the loader if the library or a bound function is missing; empty on success.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  [[nodiscard]] void* address_of(const char* name);

  void* handle_ = nullptr;
  std::string failure_;
};

}  // namespace saccade
