// What a host says of the files that `pull` asks for. No path in its list leads out of the folder that
// we write to, and what it sends means the same however the bytes are cut, and is of no other file.
//
// Input: 0 and a list, or the length of the pieces and what is sent.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/pull/remote_files.h"

namespace tfdist::cli {
namespace {

constexpr size_t kFiles = 3;
constexpr uint64_t kMostBytes = 1000;

void TryList(std::string_view records) {
  try {
    for (const RemoteFile& file : ParseRemoteFiles(records).files) {
      const std::filesystem::path path(file.path);
      assert(path.is_relative() && path == path.lexically_normal() && path.has_filename());
      assert(*path.begin() != "..");
    }
  } catch (const Error&) {
  }
}

std::string Taken(std::string_view stream, size_t cut) {
  std::string all;
  size_t last = 0;
  SentFiles sent(
      std::vector<uint64_t>(kFiles, kMostBytes),
      [&](size_t at, std::string_view bytes) {
        assert(at >= last && at < kFiles);
        last = at;
        all += bytes;
      },
      [&](size_t at, FileEnd end) {
        assert(at >= last && at < kFiles);
        all += end == FileEnd::kWhole ? "<whole>" : "<part>";
      });
  sent.SetOnHole([&](size_t at, uint64_t bytes) {
    assert(at >= last && at < kFiles && bytes <= kMostBytes);
    last = at;
    all += "<" + std::to_string(bytes) + " zeros>";
  });
  try {
    for (size_t at = 0; at < stream.size(); at += cut) sent.Take(stream.substr(at, cut));
  } catch (const Error& error) {
    all += "<refused>";
  }
  return all;
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tfdist::cli;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] == 0) {
    TryList(rest);
  } else {
    assert(Taken(rest, data[0]) == Taken(rest, std::max<size_t>(1, rest.size())));
  }
  return 0;
}
