// TensorFlow's Event message, as protobuf writes it: just what TensorBoard needs for scalars.
// Source: tensorflow/core/util/event.proto, core/framework/summary.proto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tfdist::runtime {

struct Scalar {
  std::string tag;  // its name in TensorBoard; what is before a slash is its group
  float value = 0;
};

// The first of a file: "brain.Event:2". Times are seconds since 1970.
std::string VersionEvent(double wall_time);
std::string ScalarsEvent(double wall_time, int64_t step, const std::vector<Scalar>& scalars);

}  // namespace tfdist::runtime
