#include "runtime/update/update_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace tfdist::runtime {
namespace {

constexpr uint32_t kMaxCount = 4096;
constexpr const char* kExample = "async, sync:replicas=3 or staleness:bound=4";

uint32_t CountFrom(std::string_view field, std::string_view text, uint32_t least) {
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < least ||
      count > kMaxCount) {
    throw Error(Phase::kUsage,
                fmt::format("update mode: {} is \"{}\", must be a number from {} to {}", field,
                            text, least, kMaxCount));
  }
  return count;
}

UpdateKind KindFrom(std::string_view name) {
  if (name == "async") return UpdateKind::kAsync;
  if (name == "sync") return UpdateKind::kSync;
  if (name == "staleness") return UpdateKind::kStaleness;
  throw Error(Phase::kUsage,
              fmt::format("update mode: no \"{}\", there are async, sync, staleness", name),
              fmt::format("write it as {}", kExample));
}

void SetField(UpdateMode& mode, std::string_view field, std::string_view value) {
  const bool sync = mode.kind == UpdateKind::kSync;
  if (sync && field == "replicas") {
    mode.replicas = CountFrom(field, value, 1);
  } else if (mode.kind == UpdateKind::kStaleness && field == "bound") {
    mode.bound = CountFrom(field, value, 0);
  } else {
    throw Error(Phase::kUsage, fmt::format("update mode: no field \"{}\" here", field),
                fmt::format("write it as {}", kExample));
  }
}

}  // namespace

UpdateMode ParseUpdateMode(std::string_view text) {
  std::string_view rest = text;
  UpdateMode mode;
  mode.kind = KindFrom(TakeUpTo(':', rest));
  if (rest.empty() && text.ends_with(':')) {
    throw Error(Phase::kUsage, fmt::format("update mode: nothing follows \"{}\"", text),
                fmt::format("write it as {}", kExample));
  }
  std::set<std::string_view> given;
  while (!rest.empty()) {
    std::string_view value = TakeUpTo(',', rest);
    const std::string_view field = TakeUpTo('=', value);
    if (!given.insert(field).second) {
      throw Error(Phase::kUsage, fmt::format("update mode: {} is given twice", field));
    }
    SetField(mode, field, value);
  }
  if (mode.kind == UpdateKind::kStaleness && given.empty()) {
    throw Error(Phase::kUsage, "update mode: staleness needs a bound", "staleness:bound=4");
  }
  return mode;
}

std::string ToString(const UpdateMode& mode) {
  if (mode.kind == UpdateKind::kAsync) return "async";
  if (mode.kind == UpdateKind::kStaleness) return fmt::format("staleness:bound={}", mode.bound);
  return mode.replicas == 0 ? "sync" : fmt::format("sync:replicas={}", mode.replicas);
}

UpdateMode Completed(UpdateMode mode, size_t trainers) {
  if (mode.kind == UpdateKind::kSync && mode.replicas == 0) {
    mode.replicas = static_cast<uint32_t>(std::clamp<size_t>(trainers, 1, kMaxCount));
  }
  return mode;
}

}  // namespace tfdist::runtime
