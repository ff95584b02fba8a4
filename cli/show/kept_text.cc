#include "cli/show/kept_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/size_text.h"
#include "cli/show/host_fold.h"
#include "cli/show/report.h"

namespace tfdist::cli {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

std::string KeptFilesText(const protocol::KeptFiles& kept) {
  if (kept.files == 0) return kept.all ? "empty" : "files that could not be looked at";
  const std::string text = fmt::format("{} file{}, {}", CountText(kept.files),
                                       kept.files == 1 ? "" : "s", SizeText(kept.bytes));
  if (!kept.all) return "more than " + text;
  return fmt::format("{}, the newest {}, {} ago", text, kept.newest, Span(kept.age_s * kSecond));
}

std::string KeptText(const std::vector<KeptOnHost>& kept) {
  std::vector<std::pair<std::string, std::vector<std::string>>> alike;
  for (const KeptOnHost& on_host : kept) {
    const std::string text = KeptFilesText(on_host.files);
    auto known = std::ranges::find(alike, text, &decltype(alike)::value_type::first);
    if (known == alike.end()) known = alike.insert(known, {text, {}});
    known->second.push_back(on_host.host);
  }
  std::vector<std::string> parts;
  for (const auto& [text, hosts] : alike) {
    parts.push_back(fmt::format("{}: {}", FoldHosts(hosts), text));
  }
  return parts.empty() ? "" : fmt::format("{{keep}}: {}", fmt::join(parts, "; "));
}

std::vector<std::string> HostsLeftBehind(const JobRecord& record,
                                         const std::vector<JobRecord>& records) {
  const JobRecord* newest = nullptr;
  for (const JobRecord& other : records) {
    if (other.name != record.name || other.id == record.id || !other.keeps) continue;
    if (newest == nullptr || newest->created < other.created) newest = &other;
  }
  std::vector<std::string> left;
  if (newest == nullptr) return left;
  for (const HostPlan& host : newest->hosts) {
    const auto is_it = [&](const HostPlan& here) {
      return here.name == host.name || (here.local && host.local);
    };
    if (std::ranges::none_of(record.hosts, is_it)) left.push_back(host.name);
  }
  return left;
}

}  // namespace tfdist::cli
