// The messages between a trainer and a parameter server. Layout and an example:
// runtime/MESSAGES.md.
//
// A message is a header frame, then the values of its variables, one after the other in the
// header's order, as raw float32 cut into frames of at most `kMaxChunkBytes`. Whatever does not
// hold to that is refused here, before anything is allocated by a size that a peer named.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tensor.h"
#include "runtime/transport/socket_io.h"

namespace tfdist::runtime {

inline constexpr uint16_t kProtocolVersion = 1;
inline constexpr size_t kMaxHeaderBytes = size_t{64} * 1024;
inline constexpr size_t kMaxChunkBytes = size_t{1024} * 1024;

enum class Operation : uint8_t {
  kCreate = 1,    // chief: these variables with these values, unless they are there already
  kPull = 2,      // all variables of the server; answered once they are created
  kPushPull = 3,  // apply these gradients, then as kPull
};

struct Request {
  Operation operation = Operation::kPull;
  uint32_t attempt = 1;   // of the job; another attempt's servers do not answer
  uint64_t run = 0;       // random, one per start of a trainer
  uint64_t sequence = 0;  // from 1, per run and server; the same again when a request is sent again
  std::string task;       // the sender: "worker:1"
  float learning_rate = 0;  // kCreate
  std::vector<TensorSpec> variables;

  bool operator==(const Request&) const = default;
};

enum class Status : uint8_t { kOk = 0, kRefused = 1 };

struct Reply {
  Status status = Status::kOk;
  uint64_t sequence = 0;  // of the request; 0 when that could not be read
  uint64_t step = 0;      // pushes applied by this server
  std::string error;      // kRefused: why
  std::vector<TensorSpec> variables;

  bool operator==(const Reply&) const = default;
};

Frames Encode(const Request& request, const TensorViews& values);
Frames Encode(const Reply& reply, const TensorViews& values);

// The header. Throws Error(kRun) on anything but a well-formed header of our version.
Request DecodeRequest(const Frames& frames);
Reply DecodeReply(const Frames& frames);

// The values behind the header, for exactly the given variables. Throws Error(kRun) when there are
// more or fewer bytes.
Tensors ReadValues(const Frames& frames, const std::vector<TensorSpec>& variables);
void CopyValues(const Frames& frames, const MutableTensorViews& into);

}  // namespace tfdist::runtime
