#include "runtime/transport/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/transport/bytes.h"

namespace tfdist::runtime {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxErrorBytes = 4096;
constexpr size_t kMaxVariables = 1024;
constexpr size_t kMaxRank = 8;

void PutVariables(ByteWriter& writer, const std::vector<TensorSpec>& variables) {
  writer.Put(static_cast<uint16_t>(variables.size()));
  for (const TensorSpec& variable : variables) {
    writer.PutText(variable.name);
    writer.Put(static_cast<uint8_t>(variable.shape.size()));
    for (const uint32_t dimension : variable.shape) writer.Put(dimension);
  }
}

TensorSpec GetVariable(ByteReader& reader) {
  TensorSpec variable;
  variable.name = reader.GetText(kMaxNameBytes);
  const auto rank = reader.Get<uint8_t>();
  if (rank > kMaxRank) throw Error(Phase::kRun, "message: a variable has too many dimensions");
  for (int i = 0; i < rank; ++i) variable.shape.push_back(reader.Get<uint32_t>());
  return variable;
}

std::vector<TensorSpec> GetVariables(ByteReader& reader) {
  const auto count = reader.Get<uint16_t>();
  if (count > kMaxVariables) throw Error(Phase::kRun, "message: too many variables");
  std::vector<TensorSpec> variables;
  variables.reserve(count);
  for (int i = 0; i < count; ++i) variables.push_back(GetVariable(reader));
  return variables;
}

// Cuts a run of floats into frames of `kMaxChunkBytes`: a frame may begin in one variable and end
// in a later one, so that many small variables travel together.
class ChunkWriter {
 public:
  ChunkWriter(Frames& frames, size_t total_bytes) : frames_(frames), left_bytes_(total_bytes) {}

  void Put(std::span<const float> values) {
    const char* from = reinterpret_cast<const char*>(values.data());
    for (size_t left = values.size_bytes(); left > 0;) {
      if (used_bytes_ == chunk_bytes_) NextChunk();
      const size_t count = std::min(left, chunk_bytes_ - used_bytes_);
      std::memcpy(static_cast<char*>(frames_.back().data()) + used_bytes_, from, count);
      used_bytes_ += count;
      from += count;
      left -= count;
    }
  }

 private:
  void NextChunk() {
    chunk_bytes_ = std::min(left_bytes_, kMaxChunkBytes);
    left_bytes_ -= chunk_bytes_;
    used_bytes_ = 0;
    frames_.emplace_back(chunk_bytes_);
  }

  Frames& frames_;
  size_t left_bytes_;
  size_t chunk_bytes_ = 0;
  size_t used_bytes_ = 0;
};

Frames ToFrames(const std::string& header, const TensorViews& values) {
  size_t total_bytes = 0;
  for (const auto& value : values) total_bytes += value.size_bytes();
  Frames frames;
  frames.reserve(2 + total_bytes / kMaxChunkBytes);
  frames.emplace_back(header.data(), header.size());
  ChunkWriter writer(frames, total_bytes);
  for (const auto& value : values) writer.Put(value);
  return frames;
}

ByteReader HeaderOf(const Frames& frames) {
  if (frames.empty() || frames.front().size() > kMaxHeaderBytes) {
    throw Error(Phase::kRun, "message: no header, or one that is too long");
  }
  ByteReader reader(frames.front().to_string_view());
  const auto version = reader.Get<uint16_t>();
  if (version != kProtocolVersion) {
    throw Error(Phase::kRun, fmt::format("message of protocol version {}; this program speaks {}",
                                         version, kProtocolVersion));
  }
  return reader;
}

size_t ValueBytes(const Frames& frames) { return SizeBytes(frames) - frames.front().size(); }

void ExpectValueBytes(const Frames& frames, size_t expected) {
  const size_t found = ValueBytes(frames);
  if (found != expected) {
    throw Error(Phase::kRun,
                fmt::format("message: {} bytes of values where {} belong", found, expected));
  }
}

}  // namespace

Frames Encode(const Request& request, const TensorViews& values) {
  ByteWriter writer;
  writer.Put(kProtocolVersion);
  writer.Put(static_cast<uint8_t>(request.operation));
  writer.Put(request.attempt);
  writer.Put(request.run);
  writer.Put(request.sequence);
  writer.PutText(request.task);
  writer.Put(request.learning_rate);
  PutVariables(writer, request.variables);
  return ToFrames(writer.bytes(), values);
}

Request DecodeRequest(const Frames& frames) {
  ByteReader reader = HeaderOf(frames);
  Request request;
  request.operation = static_cast<Operation>(reader.Get<uint8_t>());
  if (request.operation < Operation::kCreate || request.operation > Operation::kPushPull) {
    throw Error(Phase::kRun, "message: unknown operation");
  }
  request.attempt = reader.Get<uint32_t>();
  request.run = reader.Get<uint64_t>();
  request.sequence = reader.Get<uint64_t>();
  request.task = reader.GetText(kMaxNameBytes);
  request.learning_rate = reader.Get<float>();
  request.variables = GetVariables(reader);
  reader.ExpectEnd();
  return request;
}

Frames Encode(const Reply& reply, const TensorViews& values) {
  ByteWriter writer;
  writer.Put(kProtocolVersion);
  writer.Put(static_cast<uint8_t>(reply.status));
  writer.Put(reply.sequence);
  writer.Put(reply.step);
  writer.PutText(std::string_view(reply.error).substr(0, kMaxErrorBytes));
  PutVariables(writer, reply.variables);
  return ToFrames(writer.bytes(), values);
}

Reply DecodeReply(const Frames& frames) {
  ByteReader reader = HeaderOf(frames);
  Reply reply;
  reply.status = static_cast<Status>(reader.Get<uint8_t>());
  if (reply.status > Status::kRefused) throw Error(Phase::kRun, "message: unknown status");
  reply.sequence = reader.Get<uint64_t>();
  reply.step = reader.Get<uint64_t>();
  reply.error = reader.GetText(kMaxErrorBytes);
  reply.variables = GetVariables(reader);
  reader.ExpectEnd();
  return reply;
}

Tensors ReadValues(const Frames& frames, const std::vector<TensorSpec>& variables) {
  size_t elements = 0;
  for (const TensorSpec& variable : variables) elements += ElementCount(variable);
  ExpectValueBytes(frames, elements * sizeof(float));
  Tensors values = Zeros(variables);
  CopyValues(frames, {values.begin(), values.end()});
  return values;
}

void CopyValues(const Frames& frames, const MutableTensorViews& into) {
  size_t expected = 0;
  for (const auto& value : into) expected += value.size_bytes();
  ExpectValueBytes(frames, expected);
  size_t frame = 1;
  size_t used = 0;
  for (const auto& value : into) {
    auto* to = reinterpret_cast<char*>(value.data());
    for (size_t left = value.size_bytes(); left > 0;) {
      if (used == frames[frame].size()) {
        ++frame;
        used = 0;
        continue;
      }
      const size_t count = std::min(left, frames[frame].size() - used);
      std::memcpy(to, frames[frame].data<char>() + used, count);
      used += count;
      to += count;
      left -= count;
    }
  }
}

}  // namespace tfdist::runtime
