// A data set in IDX, plain or gzip: it is refused, or has as many bytes as its header says.
#include <cassert>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"
#include "runtime/data/idx.h"

namespace tfdist::runtime {
namespace {

void Run(std::string_view bytes) {
  static const TemporaryFolder folder;
  const auto path = folder.path() / "idx";
  ReplaceFile(path, bytes, 0600);
  try {
    const IdxImages images = ReadIdxImages(path);
    assert(images.bytes.size() == images.count * images.pixels());
  } catch (const Error&) {
  }
  try {
    (void)ReadIdxLabels(path);
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace tfdist::runtime

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::runtime::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
