// One server's part of a checkpoint: a safetensors file, which Python's `safetensors` opens too. Layout:
// runtime/checkpoint/README.md. The tensors follow one another without gaps, all of them float32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/common/origin.h"
#include "runtime/common/shard_facts.h"
#include "runtime/common/tensor.h"
#include "runtime/table.h"

namespace tfdist::runtime {

// The unit of the checksums, in bytes of tensor data.
inline constexpr size_t kCrcBlockBytes = size_t{1} << 20;

// A dense variable, or a part of one, and where it belongs.
struct ShardVariable {
  TensorSpec part;
  Origin origin;
};

// What a shard says of itself.
struct ShardInfo {
  uint64_t id = 0;    // of the checkpoint, random: tells it from another one of the same number
  uint64_t step = 0;  // that its server had made
  std::string optimizer;
  std::string update_mode;
  std::vector<ShardVariable> variables;
  std::vector<TablePart> tables;
};

// Floats that stay as they are as long as `holder` is kept.
struct HeldFloats {
  std::span<const float> values;
  std::shared_ptr<const void> holder;
};

// A tensor to be written: its pieces, one after the other, are all of its values.
struct TensorSource {
  TensorSpec spec;
  std::vector<HeldFloats> pieces;
};

// Names of tensors. Slots of the optimizer: "w#momentum", see `SlotNames`; "w#powers": OptimizerState.
std::string TensorName(const TablePart& part);
std::string StateName(const std::string& variable);

// Writes `path` aside, syncs file and folder, and renames it. Each piece is let go of once it is
// written. Throws Error(kFiles), also when it is told to stop; then nothing of that name is there
// that was not there before.
ShardFacts WriteShard(const std::filesystem::path& path, const ShardInfo& info,
                      std::vector<TensorSource> tensors, const std::stop_token& stop);

// A shard that is read. One thread.
class ShardFile {
 public:
  // Throws Error(kFiles) that names the file unless it is what the manifest says.
  ShardFile(const std::filesystem::path& path, const ShardFacts& expected);

  [[nodiscard]] const ShardInfo& info() const { return info_; }
  [[nodiscard]] bool Has(const std::string& tensor) const { return tensors_.contains(tensor); }
  // Floats of a tensor, from `first` on. Throws Error(kFiles) for a tensor or floats that are not
  // there, and when a checksum of what is read is wrong.
  void Read(const std::string& tensor, uint64_t first, std::span<float> to);

 private:
  struct Place {
    uint64_t begin = 0;  // in the tensor data, in bytes
    uint64_t bytes = 0;
  };
  void ReadHeader(const ShardFacts& expected);
  void TakeHeader(const std::string& text);
  const std::string& BlockOf(uint64_t block);
  [[nodiscard]] std::string ReadAt(uint64_t offset, size_t bytes) const;
  // As many bytes as the text has.
  void ReadInto(std::string& text, uint64_t offset) const;

  std::filesystem::path path_;
  UniqueFd file_;
  ShardInfo info_;
  std::map<std::string, Place> tensors_;
  std::vector<uint32_t> crcs_;  // by block
  uint64_t data_begin_ = 0;
  uint64_t data_bytes_ = 0;
  std::string block_;  // the one that was read last, and its number
  uint64_t block_number_ = UINT64_MAX;
};

}  // namespace tfdist::runtime
