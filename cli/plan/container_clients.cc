#include "cli/plan/container_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "job/daemon_clients.h"

namespace tfdist::cli {
namespace {

using protocol::DaemonClient;
using Words = std::vector<std::string_view>;

constexpr size_t kLongestScriptBytes = size_t{256} * 1024;
constexpr size_t kMostNames = 20'000;  // that may be a script's

// Of shell text: quotes and operators part words, as blanks do.
Words ShellWordsOf(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n'\"`;&|()<>{}$=,[]";
  Words words;
  while (true) {
    const size_t begin = text.find_first_not_of(kBetween);
    if (begin == text.npos) return words;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(kBetween), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// Without comments: those tell of what is not run.
std::string ScriptText(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  const auto content = ReadFileIfExists(path, kLongestScriptBytes);
  if (!content || content->find('\0') != std::string::npos) return {};
  std::string text;
  std::string_view rest = *content;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const size_t first = line.find_first_not_of(" \t");
    const bool says_its_shell = text.empty() && line.starts_with("#!");
    if (says_its_shell || (first != line.npos && line[first] != '#'))
      text.append(line).append("\n");
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return text;
}

std::string LiteralsOf(const protocol::Text& text) {
  std::string literals;
  for (const auto& part : text.parts) {
    const auto* literal = std::get_if<std::string>(&part);
    literals += literal == nullptr ? "_" : *literal;
  }
  return literals;
}

bool IsScript(const std::filesystem::path& path, std::string_view text) {
  constexpr std::array<std::string_view, 5> kSuffixes = {".sh", ".bash", ".zsh", ".py", ".pl"};
  return text.starts_with("#!") ||
         std::ranges::find(kSuffixes, path.extension().string()) != kSuffixes.end();
}

bool IsPython(const std::filesystem::path& path, std::string_view text) {
  return path.extension() == ".py" ||
         (text.starts_with("#!") && text.substr(0, text.find('\n')).find("python") != text.npos);
}

// Words that a program of Python's has for other things than at's commands: "for batch in data", "loss at 10 steps".
Words ScriptWords(const std::filesystem::path& path, std::string_view text) {
  Words words = ShellWordsOf(text);
  if (IsPython(path, text))
    std::erase_if(words, [](std::string_view word) { return word == "batch" || word == "at"; });
  return words;
}

class Search {
 public:
  explicit Search(const Plan& plan) : plan_(plan) {}

  const DaemonClient* In(const TaskOnHost& task) {
    std::string command;
    for (const protocol::Text& text : task.argv) command += LiteralsOf(text) + ' ';
    const Words words = ShellWordsOf(command);
    if (const DaemonClient* client = protocol::DaemonClientIn(words)) return client;
    if (!plan_.workdir) return nullptr;
    for (const std::string_view word : words) {
      const auto text = TextOf(word);
      if (!text) continue;
      if (const DaemonClient* client = InScript(word, *text)) return client;
    }
    return nullptr;
  }

 private:
  // Of a file in the workdir; nullopt: there is none, or it was looked at before.
  std::optional<std::string> TextOf(const std::filesystem::path& path) {
    if (path.empty() || path.is_absolute() || path.string().starts_with('-')) return std::nullopt;
    if (known_.size() >= kMostNames || !known_.insert(path.lexically_normal()).second) {
      return std::nullopt;
    }
    try {
      return ScriptText(*plan_.workdir / path);
    } catch (const Error&) {
      return std::nullopt;  // who sends the file says what is wrong with it
    }
  }

  // In a script, and in those that it calls, by their paths in the workdir or beside it ("$(dirname $0)/b.sh").
  const DaemonClient* InScript(const std::filesystem::path& path, const std::string& text) {
    const Words words = ScriptWords(path, text);
    if (const DaemonClient* client = protocol::DaemonClientIn(words)) return client;
    for (const std::string_view word : words) {
      const std::filesystem::path name(word);
      for (const auto& called : {name, path.parent_path() / name.filename()}) {
        const auto further = TextOf(called);
        if (!further || !IsScript(called, *further)) continue;
        if (const DaemonClient* client = InScript(called, *further)) return client;
      }
    }
    return nullptr;
  }

  const Plan& plan_;
  std::set<std::filesystem::path> known_;
};

std::vector<const DaemonClient*> ClientsOf(const Plan& plan) {
  Search search(plan);
  std::vector<const DaemonClient*> clients;
  for (const TaskOnHost& task : plan.tasks) {
    const DaemonClient* client = search.In(task);
    if (client != nullptr && std::ranges::find(clients, client) == clients.end()) {
      clients.push_back(client);
    }
  }
  return clients;
}

}  // namespace

std::vector<std::string> ContainerClientsOf(const Plan& plan) {
  std::vector<std::string> names;
  for (const DaemonClient* client : ClientsOf(plan)) names.emplace_back(client->name);
  return names;
}

std::string UnseenWorkOf(std::string_view client) {
  // A record may name one that only another version of tfdist knew.
  const DaemonClient* known = protocol::FindDaemonClient(client);
  return fmt::format(
      "what {} runs for the job's tasks belongs to {} and cannot be seen{}", client,
      known == nullptr ? "a daemon" : known->worker,
      known == nullptr ? "" : fmt::format(": {} on the hosts shows it", known->shown_by));
}

std::string MayBeLeft(std::string_view call) {
  const DaemonClient* known = protocol::FindDaemonClient(call.substr(0, call.find(' ')));
  return fmt::format("may be left: what {} began; it belongs to {}{}", call,
                     known == nullptr ? "a daemon" : known->worker,
                     known == nullptr ? "" : fmt::format(", and {} shows it", known->shown_by));
}

void WarnOfContainerClients(Plan& plan) {
  for (const DaemonClient* client : ClientsOf(plan)) {
    plan.warnings.push_back(
        fmt::format("a task runs {}, which hands its work to {}: `down` and restarts end the "
                    "client only; {}",
                    client->name, client->worker, client->remedy));
  }
}

}  // namespace tfdist::cli
