#include "cli/ssh/config/host_configs.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::ssh {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kFreshFor{5};
constexpr size_t kMaxConfigBytes = 4 << 20;

// Where ssh looks for its configuration. Whatever it has read it has said; what it has not said
// although it is there, it may say in other words than we know.
bool SaysWhatItReads(const Target& target, const std::vector<std::string>& files) {
  std::vector<std::string> expected = {UserConfigFile().string(), "/etc/ssh/ssh_config"};
  if (!target.config.empty()) expected = {target.config.string()};
  return std::ranges::all_of(expected, [&](const std::string& file) {
    return access(file.c_str(), R_OK) != 0 || std::ranges::find(files, file) != files.end();
  });
}

std::optional<ConfigPatterns> PatternsOf(const Target& target, const SshAnswer& answer) {
  const std::vector<std::string> files = FilesRead(answer.errors);
  if (!SaysWhatItReads(target, files)) return std::nullopt;
  std::vector<std::string> texts;
  for (const std::string& file : files) {
    try {
      texts.push_back(ReadFileIfExists(file, kMaxConfigBytes).value_or(""));
    } catch (const Error&) {
      return std::nullopt;  // no plain file, or huge: each host is asked for
    }
  }
  return ConfigPatterns::Parse(texts);
}

// Lists of algorithms do not depend on it, and have many short words that may be hosts' names.
bool MayHoldAName(std::string_view line) {
  const std::string_view keyword = line.substr(0, line.find(' '));
  return !keyword.ends_with("algorithms") && keyword != "ciphers" && keyword != "macs";
}

constexpr std::string_view kControlPath = "controlpath ";

// Where the user's own connections would be.
bool HasSockets(const fs::path& folder) {
  std::error_code none;  // it may go meanwhile
  for (fs::directory_iterator it(folder, none); it != end(it); it.increment(none)) {
    if (it->is_socket(none)) return true;
  }
  return false;
}

// The lines that hold for each host of the same signature: all but its name. nullopt when others
// depend on the name as well (HostName %h.cluster, keys by host), or on its hash, as a ControlPath does that may be in use.
std::optional<std::string> CommonLines(std::string_view output, const Target& target) {
  const std::string& name = target.name;
  std::string common;
  bool is_taken_as_it_is = false;
  while (!output.empty()) {
    const std::string_view line = TakeUpTo('\n', output);
    if (line == "hostname " + name) {
      is_taken_as_it_is = true;
    } else if (IsUsed(line.substr(0, line.find(' ')))) {
      if (line.starts_with(kControlPath)) {
        if (HasSockets(fs::path(line.substr(kControlPath.size())).parent_path()))
          return std::nullopt;
        continue;
      }
      if (MayHoldAName(line) && line.find(name) != std::string_view::npos) return std::nullopt;
      common.append(line).append("\n");
    }
  }
  if (!is_taken_as_it_is) return std::nullopt;
  return common;
}

}  // namespace

HostConfig HostConfigs::Of(const Target& target, TimePoint deadline) {
  if (!IsPlainHostName(target.name)) return ReadConfig(target, deadline);
  std::optional<std::string> own_output;
  const auto answer = AnswerFor(*KindOf(target), target, deadline, own_output);
  if (answer != nullptr) {
    const MutexLock lock(answer->mutex);
    if (!answer->asked) {
      answer->asked = true;  // if ssh fails for this host, each of the others has its own try
      own_output = AskSsh(target, deadline, SshWords::kFew).output;
      answer->common = CommonLines(*own_output, target);
    }
    if (answer->common && !own_output) {
      return ParseConfig(*answer->common + "hostname " + target.name + "\n", target);
    }
  }
  return own_output ? ParseConfig(*own_output, target) : ReadConfig(target, deadline);
}

std::shared_ptr<HostConfigs::Kind> HostConfigs::KindOf(const Target& target) {
  std::string key;
  for (const std::string& part :
       {target.config.string(), target.user, target.port ? std::to_string(*target.port) : "",
        target.identity_file, std::string(target.accept_new ? "accept-new" : ""),
        std::string(target.strict ? "strict" : "")}) {
    key.append(part).push_back('\0');
  }
  const TimePoint now = SystemClock().Now();
  const MutexLock lock(mutex_);
  std::shared_ptr<Kind>& kind = kinds_[key];
  if (kind == nullptr || now - kind->since > kFreshFor) {
    kind = std::make_shared<Kind>();
    kind->since = now;
  }
  return kind;
}

std::shared_ptr<HostConfigs::Answer> HostConfigs::AnswerFor(
    Kind& kind, const Target& target, TimePoint deadline, std::optional<std::string>& own_output) {
  const MutexLock lock(kind.mutex);
  std::optional<std::string> common;
  if (!kind.asked) {
    kind.asked = true;
    SshAnswer first = AskSsh(target, deadline, SshWords::kMany);
    kind.patterns = PatternsOf(target, first);
    common = CommonLines(first.output, target);
    own_output = std::move(first.output);
  }
  if (!kind.patterns) return nullptr;
  std::shared_ptr<Answer>& answer = kind.answers[kind.patterns->SignatureOf(target.name)];
  if (answer == nullptr) {
    answer = std::make_shared<Answer>();
    const MutexLock answer_lock(answer->mutex);
    answer->asked = own_output.has_value();
    answer->common = std::move(common);
  }
  return answer;
}

}  // namespace tfdist::ssh
