// Values as TOML writes them.
#pragma once

#include <string>
#include <vector>

namespace tfdist::cli {

// A basic string; what is not UTF-8 contains U+FFFD.
std::string TomlText(const std::string& text);
// ["python3", "train.py"]
std::string TomlList(const std::vector<std::string>& texts);

}  // namespace tfdist::cli
