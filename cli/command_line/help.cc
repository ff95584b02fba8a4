#include "cli/command_line/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cli/render/table.h"
#include "cli/show/report.h"

namespace tfdist::cli {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kHelpColumn = 30;
constexpr size_t kWideEnough = 60;
constexpr size_t kNarrowMargin = 6;
constexpr size_t kFewest = 24;

// A list of words of several kinds, which says itself how they stand: "[JOB] [TASK...]".
bool IsShape(const CLI::Option& option) { return option.get_name() == "WORDS"; }

// CLI11 writes what it checks behind the type's name: "UINT:N", "LAYOUT:{mirrored,uai}".
std::string ValueOf(const CLI::Option& option) {
  std::string value = option.get_type_name();
  value.erase(0, value.rfind(':') + 1);
  if (value.starts_with('{')) {
    value = value.substr(1, value.size() - 2);
    std::ranges::replace(value, ',', '|');
  }
  return value;
}

std::string InSynopsis(const CLI::Option& positional) {
  if (IsShape(positional)) return positional.get_type_name();
  const std::string name =
      positional.get_name() + (positional.get_items_expected_max() > 1 ? "..." : "");
  return positional.get_required() ? name : "[" + name + "]";
}

// Of a terminal no more than it has, of anything else as on a page.
size_t HelpColumns() {
  const size_t columns = StdoutColumns();
  return columns == 0 ? kColumns : std::clamp(columns, kFewest, kColumns);
}

// Where the second column begins: a narrow terminal has nearly all of a line for it.
size_t HelpMargin() { return HelpColumns() >= kWideEnough ? kHelpColumn : kNarrowMargin; }

class Format : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_usage(const CLI::App* app, std::string /*name*/) const override {
    return fmt::format("Usage: {}\n", fmt::join(Synopsis(*app), "\n       "));
  }
  [[nodiscard]] std::string make_option(const CLI::Option* option,
                                        bool /*is_positional*/) const override {
    return Row(ShapeOf(*option), HelpOf(*option));
  }
  [[nodiscard]] std::string make_subcommand(const CLI::App* command) const override {
    return Row(command->get_name(), command->get_description());
  }
  [[nodiscard]] std::string make_description(const CLI::App* app) const override {
    return fmt::format("{}\n", fmt::join(Wrapped(app->get_description(), HelpColumns()), "\n"));
  }
  [[nodiscard]] std::string make_footer(const CLI::App* app) const override {
    return fmt::format("{}\n", fmt::join(Wrapped(app->get_footer(), HelpColumns()), "\n"));
  }

 private:
  static std::string Row(const std::string& name, const std::string& help) {
    std::string row = "  " + name;
    const std::string margin(HelpMargin(), ' ');
    row += row.size() < margin.size() ? margin.substr(row.size()) : "\n" + margin;
    return fmt::format("{}{}\n", row,
                       fmt::join(Wrapped(help, HelpColumns() - margin.size()), "\n" + margin));
  }
};

}  // namespace

std::vector<std::string> Synopsis(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return {command.get_name() + " [OPTIONS] COMMAND"};
  const std::string begin = fmt::format("{} {} [OPTIONS]", parent->get_name(), command.get_name());
  if (command.get_option_no_throw("--no-workdir") != nullptr) {
    return {begin + " [FILE] [-- WORDS]", begin + " -H HOST,... -- COMMAND"};
  }
  std::string line = begin;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) line += " " + InSynopsis(*option);
  }
  return {command.get_name() == "exec" ? line + " -- COMMAND" : line};
}

std::string ShapeOf(const CLI::Option& option) {
  if (option.get_positional()) {
    return IsShape(option) ? option.get_type_name() : option.get_name();
  }
  const std::string names = option.get_name(false, true);
  const std::string value = ValueOf(option);
  return option.get_items_expected_max() == 0 || value.empty() ? names : names + " " + value;
}

std::string HelpOf(const CLI::Option& option) {
  std::vector<std::string> others;
  for (const CLI::Option* other : option.get_excludes()) others.push_back(other->get_name());
  if (others.empty()) return option.get_description();
  std::ranges::sort(others);
  return fmt::format("{}{}not with {}", option.get_description(),
                     option.get_description().empty() ? "" : "; ", fmt::join(others, ", "));
}

std::shared_ptr<CLI::Formatter> HelpFormat() { return std::make_shared<Format>(); }

}  // namespace tfdist::cli
