// The shards of one checkpoint that lie in a folder, as one model: finds the values of a variable
// wherever they were when the checkpoint was made, so that another number of servers, or another
// placement, can take them over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard_file.h"
#include "runtime/common/origin.h"

namespace tfdist::runtime {

// One thread. Every call throws Error(kFiles) that names the file when a shard is damaged, or when
// something is in no shard that is here: then it names the shards that are missing.
class ShardSet {
 public:
  // `first`: the shard that is looked into first. Others are opened only when that one lacks
  // something: where the placement is as before each server reads its own shard alone.
  ShardSet(std::filesystem::path checkpoint, std::vector<ShardFacts> shards, size_t first);

  // Throws Error(kFiles) unless the variable is there, with this shape.
  void ExpectShape(const Origin& origin);
  // Fills `to` with floats of the variable `whole`, from `first` on. `slot`: "" for its values, else
  // the suffix of a slot's tensor: "#momentum".
  void Read(const std::string& whole, uint64_t first, const std::string& slot, std::span<float> to);
  // Two numbers that the optimizer keeps of the part that holds float `first`.
  void ReadPowers(const std::string& whole, uint64_t first, std::span<float> to);
  // Rows of a table: row i is that of id part.first + i * part.step.
  void ReadRows(const TablePart& part, const std::string& slot, std::span<float> to);
  void ReadPowers(const TablePart& part, std::span<float> to);

  // What the first shard that can be read says. Of all shards the same.
  const ShardInfo& info();
  // All variables: opens all shards. The parts' shapes are those of the whole variables.
  std::vector<TensorSpec> Variables();
  // All tables, each as one part with all of its rows.
  std::vector<TablePart> Tables();

 private:
  struct Part {
    uint64_t count = 0;  // floats
    std::string tensor;
    ShardFile* file = nullptr;
  };
  struct Rows {
    TablePart part;
    ShardFile* file = nullptr;
  };
  bool OpenNext();
  void OpenAll();
  void Add(ShardFile& file);
  const std::pair<const uint64_t, Part>& PartAt(const std::string& whole, uint64_t first);
  const std::pair<const uint64_t, Part>* FindPart(const std::string& whole, uint64_t first) const;
  [[noreturn]] void Lacks(const std::string& what) const;

  std::filesystem::path checkpoint_;
  std::vector<ShardFacts> facts_;
  std::vector<size_t> unopened_;  // the next one last
  std::vector<std::string> missing_;
  std::vector<std::unique_ptr<ShardFile>> files_;
  std::map<std::string, std::map<uint64_t, Part>> parts_;  // by variable and first float
  std::map<std::string, TensorSpec> variables_;
  std::map<std::string, std::vector<Rows>> tables_;
};

}  // namespace tfdist::runtime
