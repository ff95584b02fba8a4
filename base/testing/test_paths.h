// Where a test program lies, and the sources that it was built from. Looked up as the test runs and not compiled in:
// two checkouts compile the same text, so one compiler cache serves both.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace tfdist {

// The folder of the running executable: everything that tests start lies there.
inline std::filesystem::path TestBinDir() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

// The root of the sources. CMake writes it beside the executables (cmake/targets.cmake).
inline std::filesystem::path TestSourceDir() {
  std::ifstream file(TestBinDir() / ".source_dir");
  std::string folder;
  std::getline(file, folder);
  return folder;
}

}  // namespace tfdist
