// A trainer's view of all parameter servers together: variables in, variables out. Splits them over
// the servers by placement, asks all servers at once, and says for whom it waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/say.h"
#include "runtime/tensor.h"
#include "runtime/tf_config.h"
#include "runtime/transport/channel.h"

namespace tfdist::runtime {

struct ParameterClientOptions {
  uint32_t attempt = 1;
  // How long one server may leave a request unanswered before the trainer gives up.
  std::chrono::milliseconds server_timeout{600'000};
  // How often it says that it is waiting.
  std::chrono::milliseconds notice_interval{10'000};
};

// One thread. Every call waits for all servers, however late they start, and throws Error(kConnect)
// when one has not answered within `server_timeout`, Error(kRun) when one refuses, Error(kAuth)
// when one does not know our key.
class ParameterClient {
 public:
  // `variables` in the order of creation, the same in every trainer. `secret` absent: no security.
  ParameterClient(const TfConfig& config, const std::optional<JobSecret>& secret,
                  std::vector<TensorSpec> variables, ParameterClientOptions options, Say say);

  // Chief only: creates the variables. Where they are already, as after a restart of the chief,
  // they stay as they are.
  void Create(const Tensors& initial, float learning_rate);
  // Fills `values` with all variables, once the chief has created them. Returns the global step:
  // the number of pushes so far, as counted by ps:0.
  uint64_t Pull(Tensors& values);
  // Applies one gradient per variable, then as `Pull`.
  uint64_t PushPull(const Tensors& gradients, Tensors& values);

  // How many servers hold a part of this model (ps:0 always does: it counts the steps).
  [[nodiscard]] size_t server_count() const { return servers_.size(); }

 private:
  struct Server {
    std::unique_ptr<Channel> channel;
    std::vector<size_t> held;           // positions of its variables
    std::vector<TensorSpec> variables;  // the same, as the server must have them
  };

  Request NewRequest(Operation operation) const;
  void Start(Server& server, Request request, const Tensors& tensors, const std::string& purpose);
  uint64_t FinishAll(Tensors* values);
  void TakeAnswer(Server& server, Tensors* values, uint64_t& step);
  [[nodiscard]] bool AnyBusy() const;
  void WaitForInput(std::chrono::milliseconds limit);
  void SayWhomItWaitsFor(std::chrono::seconds waited) const;
  [[noreturn]] void GiveUp() const;

  ParameterClientOptions options_;
  Say say_;
  std::string task_;
  uint64_t run_;
  zmq::context_t context_;
  std::vector<Server> servers_;
  std::vector<zmq::pollitem_t> poll_items_;
  uint64_t step_ = 0;  // the global step, as last heard
};

}  // namespace tfdist::runtime
