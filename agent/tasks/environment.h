// A process's environment as a value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::agent {

class Environment {
 public:
  // "NAME=value" strings, as in environ(7). What has no '=' is left out; of two, the first counts,
  // as for getenv(3).
  static Environment From(const char* const* strings);
  // This process's, without what only tfdist's own processes need.
  static Environment OfHost();

  void Set(const std::string& name, std::string value) { values_[name] = std::move(value); }
  void Unset(const std::string& name) { values_.erase(name); }
  [[nodiscard]] std::optional<std::string> Get(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> Strings() const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace tfdist::agent
