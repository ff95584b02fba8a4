// What the header of a program says, elf(5), before the kernel is asked to execute it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tfdist::agent {

struct ElfFacts {
  std::string machine;        // "aarch64"
  bool is_for_here = false;   // of the machine that this process is a program of
  bool has_segments = false;  // its table of them is there; else it is broken
  std::string loader;         // that it asks for; empty: none
};

// nullopt: it is no ELF file, or cannot be read.
std::optional<ElfFacts> ReadElf(const std::filesystem::path& file);

}  // namespace tfdist::agent
