#include "cli/cluster_file/toml_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace tfdist::cli {

std::string TomlText(const std::string& text) {
  // One of JSON is one of TOML, but for DEL.
  std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  ReplaceAll(quoted, "\x7f", "\\u007f");
  return quoted;
}

std::string TomlList(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(TomlText(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace tfdist::cli
