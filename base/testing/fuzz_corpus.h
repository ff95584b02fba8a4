// The first inputs of fuzz targets are committed, and are what our own code writes: after a change
// of a format the test says so, and `TFDIST_UPDATE_CORPUS=1 bin/x_corpus_test` writes them anew.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace tfdist {

// By name of the file.
using FuzzInputs = std::map<std::string, std::string>;

inline void ExpectCorpus(const std::filesystem::path& folder, const FuzzInputs& inputs) {
  const bool update = std::getenv("TFDIST_UPDATE_CORPUS") != nullptr;  // NOLINT: one thread
  for (const auto& [name, bytes] : inputs) {
    const std::filesystem::path path = folder / name;
    if (update) {
      std::filesystem::create_directories(folder);
      std::ofstream(path, std::ios::binary) << bytes;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string content(std::istreambuf_iterator<char>(file), {});
    EXPECT_TRUE(file && content == bytes)
        << path << ": set TFDIST_UPDATE_CORPUS=1 to write it anew";
  }
}

}  // namespace tfdist
