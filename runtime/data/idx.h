// IDX, the file format of MNIST (yann.lecun.com/exdb/mnist): plain or gzip, told apart by content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace tfdist::runtime {

struct IdxImages {
  size_t count = 0;
  size_t rows = 0;  // of one image
  size_t columns = 0;
  std::vector<uint8_t> bytes;  // image after image, each row after row

  [[nodiscard]] size_t pixels() const { return rows * columns; }  // of one image
};

// Magic 0x803 and 0x801, big-endian. Throw Error(kFiles) that names the file and what is wrong:
// missing, another magic, shorter or longer than its own header says, damaged gzip, more than 4
// GiB.
IdxImages ReadIdxImages(const std::filesystem::path& path);
std::vector<uint8_t> ReadIdxLabels(const std::filesystem::path& path);

}  // namespace tfdist::runtime
