#include "cli/export/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/failures.h"
#include "base/text.h"

namespace tfdist::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kOtherSigns = "0123456789/.-_";

bool IsLetter(char c) { return kLetters.find(c) != kLetters.npos; }

// What no version of YAML takes for a truth value, nothing, or a number.
bool IsPlain(std::string_view text) {
  constexpr std::string_view kWords[] = {"true", "false", "yes", "no",  "on",
                                         "off",  "y",     "n",   "null"};
  if (text.empty() || !(IsLetter(text[0]) || (text[0] == '/' && text.size() > 1))) return false;
  const auto is_safe = [](char c) {
    return IsLetter(c) || kOtherSigns.find(c) != kOtherSigns.npos;
  };
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  });
  return std::ranges::all_of(text, is_safe) && std::ranges::find(kWords, lower) == std::end(kWords);
}

// What JSON leaves as it is, and YAML does not take, or takes for the end of a line: control characters behind DEL, line and paragraph
// separators, the byte order mark, U+FFFE and U+FFFF.
std::string Escaped(std::string quoted) {
  ReplaceAll(quoted, "\x7f", "\\x7f");
  for (int c = 0x80; c < 0xa0; ++c) {
    ReplaceAll(quoted, std::string("\xc2") + static_cast<char>(c), fmt::format("\\x{:02x}", c));
  }
  ReplaceAll(quoted, "\u2028", "\\u2028");
  ReplaceAll(quoted, "\u2029", "\\u2029");
  ReplaceAll(quoted, "\ufeff", "\\ufeff");
  ReplaceAll(quoted, "\xef\xbf\xbe", "\\ufffe");
  ReplaceAll(quoted, "\xef\xbf\xbf", "\\uffff");
  return quoted;
}

// In double quotes YAML reads what JSON does; in single ones JSON stays readable.
std::string Quoted(const std::string& text) {
  const auto is_odd = [](unsigned char c) { return c < 0x20 || c >= 0x7f; };
  const bool is_json = text.find('"') != text.npos && text.find('\'') == text.npos &&
                       std::ranges::none_of(text, is_odd) &&
                       !Json::parse(text, nullptr, false).is_discarded();
  if (is_json) return "'" + text + "'";
  try {
    return Escaped(Json(text).dump());
  } catch (const Json::type_error&) {
    throw UsageError(Phase::kConfig,
                     fmt::format("YAML can hold UTF-8 only, and this is not: {}",
                                 Json(text).dump(-1, ' ', true, Json::error_handler_t::replace)));
  }
}

bool IsOnOneLine(const Json& value) {
  if (value.is_array())
    return std::ranges::all_of(value, [](const Json& each) { return each.is_number(); });
  return !value.is_object() || value.empty();
}

std::string OneLine(const Json& value) {
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  return IsPlain(text) ? text : Quoted(text);
}

std::string Block(const Json& value, size_t indent);

// What follows "key:" or "-".
std::string ValueAfter(const Json& value, size_t indent, bool in_list) {
  if (IsOnOneLine(value)) return fmt::format(" {}\n", OneLine(value));
  if (!in_list) return "\n" + Block(value, indent);
  return " " + Block(value, indent).substr(indent);  // "- name: x"
}

std::string Block(const Json& value, size_t indent) {
  const std::string margin(indent, ' ');
  std::string text;
  if (value.is_array()) {
    for (const Json& each : value) text += margin + "-" + ValueAfter(each, indent + 2, true);
    return text;
  }
  for (const auto& [key, each] : value.items()) {
    text += fmt::format("{}{}:{}", margin, OneLine(key), ValueAfter(each, indent + 2, false));
  }
  return text;
}

}  // namespace

std::string ToYaml(const Json& value) {
  return IsOnOneLine(value) ? OneLine(value) + "\n" : Block(value, 0);
}

}  // namespace tfdist::cli
