// The command line of tfdist-runtime: one for every task of the job, whatever its type.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/device/device_choice.h"
#include "runtime/placement/placement.h"
#include "runtime/trainer/training_options.h"
#include "runtime/transport/wire_float.h"

namespace tfdist::runtime {

struct Options {
  TrainingOptions training;  // a parameter server needs none of it
  Strategy strategy = Strategy::kRoundRobin;
  Partitioner partitioner = Unsplit{};
  size_t server_threads = 1;
  bool secure = true;         // --security curve
  bool shared_memory = true;  // where it can be had
  WireFloat values = WireFloat::kFloat32;
  DeviceChoice device;
  std::chrono::seconds server_timeout{600};
};

// `tfdist-runtime export DIR --to FILE`
struct ExportOptions {
  std::filesystem::path checkpoint;
  std::filesystem::path to;
};
// Whether the command line is that of an export: its first word says so.
bool IsExport(int argc, const char* const* argv);

// Throw Error(kUsage). nullopt when the user asked for help, which is then in `help`.
std::optional<ExportOptions> ParseExport(int argc, const char* const* argv, std::string& help);
std::optional<Options> ParseOptions(int argc, const char* const* argv, std::string& help);

}  // namespace tfdist::runtime
