// Parts of messages that tests of the format and the first inputs of fuzz targets have in common.
#pragma once

#include <vector>

#include "runtime/table.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime::testing {

inline std::vector<TablePart> SampleTables() {
  return {{"words", 10, 16, 0, 1, UniformRows(-1, 1, 5)},
          {"users", 3, 2, 1, 4, TruncatedNormalRows(0, 0.5F, 6)}};
}

inline CheckpointPart SampleSave() {
  return {
      .number = 500, .id = 9, .shard = 1, .origins = {{"w", {4, 3}, 6}}, .of = 2, .kept = {400}};
}

inline CheckpointPart SampleRestore() {
  return {.number = 500,
          .id = 9,
          .shard = 1,
          .origins = {{"w", {4, 3}, 6}, {"scale", {}, 0}},
          .phase = RestorePhase::kUse,
          .values_only = true,
          .step = 501,
          .shards = {{4096, 0x12345678}, {8, 1}}};
}

}  // namespace tfdist::runtime::testing
