// main() of a fuzz target that is not linked with libFuzzer: gives it the inputs of a corpus, then
// changed ones, the same at every run.
//
//   x_fuzz STATE COUNT PATH...   COUNT: of changed inputs; PATH: an input, or a folder of them
//
// The input under way lies in the file STATE: when the target crashes, it is found there.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tfdist {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxChanges = 4;
constexpr size_t kMaxBytes = 4096;
constexpr size_t kMaxPieceBytes = 32;

using Random = std::mt19937;

// In an order of their own: a folder has none.
std::vector<fs::path> FilesIn(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// One that is missing is no empty input: a target whose corpus has moved would pass for ever.
std::string ReadInput(const fs::path& file) {
  if (auto input = ReadFileIfExists(file, SIZE_MAX)) return std::move(*input);
  throw Error(Phase::kFiles, fmt::format("{} is missing", file.string()));
}

std::vector<std::string> ReadCorpus(const std::vector<fs::path>& paths) {
  std::vector<std::string> corpus;
  for (const fs::path& path : paths) {
    for (const fs::path& file : FilesIn(path)) corpus.push_back(ReadInput(file));
  }
  if (corpus.empty()) throw Error(Phase::kFiles, "there are no inputs");
  return corpus;
}

size_t Below(size_t end, Random& random) { return end == 0 ? 0 : random() % end; }

std::string PieceOf(const std::string& text, Random& random) {
  const size_t at = Below(text.size(), random);
  return text.substr(at, 1 + Below(kMaxPieceBytes, random));
}

// At which sizes and counts go wrong.
std::string NumberOf(Random& random) {
  constexpr uint64_t kNumbers[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, UINT64_MAX};
  const uint64_t number = kNumbers[Below(std::size(kNumbers), random)];
  return {reinterpret_cast<const char*>(&number), size_t{1} << Below(4, random)};
}

void Change(std::string& input, const std::string& other, Random& random) {
  const size_t at = Below(input.size(), random);
  switch (random() % 6) {
    case 0:
      if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << random() % 8));
      break;
    case 1:
      if (!input.empty()) input[at] = static_cast<char>(random());
      break;
    case 2: {
      const std::string number = NumberOf(random);
      input.replace(at, number.size(), number);
      break;
    }
    case 3:
      input.erase(at, 1 + Below(kMaxPieceBytes, random));
      break;
    case 4:
      input.insert(at, PieceOf(other, random));
      break;
    default:
      input.replace(at, std::string::npos, other, Below(other.size(), random));
  }
}

std::string Changed(const std::vector<std::string>& corpus, Random& random) {
  std::string input = corpus[Below(corpus.size(), random)];
  for (size_t left = 1 + Below(kMaxChanges, random); left > 0; --left) {
    Change(input, corpus[Below(corpus.size(), random)], random);
  }
  input.resize(std::min(input.size(), kMaxBytes));
  return input;
}

void Try(const std::string& input, const UniqueFd& state) {
  if (ftruncate(state.get(), 0) != 0 || lseek(state.get(), 0, SEEK_SET) != 0) {
    throw Error(Phase::kFiles, "cannot write down the input under way");
  }
  WriteAll(state.get(), input, "the input under way");
  // A copy of just that size, so that the address sanitizer sees what is read past its end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

void Replay(const fs::path& state_path, size_t changed, const std::vector<fs::path>& paths) {
  const UniqueFd state = OpenFile(state_path, O_WRONLY | O_CREAT);
  const std::vector<std::string> corpus = ReadCorpus(paths);
  for (const std::string& input : corpus) Try(input, state);
  Random random(1);
  for (size_t i = 0; i < changed; ++i) Try(Changed(corpus, random), state);
  fs::remove(state_path);
  fmt::print("{} inputs, {} changed ones\n", corpus.size(), changed);
}

}  // namespace
}  // namespace tfdist

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: {} STATE COUNT PATH...\n", argv[0]);
    return 2;
  }
  try {
    tfdist::Replay(argv[1], std::stoul(argv[2]), {argv + 3, argv + argc});
    return 0;
  } catch (const tfdist::Error& error) {
    fmt::print(stderr, "{}\n", error.cause());
    return 1;
  }
}
