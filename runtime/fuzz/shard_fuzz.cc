// A shard of a checkpoint whose manifest vouches for it: whatever its header says, it is read or
// refused with an error of ours. Where a set of shards names a variable or a table, its values can
// be asked for.
//
// Input: shard_image.h.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/testing/temporary_folder.h"
#include "runtime/checkpoint/shard_set.h"
#include "runtime/fuzz/shard_image.h"

namespace tfdist::runtime {
namespace {

// More at a time would show nothing new.
constexpr uint64_t kMostFloats = 64;
constexpr uint32_t kMostRows = 8;

template <typename Use>
void Try(Use use) {
  try {
    use();
  } catch (const Error&) {
  }
}

void ReadVariable(ShardSet& shards, const ShardVariable& variable) {
  std::vector<float> values(kMostFloats);
  const std::string& name = variable.origin.whole;
  for (const uint64_t first : {uint64_t{0}, variable.origin.first, UINT64_MAX - 1}) {
    Try([&] { shards.Read(name, first, "", values); });
    Try([&] { shards.Read(name, first, "#momentum", values); });
    Try([&] { shards.ReadPowers(name, first, std::span(values).first(2)); });
  }
  Try([&] { shards.ExpectShape(variable.origin); });
}

void ReadTable(ShardSet& shards, TablePart part) {
  part.rows = std::min(part.rows, kMostRows);
  if (part.width > kMostFloats) return;
  std::vector<float> values(size_t{part.rows} * part.width);
  Try([&] { shards.ReadRows(part, "", values); });
  Try([&] {
    shards.ReadPowers(part, std::span(values).first(std::min<size_t>(2, values.size())));
  });
}

// nullopt: refused.
std::optional<ShardInfo> CheckFile(const std::filesystem::path& path, const ShardFacts& facts) {
  try {
    ShardFile file(path, facts);
    float value = 0;
    for (const TablePart& part : file.info().tables) {
      const std::string name = TensorName(part);
      if (file.Has(name)) Try([&] { file.Read(name, part.rows - 1, {&value, 1}); });
    }
    return file.info();
  } catch (const Error&) {
    return std::nullopt;
  }
}

void Run(std::string_view input) {
  static const TemporaryFolder folder;
  static const std::filesystem::path path = folder.path() / ShardName(0, 1);
  const fuzz::ShardImage image = fuzz::ParseShard(input);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << image.file;
  const auto info = CheckFile(path, image.facts);
  if (!info) return;
  ShardSet shards(folder.path(), {image.facts}, 0);
  Try([&] {
    std::vector<float> none;
    shards.ReadRows({"no such table", 1, 0}, "", none);
  });
  for (const ShardVariable& variable : info->variables) ReadVariable(shards, variable);
  for (const TablePart& part : info->tables) ReadTable(shards, part);
  Try([&] {
    for (const TablePart& table : shards.Tables()) ReadTable(shards, table);
  });
  Try([&] { assert(shards.Variables().size() <= info->variables.size()); });
}

}  // namespace
}  // namespace tfdist::runtime

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::runtime::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
