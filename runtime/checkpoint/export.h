// A checkpoint as one file: for programs that want the model and know nothing of servers.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tfdist::runtime {

struct Exported {
  uint64_t step = 0;
  uint64_t variables = 0;  // tables too
  uint64_t parameters = 0;
};

// Writes the values of all whole variables and tables, without the optimizer's slots, as a safetensors
// file. `checkpoint`: one, or a folder of them, of which the newest is taken; all shards must be
// there. Takes as much memory as the model. Throws Error(kFiles), and then leaves `to` as it was.
Exported ExportModel(const std::filesystem::path& checkpoint, const std::filesystem::path& to);

}  // namespace tfdist::runtime
