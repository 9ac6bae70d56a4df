// What LeakSanitizer is not to report: memory that libraries below the image decoders keep or lose when a
// file is broken, and that no code of ours can give back. Compiled into the programs of the asan build only.
// Exported: the runtime, a shared library, looks it up by name.
extern "C" [[gnu::visibility("default")]] const char*
__lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)

extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:libxml2.so\n"                            // entity values of a malformed SVG
         "leak:libfontconfig.so\n"                      // its configuration, read once for texts in an SVG
         "leak:libx265.so\n";                           // the encoder's tables, made once
}
