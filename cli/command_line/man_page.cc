#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line/help.h"

namespace tfdist::cli {
namespace {

// man(7): a backslash begins an escape, a dot or quote at a line's begin a request; "-" alone would
// become a typographic hyphen, which nobody can paste.
std::string Escaped(std::string_view text) {
  std::string escaped;
  bool at_begin = true;
  for (const char c : text) {
    if (at_begin && (c == '.' || c == '\'')) escaped += "\\&";
    at_begin = c == '\n';
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Bold(std::string_view text) { return fmt::format("\\fB{}\\fR", Escaped(text)); }

std::string Row(std::string_view name, std::string_view help) {
  return fmt::format(".TP\n{}\n{}\n", Bold(name), help.empty() ? "\\&" : Escaped(help));
}

std::string Footer(const CLI::App& app) { return app.get_footer(); }

// Its own: commands inherit that of the whole.
std::string FooterOf(const CLI::App& command) {
  const std::string footer = Footer(command);
  return footer == Footer(*command.get_parent()) ? "" : ".PP\n" + Escaped(footer) + "\n";
}

std::string CommandPart(const CLI::App& command) {
  std::string part = fmt::format(".SS {}\n", command.get_name());
  for (const std::string& line : Synopsis(command)) part += fmt::format("{}\n.br\n", Bold(line));
  part += fmt::format(".PP\n{}\n", Escaped(command.get_description()));
  for (const CLI::Option* option : command.get_options()) {
    if (option == command.get_help_ptr() || option->get_group().empty()) continue;
    part += Row(ShapeOf(*option), HelpOf(*option));
  }
  return part + FooterOf(command);
}

constexpr std::string_view kDescription = R"(.SH DESCRIPTION
.PP
A cluster file (TOML) lists hosts that can be reached by SSH, and a program. \fBtfdist up\fR puts a small
static agent on each host, computes TF_CONFIG for each task, starts parameter servers and workers, and
streams their output. The job goes on when the terminal is closed. When it ends, no process is left.
.PP
The hosts need nothing but an SSH server. They are reached as
.BR ssh_config (5)
says, and their keys are checked against known_hosts as
.BR ssh (1)
checks them.
)";

constexpr std::string_view kEnd = R"(.SH ENVIRONMENT
.TP
.B NO_COLOR
when it is set and not empty, output has no colors
.TP
.B XDG_STATE_HOME
where this machine's list of jobs lies, in the folder \fItfdist\fR (~/.local/state)
.TP
.B TMPDIR
where a work folder is packed before it is sent
.SH FILES
.TP
.I /tmp/tfdist-masters-*
control sockets of your own ssh, where that connects, while a command runs
.TP
.I ~/.cache/tfdist
on each host: agents, files that were sent, and the folders of jobs with their logs
.SH SEE ALSO
.BR ssh (1),
.BR ssh_config (5)
)";

}  // namespace

std::string ManPage(const CLI::App& app, const std::string& version) {
  std::string page =
      fmt::format(".TH TFDIST 1 \"\" \"{}\" \"User Commands\"\n.nh\n.ad l\n", Escaped(version));
  page += fmt::format(".SH NAME\ntfdist \\- {}\n", Escaped(app.get_description()));
  page += ".SH SYNOPSIS\n" + Bold("tfdist") + " \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  page += kDescription;
  page += ".SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    page += CommandPart(*command);
  }
  page += ".SH EXIT STATUS\n.PP\n" + Escaped(Footer(app)) + "\n";
  return page + std::string(kEnd);
}

}  // namespace tfdist::cli
