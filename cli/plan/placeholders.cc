#include "cli/plan/placeholders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/home_word.h"
#include "cli/cluster_file/nearest.h"
#include "cli/plan/cluster_spec.h"
#include "cli/plan/placement.h"

namespace tfdist::cli {
namespace {

using protocol::SlotAddress;
using Parts = std::vector<protocol::Text::Part>;

// Linux: MAX_ARG_STRLEN, execve(2). Each part is at least a byte.
constexpr size_t kMostParts = size_t{128} * 1024;
// Of all tasks' texts together, which may be thousands, each with hundreds of placeholders.
constexpr size_t kMostBytes = size_t{1} << 30;

constexpr std::string_view kNames[] = {
    "job",        "task",      "task_type",  "task_index",  "host",
    "port",       "address",   "runtime",    "shared",      "workdir",
    "keep",       "setup",     "rank",       "local_rank",  "local_world_size",
    "world_size", "node_rank", "node_count", "worker_count"};

constexpr std::string_view kEnvironment = "env:";
constexpr std::string_view kData = "data:";

constexpr std::string_view kNamedPort = "port.";

bool IsPort(std::string_view word) { return word == "port" || word.starts_with(kNamedPort); }

void AppendLiteral(Parts& parts, std::string_view text) {
  if (parts.empty() || !std::holds_alternative<std::string>(parts.back())) {
    parts.emplace_back(std::string());
  }
  std::get<std::string>(parts.back()) += text;
}

void AppendAddress(Parts& parts, const TaskOnHost& task) {
  parts.emplace_back(SlotAddress{task.slot, true});
  AppendLiteral(parts, fmt::format(":{}", task.port));
}

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == ':' || c == '.';
}

// The word of "{word}" at the beginning of `text`, or empty: then the brace is just a brace.
std::string_view WordIn(std::string_view text) {
  const size_t close = text.find('}');
  if (close == text.npos) return {};
  const std::string_view word = text.substr(1, close - 1);
  const bool is_word = std::all_of(word.begin(), word.end(), IsWordCharacter);
  const bool is_name = !word.empty() && IsTaskTypeName(word.substr(0, 1));  // begins with a letter
  return is_word && is_name ? word : std::string_view();
}

// "TaskIndex" and "taskindex" for "task_index".
std::string WithoutStyle(std::string_view word) {
  std::string plain;
  for (const char c : word) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

// The one that `word` writes in another style, or of which it is the end or a beginning with "name" or "id": "Index", "taskname".
std::string_view SameBut(std::string_view word, const std::vector<std::string_view>& known) {
  const std::string wanted = WithoutStyle(word);
  const auto find = [&](const auto& matches) {
    const auto found = std::ranges::find_if(
        known, [&](std::string_view one) { return matches(WithoutStyle(one)); });
    return found == known.end() ? std::string_view() : *found;
  };
  const auto is_same = [&](const std::string& one) { return one == wanted; };
  if (const auto found = find(is_same); !found.empty()) return found;
  const auto is_named = [&](const std::string& one) {
    return wanted == one + "name" || wanted == one + "id";
  };
  if (const auto found = find(is_named); !found.empty()) return found;
  constexpr size_t kShortestEnd = 4;
  if (wanted.size() < kShortestEnd) return {};
  return find([&](const std::string& one) { return one.ends_with(wanted); });
}

}  // namespace

std::vector<std::string_view> PlaceholdersIn(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = text.find('{'); at < text.size(); at = text.find('{', at + 1)) {
    const bool of_shell = at > 0 && text[at - 1] == '$';
    const std::string_view word = of_shell ? std::string_view() : WordIn(text.substr(at));
    if (!word.empty()) words.push_back(word);
    if (text.substr(at).starts_with("{{")) ++at;
  }
  return words;
}

struct Placeholders::Use {
  std::string_view word;
  const TaskOnHost& task;
  const Where& where;
};

Placeholders::Placeholders(const Plan& plan, bool complete, Problems& problems)
    : plan_(plan), complete_(complete), problems_(problems) {
  for (const TaskOnHost& task : plan.tasks) {
    tasks_[task.id] = &task;
    if (IsChiefType(task.id.type) || task.id.type == "worker") ++worker_count_;
  }
}

protocol::Text Placeholders::Expand(const Located<std::string>& text, const TaskOnHost& task) {
  protocol::Text expanded;
  std::string_view rest = text.value;
  if (const size_t home = HomeIn(rest); home != rest.npos) {
    if (home > 0) AppendLiteral(expanded.parts, rest.substr(0, home));
    expanded.parts.emplace_back(protocol::HostVariable{"HOME"});
    rest.remove_prefix(home + 1);
  }
  while (expanded.parts.size() < kMostParts) {
    const size_t brace = rest.find('{');
    AppendLiteral(expanded.parts, rest.substr(0, brace));
    if (brace == rest.npos) break;
    rest.remove_prefix(brace);
    // "${LR}" is a shell's variable.
    const bool of_shell = brace > 0 && rest.data()[-1] == '$';
    const std::string_view word = of_shell ? std::string_view() : WordIn(rest);
    if (!word.empty()) {
      Resolve({word, task, text.where}, expanded.parts);
      rest.remove_prefix(word.size() + 2);
    } else {
      AppendLiteral(expanded.parts, "{");
      rest.remove_prefix(rest.starts_with("{{") ? 2 : 1);
    }
  }
  return Charge(text, expanded) ? expanded : protocol::Text();
}

bool Placeholders::Charge(const Located<std::string>& text, const protocol::Text& expanded) {
  spent_bytes_ += expanded.parts.size() * sizeof(expanded.parts.front());
  for (const auto& part : expanded.parts) {
    if (const auto* literal = std::get_if<std::string>(&part)) spent_bytes_ += literal->size();
  }
  if (expanded.parts.size() < kMostParts && spent_bytes_ < kMostBytes) return true;
  spent_bytes_ = std::min(spent_bytes_, kMostBytes);
  problems_.Add(text.where, "is too long once its placeholders are filled in, for every task");
  return false;
}

void Placeholders::Resolve(const Use& use, Parts& parts) const {
  if (ResolveOwn(use, parts) || ResolveRank(use, parts) || ResolvePath(use, parts) ||
      ResolveData(use, parts) || ResolveHosts(use, parts) || ResolveVariable(use, parts))
    return;
  if (use.word.find_first_of(":.") != use.word.npos) return ResolveOther(use, parts);
  if (use.word == "tensorflow_server") {
    Report(use, "is a whole command", "write command = [\"{tensorflow_server}\"]");
    return;
  }
  Report(use, "is no placeholder", HintFor(use.word));
}

bool Placeholders::ResolveOwn(const Use& use, Parts& parts) const {
  const TaskId& id = use.task.id;
  if (use.word == "job") {
    AppendLiteral(parts, plan_.name);
  } else if (use.word == "task") {
    AppendLiteral(parts, ToString(id));
  } else if (use.word == "task_type") {
    AppendLiteral(parts, id.type);
  } else if (use.word == "task_index") {
    AppendLiteral(parts, std::to_string(id.index));
  } else if (use.word == "host" || use.word == "address" || IsPort(use.word)) {
    AppendPlace(use, use.task, use.word, parts);
  } else {
    return false;
  }
  return true;
}

bool Placeholders::ResolveRank(const Use& use, Parts& parts) const {
  int number = 0;
  if (use.word == "rank") {
    number = use.task.rank;
  } else if (use.word == "local_rank") {
    number = use.task.local_rank;
  } else if (use.word == "local_world_size") {
    number = use.task.rank < 0 ? -1 : use.task.local_world_size;
  } else if (use.word == "node_rank") {
    number = use.task.node_rank;
  } else if (use.word == "node_count") {
    number = plan_.node_count;
  } else if (use.word == "world_size") {
    number = plan_.world_size;
  } else if (use.word == "worker_count") {
    number = worker_count_;
  } else {
    return false;
  }
  if (number < 0) {
    Report(use, fmt::format("stands for nothing: {} is not in the cluster spec, so it has no rank",
                            ToString(use.task.id)));
  }
  AppendLiteral(parts, std::to_string(number));
  return true;
}

bool Placeholders::ResolvePath(const Use& use, Parts& parts) const {
  if (use.word == "runtime") {
    AppendLiteral(parts, protocol::kRuntimePath);
  } else if (use.word == "keep") {
    AppendLiteral(parts, protocol::kKeepPath);
  } else if (use.word == "setup") {
    if (!plan_.set_up) Report(use, "stands for nothing: the file has no [setup]");
    AppendLiteral(parts, protocol::kSetUpPath);
  } else if (use.word == "workdir") {
    if (!plan_.workdir) Report(use, "stands for nothing: [task] has no workdir");
    AppendLiteral(parts, protocol::kWorkdirPath);
  } else if (use.word == "shared") {
    if (plan_.shared.empty())
      Report(use, "stands for nothing: [task] has no shared",
             "--set task.shared=FOLDER, a folder that all hosts see");
    AppendLiteral(parts, plan_.shared);
  } else {
    return false;
  }
  return true;
}

// "data:digits"
bool Placeholders::ResolveData(const Use& use, Parts& parts) const {
  if (!use.word.starts_with(kData)) return false;
  const std::string_view name = use.word.substr(kData.size());
  std::vector<std::string_view> known;
  for (const DataPlan& data : plan_.data) known.push_back(data.name);
  if (std::ranges::find(known, name) == known.end()) {
    const std::string hint = DidYouMean(name, known);
    Report(use, "stands for nothing: [data] has no such name", hint);
  }
  AppendLiteral(parts, protocol::DataPath(name));
  return true;
}

bool Placeholders::ResolveHosts(const Use& use, Parts& parts) const {
  if (use.word == kClusterText || !plan_.common.contains(use.word)) return false;
  parts.emplace_back(protocol::CommonText{std::string(use.word)});
  return true;
}

// "env:PATH"
bool Placeholders::ResolveVariable(const Use& use, Parts& parts) const {
  if (!use.word.starts_with(kEnvironment)) return false;
  const std::string_view name = use.word.substr(kEnvironment.size());
  if (name.empty() || name.find_first_of(".:") != name.npos) {
    Report(use, "names no variable", "write {env:PATH} for the PATH of the host");
  }
  parts.emplace_back(protocol::HostVariable{std::string(name)});
  return true;
}

// "worker:0.host"
void Placeholders::ResolveOther(const Use& use, Parts& parts) const {
  const size_t dot = use.word.find('.');
  const std::optional<TaskId> id = ParseTaskId(use.word.substr(0, dot));
  const std::string_view what = dot == use.word.npos ? "" : use.word.substr(dot + 1);
  if (!id || (what != "host" && what != "address" && !IsPort(what))) {
    Report(use, "is no placeholder",
           "another task's are {worker:0.host}, .port, .port.NAME (more_ports) and .address");
    return;
  }
  const auto task = tasks_.find(*id);
  if (task != tasks_.end()) {
    AppendPlace(use, *task->second, what, parts);
  } else if (complete_) {
    Report(use, fmt::format("names a task that the job does not have: {}", ToString(*id)));
  }
}

void Placeholders::AppendPlace(const Use& use, const TaskOnHost& task, std::string_view what,
                               Parts& parts) const {
  if (what == "host") {
    parts.emplace_back(SlotAddress{task.slot, false});
  } else if (what.starts_with(kNamedPort)) {
    AppendNamedPort(use, task, std::string(what.substr(kNamedPort.size())), parts);
  } else if (task.port == 0) {
    Report(use, fmt::format("stands for nothing: {} has no port", ToString(task.id)));
  } else if (what == "port") {
    AppendLiteral(parts, std::to_string(task.port));
  } else {
    AppendAddress(parts, task);
  }
}

void Placeholders::AppendNamedPort(const Use& use, const TaskOnHost& task, const std::string& name,
                                   Parts& parts) const {
  const auto port = task.more_ports.find(name);
  if (port != task.more_ports.end()) return AppendLiteral(parts, std::to_string(port->second));
  std::vector<std::string_view> known;
  for (const auto& [other, its_port] : task.more_ports) known.push_back(other);
  const std::string_view nearest = NearestWord(name, known);
  Report(use, fmt::format("names a port that {} does not have", ToString(task.id)),
         nearest.empty()
             ? fmt::format(
                   "write more_ports = {{ {} = PORT }} in [roles.{}] (--set "
                   "roles.{}.more_ports.{}=PORT), or name the task that has it: {{NAME:0.port.{}}}",
                   name, task.id.type, task.id.type, name, name)
             : fmt::format("did you mean 'port.{}'?", nearest));
}

void Placeholders::Report(const Use& use, const std::string& why, std::string hint) const {
  problems_.Add(use.where, fmt::format("{{{}}} {}", use.word, why), std::move(hint));
}

std::string Placeholders::HintFor(std::string_view word) const {
  std::vector<std::string_view> known(std::begin(kNames), std::end(kNames));
  for (const auto& [name, text] : plan_.common) {
    if (name != kClusterText) known.push_back(name);
  }
  std::string_view nearest = SameBut(word, known);
  if (nearest.empty()) nearest = NearestWord(word, known);
  const std::string brace = fmt::format("for the text itself, write {{{{{}}}", word);
  return nearest.empty() ? brace : fmt::format("did you mean '{{{}}}'? {}", nearest, brace);
}

}  // namespace tfdist::cli
