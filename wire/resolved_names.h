// The request `resolve {names: [text]}` -> ResolvedNames: what the host's own resolver says of
// names. Sent while deploying, and only for a plan that has names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/protocol.h"

namespace tfdist::protocol {

namespace type {
inline constexpr std::string_view kResolve = "resolve";
}  // namespace type

struct ResolvedName {
  std::string name;
  std::vector<std::string> addresses;  // numeric, in the order of the resolver; none: see `why`
  std::string why;
};
void to_json(Json& json, const ResolvedName& value);
void from_json(const Json& json, ResolvedName& value);

struct ResolvedNames {
  std::vector<ResolvedName> names;  // in the order of the request
  std::vector<std::string> own;     // the numeric addresses of this host's network interfaces
};
void to_json(Json& json, const ResolvedNames& value);
void from_json(const Json& json, ResolvedNames& value);

}  // namespace tfdist::protocol
