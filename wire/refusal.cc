#include "wire/refusal.h"

#include <array>

namespace tfdist::protocol {
namespace {

constexpr std::array<std::pair<RefusalKind, std::string_view>, 9> kNames = {{
    {RefusalKind::kFailed, "failed"},
    {RefusalKind::kMalformed, "malformed"},
    {RefusalKind::kUnknownRequest, "unknown-request"},
    {RefusalKind::kWrongHost, "wrong-host"},
    {RefusalKind::kWrongState, "wrong-state"},
    {RefusalKind::kTooMany, "too-many"},
    {RefusalKind::kNameTaken, "name-taken"},
    {RefusalKind::kPortTaken, "port-taken"},
    {RefusalKind::kEnded, "ended"},
}};

}  // namespace

std::string_view RefusalKindName(RefusalKind kind) {
  for (const auto& [value, name] : kNames) {
    if (value == kind) return name;
  }
  return "failed";
}

RefusalKind RefusalKindFromName(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return RefusalKind::kFailed;
}

}  // namespace tfdist::protocol
