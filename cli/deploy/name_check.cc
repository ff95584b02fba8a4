#include "cli/deploy/name_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "cli/cluster_file/host_address.h"
#include "cli/deploy/resolved_addresses.h"

namespace tfdist::cli {
namespace {

// Beside its own and slot 0's: a job of up to 17 hosts is compared in full.
constexpr size_t kNeighbours = 15;
constexpr size_t kMostItems = 3;  // in one warning

// What one host says of one name.
struct View {
  std::string asker;
  Addresses addresses;
};

// All that is known of one name.
struct Name {
  std::optional<View> own;   // by the host that bears it
  std::vector<View> others;  // in the order of the slots
  Addresses interfaces;      // of the host that bears it
};

std::string Shown(const Addresses& addresses) {
  return addresses.size() <= kMostItems
             ? fmt::format("{}", fmt::join(addresses, " "))
             : fmt::format("{} ...",
                           fmt::join(addresses.begin(), addresses.begin() + kMostItems, " "));
}

// Things of one kind, of which the first few are named.
class Items {
 public:
  void Add(std::string item) {
    if (items_.size() < kMostItems) items_.push_back(std::move(item));
    ++count_;
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::string Text() const {
    std::string text = fmt::format("{}", fmt::join(items_, "; "));
    if (count_ > items_.size()) text += fmt::format("; and {} more", count_ - items_.size());
    return text;
  }

 private:
  std::vector<std::string> items_;
  size_t count_ = 0;
};

class Comparison {
 public:
  void Look(const std::string& name, const Name& known) {
    LookForUnresolved(name, known);
    LookForLoopback(name, known);
    if (!LookForTwoAnswers(name, known)) LookForAnotherMachine(name, known);
  }

  [[nodiscard]] std::vector<NameWarning> Warnings() const {
    std::vector<NameWarning> warnings;
    const auto add = [&](const Items& items, std::string text, std::string remedy) {
      if (!items.empty()) warnings.push_back({std::move(text), std::move(remedy)});
    };
    add(unresolved_, "names cannot be resolved: " + unresolved_.Text(),
        "add them to the DNS or to /etc/hosts there, or name hosts by numeric addresses");
    for (NameWarning& warning : warnings) warning.unresolved = true;
    add(loopback_,
        fmt::format("hosts resolve their own names to loopback: {}. A program that listens on its "
                    "host's name cannot be reached from other hosts (TensorFlow's servers and "
                    "{{runtime}} listen on all addresses)",
                    loopback_.Text()),
        "give the name its real address in /etc/hosts there, or name hosts by numeric addresses");
    add(two_answers_,
        "names resolve to different machines on different hosts: " + two_answers_.Text(),
        "make /etc/hosts or the DNS of the hosts agree, or name hosts by numeric addresses");
    add(another_, "names resolve to another machine than SSH reaches: " + another_.Text(),
        "correct `ssh`, ~/.ssh/config or the hosts' DNS; with address translation "
        "this may be right");
    return warnings;
  }

 private:
  void LookForUnresolved(const std::string& name, const Name& known) {
    std::vector<std::string> askers;
    if (known.own && known.own->addresses.empty()) askers.push_back(known.own->asker);
    for (const View& view : known.others) {
      if (view.addresses.empty()) askers.push_back(view.asker);
    }
    if (askers.empty()) return;
    const std::string more =
        askers.size() > 1 ? fmt::format(" and {} more", askers.size() - 1) : "";
    unresolved_.Add(fmt::format("{} on {}{}", name, askers.front(), more));
  }

  // Debian's installer writes 127.0.1.1 for the own name. It does no harm where the others mean
  // the same (many hosts on one machine).
  void LookForLoopback(const std::string& name, const Name& known) {
    if (!known.own || !HasLoopback(known.own->addresses)) return;
    const bool needed = std::any_of(
        known.others.begin(), known.others.end(),
        [&](const View& view) { return Contradict(known.own->addresses, view.addresses); });
    if (needed) loopback_.Add(fmt::format("{} is {}", name, Shown(known.own->addresses)));
  }

  bool LookForTwoAnswers(const std::string& name, const Name& known) {
    std::vector<const View*> views;
    for (const View& view : known.others) views.push_back(&view);
    if (known.own && !HasLoopback(known.own->addresses)) views.push_back(&*known.own);
    for (const View* view : views) {
      const View& first = *views.front();
      if (!Contradict(first.addresses, view->addresses)) continue;
      two_answers_.Add(fmt::format("{} is {} on {}, and {} on {}", name, Shown(first.addresses),
                                   first.asker, Shown(view->addresses), view->asker));
      return true;
    }
    return false;
  }

  void LookForAnotherMachine(const std::string& name, const Name& known) {
    for (const View& view : known.others) {
      if (HasLoopback(view.addresses) || !Contradict(view.addresses, known.interfaces)) continue;
      another_.Add(fmt::format("{} is {} on {}, and SSH leads to a machine with {}", name,
                               Shown(view.addresses), view.asker, Shown(known.interfaces)));
      return;
    }
  }

  Items unresolved_;
  Items loopback_;
  Items two_answers_;
  Items another_;
};

bool IsResolved(const std::string& address) {
  return !address.empty() && !IsNumericAddress(address) && !IsLoopback(address);
}

// Those that are resolved, each once.
std::vector<std::string> NamesOf(const std::vector<HostPlan>& hosts,
                                 const std::vector<size_t>& wanted) {
  std::set<std::string_view> known;
  std::vector<std::string> names;
  for (const size_t i : wanted) {
    for (const std::string* name : {&hosts[i].address, &hosts[i].host_name}) {
      if (IsResolved(*name) && known.insert(*name).second) names.push_back(*name);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> NamesToAsk(const std::vector<HostPlan>& hosts, int slot) {
  const auto at = static_cast<size_t>(slot);
  std::vector<size_t> wanted = {at, 0};
  for (size_t i = 1; i <= kNeighbours; ++i) wanted.push_back((at + i) % hosts.size());
  return NamesOf(hosts, wanted);
}

std::vector<std::string> AllNames(const std::vector<HostPlan>& hosts) {
  std::vector<size_t> wanted(hosts.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  return NamesOf(hosts, wanted);
}

std::vector<NameWarning> CompareNames(
    const std::vector<HostPlan>& hosts,
    const std::vector<std::optional<protocol::ResolvedNames>>& answers) {
  std::map<std::string, Name> names;
  std::set<std::string> asked;  // several slots may be on one host
  for (size_t i = 0; i < hosts.size(); ++i) {
    const std::string& address = hosts[i].address;
    if (!answers[i] || !asked.insert(address).second) continue;
    for (const protocol::ResolvedName& answer : answers[i]->names) {
      Name& name = names[answer.name];
      const View view{hosts[i].name, Checked(answer.addresses)};
      if (answer.name == address) {
        name.own = view;
        name.interfaces = WithoutLoopback(Checked(answers[i]->own));
      } else {
        name.others.push_back(view);
      }
    }
  }
  Comparison comparison;
  for (const HostPlan& host : hosts) {
    const auto known = names.extract(host.address);
    if (known) comparison.Look(host.address, known.mapped());
  }
  return comparison.Warnings();
}

}  // namespace tfdist::cli
