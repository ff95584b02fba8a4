#include "runtime/common/bytes.h"

#include "base/error.h"

namespace tfdist::runtime {

void ByteWriter::PutText(std::string_view text) {
  text = text.substr(0, UINT16_MAX);
  Put(static_cast<uint16_t>(text.size()));
  bytes_.append(text);
}

std::string ByteReader::GetText(size_t limit_bytes) {
  const auto size = Get<uint16_t>();
  if (size > limit_bytes) throw Error(Phase::kRun, "message: a text is too long");
  return std::string(Take(size));
}

void ByteReader::ExpectEnd() const {
  if (!rest_.empty()) throw Error(Phase::kRun, "message: the header is too long");
}

std::string_view ByteReader::Take(size_t count) {
  if (count > rest_.size()) throw Error(Phase::kRun, "message: the header is cut short");
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

}  // namespace tfdist::runtime
