// The command line of tfdist-runtime: one for every task of the job, whatever its type.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/placement/placement.h"
#include "runtime/transport/wire_float.h"
#include "runtime/update/optimizer_spec.h"
#include "runtime/update/update_mode.h"

namespace tfdist::runtime {

struct Options {
  std::string data;           // folder with MNIST's four files; trainers need it
  std::string model = "mlp";  // or "softmax": no hidden layer
  std::vector<size_t> hidden = {128};
  size_t batch = 32;
  uint64_t steps = 2000;  // global, counted over all trainers
  OptimizerSpec optimizer{.learning_rate = 0.2F};
  UpdateMode update;
  Strategy strategy = Strategy::kRoundRobin;
  Partitioner partitioner = Unsplit{};
  size_t server_threads = 1;
  uint64_t seed = 1;
  uint64_t eval_every = 500;  // global steps
  bool secure = true;         // --security curve
  bool shared_memory = true;  // where it can be had
  WireFloat values = WireFloat::kFloat32;
  std::chrono::seconds server_timeout{600};
};

// Throws Error(kUsage). nullopt when the user asked for help, which is then in `help`.
std::optional<Options> ParseOptions(int argc, const char* const* argv, std::string& help);

}  // namespace tfdist::runtime
