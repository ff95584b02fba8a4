#include "cli/ssh/config/config_paths.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/getent.h"
#include "base/text.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/host_config.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {
namespace {

constexpr size_t kMaxPasswdBytes = 16 << 20;
// A directory server may have to be asked.
constexpr std::chrono::seconds kPasswdLimit{10};
constexpr size_t kNameField = 0;
constexpr size_t kHomeField = 5;

std::optional<std::string> Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::string FieldOf(std::string_view passwd_line, size_t field) {
  std::string_view value = TakeUpTo(':', passwd_line);
  for (; field > 0; --field) value = TakeUpTo(':', passwd_line);
  return std::string(value.substr(0, value.find('\n')));
}

// A line of passwd(5), by name or number; empty where there is none.
std::string PasswdLine(const std::string& key) {
  if (key.empty() || key.front() == '-') return "";
  const auto answer = AskGetent("passwd", key, SystemClock().Now() + kPasswdLimit);
  return answer && answer->exit_code == 0 ? answer->output : "";
}

std::string LookUpHomeFolder() {
  const auto local = ReadFileIfExists("/etc/passwd", kMaxPasswdBytes);
  std::string home = HomeInPasswd(local.value_or(""), getuid());
  if (home.empty()) home = FieldOf(PasswdLine(std::to_string(getuid())), kHomeField);
  return home.empty() ? Variable("HOME").value_or("") : home;
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

[[noreturn]] void Refuse(std::string_view path, const std::string& why) {
  throw Error(Phase::kConnect,
              fmt::format("ssh's configuration names {}: {}", cli::OnOneLine(path), why),
              std::string(kUseOpenssh));
}

// ssh before 8.4 prints "~" as it was written.
bool StartsPath(std::string_view piece) { return piece.starts_with('/') || piece.starts_with('~'); }

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// "~/..." and "~user/...".
std::string WithHome(std::string_view path) {
  if (!path.starts_with('~')) return std::string(path);
  const size_t end = std::min(path.find('/'), path.size());
  const std::string user(path.substr(1, end - 1));
  const std::string home = user.empty() ? HomeFolder() : FieldOf(PasswdLine(user), kHomeField);
  if (home.empty()) Refuse(path, "there is no such account here");
  return home + std::string(path.substr(end));
}

}  // namespace

const std::string& HomeFolder() {
  static const std::string home = LookUpHomeFolder();
  return home;
}

ConfigPaths::ConfigPaths(const HostConfig& host, const Target& target)
    : tokens_{{'d', HomeFolder()},
              {'h', host.host_name},
              {'n', target.name},
              {'p', std::to_string(host.port)},
              {'r', host.user},
              {'k', host.host_key_alias.empty() ? target.name : host.host_key_alias},
              {'i', std::to_string(getuid())},
              {'%', "%"}} {}

std::string ConfigPaths::Expand(std::string_view path) const {
  std::string rest = WithHome(path);
  std::string expanded;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest.compare(i, 2, "${") == 0) {
      const size_t end = rest.find('}', i);
      const auto value =
          end == std::string::npos ? std::nullopt : Variable(rest.substr(i + 2, end - i - 2));
      if (!value) Refuse(path, "that variable is not set here");
      expanded += *value;
      i = end;
    } else if (rest[i] != '%') {
      expanded += rest[i];
    } else {
      const char token = ++i < rest.size() ? rest[i] : '\0';
      const auto found = tokens_.find(token);
      if (found != tokens_.end()) {
        expanded += found->second;
      } else if (token == 'u') {
        expanded += FieldOf(PasswdLine(std::to_string(getuid())), kNameField);
      } else if (token == 'l' || token == 'L') {
        const std::string name = HostName();
        expanded += token == 'l' ? name : name.substr(0, name.find('.'));
      } else {
        Refuse(path,
               fmt::format("tfdist cannot tell what %{} stands for", cli::OnOneLine({&token, 1})));
      }
    }
  }
  return expanded;
}

std::vector<std::string> KnownHostsFiles(std::string_view keyword, std::string_view value) {
  const auto refuse = [&] {
    throw Error(
        Phase::kHostKey,
        fmt::format("ssh's configuration has {} {}: tfdist cannot tell which blanks are part of "
                    "a path",
                    keyword, cli::OnOneLine(value)),
        fmt::format("name files there by paths from / without blanks; or, {}", kUseOpenssh));
  };
  // Blanks at an end of a path are printed as all others are.
  if (value.starts_with(' ') || value.ends_with(' ') || value.find("  ") != value.npos) refuse();
  std::vector<std::string> files;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view piece = TakeUpTo(' ', rest);
    if (files.empty() || StartsPath(piece)) {
      files.push_back(WithHome(piece));
    } else {
      files.back().append(" ").append(piece);
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const bool is_plain = StartsPath(files[i]) && files[i].find(' ') == std::string::npos;
    if (!is_plain && !Exists(files[i])) refuse();
    std::string joined = files[i];
    for (size_t j = i + 1; j < files.size(); ++j) {
      joined.append(" ").append(files[j]);
      if (Exists(joined)) refuse();
    }
  }
  return files;
}

}  // namespace tfdist::ssh
