#include "agent/tasks/elf_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <limits.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

namespace tfdist::agent {
namespace {

using Identity = std::array<unsigned char, EI_NIDENT>;

struct ElfMachine {
  int number;
  std::string_view name;  // as uname(1) has it
};
constexpr ElfMachine kMachines[] = {
    {EM_386, "i386"},    {EM_X86_64, "x86_64"}, {EM_ARM, "arm"},     {EM_AARCH64, "aarch64"},
    {EM_PPC64, "ppc64"}, {EM_S390, "s390x"},    {EM_RISCV, "riscv"}, {EM_MIPS, "mips"},
};

#if defined(__x86_64__)
constexpr int kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kOwnMachine = EM_AARCH64;
#else
constexpr int kOwnMachine = EM_NONE;  // the kernel is asked of every program
#endif

template <typename T>
bool ReadAt(std::ifstream& file, uint64_t offset, T& value) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&value), sizeof value);
  return file.gcount() == static_cast<std::streamsize>(sizeof value);
}

// In all files it lies in the same place.
int MachineOf(std::ifstream& file, const Identity& identity) {
  std::array<unsigned char, 2> bytes{};
  if (!ReadAt(file, offsetof(Elf64_Ehdr, e_machine), bytes)) return EM_NONE;
  if (identity[EI_DATA] == ELFDATA2MSB) std::swap(bytes[0], bytes[1]);
  return bytes[0] | bytes[1] << 8;
}

std::string ReadText(std::ifstream& file, uint64_t offset, uint64_t size) {
  std::string text(std::min<uint64_t>(size, PATH_MAX), '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text.c_str();
}

template <typename Header, typename Segment>
void ReadSegments(std::ifstream& file, ElfFacts& facts) {
  Header header{};
  if (!ReadAt(file, 0, header) || header.e_phentsize != sizeof(Segment)) return;
  for (size_t at = 0; at < header.e_phnum; ++at) {
    Segment segment{};
    if (!ReadAt(file, header.e_phoff + at * sizeof segment, segment)) return;
    if (segment.p_type != PT_INTERP) continue;
    facts.loader = ReadText(file, segment.p_offset, segment.p_filesz);
  }
  facts.has_segments = header.e_phnum > 0;
}

}  // namespace

std::optional<ElfFacts> ReadElf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  Identity identity{};
  if (!ReadAt(file, 0, identity) || std::memcmp(identity.data(), ELFMAG, SELFMAG) != 0)
    return std::nullopt;
  ElfFacts facts;
  const int machine = MachineOf(file, identity);
  const auto* const known = std::ranges::find(kMachines, machine, &ElfMachine::number);
  facts.machine =
      known != std::end(kMachines) ? std::string(known->name) : fmt::format("machine {}", machine);
  facts.is_for_here = machine == kOwnMachine && identity[EI_CLASS] == ELFCLASS64;
  if (identity[EI_DATA] != ELFDATA2LSB) return facts;
  if (identity[EI_CLASS] == ELFCLASS64) ReadSegments<Elf64_Ehdr, Elf64_Phdr>(file, facts);
  if (identity[EI_CLASS] == ELFCLASS32) ReadSegments<Elf32_Ehdr, Elf32_Phdr>(file, facts);
  return facts;
}

}  // namespace tfdist::agent
