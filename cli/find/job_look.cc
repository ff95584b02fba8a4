#include "cli/find/job_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "cli/show/report.h"
#include "cli/stream/host_fold.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using protocol::HostLook;
using protocol::JobState;
using protocol::TaskConnection;
using protocol::TaskLook;
using protocol::TaskPhase;

constexpr auto kQuickLimit = 3s;
constexpr auto kStacksLimit = 8s;
constexpr auto kUsageLimit = 4s;
constexpr int64_t kNanosecondsOfMillisecond = 1'000'000;
constexpr double kBusyPercent = 50;  // of one CPU: it computes, whatever else it waits for

std::vector<HostLook> InOrder(std::vector<HostLook> hosts) {
  std::ranges::sort(hosts, {}, &HostLook::slot);
  return hosts;
}

// The hosts' answers, as far as they come in time. Only tasks of the plan, from where they run.
std::vector<HostLook> AskForLooks(AgentLink& link, const JobState& state,
                                  const protocol::LookRequest& request, TimePoint deadline) {
  const uint64_t id = link.Send(protocol::type::kLook, request);
  std::vector<HostLook> hosts;
  while (const auto message = link.Receive(deadline)) {
    if (message->id != id) continue;
    protocol::ThrowIfError(*message);
    if (message->type == protocol::type::kEnd) return InOrder(std::move(hosts));
    if (message->type != protocol::type::kLooked) continue;
    HostLook look = protocol::Body<HostLook>(*message);
    const auto slot = look.slot;
    look = protocol::Bounded(std::move(look), slot);
    std::erase_if(look.tasks, [&](const TaskLook& task) {
      const auto known = state.tally.index.find(task.task);
      return known == state.tally.index.end() ||
             state.SeatOf(state.plan.tasks[known->second]) != look.slot;
    });
    hosts.push_back(std::move(look));
  }
  link.SendWithId(protocol::type::kCancel, id, json::object());
  return InOrder(std::move(hosts));
}

int64_t LeastSilence(const std::vector<HostLook>& hosts) {
  int64_t least = -1;
  for (const HostLook& host : hosts) {
    for (const TaskLook& task : host.tasks) {
      if (task.silent_ms < 0) continue;
      least = least < 0 ? task.silent_ms : std::min(least, task.silent_ms);
    }
  }
  return least;
}

std::string PortOfEnd(std::string_view end) {
  return std::string(end.substr(std::min(end.rfind(':') + 1, end.size())));
}

std::string AddressOfEnd(std::string_view end) {
  std::string_view address = end.substr(0, end.rfind(':'));
  if (address.starts_with('[')) address = address.substr(1, address.size() - 2);
  return std::string(address);
}

// Who is at the other end of whose connection.
class Sight {
 public:
  Sight(const JobLook& look, const JobState& state) : state_(state) {
    for (const HostLook& host : look.hosts) {
      for (const TaskLook& task : host.tasks) Add(host.slot, task);
    }
  }

  struct Seen {
    const TaskLook* look;
    int slot;
  };
  [[nodiscard]] const std::map<std::string, Seen>& tasks() const { return tasks_; }

  // nullptr: none of the job's, or not known.
  [[nodiscard]] const TaskLook* PeerOf(const TaskConnection& connection) const {
    if (!connection.half_open) {
      const auto found = ends_.find({connection.remote, connection.local});
      return found == ends_.end() ? nullptr : tasks_.at(found->second).look;
    }
    for (const auto& [name, seen] : tasks_) {
      const bool is_port = std::ranges::any_of(seen.look->ports, [&](int port) {
        return std::to_string(port) == PortOfEnd(connection.remote);
      });
      if (is_port && IsAt(seen.slot, AddressOfEnd(connection.remote))) return seen.look;
    }
    return nullptr;
  }
  // A parameter server answers; it waits for nobody.
  [[nodiscard]] bool Serves(const TaskLook& task) const {
    return state_.plan.tasks[state_.tally.index.at(task.task)].serves;
  }
  // The host of such an address, as the user wrote it.
  [[nodiscard]] std::optional<int> SlotAt(const std::string& address) const {
    for (size_t slot = 0; slot < state_.plan.slots.size(); ++slot) {
      if (IsAt(static_cast<int>(slot), address)) return static_cast<int>(slot);
    }
    return std::nullopt;
  }

 private:
  void Add(int slot, const TaskLook& task) {
    tasks_[task.task] = {&task, slot};
    for (const TaskConnection& connection : task.connections) {
      addresses_[slot].insert(AddressOfEnd(connection.local));
      if (!connection.half_open) ends_[{connection.local, connection.remote}] = task.task;
    }
  }
  [[nodiscard]] bool IsAt(int slot, const std::string& address) const {
    if (state_.plan.slots.at(static_cast<size_t>(slot)).address == address) return true;
    const auto own = addresses_.find(slot);
    // All test hosts of one machine, say, have each other's loopback addresses.
    return own != addresses_.end() && own->second.contains(address) && !address.starts_with("127.");
  }

  const JobState& state_;
  std::map<std::string, Seen> tasks_;
  std::map<std::pair<std::string, std::string>, std::string> ends_;  // local and remote end -> task
  std::map<int, std::set<std::string>> addresses_;                   // of a slot
};

bool IsStopped(const TaskLook& task) { return task.state == "T" || task.state == "t"; }
bool IsBusy(const TaskLook& task) { return task.cpu_percent >= kBusyPercent; }

using TaskNames = std::vector<std::string>;

std::string Subject(const TaskNames& names, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", FoldHosts(names), names.size() == 1 ? one : many);
}

// Tasks that `matches`, in order.
TaskNames TasksThat(const Sight& sight, const std::function<bool(const TaskLook&)>& matches) {
  TaskNames names;
  for (const auto& [name, seen] : sight.tasks()) {
    if (matches(*seen.look)) names.push_back(name);
  }
  return names;
}

bool IsConnected(const Sight& sight, const TaskLook& task, const TaskLook& other) {
  return std::ranges::any_of(task.connections, [&](const TaskConnection& connection) {
    return !connection.half_open && sight.PeerOf(connection) == &other;
  });
}

void AddStopped(const Sight& sight, std::vector<std::string>& sentences) {
  for (const auto& [name, seen] : sight.tasks()) {
    const TaskLook& stopped = *seen.look;
    if (!IsStopped(stopped)) continue;
    const TaskNames waiting = TasksThat(sight, [&](const TaskLook& task) {
      return !IsStopped(task) && !IsBusy(task) && !sight.Serves(task) &&
             IsConnected(sight, task, stopped);
    });
    sentences.push_back(waiting.empty()
                            ? fmt::format("{} is stopped", name)
                            : fmt::format("{} {}, which is stopped",
                                          Subject(waiting, "waits for", "wait for"), name));
  }
}

// Why nobody answers at `end`.
std::string WhyNoAnswer(const Sight& sight, const JobState& state, const std::string& end,
                        const TaskLook* peer) {
  const auto slot = sight.SlotAt(AddressOfEnd(end));
  if (slot && state.slots.at(static_cast<size_t>(*slot)).state == protocol::HostState::kLost) {
    return fmt::format("host {} is lost", HostOfSlot(state, *slot));
  }
  const bool listens = peer != nullptr && std::ranges::any_of(peer->listens, [&](int port) {
                         return std::to_string(port) == PortOfEnd(end);
                       });
  if (peer != nullptr && !listens) return "it does not listen there";
  return "packets are dropped on the way, or the host is off";
}

void AddHalfOpen(const Sight& sight, const JobState& state, std::vector<std::string>& sentences) {
  std::map<std::string, TaskNames> waiting;  // by the other end
  std::map<std::string, const TaskLook*> peers;
  for (const auto& [name, seen] : sight.tasks()) {
    std::set<std::string> ends;
    for (const TaskConnection& connection : seen.look->connections) {
      if (!connection.half_open || !ends.insert(connection.remote).second) continue;
      waiting[connection.remote].push_back(name);
      peers[connection.remote] = sight.PeerOf(connection);
    }
  }
  for (const auto& [end, names] : waiting) {
    const TaskLook* peer = peers[end];
    sentences.push_back(
        fmt::format("{} an answer from {}: {}", Subject(names, "waits for", "wait for"),
                    peer == nullptr ? end : fmt::format("{} at {}", peer->task, end),
                    WhyNoAnswer(sight, state, end, peer)));
  }
}

void AddUnconfirmed(const Sight& sight, std::vector<std::string>& sentences) {
  for (const auto& [name, seen] : sight.tasks()) {
    for (const TaskConnection& connection : seen.look->connections) {
      const TaskLook* peer = sight.PeerOf(connection);
      if (connection.half_open || connection.unread_bytes == 0 || peer == nullptr) continue;
      if (IsStopped(*peer) || IsStopped(*seen.look)) continue;
      sentences.push_back(fmt::format("{} has sent {} bytes to {} that are not confirmed now", name,
                                      connection.unread_bytes, peer->task));
    }
  }
}

// Tasks that run, and whose host has not answered.
void AddUnseen(const Sight& sight, const JobState& state, std::vector<std::string>& sentences) {
  TaskNames names;
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const auto task = state.tasks.find(plan.task);
    const bool runs = task != state.tasks.end() && task->second.phase == TaskPhase::kRunning;
    if (runs && !sight.tasks().contains(plan.task)) names.push_back(plan.task);
  }
  if (names.empty()) return;
  sentences.push_back(fmt::format("what {} not known, and {} may write: no answer in time",
                                  Subject(names, "does is", "do is"),
                                  names.size() == 1 ? "it" : "they"));
}

void AddGroup(const TaskNames& names, std::string_view one, std::string_view many,
              std::vector<std::string>& sentences) {
  if (!names.empty()) sentences.push_back(Subject(names, one, many));
}

// Of a program that uses the network: it listens elsewhere, or is connected. Others need no ports.
bool LacksAPort(const TaskLook& task) {
  if (task.listens.empty() && task.connections.empty()) return false;
  return std::ranges::any_of(task.ports, [&](int port) {
    return std::ranges::find(task.listens, port) == task.listens.end();
  });
}

// A cluster that the program's own code names, say, instead of the one in its TF_CONFIG.
void AddPorts(const Sight& sight, std::vector<std::string>& sentences) {
  const TaskNames names = TasksThat(sight, LacksAPort);
  if (names.empty()) return;
  std::set<int> elsewhere;
  for (const std::string& name : names) {
    const TaskLook& task = *sight.tasks().at(name).look;
    elsewhere.insert(task.listens.begin(), task.listens.end());
  }
  std::string sentence =
      Subject(names, "does not listen on the port that the cluster file gives it",
              "do not listen on the ports that the cluster file gives them");
  if (!elsewhere.empty()) {
    sentence += fmt::format(", but on {}: does the program set TF_CONFIG or its cluster itself?",
                            fmt::join(elsewhere, ", "));
  }
  sentences.push_back(std::move(sentence));
}

// Each task has a port in the plan, and all listen elsewhere or not at all; none computes, or has reached another one.
bool IsOfAnotherCluster(const Sight& sight) {
  const auto has_ports = [](const TaskLook& task) { return !task.ports.empty(); };
  const auto is_astray = [&](const TaskLook& task) {
    const bool is_in_place = std::ranges::any_of(task.ports, [&](int port) {
      return std::ranges::find(task.listens, port) != task.listens.end();
    });
    const bool has_peer =
        std::ranges::any_of(task.connections, [&](const TaskConnection& connection) {
          const TaskLook* peer = sight.PeerOf(connection);
          return peer != nullptr && peer != &task;
        });
    return has_ports(task) && !is_in_place && !has_peer && !IsBusy(task);
  };
  const auto listens = [](const TaskLook& task) { return !task.listens.empty(); };
  constexpr size_t kFewestTasks = 2;  // one that is by itself waits for nobody
  return sight.tasks().size() >= kFewestTasks &&
         TasksThat(sight, is_astray).size() == sight.tasks().size() &&
         !TasksThat(sight, listens).empty();
}

// They listen nowhere at all: a program that sets its own TF_CONFIG may dial for ever where nobody is.
void AddNobodyListens(const Sight& sight, std::vector<std::string>& sentences) {
  const auto has_ports = [](const TaskLook& task) { return !task.ports.empty(); };
  const TaskNames all = TasksThat(sight, has_ports);
  const TaskNames idle = TasksThat(sight, [&](const TaskLook& task) {
    return has_ports(task) && task.listens.empty() && task.connections.empty();
  });
  if (all.empty() || idle.size() != all.size()) return;
  sentences.push_back(
      "all tasks sleep, and none listens on the port that TF_CONFIG gives it: does the program set "
      "TF_CONFIG or its "
      "cluster itself? Where py-spy is on the hosts, tfdist why shows Python stacks");
}

// Whoever waits for one of these waits for ever.
TaskNames Succeeded(const JobState& state) {
  TaskNames ended;
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    if (HasSucceeded(state.tasks.at(plan.task))) ended.push_back(plan.task);
  }
  return ended;
}

// Those that may wait for a task that has ended.
TaskNames StillRunning(const Sight& sight) {
  return TasksThat(sight, [&](const TaskLook& task) { return !sight.Serves(task); });
}

void AddEnded(const Sight& sight, const JobState& state, std::vector<std::string>& sentences) {
  const TaskNames ended = Succeeded(state);
  const TaskNames waiting = StillRunning(sight);
  if (ended.empty() || waiting.empty()) return;
  const auto limit = std::chrono::milliseconds(state.plan.finish_timeout_ms);
  if (limit.count() > 0 && !state.tally.decided.empty()) {
    sentences.push_back(
        fmt::format("{} with exit code 0, and {}: {} after that the job ends (`finish_timeout`)",
                    Subject(ended, "has ended", "have ended"),
                    Subject(waiting, "still runs", "still run"), DurationText(limit)));
    return;
  }
  sentences.push_back(fmt::format(
      "{} with exit code 0, and {}: where {} for {}, the job never ends (`done` says whose end is "
      "the job's)",
      Subject(ended, "has ended", "have ended"), Subject(waiting, "still runs", "still run"),
      waiting.size() == 1 ? "it waits" : "they wait", ended.size() == 1 ? ended[0] : "them"));
}

std::string StateOfProcess(const std::string& state) {
  static const std::map<std::string, std::string> names = {
      {"R", "runs"},    {"S", "sleeps"},  {"D", "waits for a disk or a file server"},
      {"T", "stopped"}, {"t", "stopped"}, {"I", "sleeps"}};
  const auto found = names.find(state);
  return found == names.end() ? "has ended" : found->second;
}

json LookedConnectionJson(const Sight& sight, const TaskConnection& connection) {
  const TaskLook* peer = sight.PeerOf(connection);
  return {{"task", peer == nullptr ? "" : peer->task},
          {"local", connection.local},
          {"remote", connection.remote},
          {"half_open", connection.half_open},
          {"unread_bytes", connection.unread_bytes}};
}

json LookedTaskJson(const Sight& sight, const TaskLook& task) {
  json value = {
      {"task", task.task},           {"silent_ms", task.silent_ms},     {"state", task.state},
      {"processes", task.processes}, {"cpu_percent", task.cpu_percent}, {"listens", task.listens},
      {"stack", task.stack},         {"connections", json::array()}};
  for (const TaskConnection& connection : task.connections) {
    value["connections"].push_back(LookedConnectionJson(sight, connection));
  }
  return value;
}

}  // namespace

JobLook LookAtTasks(AgentLink& link, const JobState& state, const LookWish& wish) {
  JobLook look;
  try {
    look.hosts = AskForLooks(link, state, {}, SystemClock().Now() + kQuickLimit);
    look.silent_ms = LeastSilence(look.hosts);
    if (look.silent_ms < wish.silent_after_ms) return look;
    look.hosts = AskForLooks(link, state, {.deep = true, .stacks = wish.stacks},
                             SystemClock().Now() + (wish.stacks ? kStacksLimit : kQuickLimit));
    look.deep = true;
  } catch (const protocol::Refusal&) {
    // An agent of an earlier version.
  }
  return look;
}

std::vector<HostLook> LookAtUsage(AgentLink& link, const JobState& state) {
  try {
    return AskForLooks(link, state, {.usage = true}, SystemClock().Now() + kUsageLimit);
  } catch (const protocol::Refusal&) {
    return {};
  }
}

std::vector<std::string> Sentences(const JobLook& look, const JobState& state) {
  if (!look.deep) return {};
  const Sight sight(look, state);
  std::vector<std::string> sentences;
  AddStopped(sight, sentences);
  AddHalfOpen(sight, state, sentences);
  AddGroup(TasksThat(sight, [](const TaskLook& task) { return task.state == "D"; }),
           "waits for a disk or a file server", "wait for a disk or a file server", sentences);
  AddUnconfirmed(sight, sentences);
  AddUnseen(sight, state, sentences);
  AddGroup(TasksThat(sight, IsBusy), "computes and writes nothing", "compute and write nothing",
           sentences);
  AddEnded(sight, state, sentences);
  if (sentences.empty() || IsOfAnotherCluster(sight)) AddPorts(sight, sentences);
  if (sentences.empty()) AddNobodyListens(sight, sentences);
  if (sentences.empty()) {
    sentences.emplace_back(
        "all tasks sleep; none is stopped, and no connection is half-open. Where py-spy is on the "
        "hosts, tfdist why shows Python stacks");
  }
  return sentences;
}

std::string OfAnotherCluster(const JobLook& look, const JobState& state) {
  if (!look.deep) return "";
  const Sight sight(look, state);
  const bool all_are_seen =
      sight.tasks().size() == state.plan.tasks.size() && Succeeded(state).empty();
  if (!all_are_seen || !IsOfAnotherCluster(sight)) return "";
  std::vector<std::string> sentences;
  AddPorts(sight, sentences);
  return sentences.empty() ? "" : sentences.front();
}

std::string MayWaitForTheEnded(const JobLook& look, const JobState& state) {
  const bool is_bounded = state.plan.finish_timeout_ms > 0;
  if (!look.deep || is_bounded || state.phase != protocol::JobPhase::kRunning) return "";
  const Sight sight(look, state);
  std::vector<std::string> sentences;
  AddUnseen(sight, state, sentences);
  if (!sentences.empty() || !TasksThat(sight, IsBusy).empty()) return "";
  AddEnded(sight, state, sentences);
  return sentences.empty() ? "" : sentences.front();
}

bool MayStandStill(const JobLook& look, const JobState& state) {
  if (!look.deep) return false;
  const bool none_computes = std::ranges::none_of(
      look.hosts, [](const HostLook& host) { return std::ranges::any_of(host.tasks, IsBusy); });
  return none_computes || (!Succeeded(state).empty() && !StillRunning(Sight(look, state)).empty());
}

std::string Describe(const TaskLook& task) {
  const auto half_open = std::ranges::count_if(task.connections, &TaskConnection::half_open);
  return fmt::format("{}, {:.0f} % of a CPU, silent for {}, {} connection{}{}",
                     StateOfProcess(task.state), task.cpu_percent,
                     task.silent_ms < 0 ? "?" : Span(task.silent_ms * kNanosecondsOfMillisecond),
                     task.connections.size(), task.connections.size() == 1 ? "" : "s",
                     half_open == 0 ? "" : fmt::format(" ({} half-open)", half_open));
}

json LookJson(const JobLook& look, const JobState& state) {
  if (!look.deep) return nullptr;
  const Sight sight(look, state);
  json value = {{"silent_ms", look.silent_ms},
                {"sentences", Sentences(look, state)},
                {"tasks", json::array()}};
  for (const HostLook& host : look.hosts) {
    for (const TaskLook& task : host.tasks) value["tasks"].push_back(LookedTaskJson(sight, task));
  }
  return value;
}

}  // namespace tfdist::cli
