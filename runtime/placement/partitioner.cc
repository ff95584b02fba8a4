#include "runtime/placement/partitioner.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

uint64_t CeilDivide(uint64_t dividend, uint64_t divisor) {
  return dividend / divisor + (dividend % divisor == 0 ? 0 : 1);
}

uint64_t NotZero(uint64_t value, const std::string& what) {
  if (value == 0) throw Error(Phase::kRun, "a partitioner with 0 " + what, "use 1 or more");
  return value;
}

struct Counter {
  uint64_t rows;
  uint64_t row_bytes;
  uint64_t server_count;

  uint64_t operator()(const Unsplit&) const { return 1; }

  uint64_t operator()(const FixedParts& fixed) const {
    return std::min<uint64_t>(NotZero(fixed.parts, "parts"), rows);
  }

  uint64_t operator()(const MinPartSize& size) const {
    const uint64_t most = NotZero(size.max_parts.value_or(server_count), "parts at most");
    const uint64_t wanted = CeilDivide(rows * row_bytes, NotZero(size.min_bytes, "bytes a part"));
    return std::min({rows, most, wanted});
  }

  uint64_t operator()(const MaxPartSize& size) const {
    const uint64_t most = NotZero(size.max_parts.value_or(rows), "parts at most");
    const uint64_t fitting = NotZero(size.max_bytes, "bytes a part") / row_bytes;
    return std::min(most, CeilDivide(rows, std::max<uint64_t>(fitting, 1)));
  }
};

}  // namespace

uint64_t PartCount(const Partitioner& partitioner, uint64_t rows, uint64_t row_bytes,
                   size_t server_count) {
  return std::visit(Counter{rows, row_bytes, server_count}, partitioner);
}

}  // namespace tfdist::runtime
