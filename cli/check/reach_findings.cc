#include "cli/check/reach_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "cli/cluster_file/host_address.h"

namespace tfdist::cli {
namespace {

using protocol::ReachFailure;
using protocol::Target;
using protocol::Unreached;

using Slots = std::set<int>;
using Ports = std::set<int>;

// What failures of one cause have in common.
struct Cause {
  int target = 0;
  ReachFailure failure = ReachFailure::kSilent;
  int answered_by = -1;
  auto operator<=>(const Cause&) const = default;
};

// Of one cause: who failed at which ports, and an example.
struct Group {
  std::map<int, Ports> ports_by_source;
  std::string address;
  std::string why;
};

class ReachCollector {
 public:
  ReachCollector(const Plan& plan, const std::vector<HostReport>& reports)
      : plan_(plan), reports_(reports) {}

  std::vector<Finding> All() {
    for (size_t slot = 0; slot < reports_.size(); ++slot) {
      if (!reports_[slot].unreached) continue;
      const int source = static_cast<int>(slot);
      if (ReachesNobody(source)) {
        AddLonely(source);
      } else {
        Collect(source);
      }
    }
    for (const auto& [cause, group] : groups_) AddGroup(cause, group);
    return std::move(findings_);
  }

 private:
  // Other hosts that `source` was to reach at one port at least.
  [[nodiscard]] Slots TriedBy(int source) const {
    Slots slots;
    for (const Target& target : ReportOf(source).targets) slots.insert(target.slot);
    slots.erase(source);
    return slots;
  }

  // A firewall on the way out, or no network: with two hosts nobody can tell whose it is.
  [[nodiscard]] bool ReachesNobody(int source) const {
    const HostReport& report = ReportOf(source);
    const size_t others = std::count_if(report.targets.begin(), report.targets.end(),
                                        [&](const Target& t) { return t.slot != source; });
    size_t failed = 0;
    for (const Unreached& failure : *report.unreached) {
      const bool by_network = failure.failure == ReachFailure::kSilent ||
                              failure.failure == ReachFailure::kRefused ||
                              failure.failure == ReachFailure::kNoRoute;
      if (by_network && report.targets[failure.target].slot != source) ++failed;
    }
    return TriedBy(source).size() > 1 && failed == others;
  }

  void AddLonely(int source) {
    const HostReport& report = ReportOf(source);
    findings_.push_back(
        {Severity::kError, "reach", NameOf(source),
         fmt::format("it cannot connect to any of {} other hosts ({})", TriedBy(source).size(),
                     report.unreached->front().why),
         "look at its firewall for outgoing connections, and at its routes (ip route)"});
  }

  void Collect(int source) {
    const HostReport& report = ReportOf(source);
    for (const Unreached& failure : *report.unreached) {
      if (failure.failure == ReachFailure::kUnresolved) continue;
      const Target& target = report.targets[failure.target];
      Group& group = groups_[{target.slot, failure.failure, failure.answered_by}];
      group.ports_by_source[source].insert(target.port);
      group.address = target.address;
      group.why = failure.why;
    }
  }

  void AddGroup(const Cause& cause, const Group& group) {
    std::map<Ports, Slots> sources_by_ports;
    for (const auto& [source, ports] : group.ports_by_source) {
      sources_by_ports[ports].insert(source);
    }
    for (const auto& [ports, sources] : sources_by_ports) {
      findings_.push_back({Severity::kError, "reach", NameOf(cause.target),
                           What(cause, group, ports, sources),
                           Remedy(cause, group, ports, sources)});
    }
  }

  [[nodiscard]] std::string What(const Cause& cause, const Group& group, const Ports& ports,
                                 const Slots& sources) const {
    const std::string who =
        IsEverybody(cause.target, sources) ? "no other host" : ListOf(NamesOf(sources));
    const std::string where = fmt::format("port{} {} at {}", ports.size() > 1 ? "s" : "",
                                          fmt::join(ports, ", "), group.address);
    if (cause.failure == ReachFailure::kOtherHost) {
      return fmt::format("{}: {} reaches {} there, and not this host", where, who,
                         cause.answered_by < 0 ? "something else" : NameOf(cause.answered_by));
    }
    if (cause.failure == ReachFailure::kStranger) {
      return fmt::format("{}: {} reaches something else there: {}", where, who, group.why);
    }
    const bool all = who == "no other host";
    return fmt::format("{} {}connect to {}: {}", who, all ? "can " : "cannot ", where,
                       Reason(cause.failure, group.why));
  }

  static std::string Reason(ReachFailure failure, const std::string& why) {
    if (failure == ReachFailure::kSilent) return "no answer: packets are dropped on the way";
    if (failure == ReachFailure::kRefused) return why + ", though this host listens there";
    return why;
  }

  [[nodiscard]] std::string Remedy(const Cause& cause, const Group& group, const Ports& ports,
                                   const Slots& sources) const {
    switch (cause.failure) {
      case ReachFailure::kNoRoute:
        return fmt::format("are the hosts in one network? On {}: ip route get {}",
                           NameOf(*sources.begin()), group.address);
      case ReachFailure::kOtherHost:
        return fmt::format(
            "correct what {} means on {} (/etc/hosts, DNS), or name hosts by numeric addresses",
            group.address, ListOf(NamesOf(sources)));
      case ReachFailure::kStranger:
        return fmt::format("has another machine the address {}, or is there a proxy between?",
                           group.address);
      default:
        return FirewallLines(cause.target, ports, sources);
    }
  }

  // For all sources, or for those whose numeric addresses are known.
  [[nodiscard]] std::string FirewallLines(int target, const Ports& ports,
                                          const Slots& sources) const {
    std::set<std::string> from;  // two names may be one machine
    for (const int source : sources) from.insert(NumericAddress(source, target));
    const bool named = !std::all_of(from.begin(), from.end(),
                                    [](const auto& address) { return IsNumericAddress(address); });
    const bool anybody = IsEverybody(target, sources) || named || from.size() > kMostSources;
    const bool ipv6 = !anybody && from.begin()->find(':') != std::string::npos;
    const std::string family =
        anybody ? ""
                : fmt::format("{} saddr {{ {} }} ", ipv6 ? "ip6" : "ip", fmt::join(from, ", "));
    return fmt::format(
        "open it in the firewall of {}, or in the cloud's: sudo ufw allow proto tcp from {} to any "
        "port {}; or sudo nft insert rule inet filter input {}tcp dport {{ {} }} accept",
        NameOf(target), anybody || from.size() > 1 ? "any" : *from.begin(), fmt::join(ports, ","),
        family, fmt::join(ports, ", "));
  }

  // All that were to reach it, and more than one.
  [[nodiscard]] bool IsEverybody(int target, const Slots& sources) const {
    size_t count = 0;
    for (size_t slot = 0; slot < reports_.size(); ++slot) {
      const int source = static_cast<int>(slot);
      if (source == target || !reports_[slot].unreached || !TriedBy(source).contains(target)) {
        continue;
      }
      if (!sources.contains(source)) return false;
      ++count;
    }
    return count > 1;
  }

  [[nodiscard]] std::vector<std::string> NamesOf(const Slots& slots) const {
    std::vector<std::string> names;
    for (const int slot : slots) names.push_back(NameOf(slot));
    return names;
  }
  [[nodiscard]] const HostReport& ReportOf(int slot) const {
    return reports_[static_cast<size_t>(slot)];
  }
  // A slot that a host has named need not be one.
  [[nodiscard]] std::string NameOf(int slot) const {
    const auto at = static_cast<size_t>(slot);
    return at < plan_.hosts.size() ? plan_.hosts[at].name : fmt::format("slot {}", slot);
  }
  // As `asker` knows it: a name where it does not.
  [[nodiscard]] std::string NumericAddress(int slot, int asker) const {
    const std::string& address = plan_.hosts[static_cast<size_t>(slot)].address;
    const auto& facts = ReportOf(asker).facts;
    if (!facts) return address;
    for (const protocol::ResolvedName& known : facts->names.names) {
      if (known.name == address && !known.addresses.empty()) return known.addresses.front();
    }
    return address;
  }

  // In one line for a firewall.
  static constexpr size_t kMostSources = 8;

  const Plan& plan_;
  const std::vector<HostReport>& reports_;
  std::map<Cause, Group> groups_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> ReachFindings(const Plan& plan, const std::vector<HostReport>& reports) {
  return ReachCollector(plan, reports).All();
}

}  // namespace tfdist::cli
