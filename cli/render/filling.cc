#include "cli/render/filling.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/text.h"

namespace tfdist::cli {
namespace {

std::string NameOfVariable(const std::string& name) {
  return name == "HOME" ? "~" : fmt::format("${{{}}}", name);
}

}  // namespace

Filling::Filling(const Plan& plan, Places places)
    : places_(std::move(places)), common_(plan.common), data_(plan.data) {
  for (const HostPlan& host : plan.hosts) addresses_.push_back(host.address);
}

std::string Filling::Fill(const protocol::Text& text) const {
  std::string filled = protocol::Fill(WithData(text), {addresses_, common_, NameOfVariable});
  ReplaceAll(filled, protocol::kRuntimePath, places_.runtime);
  ReplaceAll(filled, protocol::kWorkdirPath, places_.work);
  ReplaceAll(filled, protocol::kKeepPath, places_.keep);
  ReplaceAll(filled, protocol::kSetUpPath, places_.set_up);
  return filled;
}

std::string Filling::Word(const protocol::Text& text, Quote quote) const {
  std::string word;
  protocol::Text literal;
  for (const protocol::Text::Part& part : WithData(text).parts) {
    const auto* variable = std::get_if<protocol::HostVariable>(&part);
    if (variable == nullptr) {
      literal.parts.push_back(part);
      continue;
    }
    AddQuoted(std::exchange(literal, {}), quote, word);
    const bool is_home = variable->name == "HOME" && word.empty();
    word += is_home ? "~" : fmt::format("\"${{{}}}\"", variable->name);
  }
  AddQuoted(literal, quote, word);
  return word.empty() ? "''" : word;
}

protocol::Text Filling::WithData(const protocol::Text& text) const {
  protocol::Text with;
  for (const protocol::Text::Part& part : text.parts) {
    const auto* literal = std::get_if<std::string>(&part);
    if (literal == nullptr) {
      with.parts.push_back(part);
      continue;
    }
    std::string_view rest = *literal;
    for (size_t at = rest.find(protocol::kDataPath); at != rest.npos;
         at = rest.find(protocol::kDataPath)) {
      with.parts.emplace_back(std::string(rest.substr(0, at)));
      rest.remove_prefix(at + protocol::kDataPath.size());
      const protocol::Text path = PathOf(TakeUpTo('}', rest));
      with.parts.insert(with.parts.end(), path.parts.begin(), path.parts.end());
    }
    with.parts.emplace_back(std::string(rest));
  }
  return with;
}

protocol::Text Filling::PathOf(std::string_view data) const {
  const auto found = std::ranges::find(data_, data, &DataPlan::name);
  if (found != data_.end() && found->source.empty()) return found->path;
  return fmt::format("{}/{}", places_.data, data);
}

void Filling::AddQuoted(const protocol::Text& literal, Quote quote, std::string& word) const {
  std::string filled = Fill(literal);
  if (word == "~" && filled.starts_with('/')) {  // in quotes, it would keep ~ as it is
    word += '/';
    filled.erase(0, 1);
  }
  if (!filled.empty()) word += quote(filled);
}

}  // namespace tfdist::cli
