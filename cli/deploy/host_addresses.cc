#include "cli/deploy/host_addresses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/cluster_file/host_address.h"
#include "cli/deploy/resolved_addresses.h"

namespace tfdist::cli {
namespace {

using Answers = std::vector<std::optional<protocol::ResolvedNames>>;

constexpr size_t kMostAddressesNamed = 3;  // in one line

// What a name is worth to the other hosts, the best last.
enum class Worth { kNothing, kToSome, kAnotherMachine, kAll };

// Where all slots are on one machine that does not know what it is called here.
constexpr const char* kThisMachine = "127.0.0.1";

const HostPlan& HostAt(const Plan& plan, size_t slot) { return plan.hosts[slot]; }

bool IsOneMachine(const std::vector<HostPlan>& hosts) {
  return std::ranges::all_of(hosts,
                             [&](const HostPlan& host) { return host.name == hosts.front().name; });
}

bool IsName(const std::string& address) {
  return !IsNumericAddress(address) && !IsLoopback(address);
}

class Names {
 public:
  Names(const Plan& plan, const Answers& answers) : plan_(plan), answers_(answers) {
    for (size_t asker = 0; asker < answers.size(); ++asker) {
      if (!answers[asker]) continue;
      for (const auto& answer : answers[asker]->names) {
        views_[answer.name].emplace_back(asker, Checked(answer.addresses));
      }
    }
    for (const TaskOnHost& task : plan.tasks) {
      if (plan.needs_ports && task.port != 0) to_be_reached_.insert(static_cast<size_t>(task.slot));
    }
    to_be_reached_.insert(0);  // by the agents
  }

  [[nodiscard]] HostAddress Choose(size_t slot) const {
    const HostPlan& host = HostAt(plan_, slot);
    HostAddress chosen{.address = host.address, .trouble = {}, .warning = {}};
    if (IsOneMachine(plan_.hosts) && !KnowsItself(slot)) {
      chosen.address = kThisMachine;
      return chosen;
    }
    Worth worth = WorthOf(host.address, slot);
    if (!host.host_name.empty()) {
      const Worth of_host_name =
          IsLoopback(host.host_name) ? Worth::kNothing : WorthOf(host.host_name, slot);
      if (of_host_name > worth) {
        chosen.address = host.host_name;
        worth = of_host_name;
        if (worth == Worth::kAnotherMachine) chosen.warning = WarningOf(slot);
      }
    }
    if (worth == Worth::kNothing && to_be_reached_.contains(slot)) chosen.trouble = TroubleOf(slot);
    return chosen;
  }

 private:
  using Views = std::vector<std::pair<size_t, Addresses>>;  // by the slot that was asked

  // True, too, of one that was not asked.
  [[nodiscard]] bool KnowsItself(size_t slot) const {
    const auto views = views_.find(HostAt(plan_, slot).address);
    return views == views_.end() || std::ranges::any_of(views->second, [](const auto& view) {
             return !view.second.empty();
           });
  }

  [[nodiscard]] Addresses OwnOf(size_t slot) const {
    return answers_[slot] ? WithoutLoopback(Checked(answers_[slot]->own)) : Addresses();
  }

  [[nodiscard]] Worth WorthOf(const std::string& name, size_t slot) const {
    const Addresses own = OwnOf(slot);
    if (IsLoopback(name)) return Worth::kAll;  // the plan's own matter
    if (IsNumericAddress(name)) {
      return Contradict({name}, own) ? Worth::kAnotherMachine : Worth::kAll;
    }
    size_t others = 0;
    size_t others_that_know = 0;
    bool all_know = true;
    bool is_another = false;
    const auto views = views_.find(name);
    for (const auto& [asker, addresses] : views == views_.end() ? Views() : views->second) {
      const bool is_other = HostAt(plan_, asker).name != HostAt(plan_, slot).name;
      others += is_other ? 1 : 0;
      others_that_know += is_other && !addresses.empty() ? 1 : 0;
      all_know = all_know && !addresses.empty();
      is_another = is_another || (!HasLoopback(addresses) && Contradict(addresses, own));
    }
    if (others == 0) return Worth::kAll;
    if (others_that_know == 0) return Worth::kNothing;
    if (!all_know) return Worth::kToSome;
    return is_another ? Worth::kAnotherMachine : Worth::kAll;
  }

  // One address of it that others may know.
  [[nodiscard]] std::string EntryFor(size_t slot) const {
    Addresses own = OwnOf(slot);
    std::erase_if(own, [](const std::string& address) { return address.starts_with("fe80:"); });
    return fmt::format("{{ address = \"{}\", ssh = \"{}\" }}", own.empty() ? "..." : own.front(),
                       HostAt(plan_, slot).ssh);
  }

  // As the first of the others has said it.
  [[nodiscard]] std::string Reason(size_t slot) const {
    const HostPlan& host = HostAt(plan_, slot);
    for (size_t asker = 0; asker < answers_.size(); ++asker) {
      if (!answers_[asker] || HostAt(plan_, asker).name == host.name) continue;
      for (const auto& answer : answers_[asker]->names) {
        if (answer.name != host.address) continue;
        const size_t colon = answer.why.find(": ");
        return fmt::format("{}: {}", HostAt(plan_, asker).name,
                           colon == std::string::npos ? answer.why : answer.why.substr(colon + 2));
      }
    }
    return "";
  }

  [[nodiscard]] protocol::Trouble TroubleOf(size_t slot) const {
    const HostPlan& host = HostAt(plan_, slot);
    std::string why =
        fmt::format("the other hosts cannot resolve {} ({})", host.address, Reason(slot));
    if (IsLoopback(host.host_name)) {
      why += fmt::format(", and its HostName {} means themselves", host.host_name);
    } else if (!host.host_name.empty()) {
      why += fmt::format(", nor its HostName {}", host.host_name);
    }
    return {std::move(why), fmt::format("add the name to the DNS or to /etc/hosts there, or give "
                                        "an address that they reach in `hosts` of a "
                                        "cluster file (tfdist init writes one): {}",
                                        EntryFor(slot))};
  }

  [[nodiscard]] NameWarning WarningOf(size_t slot) const {
    const HostPlan& host = HostAt(plan_, slot);
    return {
        fmt::format("{} is {} for the other hosts (HostName), and has other addresses itself: {}",
                    host.name, host.host_name, fmt::join(OwnOf(slot), " ")),
        fmt::format(
            "with address translation this may be right; else, in `hosts` of a cluster file: {}",
            EntryFor(slot))};
  }

  const Plan& plan_;
  const Answers& answers_;
  std::map<std::string, Views> views_;  // of each name
  std::set<size_t> to_be_reached_;      // slots
};

// "gpu1 is 10.0.0.1, and gpu2 is 10.0.0.2 for the other hosts (HostName in ssh's configuration)"
std::string TextOf(const std::vector<std::string>& items, std::string_view whom) {
  if (items.empty()) return "";
  const size_t named = items.size() > kMostAddressesNamed ? 1 : items.size();
  std::string text = items.front();
  for (size_t at = 1; at < named; ++at)
    text += fmt::format(",{} {}", at + 1 == named ? " and" : "", items[at]);
  text += fmt::format(" for {} (HostName in ssh's configuration)", whom);
  if (named < items.size())
    text += fmt::format("; the same holds for {} more aliases", items.size() - named);
  return text;
}

}  // namespace

std::vector<HostAddress> ChooseAddresses(const Plan& plan, const Answers& answers) {
  const Names names(plan, answers);
  std::vector<HostAddress> chosen;
  for (size_t slot = 0; slot < plan.hosts.size(); ++slot) {
    const bool is_beside = slot > 0 && plan.hosts[slot].name == plan.hosts[slot - 1].name;
    chosen.push_back(is_beside ? chosen.back() : names.Choose(slot));
  }
  return chosen;
}

Plan WithAddresses(Plan plan, const std::vector<HostAddress>& chosen) {
  for (size_t slot = 0; slot < chosen.size(); ++slot)
    plan.hosts[slot].address = chosen[slot].address;
  return plan;
}

std::vector<NameWarning> WarningsOf(const Plan& plan, const std::vector<HostAddress>& chosen,
                                    Answers answers) {
  std::vector<NameWarning> warnings;
  std::set<std::string> told;
  for (const HostAddress& one : chosen) {
    const bool is_new = told.insert(one.address).second;
    if (one.warning && is_new) warnings.push_back(*one.warning);
    if (!one.trouble) continue;
    for (auto& answer : answers) {
      if (answer)
        std::erase_if(answer->names, [&](const auto& name) { return name.name == one.address; });
    }
  }
  std::ranges::move(CompareNames(WithAddresses(plan, chosen).hosts, answers),
                    std::back_inserter(warnings));
  return warnings;
}

bool HasAliases(const std::vector<HostPlan>& hosts) {
  if (hosts.size() > 1 && IsOneMachine(hosts)) return IsName(hosts.front().address);
  return !IsOneMachine(hosts) &&
         std::ranges::any_of(hosts, [](const HostPlan& host) { return !host.host_name.empty(); });
}

std::string AddressesText(const std::vector<HostPlan>& hosts,
                          const std::vector<HostAddress>& chosen) {
  if (IsOneMachine(hosts)) return "";
  std::vector<std::string> items;
  std::set<std::string> told;
  for (size_t slot = 0; slot < chosen.size(); ++slot) {
    const HostPlan& host = hosts[slot];
    if (chosen[slot].address == host.address || !told.insert(host.name).second) continue;
    items.push_back(fmt::format("{} is {}", host.name, chosen[slot].address));
  }
  return TextOf(items, "the other hosts");
}

std::string AliasesText(const std::vector<HostPlan>& hosts) {
  std::vector<std::string> items;
  std::set<std::string> told;
  for (const HostPlan& host : hosts) {
    if (host.host_name.empty() || IsLoopback(host.host_name) || !told.insert(host.name).second)
      continue;
    items.push_back(fmt::format("{} is {}", host.name, host.host_name));
  }
  return TextOf(items, "hosts that do not know the name");
}

}  // namespace tfdist::cli
