// A file of ignore patterns: what no line brings back or leaves out is not decided, and one more pattern at the end that
// names a path exactly decides for it.
#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/deploy/ignore_file.h"

namespace tfdist::cli {
namespace {

void Run(std::string_view text) {
  const IgnoreFile file(text);
  for (const char* path : {"data", "data/raw", "a/b/c.ckpt", ".venv"}) {
    for (const bool is_folder : {false, true}) {
      const auto ignored = file.Ignores(path, is_folder);
      if (ignored == false) assert(file.brings_back());
      const std::string last = "/" + std::string(path) + "\n";
      assert(IgnoreFile(std::string(text) + "\n" + last).Ignores(path, is_folder) == true);
      assert(IgnoreFile(std::string(text) + "\n!" + last).Ignores(path, is_folder) == false);
    }
  }
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::cli::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
