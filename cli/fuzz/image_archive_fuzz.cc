// A file that the user names as the archive of an image: what is found in it lies in it.
#include <sys/mman.h>

#include <cassert>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "cli/image/image_archive.h"

namespace tfdist::cli {
namespace {

void Run(std::string_view bytes) {
  const UniqueFd fd(memfd_create("archive", MFD_CLOEXEC));
  WriteAll(fd.get(), bytes, "archive");
  try {
    const ArchivedImage image = ReadImageArchive(fd.get(), "archive", "");
    assert(image.layers.size() == image.layer_ids.size());
    for (const ImageBlob& layer : image.layers) {
      assert(image.is_compressed || layer.offset + layer.size_bytes <= bytes.size());
    }
  } catch (const Error&) {
    return;
  }
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::cli::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
