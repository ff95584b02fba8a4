#include "runtime/checkpoint/export.h"

#include <memory>
#include <utility>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard_set.h"

namespace tfdist::runtime {
namespace {

TensorSource SourceOf(TensorSpec spec, std::vector<float> values) {
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  return {std::move(spec), {{*kept, kept}}};
}

TensorSource ValuesOf(const TensorSpec& variable, ShardSet& shards) {
  std::vector<float> values(ElementCount(variable));
  shards.Read(variable.name, 0, "", values);
  return SourceOf(variable, std::move(values));
}

TensorSource ValuesOf(const TablePart& table, ShardSet& shards) {
  std::vector<float> values(size_t{table.rows} * table.width);
  shards.ReadRows(table, "", values);
  return SourceOf({table.table, {table.rows, table.width}}, std::move(values));
}

}  // namespace

Exported ExportModel(const std::filesystem::path& checkpoint, const std::filesystem::path& to) {
  const std::filesystem::path from = NewestIn(checkpoint);
  const Manifest manifest = ReadManifest(from);
  ShardSet shards(from, manifest.shards, 0);
  ShardInfo info;
  info.id = manifest.id;
  info.step = manifest.step;
  std::vector<TensorSource> tensors;
  for (const TensorSpec& variable : shards.Variables()) {
    info.variables.push_back({variable, {variable.name, variable.shape, 0}});
    tensors.push_back(ValuesOf(variable, shards));
  }
  info.tables = shards.Tables();
  for (const TablePart& table : info.tables) tensors.push_back(ValuesOf(table, shards));
  Exported exported{manifest.step, tensors.size(), 0};
  for (const TensorSource& tensor : tensors) {
    exported.parameters += tensor.pieces.front().values.size();
  }
  WriteShard(to, info, std::move(tensors), {});
  return exported;
}

}  // namespace tfdist::runtime
