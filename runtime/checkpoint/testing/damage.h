// Damages a file in every possible way of a kind, one after the other.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>

namespace tfdist::runtime::testing {

// Calls `use` with each bit of the file turned over; afterwards the file is as it was.
template <typename Use>
void ForEachChangedBit(const std::filesystem::path& path, Use use) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const size_t bits = std::filesystem::file_size(path) * 8;
  for (size_t bit = 0; bit < bits && !::testing::Test::HasFailure(); ++bit) {
    const auto place = static_cast<std::streamoff>(bit / 8);
    const int byte = file.seekg(place).get();
    file.seekp(place).put(static_cast<char>(byte ^ (1 << (bit % 8)))).flush();
    use(bit);
    file.seekp(place).put(static_cast<char>(byte)).flush();
  }
}

// Calls `use` with ever fewer bytes of the file.
template <typename Use>
void ForEachLostEnd(const std::filesystem::path& path, Use use) {
  for (size_t bytes = std::filesystem::file_size(path); bytes > 0;) {
    std::filesystem::resize_file(path, --bytes);
    use(bytes);
  }
}

}  // namespace tfdist::runtime::testing
