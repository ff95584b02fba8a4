// A host's list of TensorBoard's event files: no path in it leads out of the folder that they are copied to.
#include <cassert>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "cli/tensorboard/event_files.h"

namespace tfdist::cli {
namespace {

void Run(std::string_view output) {
  for (const EventFile& file : ParseEventFiles(output)) {
    const std::filesystem::path path(file.path);
    assert(!path.empty() && path.is_relative());
    for (const auto& name : path) assert(name != "..");
  }
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::cli::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
