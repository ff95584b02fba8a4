#include "agent/tasks/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include "agent/census/census.h"

namespace tfdist::agent {

Environment Environment::From(const char* const* strings) {
  Environment environment;
  for (; strings != nullptr && *strings != nullptr; ++strings) {
    const std::string_view text = *strings;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.values_.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Environment Environment::OfHost() {
  Environment environment = From(environ);
  environment.Unset(std::string(kCookieName));
  return environment;
}

std::optional<std::string> Environment::Get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> Environment::Strings() const {
  std::vector<std::string> strings;
  strings.reserve(values_.size());
  for (const auto& [name, value] : values_) strings.push_back(fmt::format("{}={}", name, value));
  return strings;
}

}  // namespace tfdist::agent
