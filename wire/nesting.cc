#include "wire/nesting.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/failures.h"

namespace tfdist::protocol {
namespace {

// RFC 8949, 3: each value begins with a head, one byte of major type and additional information and
// perhaps an argument behind it.
enum Major : uint8_t { kBytes = 2, kText = 3, kArray = 4, kMap = 5, kTag = 6, kSimple = 7 };

struct Head {
  int major = 0;
  uint64_t argument = 0;
  bool indefinite = false;  // of major type 7: the "break" that ends such a value
};

[[noreturn]] void FailMalformed() { throw ProtocolError(Phase::kControl, "malformed message"); }

Head TakeHead(std::string_view& rest) {
  if (rest.empty()) FailMalformed();
  const auto first = static_cast<unsigned char>(rest.front());
  rest.remove_prefix(1);
  Head head{.major = first >> 5, .argument = first & 0x1FU};
  head.indefinite = head.argument == 31;
  if (head.argument < 24 || head.indefinite) return head;
  const size_t size = size_t{1} << (head.argument - 24);
  if (size > sizeof head.argument || size > rest.size()) FailMalformed();
  head.argument = 0;
  for (const char byte : rest.substr(0, size)) {
    head.argument = head.argument << 8 | static_cast<unsigned char>(byte);
  }
  rest.remove_prefix(size);
  return head;
}

// How many values each value holds that has been entered and not left.
class Levels {
 public:
  [[nodiscard]] bool empty() const { return depth_ == 0; }
  [[nodiscard]] bool UntilBreak() const { return !empty() && left_[depth_ - 1] == kUntilBreak; }

  // A value that holds `count` others, or as many as come until a break.
  void Enter(std::optional<uint64_t> count) {
    if (depth_ == kDeepestMessage)
      throw ProtocolError(Phase::kControl, "malformed message: nested too deeply");
    left_[depth_++] = count.value_or(kUntilBreak);
  }
  void Leave() {
    --depth_;
    OnWhole();
  }
  // One value is whole, and with it, perhaps, what it was the last of.
  void OnWhole() {
    while (!empty() && !UntilBreak() && --left_[depth_ - 1] == 0) --depth_;
  }

 private:
  // More than any message has.
  static constexpr uint64_t kUntilBreak = std::numeric_limits<uint64_t>::max();

  std::array<uint64_t, kDeepestMessage> left_{};
  size_t depth_ = 0;
};

// Of values in an array, a map or a string of strings. Each takes a byte at least: a count that the
// bytes behind the head cannot hold is refused, also because the decoder takes the greatest one, of
// 64 bits, for "until a break".
std::optional<uint64_t> CountOf(const Head& head, size_t bytes_behind) {
  if (head.indefinite) return std::nullopt;
  const uint64_t size = head.major == kMap ? 2 : 1;
  if (head.argument > bytes_behind / size) FailMalformed();
  return head.argument * size;
}

void Step(std::string_view& rest, Levels& levels) {
  const Head head = TakeHead(rest);
  if (head.major == kSimple && head.indefinite) {
    if (!levels.UntilBreak()) FailMalformed();
    levels.Leave();
    return;
  }
  const bool is_string = head.major == kBytes || head.major == kText;
  if (head.major == kArray || head.major == kMap || (is_string && head.indefinite)) {
    const auto count = CountOf(head, rest.size());
    levels.Enter(count);
    if (count == 0U) levels.Leave();
    return;
  }
  // No number is without end, and the decoder knows no tags.
  if (head.indefinite || head.major == kTag) FailMalformed();
  if (is_string) {
    if (head.argument > rest.size()) FailMalformed();
    rest.remove_prefix(head.argument);
  }
  levels.OnWhole();
}

}  // namespace

void CheckNesting(std::string_view cbor) {
  Levels levels;
  do {
    Step(cbor, levels);
  } while (!levels.empty());
}

}  // namespace tfdist::protocol
